//! `run` and `logits`.

use std::io::Read;
use std::process::Stdio;

use testkit::fixtures::Spec;

use crate::common::{Home, Ran, ids, write};

#[test]
fn only_text_goes_to_stdout() {
    let home = Home::new();
    let text = home.run_with("run -m MODEL --raw -n 8 --temp 0 -p", &["Hello"]).quiet();
    let json = home.run_with("run -m MODEL --raw -n 8 --temp 0 --json -v -p", &["Hello"]).json();
    assert_eq!(Some(&*text), json["text"].as_str().map(|text| format!("{text}\n")).as_deref());
}

#[test]
fn the_summary_is_on_its_own_line() {
    let home = Home::new();
    let args = "run -m MODEL --raw -n 8 --temp 0 -p Hello";
    let text = home.run(args).quiet();
    let both = std::fs::File::create(home.path("both.txt")).expect("a file");
    let mut command = home.command(&format!("{args} -v"));
    command.stdout(both.try_clone().expect("a second handle")).stderr(both);
    assert!(command.status().expect("the program starts").success());
    let both = std::fs::read_to_string(home.path("both.txt")).expect("UTF-8");
    assert!(both.contains(&format!("{text}prompt: ")), "{both:?}");
}

/// Where weights are is a flag, a variable or a setting, and changes no number.
#[test]
fn weights_can_stay_in_the_file() {
    let home = Home::new();
    let args = "run -m MODEL --raw -n 8 --temp 0 -p Hello";
    let text = home.run(args).quiet();
    let in_file = |ran: Ran| {
        let said = ran.stderr.clone();
        assert_eq!(ran.ok(), text);
        said.contains(" in the file and 0 bytes of copies")
    };
    assert!(!in_file(home.run(&format!("{args} -v"))));
    assert!(in_file(home.run(&format!("{args} -v --no-repack"))));
    let mut command = home.command(&format!("{args} -v"));
    assert!(in_file(command.env("RUSTORCH_NO_REPACK", "1").output().expect("the program starts").into()));
    write(&home.path(".config/rustorch/config.toml"), "no-repack = true\n");
    assert!(in_file(home.run(&format!("{args} -v"))));
}

#[test]
fn escapes_of_a_prompt_are_read_when_asked_for() {
    let home = Home::new();
    let ids = |flag: &str, text: &str| {
        home.run_with(&format!("run -m MODEL -n 1 --json {flag} -p"), &[text]).json()["prompt_ids"].clone()
    };
    assert_eq!(ids("-e", r"a\n\tb\\n"), ids("", "a\n\tb\\n"));
    assert_ne!(ids("", r"a\nb"), ids("", "a\nb"));
}

#[test]
fn json_says_everything() {
    let home = Home::new();
    let json = home.run("run -m MODEL --raw -p Hello -n 5 --seed 42 --json").json();
    let prompt = home.run("tokenize -m MODEL --ids Hello").quiet();
    assert_eq!(json["prompt_ids"].to_string(), prompt.trim());
    assert_eq!(ids(&json["ids"]).len(), 5);
    assert_eq!(json["stop_reason"], "max_tokens");
    assert_eq!(json["seed"], 42);
    assert_eq!(json["usage"]["prompt_tokens"], ids(&json["prompt_ids"]).len());
    assert_eq!(json["usage"]["generated_tokens"], 5);
    assert!(json["timings"]["decode_seconds"].as_f64() > Some(0.0));
    assert!(json["model"].as_str().is_some_and(|path| path.ends_with("model.gguf")));
    let again = home.run("run -m MODEL --raw -p Hello -n 5 --seed 42 --json").json();
    assert_eq!(json["ids"], again["ids"]);
}

#[test]
fn a_prompt_comes_from_wherever_one_says() {
    let home = Home::new();
    let tail = "-m MODEL --raw -n 3 --temp 0 --json";
    let expected = home.run(&format!("run -p Hello {tail}")).json()["prompt_ids"].clone();
    write(&home.path("prompt.txt"), "Hello\n");
    assert_eq!(home.run(&format!("run -f prompt.txt {tail}")).json()["prompt_ids"], expected);
    assert_eq!(home.pipe(&format!("run -f - {tail}"), "Hello").json()["prompt_ids"], expected);
    let list = expected.to_string();
    assert_eq!(home.run_with(&format!("run {tail} --tokens"), &[&list]).json()["prompt_ids"], expected);
    assert_eq!(home.run(&format!("{tail} -p Hello")).json()["prompt_ids"], expected, "without a command");
    let empty = home.run_with(&format!("run {tail} -p"), &[""]).json();
    assert_eq!(ids(&empty["prompt_ids"]), [1], "BOS alone");
}

