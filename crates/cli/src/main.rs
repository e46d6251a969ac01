//! The `rustorch` program.

fn main() -> std::process::ExitCode {
    cli::main()
}
