//! Models by name when something is missing: the network, the disk's space, files of a checkpoint, the right word.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::common::{Ran, write};
use crate::hub::World;

impl World {
    fn run_with(&self, args: &str, variables: &[(&str, &str)]) -> Ran {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        Ran::from(command.output().expect("the program starts"))
    }

    /// A repository with a checkpoint: its text files and weights are no real ones.
    fn add_checkpoint(&self, repo: &str, without: &str) {
        for (name, bytes) in [
            ("config.json", r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}"#.to_owned()),
            ("tokenizer.json", "{}".to_owned()),
            ("model.safetensors", "x".repeat(5000)),
        ] {
            if name != without {
                self.hub.add(repo, name, bytes);
            }
        }
    }
}

const OFFLINE: &[(&str, &str)] = &[("HF_HUB_OFFLINE", "1")];

#[test]
fn without_the_hub_pull_prints_what_is_here() {
    let world = World::new();
    let path = world.run("pull user/Model-GGUF").ok();
    assert_eq!(world.run_with("pull user/Model-GGUF", OFFLINE).ok(), path);
    assert_eq!(world.run("pull user/Model-GGUF:Q4_K_M --offline").ok(), path);
    let pulled = world.run("pull user/Model-GGUF --offline --json").json();
    assert_eq!(pulled["files"][0]["transferred"], json!(0));
    // A port that nobody listens on.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let endpoint = format!("http://{free}");
    let ran = world.run_with("pull user/Model-GGUF", &[("HF_ENDPOINT", &endpoint)]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), &*path), "{ran:?}");
    assert!(
        ran.stderr.contains("cannot be reached") && ran.stderr.contains("taking what is here"),
        "{ran:?}"
    );
    let ran = world.run_with("pull user/Model-GGUF:Q8_0", &[("HF_ENDPOINT", &endpoint)]);
    let error = ran.failed_after("trying again in 1 s", 1);
    assert!(error.contains("cannot be reached"), "{error}");
    let address = format!("{}/user/Model-GGUF/Model-Q8_0.gguf", world.hub.files);
    let path = world.run(&format!("pull {address}")).ok();
    assert_eq!(world.run_with(&format!("pull {address}"), OFFLINE).ok(), path);
}

#[test]
fn advice_offline_works_offline() {
    let world = World::new();
    let offline = |command| world.run_with(command, OFFLINE);
    for error in [
        offline("run user/Model-GGUF -p x").failed(1),
        offline("chat user/Model-GGUF").failed(1),
        offline("run qwen3:0.6b -p x").failed_after("qwen3:0.6b is Qwen/Qwen3-0.6B-GGUF:Q8_0", 1),
        offline("run http://a.org/m.gguf -p x").failed(1),
    ] {
        assert!(error.contains("unset HF_HUB_OFFLINE") && error.contains("--offline"), "{error}");
        assert!(!error.contains("--yes") && !error.contains("rustorch pull"), "{error}");
    }
    // This command takes the advice.
    let error = world.run("export-tokenizer user/Model-GGUF tokenizer").failed(1);
    assert!(error.contains("--yes"), "{error}");
    world.run("export-tokenizer user/Model-GGUF tokenizer --yes").ok();
}

#[test]
fn checkpoints_are_listed_and_removed() {
    let world = World::new();
    world.add_checkpoint("user/Check", "");
    // It is downloaded, and then it is none.
    let error = world.run("convert user/Check out.gguf").failed_after("downloading model.safetensors", 1);
    assert!(error.contains("user/Check/model.safetensors") && !error.contains("snapshots"), "{error}");
    let ran = world.run("list");
    assert!(ran.stdout.contains("\n  user/Check  checkpoint  "), "{ran:?}");
    assert!(ran.stderr.contains("0 models, 1 checkpoint"), "{ran:?}");
    let listed = world.run("list --json").json();
    assert_eq!((&listed[0]["name"], &listed[0]["kind"]), (&json!("user/Check"), &json!("checkpoint")));
    assert!(listed[0]["bytes"].as_u64() > Some(5000), "{listed}");
    assert!(world.run("rm user/Check").failed(2).contains("user/Check"));
    world.run("rm user/Check --yes").ok();
    assert!(!world.home.path("hf/hub/models--user--Check").exists());
    assert!(world.run("list").ok().is_empty());
}

