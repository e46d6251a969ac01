//! Graphics processors: a real one, or Mesa's Vulkan that computes on the processor.
//!
//! Without any these tests say so and pass, unless `RUSTORCH_REQUIRE_GPU` is set.

use serde_json::Value;
use testkit::fixtures::Spec;

use crate::common::{Home, Ran, write};

const QUESTION: &str = "What is the capital of France?";

/// A home on a machine with a Vulkan device; drivers may say things on stderr there.
fn home() -> Option<Home> {
    let home = Home::new();
    let devices = home.run("devices --json").json();
    let has_vulkan = devices.as_array().is_some_and(|all| all.iter().any(|one| one["backend"] == "vulkan"));
    if !has_vulkan {
        assert!(std::env::var_os("RUSTORCH_REQUIRE_GPU").is_none(), "no Vulkan device: {devices}");
        eprintln!("skipped: no Vulkan device");
    }
    has_vulkan.then_some(home)
}

fn answer(home: &Home, options: &str) -> Ran {
    home.run_with(&format!("run --temp 0 -n 10 {options} -p"), &[QUESTION])
}

/// The embedded model has eight layers.
#[test]
fn an_answer_is_the_same_wherever_layers_are() {
    let Some(home) = home() else { return };
    let expected = answer(&home, "--backend cpu").ok();
    assert!(expected.contains("Paris"), "{expected}");
    for options in [
        "--backend vulkan -ngl 1",
        "--backend vulkan -ngl 4",
        "--backend vulkan --gpu-layers all",
        "--backend vulkan -ngl 4 -ts 1",
        "--backend hybrid-f32 -ngl 4",
        "--backend hybrid-f32",
    ] {
        assert_eq!(answer(&home, options).ok(), expected, "{options}");
    }
    for options in ["--backend vulkan -ngl 0", "--backend hybrid-f32 -ngl 0"] {
        let ran = answer(&home, options);
        assert_eq!(ran.stderr.lines().count(), 1, "no driver is asked: {}", ran.stderr);
        assert_eq!(ran.ok(), expected, "{options}");
    }
}

#[test]
fn values_are_those_of_the_reference() {
    let Some(home) = home() else { return };
    for side in ["vulkan", "hybrid-f32 -ngl 3"] {
        let ran = home.run(&format!("compare --b reference -p Hello --json --a {side}"));
        assert_eq!(ran.json()["alike"], true, "{side}");
    }
}

#[test]
fn the_demo_model_is_verified_on_the_device() {
    let Some(home) = home() else { return };
    let checked = home.run("verify --backend vulkan --json").json();
    let names: Vec<&str> = (checked["checks"].as_array().expect("an array").iter())
        .filter(|check| check["outcome"] == "good")
        .filter_map(|check| check["name"].as_str())
        .collect();
    for name in ["vulkan: products", "vulkan: logits", "vulkan: token by token", "vulkan: many rows"] {
        assert!(names.contains(&name), "{name}: {checked}");
    }
    assert!(!names.iter().any(|name| name.starts_with("cpu")), "{names:?}");
}

/// The number that is said to fit does, and the next one does not.
#[test]
fn what_does_not_fit_is_refused_with_what_does() {
    let Some(home) = home() else { return };
    let run = |options: &str| home.run(&format!("run --backend vulkan -c 64 -b 16 -n 1 -p Hi {options}"));
    let refused = run("--gpu-memory 3MiB -ngl all");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let said = refused.stderr;
    let part = said.split("use -ngl ").nth(1).expect("advice").split(' ').next().expect("a number");
    let fits: usize = part.parse().expect("a number");
    assert!((1..8).contains(&fits) && said.contains("limit 3.0 MiB"), "{said}");
    let refused = run(&format!("--gpu-memory 3MiB -ngl {}", fits + 1));
    assert!(
        refused.code == Some(1) && refused.stderr.contains("8 layers and the output need"),
        "{refused:?}"
    );
    run(&format!("--gpu-memory 3MiB -ngl {fits}")).ok();
    let auto = run("--gpu-memory 3MiB -v");
    assert!(auto.stderr.contains(&format!("{fits} of 8 layers")), "{auto:?}");
    auto.ok();
    let none = run("--gpu-memory 1KiB -ngl 1").stderr;
    assert!(none.contains("no layer fits") && none.contains("use -ngl 0"), "{none}");
    let none = run("--gpu-memory 1KiB");
    assert!(none.stderr.contains("no memory for a layer of this model"), "{none:?}");
    none.ok();

    let json = home.run("inspect --backend vulkan --gpu-memory 3MiB -c 64 --json").json();
    let device = &json["memory"]["devices"][0];
    assert_eq!((&device["backend"], &device["layers"]), (&"vulkan".into(), &8.into()), "{device}");
    assert!(device["fitting"].as_u64() < Some(8) && device["needed"].as_u64() > Some(3 << 20), "{device}");
    let text = home.run("inspect --backend vulkan -c 64").ok();
    assert!(text.contains("On GPUs") && text.contains("all 8 layers fit"), "{text}");
}

