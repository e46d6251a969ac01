//! The configuration file: values for options that neither a flag nor a variable gives.
//!
//! Keys are the long names of the options that have a variable (see [`crate::command`]); `_` stands for
//! `-` as well. The file's values become clap's defaults, so flags and variables win over them and
//! clap checks them.

use std::any::TypeId;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Arg, Command};
use toml::de::{DeTable, DeValue};

use crate::args::CacheType;
use crate::folders;
use crate::mistakes::is_near;
use crate::registry::BackendName;
use crate::values::{GpuLayers, Size};

/// Puts the values of the user's file, if there is one, into `command`; returns what is said of unknown keys, too.
pub(crate) fn apply(command: Command) -> anyhow::Result<(Command, Vec<String>)> {
    let Some(path) = folders::config().map(|folder| folder.join("config.toml")) else {
        return Ok((command, Vec::new()));
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => apply_text(command, &path, &text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((command, Vec::new())),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn apply_text(mut command: Command, path: &Path, text: &str) -> anyhow::Result<(Command, Vec<String>)> {
    let place = |at: usize| {
        let line = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", path.display())
    };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        anyhow::anyhow!("{}: {}", place(at), error.message())
    })?;
    let mut unknown = Vec::new();
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let place = place(key.span().start);
        let name = key.get_ref().replace('_', "-");
        let Some(arg) = find(&command, &name) else {
            let near = nearest(&name, settings(&command).filter_map(Arg::get_long));
            unknown.push(format!("{place}: unknown key `{}` is ignored{near}", key.get_ref()));
            continue;
        };
        let value = check(arg, value.get_ref())
            .map_err(|why| anyhow::anyhow!("{place}: key `{}`: {why}", key.get_ref()))?;
        let id = arg.get_id().to_string();
        command = set_default(command, &id, &value);
    }
    Ok((command, unknown))
}

/// What is said of variables that are named like ours and are none.
pub(crate) fn unknown_variables(command: &Command) -> Vec<String> {
    let known: Vec<&str> = settings(command).filter_map(|arg| arg.get_env()?.to_str()).collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown = set.filter(|name| name.starts_with("RUSTORCH_") && !known.contains(&name.as_str()));
    unknown
        .map(|name| {
            let near = nearest(&name, known.iter().copied());
            format!("unknown variable {name} is ignored{near}")
        })
        .collect()
}

/// The name that was probably meant, in words.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known.filter(|known| is_near(name, known));
    let nearest = near.min_by_key(|known| strsim::damerau_levenshtein(name, known));
    nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
}

/// The options a file can set.
fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    let args = command.get_subcommands().chain([command]).flat_map(Command::get_arguments);
    args.filter(|arg| arg.get_env().is_some())
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    settings(command).find(|arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })
}

/// The value as clap would read it, when it is one that the option takes.
fn check(arg: &Arg, value: &DeValue<'_>) -> Result<String, String> {
    let takes = arg.get_value_parser().type_id();
    let is = |id: TypeId| takes == id;
    let expected = if !arg.get_action().takes_values() {
        "true or false"
    } else if is(TypeId::of::<String>())
        || is(TypeId::of::<PathBuf>())
        || is(TypeId::of::<BackendName>())
        || is(TypeId::of::<CacheType>())
    {
        "a string"
    } else if is(TypeId::of::<GpuLayers>()) || is(TypeId::of::<Size>()) {
        "a string or a number"
    } else {
        "a number"
    };
    let text = match (value, expected) {
        (DeValue::Boolean(value), "true or false") => return Ok(value.to_string()),
        (DeValue::String(text), "a string" | "a string or a number") => text.to_string(),
        (DeValue::Integer(number), "a number" | "a string or a number") if number.radix() == 10 => {
            number.as_str().replace('_', "")
        }
        (DeValue::Float(number), "a number") => number.as_str().replace('_', ""),
        (other, _) => return Err(format!("expected {expected}, found {}", describe(other))),
    };
    let alone = Command::new("").no_binary_name(true).arg(arg.clone().allow_hyphen_values(true).env(None));
    let option = format!("--{}={text}", arg.get_long().unwrap_or_default());
    match alone.try_get_matches_from([option]) {
        Ok(_) => Ok(text),
        Err(error) => {
            let message = error.to_string();
            let first = message.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string {text:?}"),
        DeValue::Integer(number) => format!("the integer {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn set_default(command: Command, id: &str, value: &str) -> Command {
    let is_it = |arg: &Arg| arg.get_id() == id && arg.get_env().is_some();
    let command = command.mut_args(|arg| if is_it(&arg) { arg.default_value(value.to_owned()) } else { arg });
    command.mut_subcommands(|sub| set_default(sub, id, value))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::command::{self, Cli};

    fn run(text: &str, args: &[&str]) -> crate::run::Args {
        let (command, unknown) = apply_text(Cli::command(), Path::new("c.toml"), text).expect("a good file");
        assert_eq!(unknown, [""; 0]);
        let args = ["rustorch", "run", "-p", "x"].iter().chain(args);
        let cli = Cli::from_arg_matches(&command.get_matches_from(args)).expect("good arguments");
        match cli.command {
            command::Command::Run(args) => args,
            _ => unreachable!(),
        }
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = apply_text(Cli::command(), Path::new("c.toml"), text).expect_err("must be refused");
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn the_file_gives_defaults_and_flags_win() {
        let text = "model = \"tiny\"\ntemp = 0.5\ntop_k = 1_0 # few\nraw = true\nmax-tokens = -1\n";
        let args = run(text, &["--top-k", "3"]);
        assert_eq!(args.model.model.as_deref(), Some(Path::new("tiny")));
        assert_eq!((args.answers.sampling.temperature, args.answers.sampling.top_k), (0.5, 3));
        assert!(args.template.raw);
        assert_eq!(run(text, &[]).answers.sampling.top_k, 10);
    }

    #[test]
    fn faults_name_file_line_and_key() {
        refused(
            "\n\ntop-k = \"many\"",
            "c.toml:3: key `top-k`: expected a number, found the string \"many\"",
        );
        refused("raw = 1", "c.toml:1: key `raw`: expected true or false, found the integer 1");
        refused("model = true", "c.toml:1: key `model`: expected a string, found true");
        refused("seed = -2", "c.toml:1: key `seed`: invalid value '-2' for '--seed <SEED>': -2 is not in");
        refused(
            "backend = \"gpu\"",
            "c.toml:1: key `backend`: invalid value 'gpu' for '--backend <BACKEND>'",
        );
        refused("temp = 1\n[model]\nx = 1", "c.toml:2: key `model`: expected a string, found a table");
        refused("temp = 1\ntop-k 3", "c.toml:2: ");
    }

    #[test]
    fn unknown_keys_are_named_and_change_nothing() {
        let text = "prompt = 1\ntopk = 3\nseed = 7\n";
        let (_, unknown) = apply_text(Cli::command(), Path::new("c.toml"), text).expect("a good file");
        assert_eq!(
            unknown,
            [
                "c.toml:1: unknown key `prompt` is ignored",
                "c.toml:2: unknown key `topk` is ignored; did you mean top-k?"
            ]
        );
    }
}
