//! The body of the fuzz target `config`, and of a test of the program.

/// Reads a configuration file: an error names the file, and a valid file suits the command line.
pub(crate) fn read(data: &[u8]) {
    if let Err(why) = rustorch_cli::check_config("config.toml", data) {
        assert!(why.starts_with("config.toml:"), "{why}");
    }
}
