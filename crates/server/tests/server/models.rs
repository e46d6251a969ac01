//! Several models: loaded when they are asked for, unloaded when others need their place.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Engine, Model, Options};
use gguf::Gguf;
use serde_json::{Value as Json, json};
use server::{Config, Loaded, ModelSource, Server};

use crate::client::{Running, demo, mapped};

/// How often each model was loaded.
struct Loads(Arc<[AtomicUsize]>);

impl Loads {
    fn new(n: usize) -> Loads {
        Loads((0..n).map(|_| AtomicUsize::new(0)).collect())
    }

    fn source(&self, number: usize) -> ModelSource {
        let loads = self.0.clone();
        ModelSource::OnDemand(Arc::new(move || {
            loads[number].fetch_add(1, Ordering::Relaxed);
            Ok(Loaded::Engine(Box::new(demo())))
        }))
    }

    fn counts(&self) -> Vec<usize> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Models `a`, `b`, … of which `max` are loaded at once.
fn server(loads: &Loads, max: usize) -> Running {
    let name = |number: usize| char::from(b'a' + number as u8).to_string();
    let models = (0..loads.0.len()).map(|number| (name(number), loads.source(number))).collect();
    Running::serve(models, |config| config.max_models = max)
}

fn ask(server: &Running, model: &str) -> Json {
    let body = json!({ "model": model, "prompt": "The capital of Italy", "max_tokens": 4, "temperature": 0 });
    server.post("/v1/completions", &body).json()
}

fn statuses(server: &Running) -> Vec<String> {
    let list = server.get("/v1/models").json();
    let models = list["data"].as_array().expect("models");
    models.iter().map(|model| model["status"]["value"].as_str().expect("a status").to_owned()).collect()
}

#[test]
fn models_are_loaded_by_their_first_request() {
    let loads = Loads::new(3);
    let server = server(&loads, 3);
    assert_eq!(statuses(&server), ["unloaded", "unloaded", "unloaded"]);
    let shown = server.post("/api/show", &json!({ "model": "a" })).json();
    assert_eq!((&shown["modelfile"], &shown["details"]["format"]), (&json!("FROM a\n"), &json!("gguf")));
    assert_eq!(statuses(&server), ["unloaded", "unloaded", "unloaded"]);
    let answer = ask(&server, "b");
    assert_eq!(answer["model"], "b");
    assert_eq!(ask(&server, "b")["choices"], answer["choices"]);
    assert_eq!(loads.counts(), [0, 1, 0]);
    assert_eq!(statuses(&server), ["unloaded", "loaded", "unloaded"]);
    // Without a name it is the first.
    server.post("/v1/completions", &json!({ "prompt": "a", "max_tokens": 1 })).json();
    assert_eq!(loads.counts(), [1, 1, 0]);
    let one = server.get("/v1/models/a").json();
    assert_eq!((&one["id"], &one["max_model_len"]), (&json!("a"), &json!(512)));
    assert_eq!(server.get("/v1/models/z").error(404)["code"], "model_not_found");
    let body = json!({ "model": "z", "prompt": "a" });
    let error = server.post("/v1/completions", &body).error(404);
    assert_eq!(error["message"], "there is no model `z`; there are a, b, c");
}

#[test]
fn the_model_that_was_not_used_for_the_longest_time_goes() {
    let loads = Loads::new(3);
    let server = server(&loads, 2);
    for model in ["a", "b", "a", "c"] {
        ask(&server, model);
    }
    assert_eq!(statuses(&server), ["loaded", "unloaded", "loaded"]);
    ask(&server, "a");
    assert_eq!(loads.counts(), [1, 1, 1]);
    ask(&server, "b");
    assert_eq!(
        (loads.counts(), statuses(&server)),
        (vec![1, 2, 1], ["loaded", "loaded", "unloaded"].map(str::to_owned).to_vec())
    );
}

#[test]
fn a_model_in_use_is_not_unloaded_and_nobody_waits_forever() {
    let loads = Loads::new(2);
    let server = server(&loads, 1);
    let long = |model: &str| json!({ "model": model, "prompt": "The capital", "max_tokens": 100, "ignore_eos": true, "temperature": 0 });
    let alone = server.post("/v1/completions", &long("a")).json()["choices"].clone();
    // Each asks for both models, all the time.
    thread::scope(|scope| {
        for first in 0..6 {
            let (server, alone) = (&server, &alone);
            scope.spawn(move || {
                for round in 0..2 {
                    let model = if (first + round) % 2 == 0 { "a" } else { "b" };
                    let answer = server.post("/v1/completions", &long(model)).json();
                    assert_eq!((&answer["choices"], &answer["model"]), (alone, &json!(model)));
                }
            });
        }
    });
    assert!(loads.counts().iter().all(|&count| count >= 1), "{:?}", loads.counts());
    assert_eq!(statuses(&server).iter().filter(|status| *status == "loaded").count(), 1);
}

/// An answer of `model` that takes a while, and has begun.
fn begin(server: &Running, model: &str) -> impl Read {
    let long = json!({ "model": model, "prompt": "The capital", "max_tokens": 400, "ignore_eos": true, "stream": true });
    let headers = [("content-type", "application/json")];
    let mut stream = server.open("POST", "/v1/completions", &headers, long.to_string().as_bytes());
    stream.read_exact(&mut [0; 100]).expect("the beginning of the answer");
    stream
}

fn end(mut stream: impl Read) {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the rest of the answer");
    assert!(rest.contains("[DONE]"), "{rest}");
}

#[test]
fn a_model_that_nobody_uses_goes_before_one_in_use() {
    let loads = Loads::new(3);
    let server = server(&loads, 2);
    ask(&server, "a");
    let stream = begin(&server, "b");
    // It was used after the other one, which is still in use.
    ask(&server, "a");
    ask(&server, "c");
    assert_eq!(statuses(&server), ["unloaded", "loaded", "loaded"]);
    end(stream);
    assert_eq!(loads.counts(), [1, 1, 1]);
}

#[test]
fn another_model_is_loaded_when_those_in_use_have_ended() {
    let loads = Loads::new(2);
    let server = server(&loads, 1);
    let stream = begin(&server, "a");
    ask(&server, "b");
    assert_eq!(server.figure("vllm:num_requests_running"), 0.0);
    end(stream);
    assert_eq!(
        (loads.counts(), statuses(&server)),
        (vec![1, 1], ["unloaded", "loaded"].map(str::to_owned).to_vec())
    );
}

/// Who leaves while others load causes no load.
#[test]
fn nobody_loads_for_who_has_left() {
    let (loads, gate) = (Loads::new(2), Arc::new(Mutex::new(())));
    let closed = gate.lock().expect("a lock");
    let (counted, waiting) = (loads.0.clone(), gate.clone());
    let slow = ModelSource::OnDemand(Arc::new(move || {
        counted[0].fetch_add(1, Ordering::Relaxed);
        drop(waiting.lock());
        Ok(Loaded::Engine(Box::new(demo())))
    }));
    let models = vec![("a".into(), slow), ("b".into(), loads.source(1))];
    let server = Running::serve(models, |config| config.max_models = 1);
    thread::scope(|scope| {
        let first = scope.spawn(|| ask(&server, "a"));
        while loads.counts()[0] == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        let body = json!({ "model": "b", "prompt": "a" }).to_string();
        let left =
            server.open("POST", "/v1/completions", &[("content-type", "application/json")], body.as_bytes());
        // It waits behind the first one when the server answers what was asked after it.
        server.get("/health");
        thread::sleep(Duration::from_millis(50));
        drop(left);
        thread::sleep(Duration::from_millis(50));
        drop(closed);
        first.join().expect("an answer");
    });
    ask(&server, "a");
    assert_eq!(loads.counts(), [1, 0]);
}

/// A server that loads a model is alive, but not ready; requests wait. The model is never unloaded.
#[test]
fn requests_wait_for_the_model_of_the_start() {
    let gate = Arc::new(Mutex::new(()));
    let (closed, waiting) = (gate.lock().expect("a lock"), gate.clone());
    let source = ModelSource::AtStart(Arc::new(move || {
        drop(waiting.lock());
        Ok(Loaded::Engine(Box::new(demo())))
    }));
    let server = Running::serve(vec![("a".into(), source)], |config| {
        config.keep_alive = Some(Duration::from_millis(10));
    });
    let ready = || {
        let answer = server.get("/ready");
        let body: Json = serde_json::from_str(&answer.body).expect("JSON");
        (answer.status, body["status"].as_str().expect("a word").to_owned())
    };
    assert_eq!((ready(), server.get("/health").status), ((503, "loading".to_owned()), 200));
    assert_eq!(statuses(&server), ["loading"]);
    thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&server, "a"));
        let looks = scope.spawn(|| server.get("/props").json());
        thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished() && !looks.is_finished());
        drop(closed);
        waits.join().expect("an answer");
        assert_eq!(looks.join().expect("an answer")["is_sleeping"], false);
    });
    assert_eq!(ready(), (200, "ready".to_owned()));
    thread::sleep(Duration::from_millis(100));
    assert_eq!(statuses(&server), ["loaded"]);
}