#[test]
fn the_template_is_applied_to_messages() {
    let home = Home::new();
    let prompt_ids =
        |args: &str| ids(&home.run(&format!("run -m MODEL -n 1 --json {args}")).json()["prompt_ids"]);
    let plain = prompt_ids("-p Hi");
    assert_eq!(plain.iter().filter(|id| **id == 2).count(), 1, "the user's message ends with EOS");
    let system = prompt_ids("-p Hi -sys Hello");
    assert_eq!(system.iter().filter(|id| **id == 2).count(), 2);
    let raw = prompt_ids("-p Hi --raw");
    assert!(!raw.contains(&2) && raw.len() < plain.len());
    assert_eq!(prompt_ids("-p </s> --raw --parse-special"), [1, 2]);
    assert!(!prompt_ids("-p </s> --raw").contains(&2), "typed text is no special token");
}

#[test]
fn a_system_message_that_is_not_used_is_said_once() {
    let home = Home::new();
    let spec = Spec { layers: 1, ..Spec::new(quant::Format::F32) };
    let mut metadata = spec.metadata();
    metadata.remove("tokenizer.chat_template");
    let plain = gguf::write(Vec::new(), &metadata, &spec.tensors()).expect("a good model");
    write(&home.path("plain.gguf"), plain);
    for args in ["-m MODEL --raw", "-m plain.gguf"] {
        for command in ["run -n 1 -p Hi", "chat -n 1"] {
            let ran = home.pipe(&format!("{command} {args} -sys Hello"), "Hi\nHi\n");
            let said = ran.stderr.matches("the system message is not used").count();
            assert_eq!((ran.code, said), (Some(0), 1), "{command} {args}: {}", ran.stderr);
            let without = home.pipe(&format!("{command} {args}"), "Hi\nHi\n");
            assert!(!without.stderr.contains("system message"), "{}", without.stderr);
        }
    }
    let ran = home.run("run -m MODEL --tokens 1 -n 1 -sys Hello");
    assert_eq!(ran.stderr, "the system message is not used: the text is used as it is\n");
    home.run("run -m MODEL -p Hi -n 1 -sys Hello").quiet();
}

#[test]
fn a_chat_template_can_be_given() {
    let home = Home::new();
    let template = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
    let file = write(&home.path("template.jinja"), template);
    let ids = |args: &[&str]| ids(&home.run_with("run -m MODEL -n 1 --json", args).json()["prompt_ids"]);
    let expected = ids(&["--raw", "-p", "[Hi]"]);
    assert_ne!(ids(&["-p", "Hi"]), expected);
    assert_eq!(ids(&["-p", "Hi", "--chat-template", template]), expected);
    let file = file.to_str().expect("UTF-8");
    assert_eq!(ids(&["-p", "Hi", "--chat-template-file", file]), expected);
    assert_eq!(ids(&["-p", "Hi", "--chat-template", file]), expected);
    let chatml = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(ids(&["-p", "Hi", "--chat-template", "chatml"]), ids(&["--raw", "-p", chatml]));
    let error = home.run("run -m MODEL -p Hi --chat-template chatm").failed(2);
    assert!(error.contains("chatm\"") && error.contains("chatml, "), "{error}");
    let error = home.run_with("run -m MODEL -p Hi --chat-template", &["{% if %}"]).failed(1);
    assert!(error.contains("template"), "{error}");
}

#[test]
fn sampling_flags_arrive() {
    let home = Home::new();
    let ids =
        |args: &str| ids(&home.run(&format!("run -m MODEL --raw -p Hi -n 6 --json {args}")).json()["ids"]);
    let greedy = ids("--temp 0");
    assert_eq!(ids("-temp=0 --seed 3"), greedy);
    assert_eq!(ids("--temperature 5 --top-k 1 -s -1"), greedy);
    assert_eq!(ids("--temp 5 --top-k 0 --top-p 0"), greedy);
    assert_eq!(ids("--temp 5 --top-k 0 --min-p 1"), greedy);
    assert_ne!(ids("--temp 5 --top-k 0 --top-p 1 --min-p 0 -s 1"), greedy);
    assert!(!ids(&format!("--temp 0 --logit-bias {}-inf", greedy[0])).contains(&greedy[0]));
    assert_eq!(ids("--temp 0 -l 77+100"), [77; 6]);
    let once = ids("--temp 0 -l 77+30 --repeat-penalty 100 --repeat-last-n -1");
    assert_eq!(once.iter().filter(|id| **id == 77).count(), 1, "{once:?}");
    let ends = ids("--temp 0 -l 2+100");
    assert_eq!(ends, [2]);
    assert!(!ids("--temp 0 -l 2+100 --ignore-eos").contains(&2));
}

