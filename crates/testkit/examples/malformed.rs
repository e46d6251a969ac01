//! Writes the malformed files, their valid base files and models of odd sizes to a folder, to test a program by hand or to
//! seed a fuzzer: `cargo run -p rustorch-testkit --example malformed FOLDER`.

use std::error::Error;
use std::path::PathBuf;

use testkit::any_model::odd_model;
use testkit::malformed::{cases, valid};

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("usage: malformed FOLDER")?.into();
    std::fs::create_dir_all(&folder)?;
    let malformed = cases().into_iter().map(|case| (case.name, case.bytes));
    for (name, bytes) in valid().into_iter().chain(malformed) {
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        std::fs::write(folder.join(format!("{name}.gguf")), bytes)?;
    }
    for number in 0..200 {
        std::fs::write(folder.join(format!("odd-{number}.gguf")), odd_model(number))?;
    }
    Ok(())
}
