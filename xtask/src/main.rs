//! Chores of this repository: `cargo xtask <chore>`.

mod faults;
mod instructions;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use workspace::Workspace;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Chores of this repository")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Checks what the compiler does not: edges between crates, shape of files, ARCHITECTURE.md
    Tidy,
    /// Applies each fault of tools/faults to a copy of the checkout and checks that its tests fail
    Faults(faults::Args),
    /// Counts the instructions of small runs with valgrind and compares with tools/bench/instructions.json
    Instructions(instructions::Args),
}

fn main() -> ExitCode {
    let run = |chore| {
        let workspace = Workspace::find()?;
        match chore {
            Chore::Tidy => tidy::run(&workspace),
            Chore::Faults(args) => faults::run(&workspace, &args),
            Chore::Instructions(args) => instructions::run(&workspace, &args),
        }
    };
    match run(Cli::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
