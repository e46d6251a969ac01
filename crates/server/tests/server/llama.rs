//! llama-server's own endpoints, in the shapes of its documentation.

use serde_json::{Value as Json, json};

use crate::client::{Answer, Running};

const COMPLETION: &str = "/completion";

fn spain(more: Json) -> Json {
    let mut body = json!({ "prompt": "The capital of Spain is", "n_predict": 6, "temperature": 0 });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// The events of a stream, after which nothing comes.
fn events(answer: &Answer) -> Vec<Json> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|event| serde_json::from_str(event).expect("JSON")).collect()
}

fn error(answer: &Answer, status: u16) -> Json {
    assert_eq!(answer.status, status, "{}", answer.body);
    let error = serde_json::from_str::<Json>(&answer.body).expect("JSON")["error"].clone();
    assert_eq!(error["code"], status, "{error}");
    assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    error
}

fn tokens(server: &Running, text: &str) -> Json {
    server.post("/tokenize", &json!({ "content": text, "add_special": true })).json()["tokens"].clone()
}

#[test]
fn a_completion_comes_whole_and_in_pieces() {
    let server = Running::new();
    let whole = server.post(COMPLETION, &spain(json!({ "return_tokens": true, "n_probs": 2 }))).json();
    let openai = json!({ "prompt": "The capital of Spain is", "max_tokens": 6, "temperature": 0 });
    let openai = server.post("/v1/completions", &openai).json();
    assert_eq!(whole["content"], openai["choices"][0]["text"]);
    assert_eq!(whole["tokens_evaluated"], openai["usage"]["prompt_tokens"]);
    assert_eq!(whole["tokens_predicted"], openai["usage"]["completion_tokens"]);
    assert_eq!((&whole["stop"], &whole["index"], &whole["model"]), (&json!(true), &json!(0), &json!("demo")));
    assert_eq!((&whole["truncated"], &whole["stopping_word"]), (&json!(false), &json!("")));
    assert_eq!(whole["tokens_cached"], 0);
    assert!(whole["timings"]["predicted_n"].is_u64());
    let n = whole["tokens_predicted"].as_u64().expect("a count") as usize;
    assert_eq!(whole["tokens"].as_array().expect("ids").len(), n);
    let probabilities = whole["completion_probabilities"].as_array().expect("tokens");
    assert_eq!(probabilities.len(), n);
    for (token, id) in probabilities.iter().zip(whole["tokens"].as_array().expect("ids")) {
        assert_eq!(token["id"], *id);
        assert_eq!(token["top_logprobs"].as_array().expect("tokens").len(), 2);
        assert!(token["logprob"].is_f64() && token["bytes"].is_array() && token["token"].is_string());
    }

    let streamed = events(&server.post(COMPLETION, &spain(json!({ "stream": true, "n_probs": 2 }))));
    let (last, pieces) = streamed.split_last().expect("events");
    assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece["stop"] == false));
    assert_eq!((&last["stop"], &last["stop_type"]), (&json!(true), &whole["stop_type"]));
    let text: String = streamed.iter().filter_map(|event| event["content"].as_str()).collect();
    assert_eq!(text, whole["content"]);
    for list in ["tokens", "completion_probabilities"] {
        let all: Vec<&Json> = streamed.iter().filter_map(|event| event[list].as_array()).flatten().collect();
        assert_eq!(all, whole[list].as_array().expect("a list").iter().collect::<Vec<_>>());
    }
    let plain = server.post(COMPLETION, &spain(json!({}))).json();
    assert_eq!(plain["tokens"], json!([]));
    assert!(plain.get("completion_probabilities").is_none());
    assert!(
        plain["tokens_cached"].as_u64().is_some_and(|n| n <= plain["tokens_evaluated"].as_u64().unwrap())
    );
}

#[test]
fn it_says_why_it_stopped() {
    let server = Running::new();
    let stopped = |more: Json| {
        let answer = server.post(COMPLETION, &spain(more)).json();
        (answer["stop_type"].clone(), answer["stopping_word"].clone(), answer["content"].clone())
    };
    assert_eq!(stopped(json!({ "n_predict": 2 })).0, "limit");
    assert_eq!(stopped(json!({ "n_predict": 0 })), (json!("limit"), json!(""), json!("")));
    let text = stopped(json!({})).2;
    let word = text.as_str().and_then(|text| text.split_whitespace().next()).expect("a word").to_owned();
    let (kind, found, content) = stopped(json!({ "stop": [word] }));
    assert_eq!((kind, found), (json!("word"), json!(word)));
    assert!(!content.as_str().expect("a text").contains(&word));
    let prompt = server.post(
        "/apply-template",
        &json!({ "messages": [{ "role": "user", "content": "What is the capital of Italy?" }] }),
    );
    let (kind, _, content) = stopped(json!({ "prompt": prompt.json()["prompt"], "n_predict": -1 }));
    assert_eq!((kind, content), (json!("eos"), json!("The capital of Italy is Rome.")));
}

