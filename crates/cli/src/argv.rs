//! Rewrites the command line for clap.
//!
//! - Long names may have one dash, as in llama.cpp: `-sys` becomes `--sys`.
//! - The command may follow its options, or be omitted: it is `run` if there is a prompt, else `chat`. A model or a text may stand
//!   in its place.
//! - An unknown word with one dash gets two, so that clap's error names all of it.
//!
//! Names, and whether they take values, come from clap. Values are never changed.

use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use crate::llama_cpp::SWITCH;
use crate::source::Word;

/// Options that give a prompt.
const PROMPTS: [&str; 3] = ["prompt", "file", "tokens"];

/// llama.cpp's option for a chat even with a prompt.
const CHAT: &str = "conversation";

/// The arguments for clap; the first is the program.
pub(crate) fn rewrite(args: impl IntoIterator<Item = OsString>, command: &Command) -> Vec<OsString> {
    let flags = Flags::new(command);
    let mut args = args.into_iter().peekable();
    let mut rewritten: Vec<OsString> = args.next().into_iter().collect();
    let start = rewritten.len();
    let (mut named, mut question, mut has_prompt, mut unknown) = (None, None, false, Vec::new());
    let (mut is_chat, mut words) = (false, 0);
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) else {
            // After an unknown option, it may be the option's value.
            let is_name = unknown.is_empty() || found(&arg, command).is_some();
            named = named.or(is_name.then_some(rewritten.len()));
            words += 1;
            rewritten.push(arg);
            continue;
        };
        if text == "--" {
            rewritten.push(arg);
            rewritten.extend(args);
            break;
        }
        if ["-h", "--help", "-V", "--version"].contains(&text) {
            question = question.or(Some(arg.clone()));
        }
        // A command that takes texts reads options of other commands as such.
        let own = named.and_then(|at: usize| found(rewritten.get(at)?, command));
        let is_text = |id: &str| {
            let mut known = own.iter().copied().chain([command]).flat_map(Command::get_arguments);
            own.is_some_and(takes_dashes) && known.all(|arg| arg.get_id() != id)
        };
        match flags.find(text).filter(|(flag, _)| !is_text(flag.id)) {
            Some((Flag { id, takes }, text)) => {
                has_prompt |= PROMPTS.contains(&id);
                is_chat |= id == CHAT;
                rewritten.push(text.into());
                let is_switch =
                    |value: &OsString| value.to_str().is_some_and(|value| SWITCH.contains(&value));
                let has_value = match takes {
                    Takes::Nothing => false,
                    Takes::Switch => args.peek().is_some_and(is_switch),
                    Takes::Text | Takes::Number => true,
                };
                rewritten.extend(args.by_ref().take(usize::from(has_value)));
            }
            None => {
                unknown.push(rewritten.len());
                rewritten.push(arg);
            }
        }
    }
    if !named.and_then(|at| found(rewritten.get(at)?, command)).is_some_and(takes_dashes) {
        unknown.into_iter().for_each(|at| spell_out(&mut rewritten[at]));
    }
    let implied = named.and_then(|at| implied(&rewritten[at], words == 1 && !has_prompt || is_chat, command));
    match (named, question) {
        (Some(_), _) if let Some(name) = implied => rewritten.insert(start, name.into()),
        (Some(at), _) => rewritten[start..=at].rotate_right(1),
        (None, Some(question)) => rewritten.splice(start.., [question]).for_each(drop),
        (None, None) => rewritten.insert(start, if has_prompt && !is_chat { "run" } else { "chat" }.into()),
    }
    rewritten
}

/// The command that is meant if `word` stands in its place: none if it may be a misspelt command.
fn implied(word: &OsStr, is_alone: bool, command: &Command) -> Option<&'static str> {
    let is_plain =
        word.to_str().is_some_and(|word| word.chars().all(|c| c.is_ascii_alphabetic() || c == '-'));
    match Word::of(Path::new(word)) {
        _ if found(word, command).is_some() => None,
        Word::Model if is_alone => Some("chat"),
        Word::Model => Some("run"),
        Word::Prompt if !is_plain => Some("run"),
        Word::Prompt | Word::Unclear => None,
    }
}

