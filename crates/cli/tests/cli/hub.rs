//! Models by name: from a server on this machine, and from other programs' folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::hub::{Hub, sha256};

use crate::common::{Home, Ran, write};

const REPO: &str = "user/Model-GGUF";

/// A home and a hub with its model in two quantisations.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) hub: Hub,
}

impl World {
    pub(crate) fn new() -> World {
        let world = World { home: Home::new(), hub: Hub::start() };
        for file in ["Model-Q4_K_M.gguf", "Model-Q8_0.gguf"] {
            world.hub.add(REPO, file, world.model());
        }
        world.hub.add(REPO, "mmproj-F16.gguf", world.model());
        world.hub.add(REPO, "README.md", "A model");
        world
    }

    /// The bytes of the model.
    pub(crate) fn model(&self) -> Vec<u8> {
        fs::read(&self.home.model).expect("the model")
    }

    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = self.home.command(args);
        command
            .env("HF_HOME", self.home.path("hf"))
            .env("HF_ENDPOINT", &self.hub.endpoint)
            .env("NO_PROXY", "127.0.0.1");
        command
    }

    pub(crate) fn run(&self, args: &str) -> Ran {
        Ran::from(self.command(args).output().expect("the program starts"))
    }

    /// What the model answers when it is named by these arguments, and what is said meanwhile.
    #[track_caller]
    fn answers(&self, args: &str) -> String {
        let expected = self.home.run("run -m MODEL -p Hello -n 4 --temp 0").quiet();
        let ran = self.run(&format!("run {args} -p Hello -n 4 --temp 0"));
        assert_eq!((ran.code, &*ran.stdout), (Some(0), &*expected), "{args}: {}", ran.stderr);
        ran.stderr
    }

    fn snapshot(&self) -> PathBuf {
        self.home.path("hf/hub/models--user--Model-GGUF/snapshots").join(self.hub.commit(REPO))
    }
}

