//! What people do wrong, and what they are told.

use crate::common::{Home, write};

#[test]
fn the_command_line_is_checked() {
    let home = Home::new();
    for (args, said) in [
        ("run -m MODEL", "required arguments were not provided"),
        ("run -m MODEL -p a --tokens 1", "cannot be used with"),
        ("run -m MODEL -p a --tokens 1,x", "\"x\" is not a token id"),
        ("run -m MODEL -p a -n -2", "expected a number of tokens, or -1 for no limit"),
        ("run -m MODEL -p a -c -1", "expected a number of tokens, or 0 for the training context"),
        ("-m MODEL -p a -t -1", "expected a number from 1 to 1024"),
        ("-m MODEL -p a --tempp 1", "a similar argument exists: '--temp'"),
        ("run -m MODEL -p a --temp hot", "invalid value 'hot'"),
        ("run -m MODEL -p a --temp nan", "invalid value 'nan'"),
        ("run -m MODEL -p a --top-p 5", "expected a number from 0 to 1"),
        ("run -m MODEL -p a --min-p -0.1", "expected a number from 0 to 1"),
        ("run -m MODEL -p a --repeat-penalty 0", "expected a number from 0.000001 to"),
        ("run -m MODEL -p a --frequency-penalty -2e6", "expected a number from -1000000 to"),
        ("run -m MODEL -p a -r=", "'--stop <TEXT>'"),
        ("run -m MODEL -p a -l 5+nan", "such as 15043+1"),
        ("run -m MODEL -p a --backend gpu", "invalid value 'gpu'"),
        ("run -m MODEL -p a -t 0", "expected a number from 1 to 1024"),
        ("run -m MODEL -p a -b 99999999999999", "expected a number from 1 to 65536"),
        ("run -m MODEL -p a -l 5", "such as 15043+1"),
        ("run -m MODEL -e -p \\xff", "not UTF-8"),
        ("run -m MODEL -p a --cache-type q8_0", "possible values: f16, f32"),
        ("run -m MODEL -p a -ngl most", "expected a number, auto or all"),
        ("-m MODEL --gpu-memory 2QB", "expected bytes, such as 2GiB"),
        ("run -m MODEL -p a -mg 5", "unexpected argument '-mg'"),
        ("-m MODEL -nkvo=99", "unexpected argument '-nkvo'"),
        ("-hf some/model", "unexpected argument '-hf'"),
        ("-hf some/model", "download its file"),
        ("model.gguf", "to name a model, use '-m model.gguf'"),
        ("verify model.gguf", "to name a model, use '-m model.gguf'"),
        ("chat no/such.gguf", "to name a model, use '-m no/such.gguf'"),
        ("run model.gguf -p hi", "to name a model, use '-m model.gguf'"),
        ("perplexity MODEL -f text.txt", "to name a model, use '-m /"),
        ("run -m MODEL", "to read the prompt from stdin, use '-f -'"),
        ("-m MODEL frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("tokenize -m MODEL Hello world", "put quotes around them"),
        ("run -m MODEL -p Hello world", "put quotes around them"),
        ("frobnicate", "unrecognized subcommand 'frobnicate'"),
    ] {
        let error = home.run(args).failed(2);
        assert!(error.contains(said), "{args}: {error}");
    }
    for args in ["--grammar-file x", "run -p a --chat-templates x", "--main-gpu 1"] {
        let error = home.run(args).failed(2);
        assert!(!error.contains("similar") || error.contains("'--chat-template'"), "{args}: {error}");
    }
    for args in ["frobnicate", "chat Hello", "devices cpu", "tokenize -m MODEL Hello --quux"] {
        let error = home.run(args).failed(2);
        assert!(!error.contains("quotes"), "{args}: {error}");
    }
    assert!(home.run("--version").quiet().starts_with("rustorch "));
    assert!(home.run("--help").quiet().contains("Examples:"));
    assert!(home.run("-m MODEL -h").quiet().contains("Examples:"));
    assert_eq!(home.run("help").quiet(), home.run("--help").quiet());
    for help in ["run --help", "help run"] {
        assert!(home.run(help).quiet().contains("Sampling:"), "{help}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let home = Home::new();
    for command in ["run -p x -m", "logits --tokens 1 -m", "tokenize x -m", "inspect"] {
        let error = home.run(&format!("{command} no/such.gguf")).failed(1);
        assert!(error.contains("no/such.gguf: cannot open the file: No such file"), "{error}");
    }
    let error = home.run("run -m MODEL -f no/such.txt").failed(1);
    assert!(error.contains("cannot read the text no/such.txt: No such file"), "{error}");
}

#[test]
fn a_file_that_is_not_gguf_is_named() {
    let home = Home::new();
    write(&home.path("page.gguf"), "<!doctype html>".repeat(10));
    for command in ["run -p x -m", "inspect"] {
        let error = home.run(&format!("{command} page.gguf")).failed(1);
        assert!(error.contains("page.gguf: header") && error.contains("\"GGUF\""), "{error}");
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_counted() {
    let home = Home::new();
    let prompt = "word ".repeat(100);
    let error = home.run_with("run -m MODEL --raw -c 32 -p", &[&prompt]).failed(1);
    assert!(error.contains("32") && error.contains("-c N"), "{error}");
    let error = home.run("run -m MODEL -p x -c 1").failed(1);
    assert!(error.contains("at least 2 tokens") && error.contains("-c N"), "{error}");
    let error = home.run("run -m MODEL -p x -c 4294967295").failed(1);
    assert!(error.contains("`n_ctx` is 4294967295") && error.contains("-c N"), "{error}");
    let ran = home.run("run -m MODEL --raw -p x -c 8 --ignore-eos");
    assert!(ran.stderr.ends_with("the context of 8 tokens is full; -c N makes it larger\n"), "{ran:?}");
    let error = home.run("run -m MODEL --tokens 1,99999").failed(1);
    assert!(error.contains("99999") && error.contains("512"), "{error}");
}

/// What scripts for llama.cpp say is done anyway, is done, or is said to change nothing.
#[test]
fn options_of_llama_cpp_are_accepted() {
    let home = Home::new();
    let args = "-m MODEL -p Hi -n 4 -temp 0";
    let plain = home.run(&format!("run {args}")).quiet();
    let raw = home.run(&format!("run {args} --raw")).quiet();
    assert_ne!(plain, raw);
    for same in [
        "-fa",
        "-fa on",
        "--flash-attn auto",
        "-st",
        "--jinja",
        "--no-mmap",
        "-i",
        "-if",
        "--color",
        "--color off",
        "--no-display-prompt",
        "--no-warmup",
        "-ub 4",
        "-b 2 -ub 4",
        "--simple-io",
        "--log-disable",
        "-ngl -1",
        "--no-context-shift",
        "-ctk f16 -ctv f16",
        "--poll 50",
        "-c 0 -n 4",
    ] {
        for command in ["", "run "] {
            assert_eq!(home.run(&format!("{command}{args} {same}")).quiet(), plain, "{same}");
        }
    }
    for same in ["-no-cnv", "--no-conversation"] {
        assert_eq!(home.run(&format!("{args} {same}")).quiet(), raw, "{same}");
    }
    let ran = home.run(&format!("{args} --mlock -fa --keep 4 -tb 2"));
    insta::assert_snapshot!(ran.stderr, @r"
    --mlock changes nothing: memory is not locked; the system may swap it out
    --keep changes nothing: the system message is always kept
    --threads-batch changes nothing: -t also applies to prompts
    ");
    assert_eq!(ran.ok(), plain);
}

#[test]
fn help_speaks_of_its_own_command() {
    let home = Home::new();
    let chat = home.run("chat --help").quiet();
    assert!(!chat.contains("in -p") && chat.contains("in --system and in messages"), "{chat}");
    let detokenize = home.run("detokenize --help").quiet();
    assert!(detokenize.contains("[IDS]") && !detokenize.contains("Text ["), "{detokenize}");
    assert!(!home.run("tokenize --help").quiet().contains("`detokenize`"));
    assert!(home.run("run --help").quiet().contains("in -p and --system"));
}

/// Only of an option that the command has.
#[test]
fn advice_can_be_followed() {
    let home = Home::new();
    for command in ["run -m MODEL", "trace -m MODEL", "trace", "logits"] {
        assert!(home.run(command).failed(2).contains("use '-f -'"), "{command}");
    }
    assert!(!home.run("quantize").failed(2).contains("-f -"));
}

/// Nobody can be told that stderr is closed, so that is no error.
#[cfg(unix)]
#[test]
fn a_closed_stderr_ends_nothing() {
    let home = Home::new();
    let text = home.run("run -m MODEL --raw -p Hello -n 2 --temp 0").ok();
    for verbose in [true, false] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = home.command("run -m MODEL --raw -p Hello -n 2 --temp 0");
        if verbose {
            command.arg("-v")
        } else {
            command.env("RUSTORCH_DEBUG", "1")
        };
        let output = command.stderr(writer).output().expect("the program starts");
        assert_eq!((output.status.code(), output.stdout), (Some(0), text.clone().into_bytes()));
    }
}
