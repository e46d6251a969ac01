//! Embeddings and scores.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::{Embedder, EmbedderOptions, Model, Normalization};
use gguf::Gguf;
use serde_json::{Value as Json, json};
use testkit::fixtures;

use crate::client::{Running, cpu, demo};

const TEXTS: [&str; 3] = ["a b", "c d e f", "a"];

fn encoder(name: &str) -> Embedder {
    let (_, spec) =
        fixtures::encoders().into_iter().find(|(own, _)| own == name).expect("a model of this name");
    let file = Gguf::from_bytes(fixtures::Spec::file(&spec).into()).expect("a good file");
    let model = Arc::new(Model::embedding(file, None).expect("a good model"));
    Embedder::new(model, cpu(), EmbedderOptions { n_ctx: None, n_batch: 64 }).expect("it fits")
}

fn server() -> Running {
    let models = vec![
        ("embeds".into(), encoder("F32-bert").into()),
        ("ranks".into(), encoder("F32-bert-reranker").into()),
        ("writes".into(), demo().into()),
    ];
    Running::serve(models, |_| {})
}

#[test]
fn lists_of_models_say_what_each_is_for() {
    let models = server().get("/v1/models").json();
    let capabilities: Vec<_> = (0..3).map(|i| models["data"][i]["capabilities"].clone()).collect();
    assert_eq!(capabilities, [json!(["embedding"]), json!(["embedding"]), json!(["completion", "chat"])]);
}

/// What the engine computes.
fn expected(texts: &[&str]) -> Vec<Vec<f32>> {
    let mut encoder = encoder("F32-bert");
    let encode = tokenizer::Encode { add_special: true, parse_special: false };
    let tokens: Vec<_> = texts.iter().map(|text| encoder.model().tokenizer().encode(text, encode)).collect();
    let mut embeddings = encoder.embed(&tokens).expect("embeddings");
    embeddings.iter_mut().for_each(|embedding| Normalization::P(2).apply(embedding));
    embeddings
}

fn floats(json: &Json) -> Vec<f32> {
    json.as_array().expect("an array").iter().map(|x| x.as_f64().expect("a number") as f32).collect()
}

#[test]
fn embeddings_are_the_engines_in_both_encodings() {
    let server = server();
    let answer = server.post("/v1/embeddings", &json!({ "model": "embeds", "input": TEXTS })).json();
    assert_eq!(answer["object"], "list");
    let data = answer["data"].as_array().expect("data");
    let embeddings: Vec<Vec<f32>> = data.iter().map(|one| floats(&one["embedding"])).collect();
    assert_eq!(embeddings, expected(&TEXTS));
    assert!(
        data.iter().enumerate().all(|(index, one)| one["index"] == index && one["object"] == "embedding")
    );
    assert_eq!(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
    assert_eq!(Some(server.figure("vllm:prompt_tokens_total")), answer["usage"]["prompt_tokens"].as_f64());
    assert_eq!(server.figure("vllm:request_success_total"), 1.0);

    let body = json!({ "model": "embeds", "input": TEXTS[1], "encoding_format": "base64" });
    let answer = server.post("/v1/embeddings", &body).json();
    let bytes =
        BASE64_STANDARD.decode(answer["data"][0]["embedding"].as_str().expect("text")).expect("base64");
    let values = bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().expect("four bytes")));
    assert_eq!(values.collect::<Vec<_>>(), expected(&TEXTS)[1]);
}

#[test]
fn many_requests_get_each_their_own_embeddings() {
    let server = server();
    let texts: Vec<String> = (0..40).map(|n| "a b c d ".repeat(n % 7 + 1)).collect();
    let refs: Vec<&str> = texts.iter().map(|text| &**text).collect();
    let expected = expected(&refs);
    std::thread::scope(|scope| {
        for first in 0..6 {
            let (server, texts, expected) = (&server, &texts, &expected);
            scope.spawn(move || {
                let body = json!({ "model": "embeds", "input": texts[first..] });
                let answer = server.post("/v1/embeddings", &body).json();
                let data = answer["data"].as_array().expect("data");
                assert_eq!(data.len(), texts.len() - first);
                for (one, expected) in data.iter().zip(&expected[first..]) {
                    let difference = floats(&one["embedding"])
                        .iter()
                        .zip(expected)
                        .map(|(a, b)| (a - b).abs())
                        .fold(0.0, f32::max);
                    assert!(difference < 1e-5, "{difference}");
                }
            });
        }
    });
}