#[test]
fn what_a_checkpoint_lacks_is_known_before_the_download() {
    let world = World::new();
    world.add_checkpoint("user/NoTokenizer", "tokenizer.json");
    world.add_checkpoint("user/Pickled", "model.safetensors");
    world.hub.add("user/Pickled", "pytorch_model.bin", "x".repeat(5000));
    for (repo, said) in [("user/NoTokenizer", "has no tokenizer"), ("user/Pickled", "*.safetensors")] {
        let error = world.run(&format!("convert {repo} out.gguf")).failed(1);
        assert!(error.contains(repo) && error.contains(said), "{error}");
    }
    assert!(world.hub.seen().iter().all(|request| request.line.contains("/api/")));
    assert!(!world.home.path("hf/hub/models--user--Pickled").exists());
}

#[test]
fn checkpoints_lead_to_convert() {
    let world = World::new();
    world.add_checkpoint("user/Check", "");
    let said = "`rustorch convert user/Check OUT.gguf`";
    assert!(world.run("pull user/Check").failed(1).contains(said));
    assert!(world.run("run user/Check -p x --yes").failed(1).contains(said));
    write(&world.home.path("folder/model.safetensors"), "x");
    for model in ["folder", "./folder", "folder/model.safetensors"] {
        let error = world.run(&format!("run -m {model} -p x")).failed(1);
        assert!(error.contains("`rustorch convert ") && error.contains("folder OUT.gguf`"), "{error}");
    }
}

#[test]
fn nothing_is_left_of_an_address_that_is_wrong() {
    let world = World::new();
    let address = format!("{}/user/Model-GGUF/none.gguf", world.hub.files);
    assert!(world.run(&format!("pull {address}")).failed(1).contains("404"));
    world.run_with(&format!("pull {address}"), OFFLINE).failed(1);
    assert!(!world.home.path(".cache/rustorch/models").exists());
}

#[test]
fn names_are_shown_as_they_are_listed() {
    let world = World::new();
    write(&world.home.path(".lmstudio/models/maker/Thing-GGUF/Thing-Q4_K_M.gguf"), world.model());
    let listed = world.run("list --json").json();
    assert_eq!(listed[0]["name"], json!("maker/Thing-GGUF:Q4_K_M"));
    let shown = world.run("show maker/Thing-GGUF:Q4_K_M --json").json();
    assert!(shown["from"].as_str().is_some_and(|from| from.starts_with("LM Studio")), "{shown}");
    assert_eq!(world.hub.seen(), []);
    let shown = world.run("show MODEL --json").json();
    assert_eq!(shown["from"], json!(world.home.model), "a file is from nowhere else");
}

#[test]
fn a_download_that_goes_on_is_not_removed() {
    let world = World::new();
    world.hub.add("user/Large-GGUF", "Large-Q4_K_M.gguf", vec![7; 24 << 20]);
    world.hub.behave(|behaviour| behaviour.pace = Duration::from_millis(20));
    let mut command = world.command("pull user/Large-GGUF");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let blobs: PathBuf = world.home.path("hf/hub/models--user--Large-GGUF/blobs");
    while fs::read_dir(&blobs).into_iter().flatten().count() < 2 {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    for name in ["user/Large-GGUF", "user/Large-GGUF:Q4_K_M"] {
        let error = world.run(&format!("rm {name} --yes")).failed(1);
        assert!(error.contains("another process is downloading a file of user/Large-GGUF"), "{error}");
    }
    assert_eq!(child.try_wait().expect("a child"), None, "it goes on");
    child.kill().and_then(|()| child.wait()).expect("killed");
    world.run("rm user/Large-GGUF --yes").ok();
    assert!(!blobs.exists());
}

#[cfg(unix)]
#[test]
fn an_interrupted_download_says_that_it_continues() {
    use nix::sys::signal::{Signal, kill};

    let world = World::new();
    world.hub.add("user/Large-GGUF", "Large-Q4_K_M.gguf", vec![7; 24 << 20]);
    world.hub.behave(|behaviour| behaviour.pace = Duration::from_millis(20));
    let mut command = world.command("pull user/Large-GGUF");
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let blobs = world.home.path("hf/hub/models--user--Large-GGUF/blobs");
    while fs::read_dir(&blobs).into_iter().flatten().count() < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(nix::unistd::Pid::from_raw(child.id().try_into().expect("a process")), Signal::SIGINT)
        .expect("killed");
    let ran = Ran::from(child.wait_with_output().expect("it ends"));
    assert!(ran.code == Some(130) && ran.stderr.contains("continues where the download stopped"), "{ran:?}");
}

/// A proxy that answers everything with `status`.
fn proxy(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // All of the request: a connection that is closed with unread bytes is reset, and the answer lost.
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        }
    });
    address.to_string()
}

