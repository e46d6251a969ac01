//! What must not take the machine down: files that change in use, sizes beyond its memory, text without end.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use quant::Format;
use testkit::llama::Spec;

use crate::common::{Home, Ran};

/// The program outlives the signal that reading a lost page raises, and says which file it was.
#[cfg(unix)]
#[test]
fn a_model_truncated_in_use_ends_with_a_sentence() {
    let home = Home::with(&Spec::new(Format::F32));
    let mut command = home.command("chat -m MODEL --no-repack -n 1 --temp 0");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdin.write_all(b"Hello\n").expect("the chat listens");
    stdout.read_line(&mut String::new()).expect("an answer");

    let model = std::fs::OpenOptions::new().write(true).open(&home.model).expect("the model is there");
    model.set_len(4096).expect("it is truncated");
    stdin.write_all(b"Hello\n").expect("the chat listens");
    let ran = Ran::from(child.wait_with_output().expect("the program ends"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("model.gguf: the file was truncated while in use"), "{ran:?}");
}
