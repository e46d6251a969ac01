//! What must not take the machine down: files that change in use, sizes beyond its memory, text without end.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use quant::Format;
use testkit::fixtures::Spec;

use crate::common::{Home, Ran};

/// The program outlives the signal that reading a lost page raises, and says which file it was.
#[cfg(unix)]
#[test]
fn a_model_truncated_in_use_ends_with_a_sentence() {
    let home = Home::with(&Spec::new(Format::F32));
    let mut command = home.command("chat -m MODEL --no-repack -n 1 --temp 0");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdin.write_all(b"Hello\n").expect("the chat listens");
    stdout.read_line(&mut String::new()).expect("an answer");

    let model = std::fs::OpenOptions::new().write(true).open(&home.model).expect("the model is there");
    model.set_len(4096).expect("it is truncated");
    stdin.write_all(b"Hello\n").expect("the chat listens");
    let ran = Ran::from(child.wait_with_output().expect("the program ends"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("model.gguf: the file was truncated while in use"), "{ran:?}");
}

/// A model that `inspect` reports as too large is refused before anything is allocated; the error has the limit and a remedy.
#[test]
fn a_context_beyond_the_memory_is_refused_by_name() {
    let home = Home::new();
    let inspected = home.run("inspect MODEL -c 4000000000 --json").json();
    let memory = &inspected["memory"];
    let [allocated, available] =
        ["allocated", "available"].map(|key| memory[key].as_u64().expect("a number"));
    assert!(allocated > 1 << 32 && allocated > available, "{memory}");
    let said = home.run("inspect MODEL -c 4000000000").ok();
    assert!(said.contains("does not fit"), "{said}");
    // It warns of a longer context than the model was trained on, too.
    let refused = |args: &str| {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        ran.stderr
    };
    let said = refused("run -m MODEL -p x -n 1 -c 4000000000");
    for part in ["a context of 4000000000 tokens", "the KV cache", "GiB", "free", "-c ", "--memory"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let kv = memory["kv_cache"].as_u64().expect("a number");
    let limited = refused(&format!("run -m MODEL -p x -n 1 -c 4000000000 --memory {}", kv / 2));
    assert!(limited.contains("the KV cache"), "{limited}");
}

/// The context that is said to fit does, and twice that does not; with a smaller type of the cache, more fits.
#[test]
fn a_context_that_is_too_large_is_refused_with_one_that_fits() {
    let home = Home::with(&Spec { layers: 1, hidden: 64, heads: 2, kv_heads: 2, ..Spec::new(Format::F32) });
    let run = |options: &str| home.run(&format!("run -m MODEL -p x -n 1 --memory 24MiB {options}"));
    let refused = run("-c 1000000");
    assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{refused:?}");
    let said = refused.stderr;
    assert_eq!(said.matches("longer than the model was trained on").count(), 1, "{said}");
    assert!(
        said.contains("a context of 1000000 tokens needs ") && said.contains("24.0 MiB are allowed"),
        "{said}"
    );
    let number = |after: &str| {
        let rest = said.split(after).nth(1).unwrap_or_else(|| panic!("{after} in {said}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().expect("a number")
    };
    let (fitting, in_q8_0) = (number("fits is -c "), number("-ctv q8_0 it is -c "));
    assert!(fitting > 4096 && in_q8_0 > fitting + fitting / 2, "{said}");
    run(&format!("-c {fitting}")).ok();
    run(&format!("-c {in_q8_0} -ctk q8_0 -ctv q8_0")).ok();
    // 1/64 is left for what changes, and the number is rounded down.
    assert_eq!(run(&format!("-c {}", fitting + fitting / 32 + 2048)).code, Some(1));
    let in_chat = home.pipe("chat -m MODEL --memory 24MiB -c 1000000", "Hello\n");
    assert!(in_chat.stderr.contains(&format!("fits is -c {fitting}")), "{in_chat:?}");
    // No context helps a model that is too large itself.
    let tiny = home.run("run -m MODEL -p x -n 1 --memory 1KiB -c 64").failed(1);
    assert!(tiny.contains("weights") && !tiny.contains("a context of"), "{tiny}");
}

/// Copies of weights, the KV cache and activations count, what is in the file's map does not.
#[test]
fn a_limit_holds_for_all_that_is_taken() {
    let home = Home::new();
    let memory = home.run("inspect MODEL -c 64 --json").json()["memory"].clone();
    let bytes = |key: &str| memory[key].as_u64().expect("a number");
    let (weights, kv) = (bytes("weights_copied"), bytes("kv_cache"));
    // As `inspect` counts: without -t, threads are those of the cores that are free.
    let threads = std::thread::available_parallelism().expect("a number");
    let run = |more: &str, limit: u64| {
        home.run(&format!("run -m MODEL -p x -n 1 -c 64 -t {threads} {more} --memory {limit}"))
    };
    for (limit, refused) in [
        (weights - 1, "weights packed for vector kernels"),
        (weights + kv - 1, "the KV cache"),
        (bytes("allocated") - 1, "activations"),
    ] {
        let said = run("", limit).failed(1);
        assert!(said.contains(refused), "{refused} in {said}");
    }
    run("", bytes("allocated") + (64 << 20)).ok();
    run("--no-repack", kv + bytes("activations") + (64 << 20)).ok();
}

/// A model may be small as a file and take more than the machine has: a width of 2^18 in 512 rows.
#[test]
fn activations_beyond_the_memory_are_refused_by_name() {
    let wide = Spec { layers: 2, hidden: 32, heads: 1, kv_heads: 1, ffn: 1 << 18, ..Spec::new(Format::Q4_0) };
    let home = Home::with(&wide);
    let refused = home.run("run -m MODEL -p x -n 1 --memory 512MiB").failed(1);
    assert!(refused.contains("activations") && refused.contains("-b N"), "{refused}");
}

/// Text that no context can hold is neither read to its end nor encoded.
#[test]
fn endless_text_is_refused_early() {
    let home = Home::new();
    let endless = "one word and another ".repeat(1 << 19);
    for args in
        ["run -m MODEL -f - -n 1", "run -m MODEL --raw -f - -n 1", "chat -m MODEL", "chat -m MODEL --raw"]
    {
        let refused = home.pipe(args, &endless).failed(1);
        assert!(refused.contains("bytes"), "{args}: {refused}");
    }
    std::fs::write(home.path("endless.txt"), &endless).expect("the file is written");
    let refused = home.run("run -m MODEL -f endless.txt -n 1").failed(1);
    assert!(refused.contains("-c N"), "{refused}");
    // What may fit is encoded, and counted in tokens.
    let refused =
        home.run_with("run -m MODEL --raw -c 8 -n 1 -p", &["one word and another, and more"]).failed(1);
    assert!(refused.contains("has 14 tokens") && refused.contains("context of 8"), "{refused}");
}

/// Commands that need no context limit a text by the memory that tokenizing it takes.
#[cfg(target_os = "linux")]
#[test]
fn a_text_beyond_the_memory_is_refused() {
    let home = Home::new();
    let text = home.path("long.txt");
    std::fs::write(&text, "hello world ".repeat(3 << 20)).expect("a text");
    for command in ["tokenize", "perplexity -f -"] {
        let limited = format!(
            "ulimit -v 1000000; exec {} {command} -m {} < {}",
            env!("CARGO_BIN_EXE_rustorch"),
            home.model.display(),
            text.display()
        );
        let ran = std::process::Command::new("sh").args(["-c", &limited]).output().expect("a shell");
        let ran = Ran::from(ran);
        assert_eq!(ran.code, Some(1), "{command}: {ran:?}");
        assert!(ran.stderr.contains("stdin: it is larger than"), "{command}: {ran:?}");
    }
}
