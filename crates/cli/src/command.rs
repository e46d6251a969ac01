//! The command line: all commands, and how what was typed is read.
//!
//! An option with a variable `RUSTORCH_NAME` is a setting: the variable and the configuration file
//! ([`settings`]) give it a value where the command line does not. Names are those of llama.cpp where
//! it has the option.

use clap::builder::FalseyValueParser;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::output::note;
use crate::{
    argv, bench, chat, compare, completions, devices, inspect, llama_cpp, logits, mistakes, perplexity,
    quantize, run, settings, synth, tokenize, trace, verify,
};

const ABOUT: &str = "Runs language models from GGUF files";

const EXAMPLES: &str = "\
Examples:
  rustorch
  rustorch chat -m model.gguf
  rustorch run -m model.gguf -p 'Why is the sky blue?' -n 200 --temp 0
  rustorch run -m model.gguf --raw -p 'Once upon a time'
  rustorch inspect model.gguf

Without a command, `run` is meant when there is a prompt, else `chat`. Without a model, the small
one in the program answers; a line on stderr says so.

Options that RUSTORCH_NAME variables set (RUSTORCH_MODEL, RUSTORCH_TOP_K, ...) can also stand in
~/.config/rustorch/config.toml by their long names (model = \"...\", top-k = 20). Flags win over
variables, variables over the file. A model named without a path is also looked for in
~/.rustorch/models/.";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "rustorch", version, about = ABOUT, after_help = EXAMPLES)]
#[command(propagate_version = true, args_override_self = true)]
#[command(override_usage = "rustorch [COMMAND] [OPTIONS]")]
pub(crate) struct Cli {
    /// Says on stderr what is being done and how long it took
    #[arg(short, long, global = true, env = "RUSTORCH_DEBUG", value_parser = FalseyValueParser::new())]
    pub(crate) verbose: bool,
    /// When to use colours: auto is on a terminal
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    #[arg(num_args = 0..=1, default_missing_value = "on", hide_short_help = true)]
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
    /// Talks with the model, line by line; what runs without a command
    #[command(mut_args(chat::in_a_chat))]
    Chat(chat::Args),
    /// Continues a prompt; the text goes to stdout
    Run(run::Args),
    /// Writes the logits after each token of a sequence
    Logits(logits::Args),
    /// Scores a text: perplexity, and divergence from a base's log-probabilities
    #[command(mut_args(perplexity::in_windows))]
    Perplexity(perplexity::Args),
    /// Writes a model in fewer bits, such as Q4_K_M
    Quantize(quantize::Args),
    /// Checks a model on this machine: file, tokenizer, kernels, backends, known answers
    Verify(verify::Args),
    /// Measures how fast a model runs here, and the part that is of what the machine could do
    Bench(bench::Args),
    /// Writes a model of random weights in a real model's shape, to measure with
    Synth(synth::Args),
    /// Records what a model computes, value by value
    Trace(trace::Args),
    /// Finds the first value in which two runs part, and says why
    Compare(compare::Args),
    /// Turns text into token ids
    Tokenize(tokenize::Args),
    /// Turns token ids into text
    #[command(mut_args(tokenize::from_ids))]
    Detokenize(tokenize::Args),
    /// Shows what is in a GGUF file, the memory it needs, and what of it fits on a graphics processor
    Inspect(inspect::Args),
    /// Shows the backends, what processors and graphics processors can do, and the kernels chosen
    Devices(devices::Args),
    /// Prints a completion script for a shell
    Completions(completions::Args),
}

/// The command line with those of llama.cpp's options that change nothing.
pub(crate) fn all() -> clap::Command {
    llama_cpp::accept(Cli::command())
}

/// Reads command line, variables and configuration file. Asking for help ends the program here, whatever
/// is in the file, and so does a wrong command line.
pub(crate) fn parse() -> anyhow::Result<Cli> {
    let (command, read) = match settings::apply(all()) {
        Ok((command, unknown)) => (command, Ok(unknown)),
        Err(fault) => (all(), Err(fault)),
    };
    let variables = settings::unknown_variables(&command);
    let mut command = tend(command);
    let args = argv::rewrite(std::env::args_os(), &command);
    let parsed = command.try_get_matches_from_mut(&args).and_then(|matches| {
        bench::check(&matches)?;
        Ok((Cli::from_arg_matches(&matches)?, matches))
    });
    let parsed = parsed.map_err(|error| mistakes::explain(error, &command, &args));
    let ((cli, matches), unknown) = match (parsed, read) {
        (Err(help), _) if help.exit_code() == 0 => help.exit(),
        (_, Err(fault)) => return Err(fault),
        (Err(error), _) => error.exit(),
        (Ok(parsed), Ok(unknown)) => (parsed, unknown),
    };
    match cli.color {
        Color::Auto => {}
        Color::On => anstream::ColorChoice::Always.write_global(),
        Color::Off => anstream::ColorChoice::Never.write_global(),
    }
    unknown.iter().chain(&variables).for_each(|unknown| note(format_args!("warning: {unknown}")));
    llama_cpp::explain(&matches);
    Ok(cli)
}

/// An empty variable counts as unset. The rule of their names is said once in the help of the program,
/// not at each option. What begins with a dash and is a number is a value.
fn tend(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let tend_arg = |arg: Arg| {
        let takes_numbers = arg.get_action().takes_values() && !arg.is_positional();
        let arg = if takes_numbers { arg.allow_negative_numbers(true) } else { arg };
        if is_empty(&arg) { arg.env(None) } else { arg.hide_env(true) }
    };
    command.mut_args(tend_arg).mut_subcommands(tend)
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
        for command in Cli::command().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| arg.get_env().is_some()) {
                let long = arg.get_long().unwrap_or_default().to_uppercase().replace('-', "_");
                let expected = format!("RUSTORCH_{long}");
                assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(&*expected));
            }
        }
    }
}
