//! What is different when somebody sits at a terminal.

use std::process::Stdio;

use rexpect::session::{PtySession, spawn_command};

use crate::common::Home;

/// The program on a terminal. Waits are guarded against hanging only.
fn terminal(home: &Home, args: &str) -> PtySession {
    let mut command = home.command(args);
    command.env("TERM", "xterm-256color").stdin(Stdio::inherit());
    spawn_command(command, Some(60_000)).expect("a terminal")
}

/// How the program ended, such as `Exited(Pid(7), 130)`.
fn ended(session: &mut PtySession) -> String {
    session.exp_eof().expect("the program ends");
    format!("{:?}", session.process().wait().expect("a status"))
}

#[test]
fn ctrl_c_stops_the_answer_and_then_leaves() {
    let home = Home::new();
    let answer = home.pipe("chat -m MODEL -temp 0 -n 3", "Hello\n").quiet();
    // The context is longer than it was trained on, so that there is time.
    let mut session = terminal(&home, "chat -m MODEL -temp 0 -n 3 -c 100000");
    session.exp_string("/help shows the commands").expect("a greeting");
    session.exp_string("> ").expect("a prompt");
    session.send_line("/set max-tokens -1").expect("typed");
    session.exp_string("max-tokens: -1").expect("set");
    session.send_line("/set ignore-eos").expect("typed");
    session.exp_string("ignore-eos: on").expect("set");
    session.send_line("Hello").expect("typed");
    session.exp_string(answer.trim()).expect("the answer begins");
    session.send_control('c').expect("typed");
    session.exp_string("stopped; Ctrl-C again leaves").expect("stopped");
    session.exp_string("> ").expect("a prompt");
    session.send_control('c').expect("typed");
    let ended = ended(&mut session);
    assert!(ended.ends_with(" 130)"), "{ended}");

    let history = home.path(".local/share/rustorch/chat_history");
    assert!(std::fs::read_to_string(history).expect("a history").contains("Hello"));
}

#[test]
fn ctrl_d_leaves() {
    let home = Home::new();
    let mut session = terminal(&home, "-m MODEL -temp 0 -n 3");
    session.exp_string("> ").expect("a prompt");
    session.send_line("/quack").expect("typed");
    session.exp_string("unknown command /quack").expect("a hint");
    session.exp_string("> ").expect("a prompt, all the same");
    session.send_control('d').expect("typed");
    let ended = ended(&mut session);
    assert!(ended.ends_with(" 0)"), "{ended}");
}

#[test]
fn the_embedded_model_is_introduced_once() {
    let home = Home::new();
    let mut session = terminal(&home, "");
    session.exp_string("the embedded demo model (").expect("what it is");
    let more = session.exp_string("/help shows the commands").expect("a greeting");
    session.exp_string("> ").expect("a prompt");
    session.send_line("/backend reference").expect("typed");
    session.exp_string("running on backend reference").expect("set");
    session.send_control('d').expect("typed");
    let rest = session.exp_eof().expect("the program ends");
    assert!(!more.contains("demo model") && !rest.contains("demo model"), "{more}{rest}");
}

/// Token 30 is the byte 0x1B, with which commands to a terminal begin.
#[test]
fn a_model_cannot_steer_the_terminal() {
    let home = Home::new();
    let args = "run -m MODEL --raw -p Hi -n 2 -l 30+10000 -temp 0";
    assert_eq!(home.run(args).quiet(), "\u{1b}\u{1b}");
    let mut session = terminal(&home, args);
    let shown = session.exp_eof().expect("the program ends");
    assert!(shown.contains("\\u{1b}\\u{1b}") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_newline_separates_text_and_summary() {
    let home = Home::new();
    let args = "run -m MODEL --raw -p Hi -n 2 -l 77+10000 -temp 0";
    let text = home.run(args).quiet();
    let mut session = terminal(&home, &format!("{args} -v"));
    let shown = session.exp_eof().expect("the program ends");
    assert!(shown.contains(&format!("{text}\r\nprompt: ")), "{shown:?}");
}

#[test]
fn checks_have_colours_and_long_work_has_a_bar() {
    let home = Home::new();
    let mut session = terminal(&home, "verify -m MODEL");
    session.exp_string("\u{1b}[32mok").expect("green");
    session.exp_string("checks are good").expect("all of them");
    assert!(ended(&mut session).ends_with(" 0)"));
    crate::common::write(&home.path("text.txt"), "It was a dark and stormy night. ".repeat(40));
    let mut session = terminal(&home, "perplexity -m MODEL -f text.txt -c 64");
    session.exp_string("scoring ").expect("a bar");
    session.exp_string("Final estimate: PPL = ").expect("a result");
    assert!(ended(&mut session).ends_with(" 0)"));
}

/// Nothing half written stays: no `.part` beside the trace, no folder of traces that were to be compared.
#[test]
fn ctrl_c_leaves_no_half_traces() {
    let home = Home::new();
    let tokens = vec!["7"; 20_000].join(",");
    for args in ["trace -o t.safetensors", "compare --a cpu"] {
        let mut command = home.command(&format!("{args} -m MODEL --tokens {tokens}"));
        let temporary = home.path("tmp");
        std::fs::create_dir_all(&temporary).expect("a folder");
        command.env("TMPDIR", &temporary).env("TERM", "xterm-256color").stdin(Stdio::inherit());
        let mut session = spawn_command(command, Some(60_000)).expect("a terminal");
        let begun = || home.path("t.safetensors.part").exists() || files(&temporary) > 0;
        for _ in 0..6000 {
            if begun() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(begun(), "{args}: the recording begins");
        session.send_control('c').expect("typed");
        let ended = ended(&mut session);
        assert!(ended.ends_with(" 130)"), "{args}: {ended}");
        assert!(!begun() && !home.path("t.safetensors").exists(), "{args}: nothing is left");
    }
}

fn files(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}
