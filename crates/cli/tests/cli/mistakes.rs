//! Mistakes of users, and the errors about them.

use crate::common::{Home, write};

/// What is printed about each of these command lines, without usage and pointers to help.
fn errors(home: &Home, commands: &str) -> String {
    let mut all = String::new();
    for args in commands.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let error = home.run(args).failed(2).replace(&home.model.display().to_string(), "MODEL");
        let lines =
            error.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
        all += &format!("$ {args}\n{}\n", lines.join("\n"));
    }
    all
}

#[test]
fn values_of_options_are_checked() {
    let home = Home::new();
    let commands = "
        run -m MODEL -p a --tokens 1,x
        run -m MODEL -p a -n -2
        run -m MODEL -p a -c -1
        -m MODEL -p a -t -1
        run -m MODEL -p a -t 0
        run -m MODEL -p a --temp hot
        run -m MODEL -p a --temp nan
        run -m MODEL -p a --top-p 5
        run -m MODEL -p a --min-p -0.1
        run -m MODEL -p a --repeat-penalty 0
        run -m MODEL -p a --frequency-penalty -2e6
        run -m MODEL -p a -r=
        run -m MODEL -p a -l 5
        run -m MODEL -p a -l 5+nan
        run -m MODEL -p a -b 99999999999999
        run -m MODEL -e -p \\xff
        run -m MODEL -p a --cache-type int4
        run -m MODEL -p a -ngl most
        run -m MODEL -p a -ts half
        run -m MODEL -p a -ts 1,-1
        run -m MODEL -p a -ts -1,1
        run -m MODEL -p a -ts 1,nan
        run -m MODEL -p a -ts 1/inf
        run -m MODEL -p a -ts 3,
        run -m MODEL -p a -ts 0,0
        run -m MODEL -p a -ts 1
        -m MODEL --backend reference -ts 3,1
        bench -m MODEL --backend cpu -ts 3/1
        inspect MODEL --backend cpu -ts 3,1
        -m MODEL --gpu-memory 2QB
        bench -p x
        bench -p 1,,2
        bench -r 0
        bench -o xml";
    insta::assert_snapshot!(errors(&home, commands), @r#"
    $ run -m MODEL -p a --tokens 1,x
    error: invalid value '1,x' for '--tokens <IDS>': "x" is not a token id
    $ run -m MODEL -p a -n -2
    error: invalid value '-2' for '--max-tokens <N>': expected an integer from -1
    $ run -m MODEL -p a -c -1
    error: invalid value '-1' for '--ctx-size <CTX>': expected a number of tokens, or 0 for the training context
    $ -m MODEL -p a -t -1
    error: invalid value '-1' for '--threads <N>': expected a number from 1 to 1024
    $ run -m MODEL -p a -t 0
    error: invalid value '0' for '--threads <N>': expected a number from 1 to 1024
    $ run -m MODEL -p a --temp hot
    error: invalid value 'hot' for '--temperature <T>': expected a number from 0 to 100
    $ run -m MODEL -p a --temp nan
    error: invalid value 'nan' for '--temperature <T>': expected a number from 0 to 100
    $ run -m MODEL -p a --top-p 5
    error: invalid value '5' for '--top-p <P>': expected a number from 0 to 1
    $ run -m MODEL -p a --min-p -0.1
    error: invalid value '-0.1' for '--min-p <P>': expected a number from 0 to 1
    $ run -m MODEL -p a --repeat-penalty 0
    error: invalid value '0' for '--repeat-penalty <X>': expected a number from 0.01 to 100
    $ run -m MODEL -p a --frequency-penalty -2e6
    error: invalid value '-2e6' for '--frequency-penalty <X>': expected a number from -2 to 2
    $ run -m MODEL -p a -r=
    error: invalid value '' for '--stop <TEXT>': expected a text
    $ run -m MODEL -p a -l 5
    error: invalid value '5' for '--logit-bias <ID+BIAS>': expected a token id, a sign and a number, such as 15043+1
    $ run -m MODEL -p a -l 5+nan
    error: invalid value '5+nan' for '--logit-bias <ID+BIAS>': expected a token id, a sign and a number, such as 15043+1
    $ run -m MODEL -p a -b 99999999999999
    error: invalid value '99999999999999' for '--batch-size <N>': expected a number from 1 to 65536
    $ run -m MODEL -e -p \xff
    error: the \x escapes in "\\xff" are not UTF-8
    $ run -m MODEL -p a --cache-type int4
    error: invalid value 'int4' for '--cache-type <TYPE>'
      [possible values: f32, f16, bf16, fp8, q8_0, q4_0]
    $ run -m MODEL -p a -ngl most
    error: invalid value 'most' for '--gpu-layers <N>': expected a number, auto or all
    $ run -m MODEL -p a -ts half
    error: invalid value 'half' for '--tensor-split <N,...>': "half" is no proportion: expected numbers from 0 on, such as 3,1
    $ run -m MODEL -p a -ts 1,-1
    error: invalid value '1,-1' for '--tensor-split <N,...>': "-1" is no proportion: expected numbers from 0 on, such as 3,1
    $ run -m MODEL -p a -ts -1,1
    error: invalid value '-1,1' for '--tensor-split <N,...>': "-1" is no proportion: expected numbers from 0 on, such as 3,1
    $ run -m MODEL -p a -ts 1,nan
    error: invalid value '1,nan' for '--tensor-split <N,...>': "NaN" is no proportion: expected numbers from 0 on, such as 3,1
    $ run -m MODEL -p a -ts 1/inf
    error: invalid value '1/inf' for '--tensor-split <N,...>': "inf" is no proportion: expected numbers from 0 on, such as 3,1
    $ run -m MODEL -p a -ts 3,
    error: invalid value '3,' for '--tensor-split <N,...>': "" is no proportion: expected numbers from 0 on, such as 3,1
    $ run -m MODEL -p a -ts 0,0
    error: invalid value '0,0' for '--tensor-split <N,...>': no proportion is above 0: expected at least one, such as 3,1
    $ run -m MODEL -p a -ts 1
    error: -ts divides layers over GPUs, but backend cpu has none here: omit it, or name a backend that has; `rustorch devices` lists them
    $ -m MODEL --backend reference -ts 3,1
    error: -ts divides layers over GPUs, but backend reference has none here: omit it, or name a backend that has; `rustorch devices` lists them
    $ bench -m MODEL --backend cpu -ts 3/1
    error: -ts divides layers over GPUs, but backend cpu has none here: omit it, or name a backend that has; `rustorch devices` lists them
    $ inspect MODEL --backend cpu -ts 3,1
    error: -ts divides layers over GPUs, but backend cpu has none here: omit it, or name a backend that has; `rustorch devices` lists them
    $ -m MODEL --gpu-memory 2QB
    error: invalid value '2QB' for '--gpu-memory <SIZE>': expected bytes, such as 2GiB or 512MiB
    $ bench -p x
    error: invalid value 'x' for '--n-prompt <N,...>': expected a number from 0 to 1048576
    $ bench -p 1,,2
    error: invalid value '' for '--n-prompt <N,...>': expected a number from 0 to 1048576
    $ bench -r 0
    error: invalid value '0' for '--repetitions <N>': expected a number from 1 to 1000
    $ bench -o xml
    error: invalid value 'xml' for '--output <STYLE>'
      [possible values: table, csv, json]
    "#);
}

#[test]
fn what_was_probably_meant_is_suggested() {
    let home = Home::new();
    let commands = "
        run -m MODEL -p a --tokens 1
        -m MODEL -p a --tempp 1
        run -m MODEL -p a -mg 5
        run -m MODEL -p a -sm row
        -m MODEL -nkvo=99
        logits model.gguf
        -m MODEL -hf some/model
        chat -m MODEL Hello
        perplexity MODEL -f text.txt
        -m MODEL frobnicate
        tokenize -m MODEL Hello world
        run -m MODEL -p Hello world
        frobnicate";
    insta::assert_snapshot!(errors(&home, commands), @r#"
    $ run -m MODEL -p a --tokens 1
    error: the argument '--prompt <TEXT>' cannot be used with '--tokens <IDS>'
    $ -m MODEL -p a --tempp 1
    error: unexpected argument '--tempp' found
      tip: a similar argument exists: '--temp'
    $ run -m MODEL -p a -mg 5
    error: unexpected argument '-mg' found
      tip: to choose GPUs, use '-ts', such as '-ts 0,1' for the second alone
    $ run -m MODEL -p a -sm row
    error: invalid value 'row' for '--split-mode <MODE>'
      [possible values: layer, tensor]
    $ -m MODEL -nkvo=99
    error: unexpected argument '-nkvo' found
      tip: the cache is where its layers are; '-ngl N' leaves layers on the CPU
    $ logits model.gguf
    error: unexpected argument 'model.gguf' found
      tip: to name a model, use '-m model.gguf'
    $ -m MODEL -hf some/model
    error: the argument '--model' cannot be used with '--hf-repo'
    $ chat -m MODEL Hello
    error: unexpected argument 'Hello' found
    $ perplexity MODEL -f text.txt
    error: unexpected argument 'MODEL' found
      tip: to name a model, use '-m MODEL'
    $ -m MODEL frobnicate
    error: unrecognized subcommand 'frobnicate'
      tip: to ask the default model, use '-p frobnicate'
    $ tokenize -m MODEL Hello world
    error: unexpected argument 'world' found
      tip: to give several words as one text, put quotes around them
    $ run -m MODEL -p Hello world
    error: unexpected argument 'world' found
      tip: to give several words as one text, put quotes around them
    $ frobnicate
    error: unrecognized subcommand 'frobnicate'
      tip: to ask the default model, use '-p frobnicate'
    "#);
    assert!(home.run("run -m MODEL -p a --backend gpu").failed(2).contains("invalid value 'gpu'"));
    for args in ["--lora x", "run -p a --chat-templates x", "--main-gpu 1"] {
        let error = home.run(args).failed(2);
        assert!(!error.contains("similar") || error.contains("'--chat-template'"), "{args}: {error}");
    }
    for args in ["frobnicate", "chat -m MODEL Hello", "devices cpu", "tokenize -m MODEL Hello --quux"] {
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
    for command in ["run -p x -m", "run -p x", "chat", "logits --tokens 1 -m", "tokenize x -m", "inspect"] {
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
    --threads-batch changes nothing: -t also applies to prompts
    --keep changes nothing: the system message is always kept
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

/// An alternative, not the advice to ask a model for `ps`.
#[test]
fn commands_of_ollama_are_explained() {
    let home = Home::new();
    for command in ["ps", "stop x", "cp a b", "create x", "push x"] {
        let error = home.run(command).failed(2);
        assert!(error.contains("tip: ") && !error.contains("'-p "), "{command}: {error}");
    }
    let (short, long) = (home.run("ls"), home.run("list"));
    assert_eq!((short.code, short.stderr), (long.code, long.stderr));
}

/// Only of an option that the command has.
#[test]
fn advice_can_be_followed() {
    let home = Home::new();
    for command in ["run -m MODEL", "trace -m MODEL", "trace", "logits"] {
        assert!(home.run(command).failed(2).contains("-f -"), "{command}");
    }
    assert!(!home.run("quantize").failed(2).contains("-f -"));
}

/// A closed stderr cannot be reported, so it is no error.
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