/// As in llama.cpp, so that an alias of a shell can be overruled.
#[test]
fn the_last_of_repeated_flags_wins() {
    let home = Home::new();
    let answer = |args: &str| {
        let json = home.run(&format!("run -m MODEL --raw -n 6 --json {args}")).json();
        (json["prompt_ids"].clone(), json["ids"].clone(), json["stop_reason"].clone())
    };
    let once = answer("-p Hi --temp 0 --ignore-eos");
    assert_eq!(answer("-m MODEL -p Hello -p Hi --temp 3 --temp 0 --raw --ignore-eos --ignore-eos"), once);
    assert_eq!(answer("-n 1 -p Hi --temperature 2 -temp 0 --ignore-eos -n 6"), once);
    let (_, ids, _) = answer("-p Hi -l 77+100 -l 77-inf -l 78+100");
    assert_eq!(ids, serde_json::json!(vec![78; 6]), "biases add up");
    let text = home.run("run -m MODEL --raw -p Hi -n 6 --temp 0").quiet();
    let first = text.chars().next().expect("a text").to_string();
    for stops in [["-r", &first, "-r", "never"], ["-r", "never", "-r", &first]] {
        let json = home.run_with("run -m MODEL --raw -p Hi -n 6 --temp 0 --json", &stops).json();
        assert_eq!(json["stop_string"], *first);
    }
}

