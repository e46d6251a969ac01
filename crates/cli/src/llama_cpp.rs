//! Options of llama.cpp that change nothing here, or have no counterpart.

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::output::note;

#[derive(Clone, Copy)]
enum Value {
    Nothing,
    /// One of [`SWITCH`], or nothing.
    Switch,
    Anything,
}

use Value::{Anything, Nothing, Switch};

/// Values of options that may also have none.
pub(crate) const SWITCH: [&str; 7] = ["on", "off", "auto", "1", "0", "true", "false"];

/// Switches whose effect is the same: names, separated by commas.
const SILENT: &str = "jinja mmap no-mmap warmup no-warmup no-context-shift log-disable log-prefix log-timestamps perf no-perf \
    cont-batching,cb kv-unified,kvu";

/// The same of conversations and texts.
const SILENT_CHAT: &str = "conversation,cnv single-turn,st interactive,interactive-first,if,i no-display-prompt simple-io \
    no-escape context-shift";

/// The same of servers.
const SILENT_SERVE: &str = "metrics no-slots ui,webui cache-prompt";

/// Other options that change nothing: names, value, and an explanation unless the effect is the same.
const HARMLESS: &[(&[&str], Value, &str)] = &[
    (&["flash-attn", "fa"], Switch, ""),
    (&["no-jinja"], Nothing, "chat templates are always Jinja"),
    (&["mlock"], Nothing, "memory is not locked; the system may swap it out"),
    (&["log-colors"], Switch, ""),
    (&["log-verbosity", "verbosity", "lv"], Anything, "-v prints more"),
    (&["log-file"], Anything, "no log is written; -v prints more to stderr"),
    (&["threads-batch", "tb"], Anything, "-t also applies to prompts"),
    (&["numa"], Anything, "the system places threads"),
    (&["prio", "prio-batch"], Anything, "threads keep their default priority"),
    (&["poll", "poll-batch"], Anything, ""),
    (&["check-tensors"], Nothing, "`rustorch verify` checks a model"),
];

/// The same of conversations and texts.
const HARMLESS_CHAT: &[(&[&str], Value, &str)] = &[
    (&["multiline-input", "mli"], Nothing, "Alt-Enter starts a new line"),
    (&["display-prompt"], Nothing, "the prompt is not printed"),
    (&["verbose-prompt"], Nothing, "`rustorch tokenize` shows the tokens of a text"),
    (&["keep"], Anything, "the system message is always kept"),
];

/// The same of servers.
const HARMLESS_SERVE: &[(&[&str], Value, &str)] = &[
    (&["reasoning-format"], Anything, "reasoning is always apart from the content"),
    (&["no-cache-prompt"], Nothing, "what begins alike is always shared; answers are the same"),
    (&["cache-reuse"], Anything, "only beginnings are shared"),
    (&["cache-ram", "cram"], Anything, "--cache-tokens is the size of the cache"),
    (&["slot-prompt-similarity", "sps"], Anything, "requests have no slots"),
    (&["threads-http"], Anything, "connections need few threads"),
    (
        &["timeout", "to"],
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
    command.mut_subcommands(|command| match command.get_name() {
        "chat" | "run" => add(command, SILENT_CHAT, HARMLESS_CHAT),
        "serve" => add(command, SILENT_SERVE, HARMLESS_SERVE),
        _ => command,
    })
}

fn add(command: Command, silent: &'static str, explained: &'static [(&[&str], Value, &str)]) -> Command {
    let silent = SILENT.split(' ').chain(silent.split(' '));
    let silent = silent.map(|names| (names.split(',').collect(), Nothing));
    let explained = HARMLESS.iter().chain(explained).map(|&(names, value, _)| (names.to_vec(), value));
    silent.chain(explained).fold(command, |command, (names, value): (Vec<&'static str>, Value)| {
        let own = command.get_arguments().any(|arg| arg.get_long() == Some(names[0]));
        let (letters, words): (Vec<&str>, Vec<&str>) = names[1..].iter().partition(|name| name.len() == 1);
        let arg = Arg::new(names[0]).long(names[0]).aliases(words).hide(true);
        let arg = letters.iter().filter_map(|name| name.chars().next()).fold(arg, Arg::short);
        let arg = match value {
            Nothing => arg.action(ArgAction::SetTrue),
            Switch => arg.num_args(0..=1).value_parser(PossibleValuesParser::new(SWITCH)),
            Anything => arg.allow_hyphen_values(true),
        };
        if own { command } else { command.arg(arg) }
    })
}

pub(crate) fn explain(matches: &ArgMatches) {
    let Some((_, given)) = matches.subcommand() else { return };
    let all = [HARMLESS, HARMLESS_CHAT, HARMLESS_SERVE].into_iter().flatten();
    for &(names, _, why) in all.filter(|(_, _, why)| !why.is_empty()) {
        let is_known = given.try_contains_id(names[0]).is_ok();
        if is_known && given.value_source(names[0]) == Some(ValueSource::CommandLine) {
            note(format_args!("--{} changes nothing: {why}", names[0]));
        }
    }
}

/// The alternative to the option `name` (without dashes).
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    ABSENT.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}
