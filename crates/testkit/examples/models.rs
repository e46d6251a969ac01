//! Writes the test models: `cargo run -p rustorch-testkit --example models -- DIR`. The models of the 300-token goldens
//! are written to its subfolder `long`, those of embeddings to `embed`, those of the traces to `trace`.

use std::error::Error;
use std::path::{Path, PathBuf};

use testkit::fixtures::{self, Spec};

fn write(folder: &Path, models: &[(String, Spec)]) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for (name, spec) in models {
        let path = folder.join(format!("{name}.gguf"));
        spec.write_to(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("usage: models DIR")?.into();
    write(&folder, &fixtures::models())?;
    write(&folder.join("long"), &fixtures::families())?;
    write(&folder.join("embed"), &testkit::fixtures::encoders())?;
    let small = [("small", fixtures::small()), ("small_qwen2", fixtures::small_qwen2())];
    write(&folder.join("trace"), &small.map(|(name, spec)| (name.to_owned(), spec)))
}
