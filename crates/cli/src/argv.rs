//! What is done to the command line before clap sees it.
//!
//! - A long name may have one dash, as llama.cpp's users type it: `-sys` becomes `--sys`.
//! - The command may be left out: `run` is meant when there is a prompt, else `chat`. It may also come
//!   after its options.
//!
//! Names and whether they take values are clap's own, so there is no second table. Values are never
//! touched.

use std::collections::HashMap;
use std::ffi::OsString;

use clap::Command;

/// The names of the options that give a prompt.
const PROMPTS: [&str; 3] = ["prompt", "file", "tokens"];

/// The arguments as clap is to read them; the first is the program.
pub(crate) fn rewrite(args: impl IntoIterator<Item = OsString>, command: &Command) -> Vec<OsString> {
    let flags = Flags::new(command);
    let mut args = args.into_iter();
    let mut rewritten: Vec<OsString> = args.next().into_iter().collect();
    let start = rewritten.len();
    let (mut named, mut has_prompt, mut asks_about_program) = (None, false, false);
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) else {
            named = named.or(Some(rewritten.len()));
            rewritten.push(arg);
            continue;
        };
        if text == "--" {
            named = named.or(Some(rewritten.len()));
            rewritten.push(arg);
            rewritten.extend(args);
            break;
        }
        let (text, flag) = flags.find(text);
        has_prompt |= flag.is_some_and(|flag| PROMPTS.contains(&flag.id));
        asks_about_program |= ["-h", "--help", "-V", "--version"].contains(&&*text);
        rewritten.push(text.into());
        if flag.is_some_and(|flag| flag.value_follows) {
            rewritten.extend(args.next());
        }
    }
    let is_command = |at: &usize| {
        let name = rewritten.get(*at).and_then(|name| name.to_str());
        name.is_some_and(|name| command.find_subcommand(name).is_some())
    };
    match named {
        Some(at) if is_command(&at) => {
            let name = rewritten.remove(at);
            rewritten.insert(start, name);
        }
        None if !asks_about_program => {
            rewritten.insert(start, if has_prompt { "run" } else { "chat" }.into());
        }
        _ => {}
    }
    rewritten
}

/// What must be known of an option to tell it from a value.
#[derive(Clone, Copy)]
struct Flag<'a> {
    id: &'a str,
    takes_value: bool,
}

/// An option as it was typed.
#[derive(Clone, Copy)]
struct Typed<'a> {
    id: &'a str,
    /// The next argument is its value.
    value_follows: bool,
}

struct Flags<'a> {
    long: HashMap<&'a str, Flag<'a>>,
    short: HashMap<char, Flag<'a>>,
}

impl<'a> Flags<'a> {
    fn new(command: &'a Command) -> Flags<'a> {
        let mut flags = Flags { long: HashMap::new(), short: HashMap::new() };
        for arg in command.get_subcommands().chain([command]).flat_map(Command::get_arguments) {
            let flag = Flag { id: arg.get_id().as_str(), takes_value: arg.get_action().takes_values() };
            let names = arg.get_long_and_visible_aliases().unwrap_or_default();
            let hidden = arg.get_all_aliases().unwrap_or_default();
            flags.long.extend(names.into_iter().chain(hidden).map(|name| (name, flag)));
            flags.short.extend(arg.get_short().map(|name| (name, flag)));
        }
        flags
    }

    /// The option that `text`, which begins with a dash, names, and how clap is to read it.
    fn find(&self, text: &str) -> (String, Option<Typed<'a>>) {
        let name = text.trim_start_matches('-');
        let (long, value) = match name.split_once('=') {
            Some((long, _)) => (long, true),
            None => (name, false),
        };
        let single = text.len() - name.len() == 1;
        if let Some(flag) = self.long.get(long).filter(|_| !single || long.chars().nth(1).is_some()) {
            let typed = Typed { id: flag.id, value_follows: flag.takes_value && !value };
            return (format!("--{name}"), Some(typed));
        }
        let mut typed = None;
        let mut shorts = name.chars();
        while let Some(flag) = shorts.next().filter(|_| single).and_then(|short| self.short.get(&short)) {
            let rest = shorts.as_str();
            typed = Some(Typed { id: flag.id, value_follows: flag.takes_value && rest.is_empty() });
            if flag.takes_value && rest.chars().all(|c| c.is_ascii_alphabetic()) && !rest.is_empty() {
                // An option of llama.cpp that is not known here, such as `-ngl`, is no `-n gl`.
                return (format!("--{name}"), None);
            }
            if flag.takes_value {
                break;
            }
        }
        (text.to_owned(), typed)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[track_caller]
    fn check(typed: &[&str], expected: &[&str]) {
        let args = std::iter::once("rustorch").chain(typed.iter().copied()).map(OsString::from);
        let rewritten = rewrite(args, &Cli::command());
        assert_eq!(rewritten[0], "rustorch");
        assert_eq!(rewritten[1..], expected.iter().map(OsString::from).collect::<Vec<_>>(), "{typed:?}");
    }

    #[test]
    fn one_dash_is_enough_for_long_names() {
        check(&["run", "-sys", "Be brief", "-p", "x"], &["run", "--sys", "Be brief", "-p", "x"]);
        check(&["run", "-temp=0", "-top-k", "1"], &["run", "--temp=0", "--top-k", "1"]);
        check(&["run", "-n5", "-vmx.gguf", "-c", "4"], &["run", "-n5", "-vmx.gguf", "-c", "4"]);
        check(&["run", "-ngl", "99"], &["run", "--ngl", "99"]);
    }

    #[test]
    fn values_are_left_alone() {
        check(&["run", "-p", "-sys", "-m", "-temp"], &["run", "-p", "-sys", "-m", "-temp"]);
        check(&["run", "--prompt", "-sys"], &["run", "--prompt", "-sys"]);
        check(&["run", "-vp", "-sys"], &["run", "-vp", "-sys"]);
        check(&["run", "-sys", "-sys"], &["run", "--sys", "-sys"]);
        check(&["tokenize", "--", "-sys"], &["tokenize", "--", "-sys"]);
        check(&["run", "--json", "-sys", "x"], &["run", "--json", "--sys", "x"]);
    }

    #[test]
    fn the_command_may_be_left_out_or_come_later() {
        check(&[], &["chat"]);
        check(&["-m", "run"], &["chat", "-m", "run"]);
        check(&["-m", "x", "-p", "hi"], &["run", "-m", "x", "-p", "hi"]);
        check(&["-m", "x", "--tokens=1"], &["run", "-m", "x", "--tokens=1"]);
        check(&["-m", "x", "-v", "inspect"], &["inspect", "-m", "x", "-v"]);
        check(&["--help"], &["--help"]);
        check(&["-V"], &["-V"]);
        check(&["-m", "x", "frobnicate"], &["-m", "x", "frobnicate"]);
    }
}
