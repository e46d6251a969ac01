//! `chat` through a pipe.

use testkit::fixtures::Spec;

use crate::common::{Home, write};

#[test]
fn a_line_is_a_message() {
    let home = Home::new();
    let ran = home.pipe("chat -m MODEL --max-tokens 1 --temp 0", "1\n");
    let answer = home.run("run -m MODEL -p 1 -n 1 --temp 0").quiet();
    assert_eq!(ran.quiet(), answer);
    let plain = home.pipe("-m MODEL --max-tokens 1 --temp 0", "1");
    assert_eq!(plain.quiet(), answer, "without a command, without a newline");
    assert_eq!(home.pipe("chat -m MODEL", "").quiet(), "");
}

#[test]
fn a_conversation_has_a_memory() {
    let home = Home::new();
    let two = home.pipe("chat -m MODEL -n 4 --temp 0", "Hello\nHello\n").quiet();
    let forgotten = home.pipe("chat -m MODEL -n 4 --temp 0", "Hello\n/clear\nHello\n");
    assert_eq!(forgotten.code, Some(0));
    let reset = home.pipe("chat -m MODEL -n 4 --temp 0", "Hello\n/reset\nHello\n/bye\nnever\n/quack\n");
    assert_eq!((reset.code, &reset.stdout), (Some(0), &forgotten.stdout), "other names");
    let one = home.pipe("chat -m MODEL -n 4 --temp 0", "Hello\n").quiet();
    assert_eq!(forgotten.stdout, one.repeat(2));
    assert_ne!(two, forgotten.stdout);
    assert!(two.starts_with(&one));
}

