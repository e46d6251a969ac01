//! The command line for completion: names of models are candidates for the arguments that take one.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use hub::Settings;

use crate::output::size;
use crate::source::args::POSITIONAL;
use crate::source::{short, stores};

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

/// Models on this machine, then short names. What cannot be read is left out.
fn candidates(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let held = Settings::from_env().map_err(Into::into).and_then(|settings| stores::all(&settings));
    let held = held.unwrap_or_default();
    let is_here = |name: &str| held.iter().any(|held| held.name == name);
    let here = held.iter().filter(|_| !matches!(names, Names::Short));
    let here = here.map(|held| (held.name.clone(), format!("{}, {}", size(held.bytes), held.origin.label())));
    let short = short::all().map(|(name, target)| (name.to_owned(), target.to_string()));
    let short = short.filter(|(_, target)| !matches!(names, Names::Here) || is_here(target));
    let known = here.chain(short).filter(|(name, _)| name.starts_with(&*text));
    let mut found: Vec<_> =
        known.map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into()))).collect();
    if let Names::Any = names {
        let is_model = |path: &Path| path.extension().is_some_and(|extension| extension == "gguf");
        found.extend(PathCompleter::any().filter(is_model).complete(typed));
    }
    found
}
