//! What a signal leaves behind: nothing.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Home, write};

/// Signals end the program while it writes, with the code that shells have for them.
#[test]
fn a_signal_leaves_no_half_written_file() {
    let home = Home::new();
    write(&home.path("text.txt"), "It was a dark and stormy night. ".repeat(20_000));
    write(&home.path("demo.gguf"), demo_model::MASTER_F16);
    let tokens = vec!["7"; 20_000].join(",");
    for args in [
        "perplexity -m MODEL -f text.txt -c 512 --save-logits out".to_owned(),
        format!("trace -m MODEL --tokens {tokens} -o out"),
        format!("logits -m MODEL --tokens {tokens} -c 20000 -o out"),
        "quantize demo.gguf out IQ4_XS -t 1".to_owned(),
    ] {
        for (signal, code) in
            [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGQUIT, 131)]
        {
            let mut command = home.command(&args);
            let mut child = command.stdout(Stdio::null()).spawn().expect("the program starts");
            wait_for(&mut child, || temporary(&home) == 1);
            kill(Pid::from_raw(child.id().try_into().expect("an id")), signal).expect("it is there");
            let status = child.wait().expect("the program ends");
            assert_eq!(status.code(), Some(code), "{signal}: {status}");
            assert!(temporary(&home) == 0 && !home.path("out").exists(), "{signal}: nothing is left");
        }
    }
}

/// How many temporary files there are.
fn temporary(home: &Home) -> usize {
    let names = std::fs::read_dir(home.folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".rustorch-")).count()
}

/// What was measured before Ctrl-C is printed.
#[test]
fn an_interrupted_bench_prints_what_it_has() {
    let home = Home::new();
    // The last test takes longer than anyone waits.
    for (tests, reached, rows) in [("4,100000", "pp4 on 1 thread", 1), ("100000", "loaded", 0)] {
        let mut command = home.command(&format!("bench -m MODEL -p {tests} -n 0 -t 1 -r 9 -o json -v"));
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = said.map(|line| line.expect("UTF-8"));
        assert!(said.any(|line| line.contains(reached)), "it comes so far");
        kill(Pid::from_raw(child.id().try_into().expect("an id")), Signal::SIGINT).expect("it is there");
        said.for_each(drop);
        let ended = child.wait_with_output().expect("the program ends");
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        let found: Vec<serde_json::Value> = serde_json::from_slice(&ended.stdout).expect("JSON");
        assert_eq!(found.len(), rows, "{found:?}");
    }
}

/// A signal ends bench, which deletes the model that it made.
#[test]
fn a_signal_leaves_no_made_model() {
    let home = Home::new();
    let folder = home.path("tmp");
    std::fs::create_dir(&folder).expect("a folder");
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut command = home.command("bench --synth stories260k:Q8_0 -p 100000 -n 0 -t 1 --no-ceilings -v");
        command.env("TMPDIR", &folder).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut said = said.map(|line| line.expect("UTF-8"));
        assert!(said.any(|line| line.contains("loaded")), "it comes so far");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1);
        kill(Pid::from_raw(child.id().try_into().expect("an id")), signal).expect("it is there");
        said.for_each(drop);
        assert_eq!(child.wait().expect("the program ends").code(), Some(code), "{signal}");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "{signal}: nothing is left");
    }
}

/// Waits until the program has come so far, which it does unless it ends before.
fn wait_for(child: &mut Child, is_so: impl Fn() -> bool) {
    while !is_so() {
        assert!(child.try_wait().expect("the system knows").is_none(), "it has ended already");
        std::thread::sleep(Duration::from_millis(5));
    }
}