#[test]
fn prompts_have_many_forms() {
    let server = Running::new();
    let complete = |prompt: Json| server.post(COMPLETION, &spain(json!({ "prompt": prompt }))).json();
    let expected = complete(json!("The capital of Spain is"));
    let ids = tokens(&server, "The capital of Spain is");
    let by_ids = complete(ids.clone());
    assert_eq!(
        (&by_ids["content"], &by_ids["tokens_evaluated"]),
        (&expected["content"], &expected["tokens_evaluated"])
    );
    // Text that follows ids has no BOS.
    let mixed = complete(json!(["The capital", ids[1]]));
    let same = complete(Json::Array(
        [tokens(&server, "The capital").as_array().unwrap().clone(), vec![ids[1].clone()]].concat(),
    ));
    assert_eq!(
        (&mixed["content"], &mixed["tokens_evaluated"]),
        (&same["content"], &same["tokens_evaluated"])
    );
    let list = complete(json!(["1 + 1 =", ids, ["The capital of Spain is"]]));
    let list = list.as_array().expect("a list");
    assert_eq!(list.len(), 3);
    assert_eq!((&list[1]["content"], &list[2]["content"]), (&expected["content"], &expected["content"]));
    assert_eq!((&list[0]["index"], &list[2]["index"]), (&json!(0), &json!(2)));
    assert!(complete(json!(["1 + 1 ="])).is_object(), "only several answers are a list");
    let named = complete(json!({ "prompt_string": "The capital of Spain is" }));
    assert_eq!(named["content"], expected["content"]);
    let several = server.post(COMPLETION, &spain(json!({ "n_cmpl": 2 }))).json();
    assert_eq!(several.as_array().expect("a list").len(), 2);
    let streamed =
        events(&server.post(COMPLETION, &spain(json!({ "prompt": ["1 + 1 =", "2 + 2 ="], "stream": true }))));
    for index in 0..2 {
        let mut own = streamed.iter().filter(|event| event["index"] == index);
        assert_eq!(own.next_back().expect("events")["stop"], true);
    }
    for prompt in
        [json!([]), json!([1, [2]]), json!({ "text": 1 }), json!(null), json!([99999999]), json!([[]])]
    {
        error(&server.post(COMPLETION, &spain(json!({ "prompt": prompt }))), 400);
    }
}

#[test]
fn settings_are_told_as_they_were_used() {
    let server = Running::new();
    let wanted = json!({
        "temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.25, "typical_p": 0.5, "top_n_sigma": 2.0,
        "repeat_last_n": 32, "repeat_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": 0.25,
        "dry_multiplier": 0.5, "dry_base": 2.0, "dry_allowed_length": 3, "dry_penalty_last_n": -1,
        "dry_sequence_breakers": ["\n"], "xtc_probability": 0.5, "xtc_threshold": 0.25, "mirostat": 2,
        "mirostat_tau": 4.0, "mirostat_eta": 0.5, "samplers": ["top_k", "temperature"], "seed": 5, "stop": ["x"],
        "n_predict": 3, "ignore_eos": true,
    });
    let answer = server.post(COMPLETION, &spain(wanted.clone()));
    assert_eq!(answer.header("x-ignored-fields"), None);
    let settings = &answer.json()["generation_settings"];
    for (name, value) in wanted.as_object().expect("an object") {
        assert_eq!(&settings[name], value, "{name}");
    }
    let settings = server.post(COMPLETION, &spain(json!({ "n_predict": null, "stop": ["."] }))).json()["generation_settings"].clone();
    assert_eq!(settings["n_predict"], -1);
    assert!(settings["seed"].is_u64());
    let letters = server.post(COMPLETION, &spain(json!({ "samplers": "kt" }))).json();
    assert_eq!(letters["generation_settings"]["samplers"], json!(["top_k", "temperature"]));
}

#[test]
fn biases_have_two_forms_and_grammars_hold() {
    let server = Running::new();
    let first = server.post(COMPLETION, &spain(json!({ "n_predict": 1, "return_tokens": true }))).json();
    let id = &first["tokens"][0];
    for bias in [json!([[id, false]]), json!([[id, -100]]), json!({ id.to_string(): -100 })] {
        let other = server
            .post(COMPLETION, &spain(json!({ "n_predict": 1, "return_tokens": true, "logit_bias": bias })));
        assert_ne!(other.json()["tokens"][0], *id);
    }
    let digits = spain(json!({ "grammar": "root ::= [0-9] [0-9]" }));
    let text = server.post(COMPLETION, &digits).json()["content"].clone();
    assert!(text.as_str().expect("a text").parse::<u8>().is_ok(), "{text}");
}

