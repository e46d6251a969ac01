//! The `rustorch` program. It is a library so that its reader of configuration files can be fuzzed.

mod advice;
mod args;
mod argv;
mod bench;
mod chat;
mod cli_errors;
mod command;
mod compare;
mod completions;
mod context;
mod convert;
mod devices;
mod embed;
mod files;
mod fit;
mod generate;
mod imatrix;
mod inspect;
mod interrupt;
mod llama_cpp;
mod load;
mod logits;
mod man;
mod output;
mod params;
mod perplexity;
mod placement;
mod quantize;
mod run;
mod serve;
mod settings;
mod source;
mod synth;
mod template;
mod tokenize;
mod trace;
mod values;
mod verify;

use std::process::ExitCode;

use command::{Cli, Command};
use source::commands::{self, show};

/// Runs the program.
pub fn main() -> ExitCode {
    if let Err(error) = gguf::survive_truncation() {
        tracing::warn!("a model file that shrinks while it is in use will end the program: {error}");
    }
    command::parse().and_then(run).unwrap_or_else(|error| output::fail(&error))
}

/// Reads a configuration file and applies it to the command `chat`.
///
/// # Errors
/// Names `file`, the line and the key.
pub fn check_config(file: &str, bytes: &[u8]) -> Result<(), String> {
    let command = command::all();
    let command = settings::read(&command, file, bytes)?.apply(command);
    command.try_get_matches_from(["rustorch", "chat"]).map(drop).map_err(|error| error.to_string())
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    output::start_tracing(cli.verbose);
    match cli.command {
        Command::Chat(args) => return chat::run(args, cli.verbose),
        Command::Run(args) => return run::run(args, cli.verbose),
        Command::Verify(args) => return verify::run(args),
        Command::Bench(args) => return bench::run(args),
        Command::Compare(args) => return Ok(compare::run(&args)),
        Command::Serve(args) => serve::run(args),
        Command::Logits(args) => logits::run(args),
        Command::Embed(args) => embed::embed(args),
        Command::Rerank(args) => embed::rerank(args),
        Command::Perplexity(args) => perplexity::run(args),
        Command::Imatrix(args) => imatrix::run(args),
        Command::Quantize(args) => quantize::run(args),
        Command::Convert(args) => convert::run(args),
        Command::ExportTokenizer(args) => tokenize::export(args),
        Command::Synth(args) => synth::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Tokenize(args) => tokenize::tokenize(args),
        Command::Detokenize(args) => tokenize::detokenize(args),
        Command::Template(args) => template::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Devices(args) => devices::run(args),
        Command::Pull(args) => commands::pull(args),
        Command::List(args) => commands::list(args),
        Command::Show(args) => show::run(args),
        Command::Rm(args) => commands::rm(args),
        Command::Where(args) => commands::where_is(args),
        Command::Completions(args) => completions::run(args, command::all()),
        Command::Man(args) => man::run(args, command::all()),
        Command::Complete(args) => completions::answer(args, command::all()),
    }?;
    Ok(ExitCode::SUCCESS)
}