#[test]
fn documents_are_ranked() {
    let server = server();
    let body =
        json!({ "model": "ranks", "query": "a", "documents": [TEXTS[0], { "text": TEXTS[1] }, TEXTS[2]] });
    let answer = server.post("/v1/rerank", &body).json();
    let results = answer["results"].as_array().expect("results");
    let scores: Vec<f64> =
        results.iter().map(|one| one["relevance_score"].as_f64().expect("a score")).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let mut encoder = encoder("F32-bert-reranker");
    for result in results {
        let index = result["index"].as_u64().expect("an index") as usize;
        let tokens = encoder.model().rerank_tokens("a", TEXTS[index]).expect("tokens");
        let score = encoder.embed(&[tokens]).expect("a score")[0][0];
        assert!((result["relevance_score"].as_f64().expect("a score") - f64::from(score)).abs() < 1e-5);
        assert_eq!(result["document"], Json::Null);
    }
    let body =
        json!({ "model": "ranks", "query": "a", "documents": TEXTS, "top_n": 1, "return_documents": true });
    let answer = server.post("/v1/rerank", &body).json();
    assert_eq!(answer["results"].as_array().expect("results").len(), 1);
    let index = answer["results"][0]["index"].as_u64().expect("an index") as usize;
    assert_eq!(answer["results"][0]["document"]["text"], TEXTS[index]);
}

#[test]
fn texts_have_the_forms_that_llama_server_takes() {
    let server = server();
    let encode =
        |input: Json| server.post("/v1/embeddings", &json!({ "model": "embeds", "input": input })).json();
    let expected = encode(json!(TEXTS[0]))["data"][0]["embedding"].clone();
    let parts = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": " b" }] });
    for input in [json!({ "prompt_string": TEXTS[0] }), parts.clone()] {
        assert_eq!(encode(input)["data"][0]["embedding"], expected);
    }
    let many = encode(json!(["c", [2, 5, 3], parts]));
    assert_eq!(many["data"].as_array().expect("data").len(), 3);
    assert_eq!(many["data"][2]["embedding"], expected);
    for path in ["content", "input"] {
        let own = server.post("/embedding", &json!({ "model": "embeds", path: [TEXTS[0]] })).json();
        assert_eq!(own, json!([{ "index": 0, "embedding": [expected] }]));
    }
    for input in [json!({ "content": "a" }), json!({ "content": [{ "type": "image_url", "image_url": {} }] })]
    {
        server.post("/v1/embeddings", &json!({ "model": "embeds", "input": input })).error(400);
    }
    assert_eq!(
        server.post("/embedding", &json!({ "model": "embeds", "content": "a", "embd_normalize": -1 })).status,
        400
    );
}

#[test]
fn documents_may_be_called_texts() {
    let server = server();
    let body = json!({ "model": "ranks", "query": "a", "documents": TEXTS, "return_documents": true });
    let ranked = server.post("/v1/rerank", &body).json()["results"].clone();
    let body = json!({ "model": "ranks", "query": "a", "texts": TEXTS, "return_text": true });
    for path in ["/rerank", "/reranking", "/v1/reranking"] {
        let texts = server.post(path, &body).json();
        for (text, document) in
            texts.as_array().expect("a list").iter().zip(ranked.as_array().expect("a list"))
        {
            assert_eq!(text["score"], document["relevance_score"]);
            assert_eq!((&text["index"], &text["text"]), (&document["index"], &document["document"]["text"]));
        }
    }
}

#[test]
fn each_model_is_asked_for_what_it_does() {
    let server = server();
    let cases = [
        ("/v1/embeddings", json!({ "model": "writes", "input": "a" }), "model"),
        ("/v1/embeddings", json!({ "model": "ranks", "input": "a" }), "model"),
        ("/v1/rerank", json!({ "model": "embeds", "query": "a", "documents": ["a"] }), "model"),
        ("/v1/chat/completions", json!({ "model": "embeds", "messages": [] }), "model"),
        ("/v1/embeddings", json!({ "model": "embeds" }), "input"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": [["a"]] }), "input"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": [[1, 2], []] }), "input[1]"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": [4_000_000] }), "input"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": "a", "dimensions": 4096 }), "dimensions"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": "a", "dimensions": 0 }), "dimensions"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": "a", "truncate": "MIDDLE" }), "truncate"),
        (
            "/v1/embeddings",
            json!({ "model": "embeds", "input": "a", "truncate_prompt_tokens": 0 }),
            "truncate_prompt_tokens",
        ),
        ("/v1/embeddings", json!({ "model": "embeds", "input": "a b ".repeat(9000) }), "input"),
        ("/v1/embeddings", json!({ "model": "embeds", "input": ["a", "a b ".repeat(300)] }), "input[1]"),
        (
            "/v1/embeddings",
            json!({ "model": "embeds", "input": "a", "encoding_format": "hex" }),
            "encoding_format",
        ),
        ("/v1/rerank", json!({ "model": "ranks", "query": "a", "documents": [] }), "documents"),
        ("/v1/rerank", json!({ "model": "ranks", "query": "a", "documents": [7] }), "documents"),
        ("/v1/rerank", json!({ "model": "ranks", "query": "a", "documents": ["a"], "top_n": 0 }), "top_n"),
        // The tokenizer drops spaces: no text is too long by its bytes alone.
        (
            "/v1/rerank",
            json!({ "model": "ranks", "query": " ".repeat(40 << 10), "documents": vec!["a"; 1000] }),
            "query",
        ),
        (
            "/v1/rerank",
            json!({ "model": "ranks", "query": "a", "documents": ["a", "a b ".repeat(300)] }),
            "documents[1]",
        ),
    ];
    for (path, body, param) in cases {
        let error = server.post(path, &body).error(400);
        assert_eq!(error["param"], param, "{path}: {error}");
    }
}