/// Everything in `folder`, with sizes and times of change.
fn state(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let metadata = entry.metadata().expect("metadata");
        found.push((entry.path(), metadata.len(), metadata.modified().expect("a time")));
        if metadata.is_dir() {
            found.extend(state(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_model_is_pulled_used_listed_and_removed() {
    let world = World::new();
    let path = world.run("pull user/Model-GGUF").ok();
    assert_eq!(Path::new(path.trim()), world.snapshot().join("Model-Q4_K_M.gguf"));
    let again = world.run("pull user/Model-GGUF --json").json();
    assert_eq!((&again["name"], &again["quant"]), (&json!("user/Model-GGUF:Q4_K_M"), &json!("Q4_K_M")));
    assert_eq!(
        (&again["commit"], &again["files"][0]["transferred"]),
        (&json!(world.hub.commit(REPO)), &json!(0))
    );
    world.hub.seen();
    assert_eq!(world.answers("-m user/Model-GGUF"), "");
    assert_eq!(world.answers("user/Model-GGUF:q4_k_m"), "");
    assert_eq!(world.run("where user/Model-GGUF").quiet(), path);
    let listed = world.run("list").ok();
    assert!(listed.contains("user/Model-GGUF:Q4_K_M") && listed.contains("Hugging Face"), "{listed}");
    let listed = world.run("list --json").json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["files"], json!([path.trim()]));
    assert_eq!(world.hub.seen(), [], "what is here needs no network");

    let refused = world.run("rm user/Model-GGUF").failed(2);
    assert!(refused.contains("--yes") && refused.contains("user/Model-GGUF:Q4_K_M"), "{refused}");
    world.run("rm user/Model-GGUF --yes").ok();
    assert!(!world.home.path("hf/hub/models--user--Model-GGUF").exists());
    assert!(world.run("list").ok().is_empty());
    assert!(world.run("rm user/Model-GGUF --yes").failed(1).contains("not on this machine"));
    assert!(world.run("where user/Model-GGUF").failed(1).contains("rustorch pull user/Model-GGUF"));
}

#[test]
fn a_model_that_is_not_here_is_pulled_on_demand() {
    let world = World::new();
    let error = world.run("run user/Model-GGUF:Q8_0 -p Hello").failed(1);
    assert!(error.contains("`rustorch pull user/Model-GGUF:Q8_0`") && error.contains("--yes"), "{error}");
    assert_eq!(world.hub.seen(), []);
    world.answers("user/Model-GGUF:Q8_0 --yes");
    // The usual one is not here, but this one is.
    assert_eq!(world.answers("user/Model-GGUF"), "");
    assert_eq!(world.run("where user/Model-GGUF").quiet(), world.run("where user/Model-GGUF:Q8_0").quiet());
    world.run("pull user/Model-GGUF").ok();
    world.run("rm user/Model-GGUF:Q8_0 --yes").ok();
    assert_eq!(world.answers("user/Model-GGUF"), "");
}

#[test]
fn repositories_and_addresses_have_many_spellings() {
    let world = World::new();
    for name in [
        "hf.co/user/Model-GGUF",
        "https://huggingface.co/user/Model-GGUF",
        "https://huggingface.co/user/Model-GGUF/blob/main/Model-Q4_K_M.gguf",
        "hf.co/user/Model-GGUF:model-q4_k_m.gguf",
        &format!("user/Model-GGUF@{}", world.hub.commit(REPO)),
    ] {
        world.answers(&format!("-m {name} --yes"));
    }
    assert_eq!(fs::read_dir(world.snapshot()).expect("a snapshot").count(), 1);
    assert!(world.run("where user/Model-GGUF@v1").failed(1).contains("rustorch pull user/Model-GGUF@v1"));
    let address = format!("{}/user/Model-GGUF/Model-Q8_0.gguf", world.hub.files);
    assert!(world.run(&format!("run -m {address} -p Hello")).failed(1).contains("--yes"));
    let path = world.run(&format!("pull {address}")).ok();
    assert_eq!(fs::read(path.trim()).expect("the file"), world.model());
    world.hub.seen();
    assert_eq!(world.answers(&format!("-m {address}")), "");
    assert_eq!(world.hub.seen(), []);
    assert!(world.run("list").ok().contains(&address));
    world.run(&format!("rm {address} --yes")).ok();
    assert!(!Path::new(path.trim()).exists());
}

#[test]
fn options_of_llama_cpp_download() {
    let world = World::new();
    assert!(world.run("run -hf user/Model-GGUF --offline -p Hello").failed(1).contains("--offline"));
    world.answers("-hf user/Model-GGUF");
    world.answers("-hf user/Model-GGUF:Q8_0");
    world.answers("-hfr user/Model-GGUF -hff Model-Q8_0.gguf");
    world.answers("-hf user/Model-GGUF --offline");
    world.answers(&format!("-mu {}/user/Model-GGUF/Model-Q8_0.gguf", world.hub.files));
    assert!(world.run("run -hff x.gguf -p Hello").failed(2).contains("--hf-repo"));
    // A variable is overridden.
    let mut command = world.command("run user/Model-GGUF -p Hello -n 1");
    Ran::from(command.env("RUSTORCH_MODEL", "no/such.gguf").output().expect("it starts")).quiet();
}

#[test]
fn short_names_stand_for_repositories() {
    let world = World::new();
    world.hub.add("Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf", world.model());
    let ran = world.run("run qwen3:0.6b -p Hello");
    assert!(ran.code == Some(1) && ran.stderr.contains("`rustorch pull qwen3:0.6b`"), "{ran:?}");
    let said = world.answers("qwen3:0.6b --yes");
    assert!(said.contains("qwen3:0.6b is Qwen/Qwen3-0.6B-GGUF:Q8_0"), "{said}");
    world.run("rm qwen3:0.6b --yes").ok();
    assert!(world.run("pull qwen3:0.6b").ok().contains("Qwen3-0.6B-Q8_0.gguf"));
    write(&world.home.path(".rustorch/models/mine.gguf"), world.model());
    for name in ["mine", "mine.gguf"] {
        assert_eq!(world.answers(name), "");
    }
}

#[test]
fn near_names_are_suggested() {
    let world = World::new();
    world.run("pull user/Model-GGUF").ok();
    for (typed, expected) in [
        ("run qwn3:0.6b -p x", "did you mean qwen3:0.6b?"),
        ("run qwen3:5b -p x", "there are qwen3:8b, qwen3:0.6b"),
        ("run user/Model-GUF -p x", "did you mean user/Model-GGUF?"),
        ("pull user/Modl-GGUF", "did you mean user/Model-GGUF?"),
        ("where frobnicate", "`rustorch list`"),
        ("pull user/Model-GGUF:Q5_K_M", "it has Q4_K_M"),
        ("pull model.gguf/x/y", "expected user/repo"),
    ] {
        let ran = world.run(typed);
        assert!(ran.code != Some(0) && ran.stderr.contains(expected), "{typed}: {}", ran.stderr);
    }
    world.hub.add("user/Text", "README.md", "Hello");
    assert!(world.run("pull user/Text").failed(1).contains("no GGUF file"));
}

/// As `ollama pull` leaves it.
#[test]
fn models_of_ollama_are_used_in_place() {
    let world = World::new();
    let store = world.home.path(".ollama/models");
    let digest = sha256(&world.model());
    write(&store.join(format!("blobs/sha256-{digest}")), world.model());
    let config =
        json!({ "model_format": "gguf", "model_family": "llama", "file_type": "Q4_K_M" }).to_string();
    write(&store.join(format!("blobs/sha256-{}", sha256(config.as_bytes()))), &config);
    let layer = |kind: &str, digest: &str| json!({ "mediaType": format!("application/vnd.{kind}"), "digest": format!("sha256:{digest}"), "size": 1 });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": layer("docker.container.image.v1+json", &sha256(config.as_bytes())),
        "layers": [layer("ollama.image.license", &digest[..]), layer("ollama.image.model", &digest)],
    });
    for name in [
        "registry.ollama.ai/library/mine/latest",
        "registry.ollama.ai/library/llama3.2/1b",
        "hf.co/some/repo/Q4_K_M",
    ] {
        write(&store.join("manifests").join(name), manifest.to_string());
    }
    let missing =
        json!({ "layers": [layer("ollama.image.model", &"0".repeat(64)), layer("x", "../../etc/passwd")] });
    write(&store.join("manifests/registry.ollama.ai/library/gone/latest"), missing.to_string());
    let before = state(&store);

    for name in ["mine", "mine:latest", "llama3.2:1b"] {
        let said = world.answers(name);
        assert!(said.contains("from ollama"), "{said}");
    }
    world.answers("hf.co/some/repo:Q4_K_M");
    let listed = world.run("list --json").json();
    let names: Vec<_> = listed.as_array().into_iter().flatten().map(|held| &held["name"]).collect();
    assert_eq!(names, ["hf.co/some/repo:Q4_K_M", "llama3.2:1b", "mine:latest"]);
    assert_eq!((&listed[1]["quant"], &listed[1]["from"]), (&json!("Q4_K_M"), &json!("ollama")));
    assert!(world.run("rm mine --yes").failed(1).contains("`ollama rm mine:latest`"));
    assert_eq!(state(&store), before);

    let elsewhere = world.home.path("elsewhere");
    fs::rename(&store, &elsewhere).expect("moved");
    let mut command = world.command("where mine");
    let path = Ran::from(command.env("OLLAMA_MODELS", &elsewhere).output().expect("it starts")).ok();
    assert_eq!(Path::new(path.trim()), elsewhere.join(format!("blobs/sha256-{digest}")));
}

#[test]
fn models_of_lm_studio_are_used_in_place() {
    let world = World::new();
    let folder = world.home.path(".lmstudio/models");
    write(&folder.join("maker/Thing-GGUF/Thing-Q4_K_M.gguf"), world.model());
    write(&folder.join("maker/Thing-GGUF/mmproj-F16.gguf"), world.model());
    let before = state(&folder);
    world.answers("maker/Thing-GGUF");
    let listed = world.run("list").ok();
    assert!(listed.contains("maker/Thing-GGUF:Q4_K_M") && listed.contains("LM Studio"), "{listed}");
    assert!(world.run("rm maker/Thing-GGUF --yes").failed(1).contains("LM Studio"));
    assert_eq!(state(&folder), before);
}

#[test]
fn memory_is_known_before_a_download() {
    let world = World::new();
    let shown = world.run("show user/Model-GGUF --json -c 64").json();
    assert_eq!((&shown["architecture"], &shown["license"]), (&json!("llama"), &json!("apache-2.0")));
    let names: Vec<_> =
        shown["models"].as_array().into_iter().flatten().map(|model| &model["name"]).collect();
    assert_eq!(names, ["user/Model-GGUF:Q4_K_M", "user/Model-GGUF:Q8_0"]);
    let inspected = world.home.run("inspect MODEL --json -c 64").json();
    assert_eq!(shown["models"][0]["memory"], inspected["memory"]["total"]);
    for model in shown["models"].as_array().expect("models") {
        assert_eq!((&model["fits"], &model["path"]), (&json!(true), &Value::Null));
    }
    assert!(!world.home.path("hf").exists(), "nothing is downloaded");
    let shown = world.run("show user/Model-GGUF --json --memory 1").json();
    assert_eq!(shown["models"][0]["fits"], json!(false));
    let text = world.run("show user/Model-GGUF").ok();
    assert!(text.contains("user/Model-GGUF:Q8_0") && text.contains("MEMORY"), "{text}");
    world.run("pull user/Model-GGUF").ok();
    let shown = world.run("show user/Model-GGUF --json").json();
    assert!(shown["models"][0]["path"].is_string() && shown["models"][1]["path"].is_null());
    let shown = world.run("show MODEL --json -c 64").json();
    assert_eq!(shown["models"][0]["memory"], inspected["memory"]["total"]);
}

/// What a quantisation takes is known from the header of another one, and which of them to take.
#[test]
fn the_quantisation_that_fits_best_is_named() {
    let world = World::new();
    let repo = "user/Quants-GGUF";
    let mut totals = Vec::new();
    for quant in ["F16", "Q8_0", "Q5_0", "Q4_K_M"] {
        let file = format!("Quants-{quant}.gguf");
        world.home.run(&format!("quantize MODEL {file} {quant}")).ok();
        let memory = world.home.run(&format!("inspect {file} -c 64 --json")).json()["memory"].clone();
        let [total, allocated] = ["total", "allocated"].map(|key| memory[key].as_u64().expect("bytes"));
        totals.push((format!("{repo}:{quant}"), total, allocated));
        world.hub.add(repo, &file, fs::read(world.home.path(&file)).expect("the file"));
    }
    let shown = world.run(&format!("show {repo} -c 64 --json")).json();
    for (name, total, _) in &totals {
        let models = shown["models"].as_array().expect("models");
        let model = models.iter().find(|model| model["name"] == **name).expect("it is listed");
        let memory = model["memory"].as_u64().expect("bytes");
        assert!(memory.abs_diff(*total) <= total / 100, "{name}: {memory} instead of {total}");
        assert_eq!((&model["place"], &model["gpu_layers"]), (&json!("cpu"), &json!(0)), "{model}");
    }
    assert_eq!(shown["best"], json!(format!("{repo}:Q8_0")), "F16 is larger, but not quantised");
    let needed = |quant: &str| {
        let found = totals.iter().find(|(name, ..)| name.ends_with(quant));
        found.map(|(_, _, allocated)| *allocated).expect("it is one of them")
    };
    // Between the needs of two.
    let limit = (needed("Q8_0") + needed("Q5_0")) / 2;
    let text = world.run(&format!("show {repo} -c 64 --memory {limit}")).ok();
    assert!(text.contains(&format!("best that fits: {repo}:Q5_0 (the largest;")), "{text}");
    let fits = |quant: &str| {
        let line = text.lines().find(|line| line.contains(&format!(":{quant} "))).expect("a line");
        line.trim_end().ends_with("yes")
    };
    assert_eq!(["F16", "Q8_0", "Q5_0", "Q4_K_M"].map(fits), [false, false, true, true], "{text}");
    let none = world.run(&format!("show {repo} --memory 1KiB")).ok();
    assert!(none.contains("none fits; a smaller context (-c N)"), "{none}");
    // A file says the same of the quantisations that it may get.
    let inspected = world.home.run("inspect MODEL -c 64 --json").json()["memory"]["fits"].clone();
    let rows = inspected["quantised"].as_array().expect("an array");
    let row = rows.iter().find(|row| row["type"] == "Q8_0").expect("it is one of them");
    let total = totals.iter().find(|(name, ..)| name.ends_with("Q8_0")).expect("it is one of them").1;
    assert!(row["memory"].as_u64().is_some_and(|memory| memory.abs_diff(total) <= total / 100), "{row}");
    assert_eq!(inspected["best"], "Q8_0");
    let text = world.home.run("inspect MODEL").ok();
    assert!(text.contains("After `rustorch quantize") && text.contains("best that fits: Q8_0"), "{text}");
    let quantised = world.home.run("inspect Quants-Q8_0.gguf").ok();
    assert!(!quantised.contains("best that fits"), "{quantised}");
}

#[test]
fn split_files_come_together() {
    let world = World::new();
    // Random bytes are enough: nothing opens them.
    for number in 1..=3 {
        world.hub.add(
            "user/Split-GGUF",
            &format!("Q8_0/Split-Q8_0-0000{number}-of-00003.gguf"),
            vec![number; 2000],
        );
    }
    let pulled = world.run("pull user/Split-GGUF --json").json();
    assert_eq!(pulled["files"].as_array().map(Vec::len), Some(3), "{pulled}");
    let path = world.run("where user/Split-GGUF:q8_0").quiet();
    assert!(path.trim().ends_with("Q8_0/Split-Q8_0-00001-of-00003.gguf"), "{path}");
    world.run("rm user/Split-GGUF --yes").ok();
    assert!(!world.home.path("hf/hub/models--user--Split-GGUF").exists());
}

#[test]
fn choices_are_said_aloud() {
    let world = World::new();
    for file in ["Big-Q8_0.gguf", "Small-Q8_0.gguf", "Big-F16.gguf"] {
        world.hub.add("user/Two-GGUF", file, world.model());
    }
    let ran = world.run("pull user/Two-GGUF");
    for said in ["has no Q4_K_M: taking Q8_0", "taking Big-Q8_0.gguf; others in Q8_0 are Small-Q8_0.gguf"] {
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
    let shown = world.run("show user/Two-GGUF --json").json();
    let is_here = |model: &Value| model["path"].is_string();
    let here: Vec<_> = shown["models"].as_array().into_iter().flatten().map(is_here).collect();
    assert_eq!(here, [false, true, false], "{shown}");
    let ran = world.run("pull user/Two-GGUF:Small-Q8_0.gguf");
    assert!(!ran.stderr.contains("taking") && ran.stdout.contains("Small-Q8_0.gguf"), "{ran:?}");
    let listed = world.run("list --json").json();
    let names: Vec<_> = listed.as_array().into_iter().flatten().map(|held| &held["name"]).collect();
    assert_eq!(names, ["user/Two-GGUF:Big-Q8_0.gguf", "user/Two-GGUF:Small-Q8_0.gguf"]);
    assert_eq!(world.answers("user/Two-GGUF:Small-Q8_0.gguf"), "");
}

#[test]
fn errors_of_the_hub_are_one_sentence() {
    let world = World::new();
    world.hub.behave(|behaviour| behaviour.is_gated = true);
    let error = world.run("pull user/Model-GGUF").failed(1);
    let page = format!("{}/user/Model-GGUF", world.hub.endpoint);
    assert!(error.contains(&page) && error.contains("HF_TOKEN"), "{error}");
    let mut command = world.command("pull user/Model-GGUF");
    Ran::from(command.env("HF_TOKEN", "hf_member").output().expect("it starts")).ok();
    let mut command = world.command("pull user/Model-GGUF");
    let error = Ran::from(command.env("HF_TOKEN", "hf_wrong").output().expect("it starts")).failed(1);
    assert!(error.contains("refuses the token of HF_TOKEN") && !error.contains("hf_wrong"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    let mut command = world.command("pull user/Model-GGUF:Q8_0");
    let error = Ran::from(command.env("HF_HUB_OFFLINE", "1").output().expect("it starts")).failed(1);
    assert!(error.contains("HF_HUB_OFFLINE"), "{error}");
}

/// A kill, and then Ctrl-C, in the middle of a transfer.
#[cfg(unix)]
#[test]
fn a_pull_that_was_killed_continues() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::process::Stdio;

    let world = World::new();
    let bytes: Vec<u8> = (0..24_u32 << 20).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    world.hub.add("user/Large-GGUF", "Large-Q4_K_M.gguf", bytes.clone());
    let repo = world.home.path("hf/hub/models--user--Large-GGUF");
    for (signal, code) in [(Signal::SIGKILL, None), (Signal::SIGINT, Some(130))] {
        world.hub.behave(|behaviour| behaviour.pace = Duration::from_millis(20));
        let journal = || {
            let files = fs::read_dir(repo.join("blobs")).into_iter().flatten().flatten();
            let journal =
                files.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(".journal"));
            journal.and_then(|path| fs::read_to_string(path).ok()).map_or(0, |text| text.lines().count())
        };
        let before = journal();
        let mut command = world.command("pull user/Large-GGUF");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // Four parts of chunks: no chunk needs to be complete.
        while journal() < before.max(1) + 4 {
            assert_eq!(child.try_wait().expect("a child"), None, "it ended early");
            std::thread::sleep(Duration::from_millis(10));
        }
        kill(Pid::from_raw(child.id().try_into().expect("a process")), signal).expect("killed");
        assert_eq!(child.wait().expect("it ends").code(), code);
        assert!(!repo.join("snapshots").join(world.hub.commit("user/Large-GGUF")).exists());
    }
    world.hub.behave(|behaviour| behaviour.pace = Duration::ZERO);
    let ran = world.run("pull user/Large-GGUF --json");
    assert!(ran.stderr.contains("continuing after"), "{}", ran.stderr);
    let pulled = ran.json();
    assert_eq!(fs::read(pulled["files"][0]["path"].as_str().expect("a path")).expect("the file"), bytes);
    assert!(pulled["files"][0]["transferred"].as_u64() <= Some(22 << 20), "{pulled}");
}
