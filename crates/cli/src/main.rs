//! The `rustorch` program.

fn main() -> std::process::ExitCode {
    rustorch_cli::main()
}