/// One device takes one proportion, which changes nothing; what does not fit is said of the device.
#[test]
fn one_device_takes_all_of_its_share() {
    let Some(home) = home() else { return };
    let run = |options: &str| home.run(&format!("run --backend vulkan -c 64 -b 16 -n 1 -p Hi {options}"));
    let fitting = |options: &str| {
        let ran = run(&format!("--gpu-memory 3MiB -v {options}"));
        let line = ran.stderr.lines().find(|line| line.contains("the model runs on")).map(str::to_owned);
        line.expect("where it runs").split_once("the model runs on").expect("words").1.to_owned()
    };
    assert_eq!(fitting("-ts 2"), fitting(""));
    let refused = run("--gpu-memory 3MiB -ngl all -ts 1");
    assert!(
        refused.code == Some(1)
            && refused.stderr.contains("8 of 8 layers and the output need ")
            && refused.stderr.contains(" on GPU 0, ")
            && refused.stderr.contains("(limit 3.0 MiB)")
            && refused.stderr.contains("use other proportions (-ts), -ngl auto"),
        "{refused:?}"
    );
    let two = "-ts has 2 proportions of layers, but there is 1 GPU: omit some";
    assert!(run("-ts 0,1").failed_after("", 2).contains(two));
    for command in ["inspect", "show"] {
        write(&home.path("demo.gguf"), demo_model::EMBEDDED);
        let facts = |options: &str| {
            home.run(&format!("{command} demo.gguf --backend vulkan --gpu-memory 3MiB -c 64 {options}"))
        };
        // The available memory changes from run to run.
        let lasting = |options: &str| {
            let text = facts(options).ok();
            text.lines().filter(|line| !line.contains("are available")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lasting("-ts 1"), lasting(""), "{command}");
        assert!(facts("-ts 0,1").failed_after("", 2).contains(two), "{command}");
    }
    // A chat goes on without GPUs, and a side without them divides nothing.
    home.pipe("chat --backend vulkan -ts 1 --temp 0 -n 2", "Hi\n/backend cpu\nHo\n").ok();
    let compared = home.run("compare --a vulkan --b reference -ts 1 -p Hello --json");
    assert_eq!(compared.json()["alike"], true);
}

/// A dry run of formats that are not here says what a file of them needs, on the GPU, too.
#[test]
fn where_a_quantisation_fits_is_known() {
    let Some(home) = home() else { return };
    home.run("synth stories260k whole.gguf F16").ok();
    let options = "--backend vulkan -c 64 --json";
    let whole = home.run(&format!("inspect whole.gguf {options}")).json()["memory"]["fits"].clone();
    assert_eq!((&whole["place"], &whole["gpu_layers"]), (&"gpu".into(), &whole["layers"]), "{whole}");
    // The device has kernels for one of them.
    for quant in ["Q8_0", "Q3_K_M"] {
        home.run(&format!("quantize whole.gguf {quant}.gguf {quant}")).ok();
        let own = home.run(&format!("inspect {quant}.gguf {options}")).json()["memory"].clone();
        let rows = whole["quantised"].as_array().expect("an array");
        let row = rows.iter().find(|row| row["type"] == quant).expect("it is one of them");
        assert_eq!(
            (&row["memory"], &row["gpu_memory"]),
            (&own["total"], &own["devices"][0]["needed"]),
            "{quant}"
        );
    }
    write(&home.path("demo.gguf"), demo_model::EMBEDDED);
    let fits = home.run("inspect demo.gguf --backend vulkan --gpu-memory 3MiB -c 64 --json").json();
    let fitting = &fits["memory"]["devices"][0]["fitting"];
    let shown = home.run("show demo.gguf --backend vulkan --gpu-memory 3MiB -c 64 --json").json();
    let model = &shown["models"][0];
    assert_eq!((&model["place"], &model["gpu_layers"]), (&"gpu+cpu".into(), fitting), "{shown}");
    assert_eq!(shown["gpus"][0]["memory"], "limit 3.0 MiB");
    let text = home.run("show demo.gguf --backend vulkan --gpu-memory 3MiB -c 64").ok();
    assert!(
        text.contains("GPU MEMORY") && text.contains(&format!("GPU+CPU ({fitting} of 8 layers)")),
        "{text}"
    );
    let text = home.run("show demo.gguf --backend cpu").ok();
    assert!(!text.contains("GPU") && text.contains("yes"), "{text}");
}

/// What all logits, and every value of a step, take is counted before layers are placed.
#[test]
fn what_fits_leaves_room_for_what_is_read() {
    let Some(home) = home() else { return };
    let needed = &home.run("inspect --backend vulkan -c 256 --json").json()["memory"]["devices"][0]["needed"];
    let needed = needed.as_u64().expect("bytes");
    let memory = |bytes: u64| format!("--backend vulkan -c 256 --gpu-memory {bytes}");
    let text = write(&home.path("text.txt"), "The sun rose over the harbour. ".repeat(60));
    let perplexity = |bytes: u64, gpu_layers: &str| {
        let args = format!("perplexity --chunks 1 --json {} -ngl {gpu_layers} -f", memory(bytes));
        home.run_with(&args, &[text.to_str().expect("text")])
    };
    perplexity(needed, "auto").ok();
    perplexity(needed / 5 * 7, "auto").ok();
    let refused = perplexity(needed / 5 * 7, "all");
    assert!(
        refused.code == Some(1) && refused.stderr.contains("8 of 8 layers and the output need "),
        "{refused:?}"
    );
    home.run(&format!("run --debug -n 1 -p Hi {}", memory(needed))).ok();
    let plain = home.run(&format!("run -n 1 -p Hi -v {}", memory(needed)));
    assert!(plain.stderr.contains("all 8 layers"), "{}", plain.stderr);
    plain.ok();
}

#[test]
fn the_benchmark_says_where_layers_are() {
    let Some(home) = home() else { return };
    let rows = home.run("bench --backend vulkan -p 4 -n 2 -r 1 -t 1 --no-ceilings -o json").json();
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["backend"].as_str().is_some_and(|name| name.starts_with("vulkan (")), "{row}");
        assert_eq!((&row["gpu_layers"], &row["ceiling"]), (&8.into(), &Value::Null), "{row}");
    }
}