#[test]
fn a_server_ends_whose_model_cannot_be_loaded() {
    let source = ModelSource::AtStart(Arc::new(|| Err("the file is gone".to_owned())));
    let config = Config::new(([127, 0, 0, 1], 0).into());
    let mut server = Server::new(config, vec![("a".into(), source)]).expect("a free port");
    server.when_ready(|| panic!("it is not"));
    let error = server.run().expect_err("there is nothing to serve").to_string();
    assert_eq!(error, "the model `a` cannot be loaded: the file is gone");
}

#[test]
fn a_model_that_cannot_be_loaded_says_why_and_is_tried_again() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let source = ModelSource::OnDemand(Arc::new(move || match counted.fetch_add(1, Ordering::Relaxed) {
        0 => Err("the file is gone".to_owned()),
        _ => Ok(Loaded::Engine(Box::new(demo()))),
    }));
    let server = Running::serve(vec![("a".into(), source)], |_| {});
    let error = server.post("/v1/completions", &json!({ "prompt": "a", "max_tokens": 1 })).error(500);
    assert_eq!(error["message"], "the model `a` cannot be loaded: the file is gone");
    assert_eq!(server.get("/health").status, 200);
    ask(&server, "a");
    assert_eq!(tries.load(Ordering::Relaxed), 2);
}

