//! `cargo run -p rustorch-trace --example small_model -- FILE`: writes the model of the goldens.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("which file? small_model -- FILE");
        return ExitCode::FAILURE;
    };
    match testkit::llama::small().write_to(path.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