#[test]
fn the_benchmark_says_what_kernels_take() {
    let Some(home) = home() else { return };
    let rows = home.run("bench --backend vulkan --kernels -p 9 -n 0 -r 1 -t 1 --no-ceilings -o json").json();
    let kernels = rows[0]["kernels"].as_array().expect("kernels");
    let of = |name: &str| {
        kernels.iter().find(|kernel| kernel["what"].as_str().is_some_and(|w| w.starts_with(name)))
    };
    let attention = of("attention").expect("there is attention");
    // Eight layers, and by hand: 45 pairs of positions, 8 heads of 32 columns of queries and of values.
    assert_eq!(attention["calls"], 8, "{attention}");
    assert_eq!(attention["multiply_adds"], 8 * 45 * 8 * 2 * 32, "{attention}");
    assert!(attention["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{attention}");
    assert!(of("embed").is_some_and(|embed| embed["calls"] == 1), "{kernels:?}");
}

#[test]
fn a_chat_moves_from_one_to_the_other() {
    let Some(home) = home() else { return };
    let ran = home.pipe(
        "chat -m MODEL --temp 0 -n 2",
        "Hi\n/backend vulkan\n/stats\nHo\n/backend cpu\nHey\n/save talk.json\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in ["running on backend vulkan", "on the device", "running on backend cpu"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let saved = std::fs::read_to_string(home.path("talk.json")).expect("the conversation");
    let saved: Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(saved["messages"].as_array().or(saved.as_array()).map(Vec::len), Some(6), "{saved}");
}

#[test]
fn formats_without_kernels_are_told() {
    if home().is_none() {
        return;
    }
    let home = Home::with(&Spec { layers: 1, ..Spec::new(quant::Format::IQ4_XS) });
    let ran = home.run("run -m MODEL --raw -p Hi -n 1 --backend vulkan -v");
    let line = ran.stderr.lines().find(|line| line.contains("the model is ready")).expect("a line");
    assert!(
        line.contains("on the device, of which ") && line.contains(" of IQ4_XS converted to F16"),
        "{line}"
    );
}

/// A backend that is named is never replaced in silence; `auto` is whatever there is.
#[test]
fn what_is_not_there_is_said() {
    let home = Home::new();
    let absent = if cfg!(target_vendor = "apple") { "vulkan" } else { "metal" };
    for command in ["run -p Hi -n 1", "verify"] {
        let ran = home.run(&format!("{command} --backend {absent}"));
        assert!(
            ran.code == Some(1) && ran.stderr.contains(&format!("there is no {absent} device")),
            "{ran:?}"
        );
    }
    let mut command = home.command("run --temp 0 -n 10 -p");
    let ran = Ran::from(command.arg(QUESTION).env_remove("RUSTORCH_BACKEND").output().expect("it starts"));
    assert!(ran.ok().contains("Paris"));
    write(&home.path(".config/rustorch/config.toml"), "gpu-layers = 4\ngpu-memory = '2GiB'\n");
    assert!(answer(&home, "--backend cpu").ok().contains("Paris"));
    write(&home.path(".config/rustorch/config.toml"), "gpu-layers = 'all'\ngpu-memory = 1000000\n");
    assert!(answer(&home, "--backend cpu").ok().contains("Paris"));
    write(&home.path(".config/rustorch/config.toml"), "tensor-split = '3,1'\n");
    let refused = answer(&home, "--backend cpu").failed_after("", 2);
    assert!(refused.contains("-ts divides layers over GPUs, but backend cpu has none"), "{refused}");
    assert!(answer(&home, "--backend cpu -ngl 0").ok().contains("Paris"), "nothing is divided");
    write(&home.path(".config/rustorch/config.toml"), "tensor-split = '3,x'\n");
    assert!(home.run("devices").failed(1).contains("\"x\" is no proportion"));
    write(&home.path(".config/rustorch/config.toml"), "gpu-layers = 'most'\n");
    assert!(home.run("devices").failed(1).contains("expected a number, auto or all"));
}