/// The same with a token at the end of every text.
fn ending_encoder() -> Embedder {
    let (_, spec) = fixtures::encoders().into_iter().find(|(own, _)| own == "F32-bert").expect("a model");
    let mut file = fixtures::Spec::file(&spec);
    let key = b"tokenizer.ggml.add_eos_token";
    let at = file.windows(key.len()).position(|bytes| bytes == key).expect("a key") + key.len();
    // After the key is its type, a boolean.
    assert_eq!(file[at..at + 5], [7, 0, 0, 0, 0]);
    file[at + 4] = 1;
    let file = Gguf::from_bytes(file.into()).expect("a good file");
    let model = Arc::new(Model::embedding(file, None).expect("a good model"));
    Embedder::new(model, cpu(), EmbedderOptions { n_ctx: None, n_batch: 64 }).expect("it fits")
}

/// The tokens around a text stay: a cut text is a shorter one.
#[test]
fn long_texts_are_cut_where_that_is_asked_for() {
    let models =
        vec![("begins".into(), encoder("F32-bert").into()), ("ends".into(), ending_encoder().into())];
    let server = Running::serve(models, |_| {});
    for (model, around) in [("begins", 1), ("ends", 2)] {
        let embed = |path: &str, more: Json| {
            let mut body = json!({ "model": model });
            for (name, value) in more.as_object().expect("an object") {
                body[name] = value.clone();
            }
            server.post(path, &body)
        };
        let one = |more: Json| embed("/v1/embeddings", more).json()["data"][0]["embedding"].clone();
        let text = |n: usize| format!("b{} b", " a".repeat(n - 2));
        let longest = 512 - around;
        embed("/v1/embeddings", json!({ "input": text(longest) })).json();
        let begin = one(json!({ "input": format!("b{}", " a".repeat(longest - 1)) }));
        let end = one(json!({ "input": format!("{}b", "a ".repeat(longest - 1)) }));
        assert_ne!(begin, end);
        for n in [longest + 1, 2 * longest, 20_000] {
            let text = text(n);
            for truncate in [json!(true), json!("END"), json!("end")] {
                assert_eq!(
                    one(json!({ "input": text, "truncate": truncate })),
                    begin,
                    "{model} {n} {truncate}"
                );
            }
            assert_eq!(one(json!({ "input": text, "truncate": "START" })), end, "{model} {n}");
            assert_eq!(one(json!({ "input": text, "truncate_prompt_tokens": -1 })), end, "{model} {n}");
            // ollama cuts unless it is told not to.
            assert_eq!(embed("/api/embed", json!({ "input": text })).json()["embeddings"][0], begin);
            assert_eq!(embed("/api/embeddings", json!({ "prompt": text })).json()["embedding"], begin);
            assert_eq!(embed("/api/embed", json!({ "input": text, "truncate": false })).status, 400);
            let own = embed("/embedding", json!({ "content": text, "truncate": true })).json();
            assert_eq!(own[0]["embedding"][0], begin);
            for none in [json!(null), json!(false), json!("NONE")] {
                embed("/v1/embeddings", json!({ "input": text, "truncate": none })).error(400);
            }
        }
        let last = one(json!({ "input": "a b c d", "truncate_prompt_tokens": around + 2 }));
        assert_eq!(last, one(json!({ "input": "c d" })));
    }
}

#[test]
fn fewer_dimensions_are_the_first_ones_at_length_one() {
    let server = server();
    let answer = server
        .post("/v1/embeddings", &json!({ "model": "embeds", "input": TEXTS[0], "dimensions": 3 }))
        .json();
    let mut expected = expected(&TEXTS[..1])[0][..3].to_vec();
    Normalization::P(2).apply(&mut expected);
    let found = floats(&answer["data"][0]["embedding"]);
    assert!(
        found.len() == 3 && found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6),
        "{found:?} {expected:?}"
    );
}
