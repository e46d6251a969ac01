//! Improves clap's errors: names options as typed, and suggests what was probably meant.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use quant::Mix;

use crate::llama_cpp;

const QUOTES: &str = "to give several words as one text, put quotes around them";

/// Improves an error about `args` of `command`.
pub(crate) fn explain(mut error: Error, command: &Command, args: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            name_variable(&mut error, command);
            if args.get(1).is_some_and(|name| name == "convert") {
                suggest_quantize(&mut error);
            }
        }
        ErrorKind::UnknownArgument => {
            name_as_typed(&mut error);
            match string(&error, ContextKind::InvalidArg) {
                Some(word) if word.starts_with('-') => advise(&mut error, &word),
                Some(name) if is_model(Path::new(&name)) => suggest_model(&mut error, &name),
                Some(_) if takes_text(command, args) => suggest(&mut error, QUOTES.to_owned()),
                _ => {}
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = string(&error, ContextKind::InvalidSubcommand);
            drop_far_commands(&mut error, name.as_deref().unwrap_or_default());
            // No command's name has anything but letters.
            let is_name = |name: &&String| !name.chars().all(char::is_alphabetic);
            if let Some(instead) = name.as_deref().and_then(llama_cpp::instead_of_command) {
                error.remove(ContextKind::SuggestedSubcommand);
                suggest(&mut error, instead.to_owned());
            } else if let Some(name) = name.as_ref().filter(is_name) {
                let advice =
                    format!("to name a model, use '-m {name}'; to ask the default model, '-p {name}'");
                suggest(&mut error, advice);
            } else if args.iter().any(|arg| arg == "-p" || arg == "--prompt") {
                suggest(&mut error, QUOTES.to_owned());
            } else if let Some(name) = name.filter(|_| error.get(ContextKind::SuggestedSubcommand).is_none())
            {
                suggest(&mut error, format!("to ask the default model, use '-p {name}'"));
            }
        }
        ErrorKind::MissingRequiredArgument if lacks(&error, "--prompt") && lacks(&error, "--file") => {
            let by_pipe = "; to read the prompt from stdin, use '-f -'";
            let by_pipe = if io::stdin().is_terminal() { "" } else { by_pipe };
            suggest(&mut error, format!("a prompt is '-p TEXT'{by_pipe}"));
        }
        _ => {}
    }
    error
}

/// Says how to get a type that `convert` does not write.
fn suggest_quantize(error: &mut Error) {
    let value = string(error, ContextKind::InvalidValue).unwrap_or_default();
    if Mix::all().any(|mix| mix.name().eq_ignore_ascii_case(&value)) {
        let advice = format!("for {value}, convert without --type, and then use 'rustorch quantize'");
        suggest(error, advice);
    }
}

/// Drops commands that clap finds similar, but that are too different.
fn drop_far_commands(error: &mut Error, typed: &str) {
    let near = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => return,
    };
    let near: Vec<String> = near.into_iter().filter(|name| is_near(typed, name)).collect();
    if !near.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
}

/// Suggests a replacement for an option of llama.cpp, or drops clap's suggestion if it is too different.
fn advise(error: &mut Error, option: &str) {
    let name = |option: &str| option.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
    let typed = name(option);
    // clap advises to pass the option as a value; a mistyped option is likelier.
    error.remove(ContextKind::Suggested);
    if let Some(instead) = llama_cpp::instead_of(&typed) {
        error.remove(ContextKind::SuggestedArg);
        suggest(error, instead.to_owned());
    } else if string(error, ContextKind::SuggestedArg).is_some_and(|near| !is_near(&typed, &name(&near))) {
        error.remove(ContextKind::SuggestedArg);
    }
}

/// Whether `typed` may be a misspelt `name`.
fn is_near(typed: &str, name: &str) -> bool {
    strsim::damerau_levenshtein(typed, name) <= 1 + typed.len() / 6
}

/// The name that was probably meant, in any case.
pub(crate) fn nearest<T: AsRef<str>>(typed: &str, names: impl Iterator<Item = T>) -> Option<T> {
    let typed = typed.to_lowercase();
    let near = names.filter(|name| is_near(&typed, &name.as_ref().to_lowercase()));
    near.min_by_key(|name| strsim::damerau_levenshtein(&typed, &name.as_ref().to_lowercase()))
}

/// A question that ends an error, or nothing.
pub(crate) fn did_you_mean<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(typed, names).map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
}

/// Undoes [`crate::argv`]: names `-mg`, not `--mg`.
fn name_as_typed(error: &mut Error) {
    let Some(read) = string(error, ContextKind::InvalidArg) else { return };
    let Some(typed) = read.strip_prefix('-').filter(|typed| typed.starts_with('-')) else { return };
    let is_it = |arg: &OsStr| arg.to_str().and_then(|arg| arg.split('=').next()) == Some(typed);
    if std::env::args_os().any(|arg| is_it(&arg)) {
        error.insert(ContextKind::InvalidArg, ContextValue::String(typed.to_owned()));
    }
}

/// Names the variable that the invalid value is from.
fn name_variable(error: &mut Error, command: &Command) {
    // clap's form is `--top-k <K>`.
    let shown = string(error, ContextKind::InvalidArg);
    let long = shown.as_deref().and_then(|shown| shown.strip_prefix("--")?.split(' ').next());
    let value = string(error, ContextKind::InvalidValue);
    let mut args = command.get_subcommands().chain([command]).flat_map(Command::get_arguments);
    let variable = args.find(|arg| long.is_some() && arg.get_long() == long).and_then(Arg::get_env);
    let held = variable.and_then(std::env::var_os).map(|held| held.to_string_lossy().into_owned());
    if let Some(variable) = variable.filter(|_| held.is_some() && held == value) {
        let name = variable.to_string_lossy().into_owned();
        error.insert(ContextKind::InvalidArg, ContextValue::String(name));
    }
}

fn takes_text(command: &Command, args: &[OsString]) -> bool {
    let named = args.get(1).and_then(|name| command.find_subcommand(name));
    let has_prompt = args.iter().any(|arg| arg == "-p" || arg == "--prompt");
    let is_text = |arg: &Arg| arg.get_id() == "text" || has_prompt && arg.get_id() == "prompt";
    named.is_some_and(|command| command.get_arguments().any(is_text))
}

fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) || path.is_file()
}

fn string(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn lacks(error: &Error, option: &str) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    matches!(missing, Some(ContextValue::Strings(all)) if all.iter().any(|usage| usage.contains(option)))
}

fn suggest_model(error: &mut Error, name: &str) {
    suggest(error, format!("to name a model, use '-m {name}'"));
}

fn suggest(error: &mut Error, advice: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
}