#[test]
fn a_proxy_that_fails_is_named() {
    let world = World::new();
    let pull = |proxy: &str| {
        let value = format!("http://{proxy}");
        let ran = world.run_with("pull user/Model-GGUF", &[("HTTPS_PROXY", &value), ("NO_PROXY", "other")]);
        let error =
            ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default().to_owned();
        assert!(ran.code == Some(1) && error.contains(proxy) && error.contains("HTTPS_PROXY"), "{ran:?}");
        (error, ran.stderr.contains("trying again"))
    };
    let (error, is_repeated) = pull(&proxy("407"));
    assert!(error.contains("user name and a password") && !is_repeated, "{error}");
    let (error, is_repeated) = pull(&proxy("501"));
    assert!(error.contains("status 501") && !is_repeated, "{error}");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    assert!(pull(&free.to_string()).0.contains("does not answer"));
    assert_eq!(world.hub.seen(), []);
}

#[test]
fn the_word_that_was_meant_is_suggested() {
    let world = World::new();
    let error = world.run("run qwn3:0.6b -p x").failed(1);
    assert!(error.trim_end().ends_with("; did you mean qwen3:0.6b?"), "{error}");
    for model in ["modle.gguf", "./modle.gguf"] {
        let error = world.run(&format!("run -m {model} -p x")).failed(1);
        assert!(error.contains("did you mean") && error.contains("model.gguf?"), "{error}");
    }
    let error = world.run("srve").failed(2);
    assert!(error.contains("serve") && !error.contains("where"), "{error}");
    let error = world.run("run user/Model-GGUF").failed(2);
    assert!(error.contains("-p TEXT") && error.contains("rustorch chat user/Model-GGUF"), "{error}");
    let error = world.run("convert a b --type q4_k_m").failed(2);
    assert!(error.contains("rustorch quantize") && error.contains("q8_0"), "{error}");
    let error = world.run_with("pull user/Model-GGUF", &[("HF_ENDPOINT", "nonsense")]).failed(1);
    assert!(error.contains("HF_ENDPOINT is `nonsense`"), "{error}");
}

#[test]
fn the_prompt_may_follow_the_model() {
    let world = World::new();
    let expected = world.home.run("run -m MODEL -p Hello -n 4 --temp 0").quiet();
    assert_eq!(world.home.run("run MODEL Hello -n 4 --temp 0").quiet(), expected);
    assert_eq!(world.home.run_with("run MODEL -n 4 --temp 0", &["Hello"]).quiet(), expected);
    world.home.run("run MODEL Hello -p Hello").failed(2);
    assert!(world.home.run("run MODEL Hello world").failed(2).contains("quotes"));
    world.home.run("chat MODEL Hello").failed(2);
    world.home.run("verify MODEL --json").ok();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_once() {
    let home = crate::common::Home::new();
    crate::convert::checkpoint(&home, &home.path("demo"));
    let error = home.run("convert demo /dev/full").failed(1);
    assert!(error.contains("/dev/full: cannot write it"), "{error}");
    assert_eq!(error.matches("cannot write").count(), 1, "{error}");
}
