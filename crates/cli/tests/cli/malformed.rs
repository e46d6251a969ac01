//! Files that hold something wrong end in a message that says what and where.

use testkit::malformed::{Stage, cases, valid};

use crate::common::{Home, write};

#[test]
fn every_malformed_file_is_refused_by_name() {
    let home = Home::new();
    // What is said of data in memory is not what is said of a file.
    for case in cases().into_iter().filter(|case| !case.name.ends_with("in memory")) {
        write(&home.path("case.gguf"), &case.bytes);
        // A file that can be read can be inspected, whatever is wrong with its model.
        let inspected = if case.stage == Stage::File { 1 } else { 0 };
        let refused = |args: &str, code: i32| {
            let ran = home.run(args);
            let said = if code == 1 { &ran.stderr } else { &ran.stdout };
            let all_said = case.expect.iter().chain([&"case.gguf"]).all(|expected| said.contains(expected));
            if ran.code == Some(code) && all_said { Ok(()) } else { Err(format!("{args}: {ran:?}")) }
        };
        let run = refused("run -m case.gguf --raw -p x -n 1", 1);
        let inspect = refused("inspect case.gguf", inspected);
        let outcome = run.and(inspect);
        assert!(outcome.is_ok(), "{}: {:?}: {outcome:?}", case.name, case.expect);
    }
}

#[test]
fn what_they_are_made_from_is_fine() {
    let home = Home::new();
    for (name, bytes) in valid() {
        write(&home.path("valid.gguf"), bytes);
        let text = home.run("inspect valid.gguf").quiet();
        assert!(text.contains("GGUF version"), "{name}: {text}");
    }
}