/// Turns the unknown option `-mg` into `--mg`, so that clap does not read `-m g`.
fn spell_out(arg: &mut OsString) {
    let word = arg.to_str().and_then(|text| text.strip_prefix('-'));
    let is_word = |word: &&str| !word.starts_with('-') && word.chars().take(2).all(char::is_alphabetic);
    if let Some(word) = word.filter(|word| is_word(word) && word.chars().nth(1).is_some()) {
        *arg = format!("--{word}").into();
    }
}

fn found<'a>(name: &OsStr, command: &'a Command) -> Option<&'a Command> {
    name.to_str().and_then(|name| command.find_subcommand(name))
}

/// Whether `command` takes a text that may begin with a dash.
fn takes_dashes(command: &Command) -> bool {
    command.get_positionals().any(Arg::is_allow_hyphen_values_set)
}

#[derive(Clone, Copy)]
struct Flag<'a> {
    id: &'a str,
    takes: Takes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// One of [`SWITCH`], or nothing.
    Switch,
    Text,
    Number,
}

impl Takes {
    fn of(arg: &Arg) -> Takes {
        let value = arg.get_value_parser().type_id();
        if !arg.get_action().takes_values() {
            Takes::Nothing
        } else if arg.get_num_args().is_some_and(|values| values.min_values() == 0) {
            Takes::Switch
        } else if value == TypeId::of::<String>() || value == TypeId::of::<PathBuf>() {
            Takes::Text
        } else {
            Takes::Number
        }
    }

    /// Whether `rest`, right after the letter of an option, is its value, rather than the rest of an unknown word.
    fn begins(self, rest: &str) -> bool {
        match self {
            Takes::Nothing | Takes::Switch => false,
            Takes::Text => {
                let (word, value) = rest.split_once('=').unwrap_or((rest, ""));
                word.is_empty() && !value.is_empty() || !word.chars().all(|c| c.is_alphabetic() || c == '-')
            }
            Takes::Number => rest.starts_with(|c: char| c.is_ascii_digit() || "=-+[".contains(c)),
        }
    }
}

struct Flags<'a> {
    long: HashMap<&'a str, Flag<'a>>,
    short: HashMap<char, Flag<'a>>,
}