#[test]
fn errors_have_llama_servers_shape() {
    let server = Running::new();
    let wrong = [
        (json!({ "n_predict": -2 }), "n_predict"),
        (json!({ "n_probs": 101 }), "n_probs"),
        (json!({ "samplers": ["magic"] }), "samplers"),
        (json!({ "mirostat": 3 }), "mirostat"),
        (json!({ "logit_bias": [["word ".repeat(20), 1]] }), "logit_bias"),
        (json!({ "logit_bias": [[4_000_000, 1]] }), "logit_bias"),
        (json!({ "logit_bias": [5] }), "logit_bias"),
        (json!({ "n_indent": 4 }), "n_indent"),
        (json!({ "response_fields": [1] }), "response_fields"),
        (json!({ "prompt": { "prompt_string": "a", "multimodal_data": ["b"] } }), "prompt"),
        (json!({ "lora": [{ "id": 0, "scale": 1 }] }), "lora"),
    ];
    for (fields, param) in wrong {
        let error = error(&server.post(COMPLETION, &spain(fields)), 400);
        assert_eq!(
            (&error["param"], &error["type"]),
            (&json!(param), &json!("invalid_request_error")),
            "{error}"
        );
    }
    let off = json!({ "t_max_predict_ms": 0, "n_indent": 0, "post_sampling_probs": false, "lora": [], "cache_prompt": false,
        "id_slot": 3, "colour": "blue" });
    let answer = server.post(COMPLETION, &spain(off));
    answer.json();
    assert_eq!(answer.header("x-ignored-fields"), Some("colour"));
    let long = error(&server.post(COMPLETION, &spain(json!({ "prompt": "word ".repeat(600) }))), 400);
    assert_eq!((&long["type"], &long["n_ctx"]), (&json!("exceed_context_size_error"), &json!(512)));
    assert!(long["n_prompt_tokens"].as_u64().is_some_and(|n| n > 512));
    let strict = Running::with(|config| config.strict_model = true);
    assert_eq!(
        error(&strict.post(COMPLETION, &spain(json!({ "model": "x" }))), 404)["type"],
        "not_found_error"
    );
    error(&server.get(COMPLETION), 405);
}

#[test]
fn texts_are_biased_token_by_token() {
    let server = Running::new();
    let first = server.post(COMPLETION, &spain(json!({ "n_predict": 1 }))).json();
    let word = first["content"].as_str().expect("a text").to_owned();
    for bias in [json!([[word, false]]), json!([[word, -100]]), json!({ &word: -100 })] {
        let other = server.post(COMPLETION, &spain(json!({ "n_predict": 1, "logit_bias": bias }))).json();
        assert_ne!(other["content"], first["content"]);
    }
}

#[test]
fn parts_of_an_answer_are_selected_by_their_paths() {
    let server = Running::new();
    let fields = json!(["content", "generation_settings/n_predict", "prompt", "timings/none"]);
    let whole = server.post(COMPLETION, &spain(json!({}))).json();
    assert_eq!(whole["prompt"], "<s>The capital of Spain is");
    let parts = server.post(COMPLETION, &spain(json!({ "response_fields": fields }))).json();
    let expected = json!({
        "content": whole["content"], "generation_settings/n_predict": 6, "prompt": whole["prompt"],
    });
    assert_eq!(parts, expected);
    let streamed =
        events(&server.post(COMPLETION, &spain(json!({ "stream": true, "response_fields": ["stop"] }))));
    assert_eq!(streamed.last(), Some(&json!({ "stop": true })));
}

#[test]
fn probabilities_are_those_of_the_model_or_of_the_draw() {
    let server = Running::new();
    let tokens = |more: Json| {
        let mut body = spain(json!({ "n_probs": 5, "post_sampling_probs": true, "n_predict": 4, "seed": 1 }));
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let answer = server.post(COMPLETION, &body).json();
        answer["completion_probabilities"].as_array().expect("tokens").clone()
    };
    for token in tokens(json!({ "temperature": 1, "top_k": 3, "top_p": 1, "min_p": 0 })) {
        let top = token["top_probs"].as_array().expect("tokens");
        let all: f64 = top.iter().filter_map(|one| one["prob"].as_f64()).sum();
        assert!(top.len() == 3 && (all - 1.0).abs() < 1e-5, "{token}");
        let own = top.iter().find(|one| one["id"] == token["id"]).expect("it was drawn from them");
        assert_eq!(own["prob"], token["prob"]);
        assert!(top.is_sorted_by(|a, b| a["prob"].as_f64() >= b["prob"].as_f64()));
    }
    for token in tokens(json!({ "temperature": 0 })) {
        assert_eq!((&token["prob"], &token["top_probs"][1]), (&json!(1.0), &Json::Null));
    }
    // The model's own do not depend on how a token is drawn.
    let own = |temperature: f32| {
        tokens(json!({ "post_sampling_probs": false, "temperature": temperature, "top_k": 1 }))
    };
    assert_eq!(own(1.0)[0]["top_logprobs"], own(0.5)[0]["top_logprobs"]);
}

