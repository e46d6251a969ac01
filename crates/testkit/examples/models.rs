//! Writes the test models: `cargo run -p rustorch-testkit --example models -- DIR`.

use std::path::Path;

fn main() {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: models DIR");
        std::process::exit(2);
    };
    for (name, spec) in testkit::llama::models() {
        let path = Path::new(&dir).join(format!("{name}.gguf"));
        if let Err(error) = spec.write_to(&path) {
            eprintln!("{}: {error}", path.display());
            std::process::exit(1);
        }
        println!("{}", path.display());
    }
}