impl<'a> Flags<'a> {
    fn new(command: &'a Command) -> Flags<'a> {
        // clap adds these two later.
        let own = [("help", 'h'), ("version", 'V')];
        let own = own.map(|(id, short)| (Flag { id, takes: Takes::Nothing }, short));
        let mut flags = Flags {
            long: own.iter().map(|&(flag, _)| (flag.id, flag)).collect(),
            short: own.iter().map(|&(flag, short)| (short, flag)).collect(),
        };
        for arg in command.get_subcommands().chain([command]).flat_map(Command::get_arguments) {
            let flag = Flag { id: arg.get_id().as_str(), takes: Takes::of(arg) };
            let names = arg.get_long_and_visible_aliases().unwrap_or_default();
            let hidden = arg.get_all_aliases().unwrap_or_default();
            // Options of `chat` and `run`, which come first, take precedence.
            for name in names.into_iter().chain(hidden) {
                flags.long.entry(name).or_insert(flag);
            }
            if let Some(name) = arg.get_short() {
                flags.short.entry(name).or_insert(flag);
            }
        }
        flags
    }

    /// The option in `text`, which begins with a dash, and the text for clap.
    fn find(&self, text: &str) -> Option<(Flag<'a>, String)> {
        let name = text.trim_start_matches('-');
        let (long, has_value) = match name.split_once('=') {
            Some((long, _)) => (long, true),
            None => (name, false),
        };
        let single = text.len() - name.len() == 1;
        if let Some(flag) = self.long.get(long).filter(|_| !single || long.chars().nth(1).is_some()) {
            let takes = if has_value { Takes::Nothing } else { flag.takes };
            return Some((Flag { takes, ..*flag }, format!("--{name}")));
        }
        let mut shorts = name.chars();
        let mut last = None;
        while let Some(short) = shorts.next() {
            let flag = self.short.get(&short).filter(|_| single)?;
            let (rest, takes) = (shorts.as_str(), flag.takes);
            if takes.begins(rest) {
                return Some((Flag { takes: Takes::Nothing, ..*flag }, text.to_owned()));
            }
            last = Some(*flag);
            // `-hf` is an option of llama.cpp, not `-h -f`.
            if (takes != Takes::Nothing || ["help", "version"].contains(&flag.id)) && !rest.is_empty() {
                return None;
            }
        }
        last.map(|flag| (flag, text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    #[track_caller]
    fn check(typed: &[&str], expected: &[&str]) {
        let args = std::iter::once("rustorch").chain(typed.iter().copied()).map(OsString::from);
        let rewritten = rewrite(args, &command::all());
        assert_eq!(rewritten[0], "rustorch");
        assert_eq!(rewritten[1..], expected.iter().map(OsString::from).collect::<Vec<_>>(), "{typed:?}");
    }

    #[test]
    fn one_dash_is_enough_for_long_names() {
        check(&["run", "-sys", "Be brief", "-p", "x"], &["run", "--sys", "Be brief", "-p", "x"]);
        check(&["run", "-temp=0", "-top-k", "1"], &["run", "--temp=0", "--top-k", "1"]);
        check(&["run", "-n5", "-vmx.gguf", "-c", "4"], &["run", "-n5", "-vmx.gguf", "-c", "4"]);
        check(&["run", "-vn", "4"], &["run", "-vn", "4"]);
        check(&["-p", "x", "-ngl", "4"], &["run", "-p", "x", "--ngl", "4"]);
        check(&["-p", "x", "-ts", "3,1", "-t", "2"], &["run", "-p", "x", "--ts", "3,1", "-t", "2"]);
    }

    #[test]
    fn words_that_are_no_options_stay_whole() {
        for word in ["nosuch", "hg", "mg", "vx"] {
            let (typed, spelt) = (format!("-{word}"), format!("--{word}"));
            check(&["run", &typed, "9"], &["run", &spelt, "9"]);
            check(&["-m", "x", "-p", "hi", &typed, "9"], &["run", "-m", "x", "-p", "hi", &spelt, "9"]);
            check(&["-m", "x", &typed, "9", "inspect"], &["inspect", "-m", "x", &spelt, "9"]);
            check(&[&typed, "9"], &["chat", &spelt, "9"]);
            check(&["tokenize", &typed], &["tokenize", &typed]);
        }
        check(&["run", "-x", "-5"], &["run", "-x", "-5"]);
    }

    #[test]
    fn options_of_llama_cpp_may_have_values() {
        check(&["-fa", "-p", "x"], &["run", "--fa", "-p", "x"]);
        check(&["-fa", "on", "-p", "x"], &["run", "--fa", "on", "-p", "x"]);
        check(&["-fa", "inspect"], &["inspect", "--fa"]);
        check(&["-cnv", "-p", "x"], &["chat", "--cnv", "-p", "x"]);
        check(&["-tb", "-1", "-i"], &["chat", "--tb", "-1", "-i"]);
        check(&["-hf", "a/b:Q8_0", "-p", "x"], &["run", "--hf", "a/b:Q8_0", "-p", "x"]);
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
        check(&["-m", "x", "-h"], &["-h"]);
        check(&["-m", "x", "--nothing", "x", "--help"], &["--help"]);
        check(&["run", "-m", "x", "-h"], &["run", "-m", "x", "-h"]);
        check(&["-m", "x", "frobnicate"], &["frobnicate", "-m", "x"]);
        check(&["-m", "x", "--", "run"], &["chat", "-m", "x", "--", "run"]);
    }
}
