//! The examples run, and print what they should.

use std::process::Command;

/// The output of an example. `cargo test` builds all of them, but with `--test` it does not.
fn run(name: &str) -> String {
    let test = std::env::current_exe().expect("this test");
    let folder = test.ancestors().nth(2).expect("the folder of the profile").join("examples");
    let example = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let ran = Command::new(&example).output();
    let ran = ran.unwrap_or_else(|error| {
        panic!("{}: {error}; build it by `cargo build --examples`", example.display())
    });
    assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text")
}

#[test]
fn examples_print_what_they_should() {
    for (name, expected) in [
        ("batch", "The capital of Peru is Lima."),
        ("chat", "> What is the capital of Italy?\nThe capital of Italy is Rome.\n"),
        ("embed", "0.896  What is the capital of France?\n"),
        ("logprobs", "\"ar\" 1.000"),
        ("sampler", "best:        The capital of France is Paris.\n"),
        ("tour", "The capital of France is Paris.\n[\" 3"),
    ] {
        let printed = run(name);
        assert!(printed.contains(expected), "{name}: {printed}");
    }
    let sampled = run("sampler");
    let [_, second, forbidden] = sampled.lines().collect::<Vec<_>>()[..] else { panic!("{sampled}") };
    assert!(!second.contains("Paris") && !forbidden.ends_with("Paris."), "{sampled}");
}

#[test]
fn readme_has_the_tour() {
    let tour = include_str!("../../examples/tour.rs");
    let code = tour.lines().skip(1).map(|line| format!("    {line}").trim_end().to_owned() + "\n");
    let code: String = code.collect();
    assert!(include_str!("../../../../README.md").contains(&code), "the tour:\n{code}");
}
