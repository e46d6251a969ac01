//! Options of llama.cpp that change nothing here, or have no counterpart.

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::output::note;

/// Values of options that may also have none.
pub(crate) const SWITCH: [&str; 7] = ["on", "off", "auto", "1", "0", "true", "false"];

/// Switches whose effect is the same for `chat`, `run` and `serve`: names, separated by commas.
const SILENT: &str = "jinja mmap no-mmap warmup no-warmup no-context-shift log-disable log-prefix log-timestamps perf no-perf \
    cont-batching,cb kv-unified,kvu";

/// The same of conversations and texts.
const SILENT_CHAT: &str = "conversation,cnv single-turn,st interactive,interactive-first,if,i no-display-prompt simple-io \
    no-escape context-shift";

/// The same of servers.
const SILENT_SERVE: &str = "metrics no-slots ui,webui cache-prompt";

#[derive(Clone, Copy)]
enum Value {
    Nothing,
    /// One of [`SWITCH`], or nothing.
    Switch,
    Anything,
}

use Value::{Anything, Nothing, Switch};

/// Other options that are ignored: commands (`chat` includes `run`), comma-separated names, value, and a note, empty if the
/// effect is the same.
const HARMLESS: &[(&str, &str, Value, &str)] = &[
    ("all", "flash-attn,fa", Switch, ""),
    ("all", "no-jinja", Nothing, "chat templates are always Jinja"),
    ("all", "mlock", Nothing, "memory is not locked; the system may swap it out"),
    ("all", "log-colors", Switch, ""),
    ("all", "log-verbosity,verbosity,lv", Anything, "-v prints more"),
    ("all", "log-file", Anything, "no log is written; -v prints more to stderr"),
    ("all", "threads-batch,tb", Anything, "-t also applies to prompts"),
    ("all", "numa", Anything, "the system places threads"),
    ("all", "prio,prio-batch", Anything, "threads keep their default priority"),
    ("all", "poll,poll-batch", Anything, ""),
    ("all", "check-tensors", Nothing, "`rustorch verify` checks a model"),
    ("chat", "multiline-input,mli", Nothing, "Alt-Enter starts a new line"),
    ("chat", "display-prompt", Nothing, "the prompt is not printed"),
    ("chat", "verbose-prompt", Nothing, "`rustorch tokenize` shows the tokens of a text"),
    ("chat", "keep", Anything, "the system message is always kept"),
    ("serve", "reasoning-format", Anything, "reasoning is always apart from the content"),
    ("serve", "no-cache-prompt", Nothing, "what begins alike is always shared; answers are the same"),
    ("serve", "cache-reuse", Anything, "only beginnings are shared"),
    ("serve", "cache-ram,cram", Anything, "--cache-tokens is the size of the cache"),
    ("serve", "slot-prompt-similarity,sps", Anything, "requests have no slots"),
    ("serve", "threads-http", Anything, "connections need few threads"),
    (
        "serve",
        "timeout,to",
        Anything,
        "clients that stop sending or reading are cut off after 30 s, answers take their time",
    ),
];

/// Options without a counterpart, and the alternative.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["mg", "main-gpu", "dev", "device"],
        "to choose GPUs, use '-ts', such as '-ts 0,1' for the second alone",
    ),
    (&["sysf", "system-prompt-file"], "to read the system message from a file, use '-sys \"$(cat FILE)\"'"),
    (&["lora", "lora-scaled"], "adapters are not applied; use a file that has the adapter merged in"),
    (&["mmproj"], "pictures are not supported; leave it out"),
    (&["context-shift"], "nothing is cut from a context; '-c N' makes it longer"),
    (&["models-dir", "models-preset"], "to serve several models, give each: -m a=FILE -m b=FILE"),
    (
        &["api-prefix", "path", "media-path"],
        "to serve other pages or below another path, put a proxy before it",
    ),
    (&["props", "tools"], "leave it out: nothing is changed or run for clients"),
    (&["slot-save-path"], "the cache of prompts is shared by all requests, and not saved"),
];

/// Lets `chat`, `run` and `serve` accept options that change nothing.
pub(crate) fn accept(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let (own, silent) = match command.get_name() {
            "chat" | "run" => ("chat", SILENT_CHAT),
            "serve" => ("serve", SILENT_SERVE),
            _ => return command,
        };
        let silent = [SILENT, silent].into_iter().flat_map(|names| names.split(' '));
        let explained = HARMLESS.iter().filter(|(commands, ..)| ["all", own].contains(commands));
        let options =
            silent.map(|names| (names, Nothing)).chain(explained.map(|&(_, names, value, _)| (names, value)));
        options.fold(command, add)
    })
}

fn add(command: Command, (names, value): (&'static str, Value)) -> Command {
    let mut names = names.split(',');
    let Some(name) =
        names.next().filter(|name| command.get_arguments().all(|arg| arg.get_long() != Some(name)))
    else {
        return command;
    };
    let (letters, words): (Vec<&str>, Vec<&str>) = names.partition(|name| name.len() == 1);
    let arg = Arg::new(name).long(name).aliases(words).hide(true);
    let arg = letters.iter().filter_map(|name| name.chars().next()).fold(arg, Arg::short);
    command.arg(match value {
        Nothing => arg.action(ArgAction::SetTrue),
        Switch => arg.num_args(0..=1).value_parser(PossibleValuesParser::new(SWITCH)),
        Anything => arg.allow_hyphen_values(true),
    })
}

pub(crate) fn explain(matches: &ArgMatches) {
    let Some((_, given)) = matches.subcommand() else { return };
    for &(_, names, _, why) in HARMLESS.iter().filter(|(.., why)| !why.is_empty()) {
        let name = names.split(',').next().unwrap_or(names);
        let is_known = given.try_contains_id(name).is_ok();
        if is_known && given.value_source(name) == Some(ValueSource::CommandLine) {
            note(format_args!("--{name} changes nothing: {why}"));
        }
    }
}

/// The alternative to the option `name` (without dashes).
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}