#[test]
fn commands_change_the_chat_and_say_so_on_stderr() {
    let home = Home::new();
    let ran = home.pipe(
        "chat -m MODEL -n 3",
        "/set temp 0\n/set seed 7\n/system Be brief\nHi\n/stats\n/save talk.json\n/backend reference\nHi\n/toggle\n/help\n/set\n/exit\nnever\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in
        ["temperature: 0", "system message set", "prefilled", "reused", "context used", "chat template: off"]
    {
        assert!(ran.stderr.contains(said), "{said} in {}", ran.stderr);
    }
    for command in
        ["/help", "/exit", "/clear", "/system", "/toggle", "/stats", "/save", "/load", "/model", "/backend"]
    {
        assert!(ran.stderr.contains(&format!("  {command} ")), "{command} in {}", ran.stderr);
    }
    let saved = std::fs::read_to_string(home.path("talk.json")).expect("saved");
    let saved: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    let roles: Vec<_> = saved["messages"].as_array().expect("messages").iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
    let loaded = home.pipe("chat -m MODEL -n 3 --temp 0 --seed 7", "/load talk.json\nHi\n");
    assert!(loaded.stderr.contains("3 messages loaded"), "{}", loaded.stderr);
    assert!(ran.stdout.ends_with(&loaded.stdout) && !loaded.stdout.trim().is_empty(), "{ran:?} {loaded:?}");
}

#[test]
fn a_chat_can_begin_with_a_message_and_end_after_one() {
    let home = Home::new();
    let args = "-m MODEL -n 4 --temp 0";
    let two = home.pipe(&format!("chat {args}"), "Hello\nHi\n").quiet();
    let one = home.pipe(&format!("chat {args}"), "Hello\n").quiet();
    assert_eq!(home.pipe(&format!("chat {args} -p Hello"), "Hi\n").quiet(), two);
    assert_eq!(home.pipe(&format!("{args} -cnv -p Hello"), "Hi\n").quiet(), two);
    for args in [format!("chat {args} -st"), format!("{args} --single-turn")] {
        assert_eq!(home.pipe(&args, "/set top-k 1\nHello\nHi\n").stdout, one);
    }
    assert_eq!(home.pipe(&format!("chat {args} -p Hello -st"), "Hi\n").quiet(), one);
}

/// A full context is refused, and the conversation continues when its oldest messages are dropped.
#[test]
fn a_full_context_is_no_dead_end() {
    let home = Home::new();
    let args = "chat -m MODEL -n 8 --temp 0 -c 128";
    let lines = "Hello once more\n".repeat(8);
    let full = home.pipe(args, &lines);
    assert!(full.code == Some(1) && full.stderr.contains("/drop"), "{full:?}");
    let answered = full.stdout.lines().count();
    assert!((1..8).contains(&answered), "{full:?}");
    let lines = "Hello once more\n".repeat(answered) + "/drop 2\nHello once more\n/drop 99\n/stats\n";
    let dropped = home.pipe(args, &lines);
    assert_eq!((dropped.code, dropped.stdout.lines().count()), (Some(0), answered + 1), "{dropped:?}");
    assert_eq!(home.pipe(args, "/drop\n").code, Some(1), "there is nothing to drop");
    let shifted = home.pipe(&format!("{args} --context-shift"), "Hello once more\n".repeat(8));
    assert_eq!((shifted.code, shifted.stdout.lines().count()), (Some(0), 8), "{shifted:?}");
    assert!(shifted.stderr.contains("dropped"), "{shifted:?}");
    // An answer that fills the context does not end the chat.
    let endless = "chat -m MODEL --ignore-eos --temp 0 -c 64 --context-shift";
    let filled = home.pipe(endless, "Hello\nHello\n");
    assert_eq!(
        (filled.code, filled.stderr.matches("the answer fills the context").count()),
        (Some(0), 2),
        "{filled:?}"
    );
    assert!(filled.stderr.contains("dropped with the answers: the oldest 1 message"), "{filled:?}");
}

#[test]
fn files_may_be_in_the_users_home() {
    let home = Home::new();
    let ran =
        home.pipe("chat -m MODEL -n 2", "Hi\n/save ~/talk.json\n/load ~/talk.json\n/model ~/model.gguf\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(home.path("talk.json").exists());
}

#[test]
fn turns_reuse_the_cache() {
    let home = Home::new();
    // The answer's text need not be encoded to the tokens that were generated, but the first message fills pages.
    let first = "Hello ".repeat(40);
    let ran = home.pipe("chat -m MODEL -n 3 --temp 0", format!("{first}\nagain\n/stats\n"));
    let reused = ran.stderr.lines().find(|line| line.contains("reused")).expect("a line");
    let tokens: usize = reused.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert!(tokens >= 32, "{reused}");
}

#[test]
fn a_conversation_goes_on_with_another_model() {
    let home = Home::new();
    write(&home.path("other.gguf"), std::fs::read(&home.model).expect("the model"));
    let args = "chat -m MODEL -n 2 --temp 0";
    let stayed = home.pipe(args, "Hi\nHi\n").quiet();
    for command in ["/model other.gguf", "/backend cpu"] {
        let ran = home.pipe(args, format!("Hi\n{command}\nHi\n"));
        assert_eq!((ran.code, &ran.stdout), (Some(0), &stayed), "{command}: {}", ran.stderr);
    }
    let failed = home.pipe(args, "Hi\n/model no.gguf\n");
    assert!(failed.code == Some(1) && failed.stderr.contains("no.gguf"), "{failed:?}");
}

#[test]
fn a_model_that_refuses_the_conversation_begins_anew() {
    let home = Home::new();
    let spec = Spec { layers: 1, ..Spec::new(quant::Format::F32) };
    let mut metadata = spec.metadata();
    let template = "{% if messages | length > 1 %}{{ raise_exception('no memory') }}{% endif %}{{ messages[0].content }}";
    metadata.insert("tokenizer.chat_template", template);
    let forgetful = gguf::write(Vec::new(), &metadata, &spec.tensors()).expect("a good model");
    write(&home.path("forgetful.gguf"), forgetful);
    let ran = home.pipe("chat -m MODEL -n 2 --temp 0", "Hello\n/model forgetful.gguf\nHi\n");
    assert!(ran.stderr.contains("it is cleared"), "{}", ran.stderr);
    let alone = home.pipe("chat -m forgetful.gguf -n 2 --temp 0", "Hi\n").quiet();
    assert!(ran.code == Some(0) && ran.stdout.ends_with(&alone), "{ran:?} {alone:?}");
}

#[test]
fn escapes_are_read_when_asked_for() {
    let home = Home::new();
    let args = "chat -m MODEL -n 3 --temp 0";
    let tab = home.pipe(args, "/system a\tb\nc\td\n").stdout;
    let escaped = "/system a\\tb\nc\\td\n";
    assert_eq!(home.pipe(&format!("{args} -e"), escaped).stdout, tab);
    assert_eq!(home.pipe(&format!("{args} --escape -sys a\\tb"), "c\td\n").stdout, tab);
    assert_ne!(home.pipe(args, escaped).stdout, tab);
}

#[test]
fn faults_end_a_piped_chat() {
    let home = Home::new();
    let error = home.pipe("chat -m MODEL", "/quack\nHi\n").failed(1);
    assert!(
        error.starts_with("error: line 1 of stdin, which ends the chat: unknown command /quack"),
        "{error}"
    );
    let ran = home.pipe("chat -m MODEL -n 1", "Hi\n\n/load no.json\nHi\n");
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 1), "{ran:?}");
    assert!(ran.stderr.starts_with("error: line 3 of stdin") && ran.stderr.contains("no.json"), "{ran:?}");
    let ran = home.pipe("chat -m MODEL -n 1", b"Hi\nG\xc3\xa9 \xff\nHi\n");
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 1), "{ran:?}");
    let said = "error: line 2 of stdin, which ends the chat: it is not UTF-8 from byte 5 on\n";
    assert_eq!(ran.stderr, said);
    let error = home.pipe("chat -m MODEL -e", "\\xff\n").failed(1);
    assert!(error.contains("line 1 of stdin") && error.contains("not UTF-8"), "{error}");
    assert!(
        home.pipe("chat -m MODEL", "/backend gpu\n")
            .failed(1)
            .contains("there are auto, cpu, cuda, vulkan, metal, reference, hybrid-f32")
    );
    let long = "word ".repeat(200) + "\n";
    let error = home.pipe("chat -m MODEL -c 64", &long).failed(1);
    assert!(error.contains("64") && error.contains("-c N"), "{error}");
}