#[test]
fn stop_strings_end_the_text() {
    let home = Home::new();
    let text = home.run("run -m MODEL --raw -p Hi -n 20 --temp 0").quiet();
    let (at, char) = text.char_indices().nth(5).expect("more than five characters");
    let stop = text[at..].chars().take(2).collect::<String>();
    let json = home.run_with("run -m MODEL --raw -p Hi -n 20 --temp 0 --json -r", &[&stop]).json();
    assert_eq!(json["stop_reason"], "stop_string");
    assert_eq!(json["stop_string"], *stop);
    assert!(text.starts_with(json["text"].as_str().expect("text")), "{char}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::new();
    let mut command = home.command("run -m MODEL --raw -p Hi --ignore-eos -n 2000");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut first = [0; 4];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some text");
    let ran = Ran::from(child.wait_with_output().expect("the program ends"));
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_answer() {
    let home = Home::new();
    // The context is longer than it was trained on, so that there is time.
    let mut command = home.command("run -m MODEL --raw -p Hi --ignore-eos -c 100000 -n -1 -v");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).expect("some text");
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("the rest of the text");
    let ran = Ran::from(child.wait_with_output().expect("the program ends"));
    assert_eq!(ran.code, Some(130));
    assert!(ran.stderr.contains("ended by cancelled"), "{}", ran.stderr);
}

/// The values of a float32 `.npy` file and its shape, read by the format's description.
fn npy(bytes: &[u8]) -> (String, Vec<f32>) {
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
    let len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + len) % 64, 0);
    let header = std::str::from_utf8(&bytes[10..10 + len]).expect("ASCII");
    assert!(header.contains("'descr': '<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split(['(', ')']).nth(1).expect("a shape").to_owned();
    let values = bytes[10 + len..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four")));
    (shape, values.collect())
}

#[test]
fn a_file_outlives_logits_that_cannot_be_computed() {
    let home = Home::new();
    let kept = home.path("kept.npy");
    home.run("logits -m MODEL --tokens 1 -o kept.npy").ok();
    let before = std::fs::read(&kept).expect("the file");
    for args in ["--tokens 1,99999 -o kept.npy", "--tokens 1,2,3,4,5 -c 4 -o kept.npy"] {
        let error = home.run(&format!("logits -m MODEL {args}")).failed(1);
        assert!(!error.contains("cannot write"), "{error}");
        assert_eq!(std::fs::read(&kept).expect("the file"), before, "{args}");
    }
    home.run("logits -m MODEL --tokens 99999 -o new.npy").failed(1);
    assert!(!home.path("new.npy").exists());
    home.run("logits -m MODEL --tokens 99999 -o -").failed(1);
    let error = home.run("logits -m MODEL --tokens 1 -o no/such.npy").failed(1);
    assert!(error.contains("no/such.npy") && error.contains("No such file"), "{error}");
}

#[test]
fn logits_do_not_overwrite_their_model() {
    let home = Home::new();
    let model = std::fs::read(&home.model).expect("the model");
    std::fs::hard_link(&home.model, home.path("other name.gguf")).expect("another name");
    for output in ["./model.gguf", "other name.gguf"] {
        let error = home.run_with("logits -m MODEL --tokens 1 -o", &[output]).failed(2);
        assert!(error.contains(&format!("-o would write to {output}, but ")), "{error}");
        assert_eq!(std::fs::read(&home.model).expect("the model"), model);
    }
}

#[test]
fn logits_are_an_array_of_numpys() {
    let home = Home::new();
    let read = |name: &str| npy(&std::fs::read(home.path(name)).expect("a file"));
    home.run("logits -m MODEL --tokens 1,300,301 -o all.npy -b 2").quiet();
    let (shape, all) = read("all.npy");
    assert_eq!((&*shape, all.len()), ("3, 512", 3 * 512));
    home.run("logits -m MODEL --tokens 1,300,301 --last -o last.npy").quiet();
    let (shape, last) = read("last.npy");
    assert_eq!(shape, "1, 512");
    assert_eq!(last, all[2 * 512..]);
    home.run("logits -m MODEL --tokens 1,300,301 --last -o exact.npy --backend reference").quiet();
    let (_, exact) = read("exact.npy");
    let error: f64 = exact.iter().zip(&last).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let power: f64 = exact.iter().map(|a| f64::from(*a).powi(2)).sum();
    assert!(error / power < 1e-5, "{}", error / power);

    home.run("logits -m MODEL --tokens 1,300,301 --last -o f32.npy --cache-type f32").quiet();
    let error: f64 = exact.iter().zip(&read("f32.npy").1).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    assert!(error / power < 1e-9, "with the KV cache in f32: {}", error / power);

    let top = home.run("logits -m MODEL --tokens 1,300,301 --json").json();
    let best = last.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    assert_eq!(top["top"].as_array().map(Vec::len), Some(10));
    let id = top["top"][0]["id"].as_u64().expect("an id") as usize;
    assert_eq!(last[id], best);
    let lines = home.run("logits -m MODEL --tokens 1,300,301").quiet();
    assert_eq!(lines.lines().count(), 10);
    assert!(lines.trim_start().starts_with(&id.to_string()), "{lines}");
}

#[test]
fn a_text_alone_is_a_prompt_for_the_default_model() {
    let home = Home::new();
    let options = "-n 3 --temp 0 --json";
    let prompt = |ran: Ran| ran.json()["prompt_ids"].clone();
    let expected = prompt(home.run_with(&format!("run {options} -p"), &["Why is it so?"]));
    for command in ["run", ""] {
        let args = format!("{command} {options}");
        assert_eq!(prompt(home.run_with(&args, &["Why is it so?"])), expected, "{command}");
        let ran = prompt(home.run_with(&format!("{args} -m MODEL"), &["Why is it so?"]));
        let named = prompt(home.run_with(&format!("run -m MODEL {options} -p"), &["Why is it so?"]));
        assert_eq!(ran, named, "{command} with a model");
        let ran = prompt(home.run_with(&format!("{command} MODEL {options}"), &["Why is it so?"]));
        assert_eq!(ran, named, "{command} after a model");
    }
    assert_eq!(
        prompt(home.run(&format!("run {options} hello"))),
        prompt(home.run(&format!("run {options} -p hello")))
    );
    for unclear in ["run llama77", "run nosuch:7b", "run qwen33", "llama77", "nosuch:7b"] {
        let error = home.run(unclear).failed(2);
        assert!(error.contains("-p") && error.contains("model"), "both ways: {error}");
    }
    let error = home.pipe("run no/such.gguf", "Hi").failed(1);
    assert!(error.contains("no/such.gguf"), "{error}");
}

#[test]
fn a_pipe_follows_the_prompt_or_is_the_prompt() {
    let home = Home::new();
    let options = "-n 3 --temp 0 --json";
    let expected = home.run_with(&format!("run -m MODEL {options} -p"), &["Sum up\n\na b\nc"]).json();
    for args in ["run -m MODEL -p", "run MODEL", "-m MODEL -p", "MODEL", "run -m MODEL"] {
        let mut command = home.command(&format!("{args} {options}"));
        if args.ends_with("-p") {
            command = home.command(&format!("{} {options} -p", args.trim_end_matches(" -p")));
        }
        command
            .arg("Sum up")
            .stdin(std::fs::File::open(write(&home.path("in.txt"), "a b\nc\n")).expect("a file"));
        let ran = Ran::from(command.output().expect("it runs")).json();
        assert_eq!(ran["prompt_ids"], expected["prompt_ids"], "{args}");
    }
    let alone = home.pipe(&format!("run MODEL {options}"), "Hi\n").json();
    let typed = home.run(&format!("run MODEL {options} -p Hi")).json();
    assert_eq!(alone["prompt_ids"], typed["prompt_ids"]);
    let empty = home.pipe(&format!("run MODEL {options} -p Hi"), "").json();
    assert_eq!(empty["prompt_ids"], typed["prompt_ids"]);
    assert!(home.run("run -m MODEL").failed(2).contains("-p TEXT"));
}
