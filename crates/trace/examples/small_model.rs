//! `cargo run -p rustorch-trace --example small_model -- FILE [qwen2]`: writes a model of the goldens.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (path, spec) = match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [path] => (path.to_owned(), testkit::llama::small()),
        [path, "qwen2"] => (path.to_owned(), testkit::llama::small_qwen2()),
        _ => {
            eprintln!("which file? small_model -- FILE [qwen2]");
            return ExitCode::FAILURE;
        }
    };
    match spec.write_to(path.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