#[test]
fn an_answer_ends_after_its_time() {
    let server = Running::new();
    let body = spain(
        json!({ "n_predict": 400, "ignore_eos": true, "grammar": "root ::= \"\\n\" [a]+", "t_max_predict_ms": 1 }),
    );
    let answer = server.post(COMPLETION, &body).json();
    assert_eq!(answer["stop_type"], "limit", "{answer}");
    assert!(answer["tokens_predicted"].as_u64().is_some_and(|n| n < 300), "{answer}");
    // Without a line it goes on.
    let body = spain(
        json!({ "n_predict": 60, "ignore_eos": true, "grammar": "root ::= [a]+", "t_max_predict_ms": 1 }),
    );
    assert_eq!(server.post(COMPLETION, &body).json()["tokens_predicted"], 60);
}

#[test]
fn slots_are_told_only_if_wanted() {
    assert_eq!(error(&Running::new().get("/slots"), 501)["type"], "not_supported_error");
    let server = Running::with(|config| config.slots = true);
    let slots = server.get("/slots").json();
    let slots = slots.as_array().expect("a list");
    assert_eq!(slots.len(), 8);
    assert_eq!(slots[7], json!({ "id": 7, "n_ctx": 512, "speculative": false, "is_processing": false }));
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
}

#[test]
fn routers_find_the_load() {
    let server = Running::new();
    let loads = server.get("/v1/loads").json();
    assert_eq!((&loads["dp_rank_count"], &loads["loads"][0]["dp_rank"]), (&json!(1), &json!(0)));
    let load = &loads["loads"][0];
    assert_eq!((&load["model"], &load["max_running_requests"]), (&json!("demo"), &json!(8)));
    assert_eq!((&load["num_running_reqs"], &load["num_waiting_reqs"]), (&json!(0), &json!(0)));
    assert_eq!((&load["num_used_tokens"], &load["token_usage"]), (&json!(0), &json!(0.0)));
    let pages = load["max_total_num_pages"].as_u64().expect("pages");
    assert_eq!(load["max_total_num_tokens"], pages * backend_page());
    let body = spain(json!({ "n_predict": 400, "ignore_eos": true })).to_string();
    let running = server.open("POST", COMPLETION, &[("content-type", "application/json")], body.as_bytes());
    let busy = (0..100_000).map(|_| server.get("/v1/loads").json()).find(|loads| {
        loads["loads"][0]["num_running_reqs"] == 1 && loads["loads"][0]["num_used_tokens"] != 0
    });
    let busy = busy.expect("it runs");
    assert_eq!(busy["aggregate"]["total_reqs"], 1);
    assert!(busy["loads"][0]["token_usage"].as_f64().is_some_and(|usage| usage > 0.0 && usage <= 1.0));
    Answer::read(running).json();
}

/// Tokens of a page, as the server's metrics tell.
fn backend_page() -> u64 {
    let text = Running::new().get("/metrics").body;
    let (_, size) = text.split_once("block_size=\"").expect("a size");
    size.split('"').next().and_then(|size| size.parse().ok()).expect("a number")
}

#[test]
fn a_single_token_has_a_rate_too() {
    let server = Running::new();
    let answer = server.post("/completion", &json!({ "prompt": "The capital", "n_predict": 1 })).json();
    assert!(answer["timings"].as_object().expect("times").values().all(Json::is_number), "{answer}");
}

#[test]
fn tokens_and_texts_are_inverse() {
    let server = Running::new();
    for text in ["<s>Hi</s>", "Hi", "<|user|>\nnaïve</s>\n 中", "</s></s>", ""] {
        for add_special in [false, true] {
            let body = json!({ "content": text, "add_special": add_special });
            let tokens = server.post("/tokenize", &body).json()["tokens"].clone();
            let begin = if add_special { "<s>" } else { "" };
            let joined = server.post("/detokenize", &json!({ "tokens": tokens })).json()["content"].clone();
            assert_eq!(joined, format!("{begin}{text}"), "{tokens}");
        }
    }
}
