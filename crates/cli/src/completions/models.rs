//! The command line for completion: names of models are candidates for the arguments that take one.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};

use crate::source::args::POSITIONAL;
use crate::source::known::{Known, models};

/// Which names an argument takes.
#[derive(Clone, Copy)]
enum Names {
    /// All, and files.
    Any,
    Here,
    /// Those that can be downloaded.
    Short,
}

/// `command` with names of models, and with hidden names of options, which the engine does not know.
pub(super) fn completed(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|arg| {
            let hidden = arg.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned);
            let hidden: Vec<String> = hidden.collect();
            complete(&name, arg.visible_aliases(hidden))
        })
    })
}

fn complete(command: &str, arg: Arg) -> Arg {
    let names = match (command, arg.get_id().as_str()) {
        (_, "model") | (_, POSITIONAL) | ("show", "name") => Names::Any,
        ("rm" | "where", "name") => Names::Here,
        ("pull", "name") => Names::Short,
        _ => return arg,
    };
    arg.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(names, typed)))
}

fn candidates(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_wanted = |known: &Known| match names {
        Names::Any => true,
        Names::Here => known.is_here,
        Names::Short => known.is_short,
    };
    let text = typed.to_string_lossy();
    let known = models().into_iter().filter(|known| is_wanted(known) && known.name.starts_with(&*text));
    let mut found: Vec<_> = known
        .map(|Known { name, about, .. }| CompletionCandidate::new(name).help(Some(about.into())))
        .collect();
    if let Names::Any = names {
        let is_model = |path: &Path| path.extension().is_some_and(|extension| extension == "gguf");
        found.extend(PathCompleter::any().filter(is_model).complete(typed));
    }
    found
}