#[test]
fn a_model_that_nobody_uses_is_unloaded_after_a_time() {
    let loads = Loads::new(1);
    let models = vec![("a".into(), loads.source(0))];
    let server = Running::serve(models, |config| config.keep_alive = Some(Duration::from_millis(200)));
    ask(&server, "a");
    let began = Instant::now();
    // Looking at it is no use of it.
    while statuses(&server) != ["unloaded"] {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never unloaded");
        thread::sleep(Duration::from_millis(20));
    }
    ask(&server, "a");
    assert_eq!(loads.counts(), [2]);
}

/// A file that is damaged while it is served fails, and is loaded again when it is whole.
#[test]
fn a_model_that_has_failed_is_loaded_again() {
    gguf::survive_truncation().expect("a handler");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, demo_model::EMBEDDED).expect("a file");
    let of_file = path.clone();
    let load = move || {
        let file = Gguf::open(&of_file).map_err(|error| error.to_string())?;
        let model = Model::new(file).map_err(|error| error.to_string())?;
        let engine = Engine::new(Arc::new(model), mapped(), Options::default());
        Ok::<_, String>(Loaded::Engine(Box::new(engine.map_err(|error| error.to_string())?)))
    };
    let once = ModelSource::Loaded(load().expect("a good model"));
    let models = vec![("a".into(), ModelSource::OnDemand(Arc::new(load))), ("b".into(), once)];
    let server = Running::serve(models, |_| {});
    for name in ["a", "b"] {
        ask(&server, name);
    }
    std::fs::OpenOptions::new().write(true).open(&path).expect("the file").set_len(1000).expect("shorter");
    let body = |name: &str| json!({ "model": name, "prompt": "The capital of Italy", "max_tokens": 4 });
    for name in ["a", "b"] {
        let error = server.post("/v1/completions", &body(name)).error(500);
        assert!(error["message"].as_str().expect("a text").contains("failed"), "{error}");
    }
    std::fs::write(&path, demo_model::EMBEDDED).expect("a file");
    let why = server.get("/ready");
    assert_eq!((why.status, why.body.contains("failed")), (503, true), "{}", why.body);
    ask(&server, "a");
    server.post("/v1/completions", &body("b")).error(500);
}
