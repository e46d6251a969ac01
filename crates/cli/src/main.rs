//! The `rustorch` program.

mod advice;
mod args;
mod argv;
mod backends;
mod bench;
mod chat;
mod compare;
mod completions;
mod devices;
mod folders;
mod generate;
mod inspect;
mod interrupt;
mod load;
mod logits;
mod mistakes;
mod npy;
mod outfile;
mod output;
mod perplexity;
mod placement;
mod quantize;
mod run;
mod settings;
mod synth;
mod tokenize;
mod trace;
mod values;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse().and_then(run) {
        Ok(code) => code,
        Err(error) => output::fail(&error),
    }
}

fn run(cli: args::Cli) -> anyhow::Result<ExitCode> {
    output::start_tracing(cli.verbose);
    match cli.command {
        args::Command::Chat(args) => chat::run(args, cli.verbose),
        args::Command::Run(args) => run::run(args, cli.verbose),
        args::Command::Logits(args) => logits::run(args),
        args::Command::Perplexity(args) => perplexity::run(args),
        args::Command::Quantize(args) => quantize::run(args),
        args::Command::Verify(args) => verify::run(args),
        args::Command::Bench(args) => bench::run(args),
        args::Command::Synth(args) => synth::run(args),
        args::Command::Trace(args) => trace::run(args),
        args::Command::Compare(args) => Ok(compare::run(&args)),
        args::Command::Tokenize(args) => tokenize::tokenize(args),
        args::Command::Detokenize(args) => tokenize::detokenize(args),
        args::Command::Inspect(args) => inspect::run(args),
        args::Command::Devices(args) => devices::run(args),
        args::Command::Completions(args) => completions::run(args),
    }
}