#[test]
fn the_last_message_is_answered_again() {
    let home = Home::new();
    let args = "chat -m MODEL -n 4 --temp 0";
    let once = home.pipe(args, "Hello\nHi\n").quiet();
    let again = home.pipe(args, "Hello\n/retry\nHi\n/save talk.json\n").ok();
    let first = once.lines().next().expect("an answer");
    assert_eq!(again, format!("{first}\n{once}"), "the first answer is not in the conversation");
    let saved = std::fs::read_to_string(home.path("talk.json")).expect("saved");
    let saved: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(saved["messages"].as_array().map(Vec::len), Some(4));
    assert!(home.pipe(args, "/retry\n").failed(1).contains("no message"));
}

#[test]
fn a_saved_conversation_is_not_overwritten_unasked() {
    let home = Home::new();
    let args = "chat -m MODEL -n 2 --temp 0";
    let ran = home.pipe(args, "Hello\n/save talk.json\n");
    assert!(ran.stderr.contains("2 messages saved in talk.json"), "{ran:?}");
    let before = std::fs::read(home.path("talk.json")).expect("saved");
    let ran = home.pipe(args, "Hi\n/save talk.json\n");
    assert!(ran.code == Some(1) && ran.stderr.contains("talk.json exists already"), "{ran:?}");
    assert_eq!(std::fs::read(home.path("talk.json")).expect("saved"), before);
    assert!(!home.path(".local/state/rustorch").exists(), "a pipe's conversation is not kept");
}

#[test]
fn the_system_message_is_shown_set_and_removed() {
    let home = Home::new();
    let ran = home.pipe("chat -m MODEL", "/system\n/system Be brief\n/system\n/system none\n/system\n");
    assert_eq!(
        ran.stderr,
        "no system message\nsystem message set\nBe brief\nno system message\nno system message\n"
    );
}
