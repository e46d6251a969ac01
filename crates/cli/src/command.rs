//! The command line.
//!
//! An option with a variable `RUSTORCH_NAME` is a setting: if it is not on the command line, the variable or the configuration
//! file ([`settings`]) gives its value. Options have llama.cpp's names if it has them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, Error, FromArgMatches, Parser, Subcommand};

use crate::args::POSITIONAL;
use crate::output::{self, note};
use crate::perplexity::in_windows;
use crate::source::Word;
use crate::source::commands::{self, show};
use crate::{
    argv, bench, chat, cli_errors, compare, completions, convert, devices, embed, imatrix, inspect,
    llama_cpp, logits, man, perplexity, quantize, run, serve, settings, synth, template, tokenize, trace,
    verify,
};

const NUMBER: &str = env!("CARGO_PKG_VERSION");

const EXAMPLES: &str = "\
Examples:
  rustorch
  rustorch pull qwen3:0.6b
  rustorch chat qwen3:0.6b
  rustorch 'Why is the sky blue?'
  rustorch run model.gguf 'Why is the sky blue?' -n 200 --temp 0
  cat notes.txt | rustorch run qwen3:0.6b -p 'Summarise this.'
  rustorch run -m model.gguf --raw -p 'Once upon a time'
  rustorch inspect model.gguf

The default command is `run` if there is a prompt, else `chat`. The default model is a small
embedded one; a line on stderr says so.

