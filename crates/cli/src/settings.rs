//! The configuration file: values for options that neither a flag nor a variable gives.
//!
//! Keys are the long names of the options that have a variable (see [`crate::command`]), with `-` or `_`. The values become
//! clap's defaults, so that flags and variables override them and clap checks them.

use std::any::TypeId;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use backend::KvType;
use clap::{Arg, Command};
use runner::placement::{Layers, Split};
use rustorch::devices::BackendName;
use server::Origin;
use toml::de::{DeTable, DeValue};

use crate::cli_errors::did_you_mean;
use crate::files;
use crate::values::Size;

#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Values by the ids of options.
    values: HashMap<String, String>,
    /// Warnings about unknown keys.
    pub(crate) unknown: Vec<String>,
}

/// Reads the user's file, if there is one.
pub(crate) fn load(command: &Command) -> anyhow::Result<Config> {
    let Some(path) = files::config_folder().map(|folder| folder.join("config.toml")) else {
        return Ok(Config::default());
    };
    match std::fs::read(&path) {
        Ok(bytes) => read(command, &path.display().to_string(), &bytes).map_err(anyhow::Error::msg),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Reads a file for the options of `command`. Errors name `file`, the line and the key.
pub(crate) fn read(command: &Command, file: &str, bytes: &[u8]) -> Result<Config, String> {
    let place = |at: usize| {
        let line = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        format!("{file}:{line}")
    };
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        format!("{}: byte {} is not UTF-8", place(at), at + 1)
    })?;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("{}: {}", place(at), error.message())
    })?;
    let mut config = Config::default();
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let (place, key) = (place(key.span().start), key.get_ref());
        let name = key.replace('_', "-");
        let Some(arg) = settings(command).find(|arg| is_called(arg, &name)) else {
            let near = did_you_mean(&name, settings(command).filter_map(Arg::get_long));
            config.unknown.push(format!("{place}: unknown key `{key}` is ignored{near}"));
            continue;
        };
        let value = check(arg, value.get_ref()).map_err(|why| format!("{place}: key `{key}`: {why}"))?;
        config.values.insert(arg.get_id().to_string(), value);
    }
    Ok(config)
}

impl Config {
    /// Makes the values the defaults of `command` and its subcommands.
    pub(crate) fn apply(&self, command: Command) -> Command {
        let set = |arg: Arg| match self.values.get(arg.get_id().as_str()).filter(|_| arg.get_env().is_some())
        {
            Some(value) => arg.default_value(value.clone()),
            None => arg,
        };
        command.mut_args(set).mut_subcommands(|sub| self.apply(sub))
    }
}

/// Prefixes of variables that only tests read.
const OF_TESTS: [&str; 2] = ["RUSTORCH_REQUIRE_", "RUSTORCH_TINYLLAMA_"];

/// Warnings about variables `RUSTORCH_*` that no option has.
pub(crate) fn unknown_variables(command: &Command) -> Vec<String> {
    let known: Vec<&str> = settings(command).filter_map(|arg| arg.get_env()?.to_str()).collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let set = set.filter(|name| !OF_TESTS.iter().any(|prefix| name.starts_with(prefix)));
    let unknown = set.filter(|name| name.starts_with("RUSTORCH_") && !known.contains(&name.as_str()));
    unknown
        .map(|name| {
            let near = did_you_mean(&name, known.iter().copied());
            format!("unknown variable {name} is ignored{near}")
        })
        .collect()
}

/// The options that a file can set.
fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    let args = command.get_subcommands().chain([command]).flat_map(Command::get_arguments);
    args.filter(|arg| arg.get_env().is_some())
}

pub(crate) fn is_called(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// The value as clap reads it, if the option accepts it.
fn check(arg: &Arg, value: &DeValue<'_>) -> Result<String, String> {
    let takes = |kinds: &[TypeId]| kinds.iter().any(|kind| arg.get_value_parser().type_id() == *kind);
    let strings =
        [TypeId::of::<String>(), TypeId::of::<PathBuf>(), TypeId::of::<Split>(), TypeId::of::<Origin>()];
    let expected = if !arg.get_action().takes_values() {
        "true or false"
    } else if takes(&strings) || takes(&[TypeId::of::<BackendName>(), TypeId::of::<KvType>()]) {
        "a string"
    } else if takes(&[TypeId::of::<Layers>(), TypeId::of::<Size>()]) {
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

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::command::{self, Cli};

    fn run(text: &str, args: &[&str]) -> crate::run::Args {
        let config = read(&command::all(), "c.toml", text.as_bytes()).expect("a good file");
        assert_eq!(config.unknown, [""; 0]);
        let args = ["rustorch", "run", "-p", "x"].iter().chain(args);
        let matches = config.apply(command::all()).get_matches_from(args);
        let cli = Cli::from_arg_matches(&matches).expect("good arguments");
        match cli.command {
            command::Command::Run(args) => args,
            _ => unreachable!(),
        }
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = read(&command::all(), "c.toml", text.as_bytes()).expect_err("must be refused");
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn the_file_gives_defaults_and_flags_win() {
        let text = "model = \"tiny\"\ntemp = 0.5\ntop_k = 1_0 # few\nraw = true\nmax-tokens = -1\n";
        let args = run(text, &["--top-k", "3"]);
        assert_eq!(args.model.model, Some(PathBuf::from("tiny")));
        assert_eq!((args.answers.params.0.temperature, args.answers.params.0.top_k), (0.5, 3));
        assert!(args.template.raw);
        assert_eq!(run(text, &[]).answers.params.0.top_k, 10);
    }

    #[test]
    fn options_with_types_of_their_own_are_strings() {
        let text =
            "cors-origin = \"https://*.example.org,null\"\nhost-name = \"*.local\"\nstrict-model = true\n";
        read(&command::all(), "c.toml", text.as_bytes()).expect("a good file");
        refused("cors-origin = \"example.org\"", "c.toml:1: key `cors-origin`: invalid value 'example.org'");
    }

    #[test]
    fn faults_name_file_line_and_key() {
        refused(
            "\n\ntop-k = \"many\"",
            "c.toml:3: key `top-k`: expected a number, found the string \"many\"",
        );
        refused("raw = 1", "c.toml:1: key `raw`: expected true or false, found the integer 1");
        refused("model = true", "c.toml:1: key `model`: expected a string, found true");
        refused(
            "top-p = -2",
            "c.toml:1: key `top-p`: invalid value '-2' for '--top-p <P>': expected a number",
        );
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
        let config = read(&command::all(), "c.toml", text.as_bytes()).expect("a good file");
        assert_eq!(
            config.unknown,
            [
                "c.toml:1: unknown key `prompt` is ignored",
                "c.toml:2: unknown key `topk` is ignored; did you mean top-k?"
            ]
        );
    }
}
