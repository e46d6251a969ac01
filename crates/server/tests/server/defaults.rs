//! What requests get that say nothing, and names of models.

use engine::Params;
use serde_json::{Value as Json, json};

use crate::client::Running;

fn server() -> Running {
    Running::with(|config| {
        let params = Params { temperature: 1.5, seed: Some(7), top_k: 11, ..Params::default() };
        config.defaults.params = Params { max_tokens: Some(3), ..params };
        config.aliases = vec!["second".into(), "*".into()];
        config.page = false;
    })
}

#[test]
fn requests_that_say_nothing_get_the_servers_defaults() {
    let server = server();
    let settings = |body: Json| server.post("/completion", &body).json()["generation_settings"].clone();
    let told = settings(json!({ "prompt": "a" }));
    let expected =
        [("temperature", json!(1.5)), ("seed", json!(7)), ("top_k", json!(11)), ("n_predict", json!(3))];
    for (name, value) in &expected {
        assert_eq!(&told[name], value, "{name}");
        assert_eq!(
            &server.get("/props").json()["default_generation_settings"]["params"][name],
            value,
            "{name}"
        );
    }
    let own = settings(json!({ "prompt": "a", "temperature": 0.5, "seed": 8, "n_predict": 2 }));
    assert_eq!((&own["temperature"], &own["seed"], &own["n_predict"]), (&json!(0.5), &json!(8), &json!(2)));
    // -1 is a random seed, and any number of tokens.
    assert_ne!(settings(json!({ "prompt": "a", "seed": -1 }))["seed"], 7);
    assert_eq!(settings(json!({ "prompt": "a", "n_predict": -1 }))["n_predict"], -1);
    let question = json!([{ "role": "user", "content": "What is the capital of Italy?" }]);
    let chat = server.post("/v1/chat/completions", &json!({ "messages": question })).json();
    assert_eq!(chat["usage"]["completion_tokens"], 3);
    let ollama = json!({ "model": "demo", "messages": question, "stream": false });
    assert_eq!(server.post("/api/chat", &ollama).json()["eval_count"], 3);
    // Anthropic's protocol has no temperature above 1, which concerns only what a request says.
    let anthropic = json!({ "max_tokens": 2, "messages": question });
    assert_eq!(server.post("/v1/messages", &anthropic).json()["usage"]["output_tokens"], 2);
}

#[test]
fn templates_have_the_servers_variables() {
    let source = "{{ messages[0].content }}{% if enable_thinking %} thinks{% endif %} {{ name }}";
    let server = Running::with_template_and(source, |config| {
        config.defaults.variables.insert("name".into(), "A".into());
        config.defaults.variables.extend(chat::reasoning_switch(true));
    });
    let prompt = |more: Json| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "x" }] });
        body["chat_template_kwargs"] = more;
        server.post("/apply-template", &body).json()["prompt"].clone()
    };
    assert_eq!(prompt(json!({})), "x thinks A");
    assert_eq!(prompt(json!({ "name": "B", "enable_thinking": false })), "x B");
}

#[test]
fn a_model_has_several_names() {
    let server = server();
    for name in ["demo", "second", "gpt-3.5-turbo"] {
        let answer = server.post("/v1/completions", &json!({ "model": name, "prompt": "a" })).json();
        assert_eq!(answer["model"], "demo");
    }
    let listed = server.get("/v1/models").json();
    assert_eq!(listed["data"].as_array().expect("models").len(), 1);
    assert_eq!(listed["data"][0]["aliases"], json!(["second"]));
}

#[test]
fn the_page_can_be_left_out() {
    assert_eq!(server().get("/").status, 404);
    assert_eq!(Running::new().get("/").status, 200);
}

#[test]
fn figures_have_llama_servers_names_too() {
    let server = Running::new();
    let answer = server.post(
        "/completion",
        &json!({ "prompt": "The capital of Spain is", "n_predict": 5, "ignore_eos": true }),
    );
    let timings = answer.json()["timings"].clone();
    let metrics = server.get("/metrics");
    assert!(metrics.header("process-start-time-unix").is_some_and(|time| time.parse::<u64>().is_ok()));
    let figure = |text: &str, name: &str| -> f64 {
        let line =
            text.lines().find(|line| line.starts_with(&format!("llamacpp:{name} "))).expect("a figure");
        line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let first = |name: &str| figure(&metrics.body, name);
    assert_eq!(first("tokens_predicted_total"), 5.0);
    assert_eq!(first("prompt_tokens_total"), timings["prompt_n"].as_f64().expect("a number"));
    assert!(first("n_decode_total") >= 5.0 && first("predicted_tokens_seconds") > 0.0);
    assert_eq!(first("n_tokens_max"), first("prompt_tokens_total") + 5.0);
    // A rate is of what has ended since it was asked for.
    assert_eq!(figure(&server.get("/metrics").body, "predicted_tokens_seconds"), 0.0);
}
