//! What is different when somebody sits at a terminal.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, tcgetattr};
use rexpect::session::{PtySession, spawn_command};

use crate::common::Home;

/// The program on a terminal that echoes, which those of rexpect do not. Waits are guarded against hanging only.
fn terminal(home: &Home, args: &str) -> PtySession {
    on_terminal(home, &home.command(args))
}

fn on_terminal(home: &Home, inner: &Command) -> PtySession {
    let mut command = Command::new("sh");
    command.args(["-c", "stty echo; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("TERM", "xterm-256color").current_dir(home.folder.path());
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
    session.exp_string("/help lists the commands").expect("a greeting");
    session.exp_string("> ").expect("a prompt");
    session.send_line("/set max-tokens -1").expect("typed");
    session.exp_string("max-tokens: -1").expect("set");
    session.send_line("/set ignore-eos").expect("typed");
    session.exp_string("ignore-eos: on").expect("set");
    session.send_line("Hello").expect("typed");
    session.exp_string(answer.trim()).expect("the answer begins");
    session.send_control('c').expect("typed");
    session.exp_string("stopped; press Ctrl-C again to leave").expect("stopped");
    session.exp_string("> ").expect("a prompt");
    session.send_control('c').expect("typed");
    let ended = ended(&mut session);
    assert!(ended.ends_with(" 130)"), "{ended}");
}

/// As a paste without brackets, or a script, sends them.
#[test]
fn lines_that_arrive_together_are_answered_in_order() {
    let home = Home::new();
    let mut session = terminal(&home, "chat -m MODEL -temp 0 -n 3");
    session.exp_string("/help lists the commands").expect("a greeting");
    session.send("/set top-k 3\rHello\r/set top-k 4\ragain\r/stats\r").expect("typed");
    session.flush().expect("typed");
    for said in ["top-k: 3", "top-k: 4"] {
        session.exp_string(said).expect("set");
    }
    session.exp_regex("generated in all *6 tokens").expect("both messages are answered");
    session.exp_string("> ").expect("a prompt");
    session.send_control('d').expect("typed");
    assert!(ended(&mut session).ends_with(" 0)"));
}

/// An endless answer: the context is longer than it was trained on, so that there is time.
fn endless(home: &Home) -> PtySession {
    let answer = home.pipe("chat -m MODEL -temp 0 -n 3", "Hello\n").quiet();
    let mut session = terminal(home, "chat -m MODEL -temp 0 -c 100000 --ignore-eos");
    session.exp_string("> ").expect("a prompt");
    session.send_line("Hello").expect("typed");
    session.exp_string(answer.trim()).expect("the answer begins");
    session
}

#[test]
fn keys_wait_for_the_next_prompt_without_an_echo() {
    let home = Home::new();
    let mut session = endless(&home);
    session.send("/set top-k 3\r/set top-").expect("typed");
    session.flush().expect("typed");
    // Ctrl-C would take an echo away that has not come yet.
    std::thread::sleep(std::time::Duration::from_millis(200));
    session.send_control('c').expect("typed");
    let shown = session.exp_string("stopped; press Ctrl-C again to leave").expect("stopped");
    assert!(!shown.contains("/set"), "{shown}");
    session.exp_string("top-k: 3").expect("typed before");
    session.send_line("k 4").expect("typed");
    session.exp_string("top-k: 4").expect("partly typed before");
}

/// Whatever ends the program, keys are echoed again, and what was said can be recalled.
#[test]
fn a_signal_restores_the_terminal_and_the_history_is_kept() {
    let signals = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    for (signal, is_answering) in signals.into_iter().flat_map(|signal| [(signal, true), (signal, false)]) {
        let home = Home::new();
        let mut session = endless(&home);
        if !is_answering {
            session.send_control('c').expect("typed");
            session.exp_string("stopped").expect("stopped");
            session.exp_string("> ").expect("a prompt");
        }
        let terminal = session.process().get_file_handle().expect("a terminal");
        let is_echoed = || tcgetattr(&terminal).expect("a mode").local_flags.contains(LocalFlags::ECHO);
        assert!(!is_echoed(), "{signal}");
        session.process_mut().signal(signal).expect("it is there");
        let ended = ended(&mut session);
        assert!(ended.ends_with(&format!(" {})", 128 + signal as i32)), "{signal}: {ended}");
        assert!(is_echoed(), "{signal}");
        assert_eq!(history(&home), ["Hello"]);
    }
}

#[test]
fn two_chats_share_their_history() {
    let home = Home::new();
    let mut chats = [(); 2].map(|()| {
        let mut session = terminal(&home, "chat -m MODEL -n 1");
        session.exp_string("> ").expect("a prompt");
        session
    });
    for text in ["one", "two", "three", "four"] {
        chats.rotate_left(1);
        chats[0].send_line(text).expect("typed");
        chats[0].exp_string(text).expect("echoed");
        chats[0].exp_string("> ").expect("a prompt");
    }
    for mut chat in chats {
        chat.send_control('d').expect("typed");
        ended(&mut chat);
    }
    assert_eq!(history(&home), ["one", "two", "three", "four"]);
}

/// Lines of the history, behind the line that names its format.
fn history(home: &Home) -> Vec<String> {
    let file = home.path(".local/share/rustorch/chat_history");
    let text = std::fs::read_to_string(file).expect("a history");
    text.lines().skip(1).map(str::to_owned).collect()
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
    let more = session.exp_string("/help lists the commands").expect("a greeting");
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
    let args = "run -m MODEL --raw -p Hi -n 2 -l 30+100 -temp 0";
    assert_eq!(home.run(args).quiet(), "\u{1b}\u{1b}\n");
    let mut session = terminal(&home, args);
    let shown = session.exp_eof().expect("the program ends");
    assert!(shown.contains("\\u{1b}\\u{1b}") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_newline_separates_text_and_summary() {
    let home = Home::new();
    let args = "run -m MODEL --raw -p Hi -n 2 -l 77+100 -temp 0";
    let text = home.run(args).quiet();
    let mut session = terminal(&home, &format!("{args} -v"));
    let shown = session.exp_eof().expect("the program ends");
    assert!(shown.contains(&format!("{}\r\nprompt: ", text.trim_end())), "{shown:?}");
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

/// Nothing half written stays: no temporary file beside the trace, no folder of traces that were to be compared.
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
        let temporary_traces = || {
            let names = std::fs::read_dir(home.folder.path()).expect("a folder");
            let names = names.map(|entry| entry.expect("an entry").file_name());
            names.filter(|name| name.to_string_lossy().starts_with(".rustorch-")).count()
        };
        let begun = || temporary_traces() + files(&temporary) > 0;
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

#[test]
fn a_model_that_is_not_here_is_asked_for() {
    let (home, hub) = (Home::new(), testkit::hub::Hub::start());
    hub.add("user/Model-GGUF", "Model-Q4_K_M.gguf", std::fs::read(&home.model).expect("the model"));
    let folder = home.path("hf");
    let terminal = |args: &str| {
        let mut inner = home.command(args);
        inner.env("HF_HOME", &folder).env("HF_ENDPOINT", &hub.endpoint).env("NO_PROXY", "127.0.0.1");
        on_terminal(&home, &inner)
    };
    let mut session = terminal("run user/Model-GGUF -p Hello -n 3");
    session.exp_string("Download user/Model-GGUF in Q4_K_M").expect("a question");
    session.exp_string("[Y/n]").expect("a question");
    session.send_line("n").expect("typed");
    session.exp_string("not on this machine").expect("an error");
    assert!(ended(&mut session).ends_with(" 1)"));
    let mut session = terminal("run user/Model-GGUF -p Hello -n 3");
    session.exp_string("[Y/n]").expect("a question");
    session.send_line("").expect("typed");
    assert!(ended(&mut session).ends_with(" 0)"));
    let mut session = terminal("rm user/Model-GGUF");
    session.exp_string("Remove user/Model-GGUF:Q4_K_M").expect("a question");
    session.exp_string("[y/N]").expect("a question");
    session.send_line("").expect("typed");
    session.exp_string("nothing is removed").expect("an error");
    assert!(ended(&mut session).ends_with(" 1)"));
    let mut session = terminal("rm user/Model-GGUF");
    session.exp_string("[y/N]").expect("a question");
    session.send_line("y").expect("typed");
    session.exp_string("are free again").expect("removed");
    assert!(ended(&mut session).ends_with(" 0)"));
}

/// As `ollama run`.
#[test]
fn a_model_alone_is_a_chat() {
    let home = Home::new();
    for args in ["run MODEL -n 3", "MODEL -n 3", "run -m MODEL -n 3"] {
        let mut session = terminal(&home, args);
        session.exp_string("/help lists the commands").expect("a greeting");
        session.exp_string("> ").expect("a prompt");
        session.send_control('d').expect("typed");
        assert!(ended(&mut session).ends_with(" 0)"), "{args}");
    }
}

/// Whatever ends the program after an answer.
#[test]
fn a_conversation_is_resumed() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let mut session = terminal(&home, "chat -m MODEL -temp 0 -n 3");
    session.exp_string("> ").expect("a prompt");
    session.send_line("Hello").expect("typed");
    session.exp_string("Hello").expect("echoed");
    session.exp_string("> ").expect("a prompt");
    session.process_mut().signal(Signal::SIGHUP).expect("it is there");
    ended(&mut session);
    let file = home.path(".local/state/rustorch/last_chat.json");
    assert_eq!(std::fs::metadata(&file).expect("saved").permissions().mode() & 0o777, 0o600);
    let both = home.pipe("chat -m MODEL -temp 0 -n 3", "Hello\nHi\n").quiet();
    let resumed = home.pipe("chat -m MODEL -temp 0 -n 3 --resume", "Hi\n");
    assert!(resumed.stderr.contains("2 messages resumed"), "{resumed:?}");
    assert!(both.ends_with(&resumed.stdout) && !resumed.stdout.is_empty(), "{both:?} {resumed:?}");

    let home = Home::new();
    let mut session = terminal(&home, "chat -m MODEL -n 3 --no-save");
    session.exp_string("> ").expect("a prompt");
    session.send_line("Hello").expect("typed");
    session.exp_string("Hello").expect("echoed");
    session.exp_string("> ").expect("a prompt");
    session.send_control('d').expect("typed");
    ended(&mut session);
    assert!(!home.path(".local/state/rustorch/last_chat.json").exists());
    assert!(home.pipe("chat -m MODEL --resume", "Hi\n").failed(1).contains("--no-save"));
}

#[test]
fn a_full_context_offers_to_drop_messages() {
    let home = Home::new();
    let mut session = terminal(&home, "chat -m MODEL -n 8 -temp 0 -c 128");
    session.exp_string("> ").expect("a prompt");
    let mut messages = 0;
    loop {
        session.send_line("Hello once more").expect("typed");
        session.exp_string("Hello once more").expect("echoed");
        let (_, shown) = session.exp_regex(r"\[Y/n\]|> ").expect("an answer or a question");
        if shown != "> " {
            break;
        }
        messages += 1;
        assert!(messages < 8, "the context is never full");
    }
    session.send_line("").expect("typed");
    session.exp_string("dropped with the answers").expect("room");
    session.exp_string("> ").expect("a prompt");
    session.send_control('d').expect("typed");
    assert!(ended(&mut session).ends_with(" 0)"));
}

#[test]
fn tab_completes_commands_and_files() {
    let home = Home::new();
    crate::common::write(&home.path("conversation.json"), "{\"messages\": []}");
    let mut session = terminal(&home, "chat -m MODEL -n 3");
    session.exp_string("> ").expect("a prompt");
    session.send("/lo\tconv\t\r").expect("typed");
    session.flush().expect("typed");
    session.exp_string("0 messages loaded").expect("the command and the file");
    session.send_control('d').expect("typed");
}
