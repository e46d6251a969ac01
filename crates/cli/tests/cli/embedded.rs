//! The embedded model, which commands use if none is named.

use crate::common::{Home, Ran, write};

/// What went to stdout, when all went well and stderr has the line about the model and no other.
#[track_caller]
fn noticed(ran: Ran) -> String {
    let is_notice = ran.stderr.starts_with("rustorch: the embedded demo model (")
        && ran
            .stderr
            .ends_with(" parameters) knows little; for a real one, add -m qwen3:0.6b (0.6 GB to download)\n")
        && ran.stderr.lines().count() == 1;
    assert!(ran.code == Some(0) && is_notice, "{ran:?}");
    assert!(!ran.stdout.is_empty() && !ran.stdout.contains("embedded demo model"), "{ran:?}");
    ran.stdout
}

#[test]
fn every_command_does_without_a_name() {
    let home = Home::new();
    for args in [
        "run -p Hello -n 4",
        "-p Hello -n 4 --json",
        "run --tokens 1 -n 1 --ignore-eos --json",
        "logits --tokens 1",
        "tokenize Hello",
        "detokenize 1 --json",
        "inspect",
        "inspect --json",
        "trace --tokens 1",
        "compare --a cpu --tokens 1,2",
    ] {
        noticed(home.run(args));
    }
    let text = "The capital of France is Paris.";
    let ids = noticed(home.run_with("tokenize --ids", &[text]));
    assert_eq!(noticed(home.run_with("detokenize", &[&ids])), format!("{text}\n"));
}

/// Before anything else, whether stderr and stdout are one stream or not.
#[test]
fn the_notice_comes_first() {
    let home = Home::new();
    write(&home.path("text.txt"), "It was a dark and stormy night. ".repeat(40));
    for args in [
        "run -p Hello -n 1 -v",
        "chat -v",
        "logits --tokens 1 -v",
        "perplexity -f text.txt -c 16 --chunks 1 -v",
        "verify -v",
        "trace --tokens 1 -v",
        "compare --a cpu --tokens 1,2 -v",
        "tokenize Hello -v",
        "detokenize 1 -v",
        "inspect -v",
        "run -p Hello -c 1",
    ] {
        let path = home.path("all.txt");
        let stream = std::fs::File::create(&path).expect("a file");
        let mut command = home.command(args);
        command.stdout(stream.try_clone().expect("a stream")).stderr(stream);
        command.status().expect("the program starts");
        let all = std::fs::read_to_string(path).expect("what was said");
        assert!(all.starts_with("rustorch: the embedded demo model ("), "{args}: {all}");
        assert_eq!(all.matches("the embedded demo model (").count(), 1, "{args}: {all}");
    }
}

/// A model that is here and chats: the largest that leaves enough memory.
#[test]
fn a_model_that_is_here_is_suggested() {
    let home = Home::new();
    let folder = home.path(".rustorch/models");
    std::fs::create_dir_all(&folder).expect("the folder is made");
    let said = || home.run("tokenize Hello").stderr;
    write(&folder.join("is-no-model.gguf"), "nothing");
    assert!(said().contains("add -m qwen3:0.6b ("), "{}", said());
    write(&folder.join("small.gguf"), demo_model::EMBEDDED);
    assert!(said().ends_with("for a real one, add -m small, which is here\n"), "{}", said());
    let larger = folder.join("larger.gguf");
    write(&larger, demo_model::EMBEDDED);
    let extend = |bytes| {
        let file = std::fs::OpenOptions::new().write(true).open(&larger).expect("a model");
        file.set_len(bytes).expect("it is longer");
    };
    extend(1 << 24);
    assert!(said().contains("-m larger,"), "{}", said());
    // A file of holes, larger than any memory.
    extend(1 << 42);
    assert!(said().contains("-m small,"), "{}", said());
    assert_eq!(home.run("tokenize -m MODEL Hello").stderr, "");
}

#[test]
fn a_piped_chat_answers() {
    let home = Home::new();
    let answer = noticed(home.run("run -p 1 -n 8 --temp 0"));
    for args in ["chat --max-tokens 8 --temp 0", "-n 8 --temp 0"] {
        assert_eq!(noticed(home.pipe(args, "1\n")).trim_end(), answer.trim_end(), "{args}");
    }
}

#[test]
fn inspect_shows_it() {
    let home = Home::new();
    assert!(noticed(home.run("inspect")).starts_with("embedded model  "));
    let ran = home.run("inspect --json");
    let notice = ran.stderr.clone();
    let json = ran.json();
    assert_eq!(json["files"][0]["path"], "embedded model");
    assert_eq!(json["files"][0]["bytes"], demo_model::EMBEDDED.len());
    assert!(json["memory"]["total"].as_u64() > Some(0), "it can be run: {}", json["memory"]);
    let millions = json["total"]["values"].as_f64().expect("a number") / 1e6;
    assert!(notice.contains(&format!("({millions:.1} M parameters)")), "{millions}: {notice}");
}

#[test]
fn it_answers_as_its_file_does() {
    let home = Home::new();
    write(&home.path("demo.gguf"), demo_model::EMBEDDED);
    let answer = |model: &str| {
        let ran = home.run(&format!("run -p Hello -n 16 --temp 0 --json {model}"));
        let quiet = ran.stderr.is_empty();
        let json = ran.json();
        (quiet, json["model"].clone(), json["ids"].clone(), json["text"].clone())
    };
    let (embedded, file) = (answer(""), answer("-m demo.gguf"));
    assert_eq!((embedded.2, embedded.3), (file.2, file.3));
    assert_eq!((embedded.0, embedded.1), (false, "embedded model".into()));
    assert_eq!((file.0, file.1), (true, "demo.gguf".into()));
}

#[test]
fn a_model_that_is_named_wins() {
    let home = Home::new();
    let args = "run -p Hi -n 4 --temp 0";
    let named = home.run(&format!("{args} -m MODEL")).quiet();
    let variable = home.command(args).env("RUSTORCH_MODEL", &home.model).output();
    assert_eq!(Ran::from(variable.expect("the program starts")).quiet(), named);
    home.pipe("chat -m MODEL -n 1", "Hi\n").quiet();
    let config = home.path(".config/rustorch/config.toml");
    write(&config, format!("model = '{}'\n", home.model.display()));
    assert_eq!(home.run(args).quiet(), named);
    std::fs::remove_file(config).expect("it is there");
    assert_ne!(noticed(home.run(args)), named);
    for args in ["run -p Hi -m no.gguf", "inspect no.gguf"] {
        assert!(home.run(args).failed(1).contains("no.gguf"), "another model is no answer");
    }
    home.run_with("run -p Hi -m", &[""]).failed(2);
}

/// What the model has learnt: a fact, and to stop after it.
#[test]
fn it_knows_a_capital() {
    let home = Home::new();
    let json = home.run_with("run --temp 0 --json -p", &["What is the capital of France?"]).json();
    assert!(json["text"].as_str().is_some_and(|text| text.contains("Paris")), "{json}");
    assert_eq!(json["stop_reason"], "end_of_generation");
}
