//! What a signal leaves behind: nothing.

use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Home, write};

/// Both signals end the program while it writes, with the code that shells have for them.
#[test]
fn a_signal_leaves_no_half_written_file() {
    let home = Home::new();
    write(&home.path("text.txt"), "It was a dark and stormy night. ".repeat(20_000));
    write(&home.path("demo.gguf"), demo_model::MASTER_F16);
    let tokens = vec!["7"; 20_000].join(",");
    for args in [
        "perplexity -m MODEL -f text.txt -c 512 --save-logits out".to_owned(),
        format!("trace -m MODEL --tokens {tokens} -o out"),
        "quantize demo.gguf out IQ4_XS -t 1".to_owned(),
    ] {
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            let mut command = home.command(&args);
            let mut child = command.stdout(Stdio::null()).spawn().expect("the program starts");
            let part = home.path("out.part");
            wait_for(&mut child, || part.exists());
            kill(Pid::from_raw(child.id().try_into().expect("an id")), signal).expect("it is there");
            let status = child.wait().expect("the program ends");
            assert_eq!(status.code(), Some(code), "{signal}: {status}");
            assert!(!part.exists() && !home.path("out").exists(), "{signal}: nothing is left");
        }
    }
}

/// Waits until the program has come so far, which it does unless it ends before.
fn wait_for(child: &mut Child, is_so: impl Fn() -> bool) {
    while !is_so() {
        assert!(child.try_wait().expect("the system knows").is_none(), "it has ended already");
        std::thread::sleep(Duration::from_millis(5));
    }
}
