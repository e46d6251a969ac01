//! The fuzz target's body on templates made of pieces of others.

use std::time::Duration;

#[path = "../../../../fuzz/bodies/chat_template.rs"]
mod body;
#[path = "../../../../fuzz/bodies/mutation.rs"]
mod mutation;

#[test]
fn pieces_of_templates() {
    let goldens = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let lines = std::fs::read_to_string(goldens.join("lines.jinja")).expect("committed");
    let mut corpus: Vec<Vec<u8>> = lines.lines().map(|line| line.as_bytes().to_vec()).collect();
    for entry in std::fs::read_dir(goldens.join("templates")).expect("committed") {
        let mut template = std::fs::read(entry.expect("a file").path()).expect("a file");
        template.extend(b"\0system\0Be brief.\0user\0<|im_end|> a\0assistant\0b</s>\0user\0c");
        corpus.push(template);
    }
    mutation::run(&corpus, Duration::from_secs(5), body::render);
}