Most options can also be set by variables (RUSTORCH_MODEL, RUSTORCH_TOP_K, ...) and by long name in
~/.config/rustorch/config.toml (model = \"...\", top-k = 20). Flags override variables, variables
override the file. Models without a path are also looked up in ~/.rustorch/models/; `rustorch list`
shows all that are here.";

#[derive(Debug, Parser)]
#[command(name = "rustorch", about = "Runs language models from GGUF files", after_help = EXAMPLES)]
#[command(version = NUMBER, long_version = long_version())]
#[command(propagate_version = true, args_override_self = true)]
#[command(override_usage = "rustorch [COMMAND] [OPTIONS]")]
pub(crate) struct Cli {
    /// Print progress and timings to stderr
    #[arg(short, long, global = true, env = "DEBUG", value_parser = FalseyValueParser::new())]
    pub(crate) verbose: bool,
    /// Use colours; auto is on a terminal
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    #[arg(num_args = 0..=1, default_missing_value = "on", alias = "co", hide_short_help = true)]
    color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Color {
    Auto,
    #[value(alias = "always")]
    On,
    #[value(alias = "never")]
    Off,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Chat with a model; the default command
    #[command(mut_args(chat::in_a_chat))]
    Chat(chat::Args),
    /// Answer or continue a prompt; the text goes to stdout
    Run(run::Args),
    /// Serve a model to several users over HTTP, with a page to chat
    #[command(mut_args(serve::in_requests))]
    Serve(serve::Args),
    /// Download a model
    Pull(commands::PullArgs),
    /// List the models on this machine
    #[command(alias = "ls")]
    List(commands::ListArgs),
    /// Show what a model is and whether it fits here, before it is downloaded
    Show(show::Args),
    /// Remove a downloaded model
    Rm(commands::RmArgs),
    /// Print the path of a model
    Where(commands::WhereArgs),
    /// Compute the logits after each token of a sequence
    Logits(logits::Args),
    /// Compute the embeddings of texts
    Embed(embed::Args),
    /// Score documents by their relevance to a query
    Rerank(embed::RerankArgs),
    /// Score a text: perplexity, and KL divergence from a base
    #[command(mut_args(|arg| in_windows(arg, "Tokens per window; 0 is the training context [default: 512, or the base's]")))]
    Perplexity(perplexity::Args),
    /// Compute the importance matrix of a text, for `quantize --imatrix`
    #[command(mut_args(|arg| in_windows(arg, "Tokens per chunk; 0 is the training context [default: 512]")))]
    Imatrix(imatrix::Args),
    /// Quantise a model, such as to Q4_K_M
    Quantize(quantize::Args),
    /// Convert a checkpoint of Hugging Face to a GGUF file
    Convert(convert::Args),
    /// Write a model's tokenizer in Hugging Face's format
    ExportTokenizer(tokenize::ExportArgs),
    /// Check a model on this machine: file, tokenizer, kernels, backends
    Verify(verify::Args),
    /// Measure speed, absolute and relative to the machine's limits
    Bench(bench::Args),
    /// Write a model with random weights in a real model's shape, for benchmarks
    Synth(synth::Args),
    /// Record the values that a model computes
    Trace(trace::Args),
    /// Find the first value in which two runs differ, and why
    Compare(compare::Args),
    /// Encode text as token ids
    Tokenize(tokenize::Args),
    /// Decode token ids to text
    #[command(mut_args(tokenize::from_ids))]
    Detokenize(tokenize::Args),
    /// Print the prompt that a chat template makes of messages
    Template(template::Args),
    /// List the contents of a GGUF file, the memory it needs, and what fits on a GPU
    Inspect(inspect::Args),
    /// List the backends, their devices and kernels
    Devices(devices::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write a manual page per command
    Man(man::Args),
    /// Complete a command line, for the scripts of `completions`
    #[command(hide = true)]
    Complete(completions::CompleteArgs),
}

/// The command line, with the options of llama.cpp that change nothing.
pub(crate) fn all() -> clap::Command {
    llama_cpp::accept(name_variables(Cli::command()))
}

/// Prefixes variables with `RUSTORCH_`; clap names them after the options.
fn name_variables(command: clap::Command) -> clap::Command {
    let prefix = |arg: Arg| match arg.get_env().map(|name| format!("RUSTORCH_{}", name.display())) {
        Some(name) => arg.env(name),
        None => arg,
    };
    command.mut_args(prefix).mut_subcommands(name_variables)
}

/// Reads command line, variables and configuration file. Exits after help and after an invalid command line; help is
/// printed even if the file is invalid.
pub(crate) fn parse() -> anyhow::Result<Cli> {
    let command = all();
    let config = settings::load(&command);
    let variables = settings::unknown_variables(&command);
    let command = if let Ok(config) = &config { config.apply(command) } else { command };
    let mut command = tend(command);
    let mut args = argv::rewrite(std::env::args_os(), &command);
    let mut parsed = read(&mut command, &args);
    if let Ok((Cli { command: Command::Run(run), .. }, _)) = &parsed
        && run.is_chat()
    {
        args[1] = "chat".into();
        parsed = read(&mut command, &args);
    }
    let parsed = parsed.map_err(|error| cli_errors::explain(error, &command, &args));
    if let Err(help) = &parsed
        && help.exit_code() == 0
    {
        help.exit();
    }
    let config = config?;
    let (cli, matches) = parsed.unwrap_or_else(|error| error.exit());
    match cli.color {
        Color::Auto => {}
        Color::On => anstream::ColorChoice::Always.write_global(),
        Color::Off => anstream::ColorChoice::Never.write_global(),
    }
    config.unknown.iter().chain(&variables).for_each(|unknown| note(format_args!("warning: {unknown}")));
    llama_cpp::explain(&matches);
    Ok(cli)
}

fn read(command: &mut clap::Command, args: &[OsString]) -> Result<(Cli, ArgMatches), Error> {
    let matches = command.try_get_matches_from_mut(args)?;
    bench::check(&matches)?;
    check_models(&matches, command)?;
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

/// Refuses two models on the command line; one there overrides that of a variable or the configuration file.
fn check_models(matches: &ArgMatches, command: &clap::Command) -> Result<(), Error> {
    let Some((name, given)) = matches.subcommand() else { return Ok(()) };
    let is_known = |id: &str| given.try_contains_id(id).is_ok();
    let is_typed = |id: &&&str| is_known(id) && given.value_source(id) == Some(ValueSource::CommandLine);
    let typed: Vec<&str> = ["model", "hf_repo", "model_url"].iter().filter(is_typed).copied().collect();
    let error = |kind| Error::new(kind).with_cmd(command.find_subcommand(name).unwrap_or(command));
    if let (false, true) = (typed.is_empty(), is_known(POSITIONAL))
        && let Some(word) = given.get_one::<PathBuf>(POSITIONAL)
        && !is_prompt(given, word)
    {
        let mut error = error(ErrorKind::UnknownArgument);
        error.insert(ContextKind::InvalidArg, ContextValue::String(word.display().to_string()));
        return Err(error);
    }
    if let [first, second, ..] = typed[..] {
        let mut error = error(ErrorKind::ArgumentConflict);
        let spelt = |id: &str| ContextValue::String(format!("--{}", id.replace('_', "-")));
        error.insert(ContextKind::InvalidArg, spelt(first));
        error.insert(ContextKind::PriorArg, spelt(second));
        return Err(error);
    }
    Ok(())
}

/// Whether `word` is the prompt of `run`, which stands where a model may: it is alone, and names none.
fn is_prompt(run: &ArgMatches, word: &Path) -> bool {
    let is_alone = |id| run.try_contains_id(id).is_ok_and(|given| !given);
    ["text", "prompt", "file", "tokens"].into_iter().all(is_alone) && Word::of(word) != Word::Model
}

/// Ignores empty variables, hides the names of variables in the help of options, and accepts negative numbers as values.
fn tend(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let tend_arg = |arg: Arg| {
        let takes_numbers = arg.get_action().takes_values() && !arg.is_positional();
        let arg = if takes_numbers { arg.allow_negative_numbers(true) } else { arg };
        if is_empty(&arg) { arg.env(None) } else { arg.hide_env(true) }
    };
    command.mut_args(tend_arg).mut_subcommands(tend)
}

/// The number, then the commit if it is known, Cargo features and the target.
fn long_version() -> String {
    let commit = Some(env!("BUILD_COMMIT")).filter(|commit| !commit.is_empty());
    let features = if cfg!(feature = "gpu") { "gpu" } else { "none" };
    let profile = if cfg!(debug_assertions) { ", a development build" } else { "" };
    let rows = [
        commit.map(|commit| ("commit", commit.to_owned())),
        Some(("features", features.to_owned())),
        Some(("target", env!("BUILD_TARGET").to_owned() + profile)),
    ];
    format!("{NUMBER}\n{}", output::pairs(rows.into_iter().flatten()).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        tend(all()).debug_assert();
    }

    #[test]
    fn variables_are_named_as_the_options() {
        for command in all().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| arg.get_env().is_some()) {
                let long = arg.get_long().unwrap_or_default().to_uppercase().replace('-', "_");
                let expected = format!("RUSTORCH_{long}");
                assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(&*expected));
            }
        }
    }
}
