//! `embed` and `rerank`.

use testkit::fixtures;

use crate::common::{Home, write};

fn encoder(name: &str) -> Home {
    let (_, spec) =
        fixtures::encoders().into_iter().find(|(model, _)| model == name).expect("a model of this name");
    Home::with(&spec)
}

/// Texts as arguments, as lines of a file and on stdin have the same embeddings, in every shape of the output.
#[test]
fn embeddings_do_not_depend_on_where_texts_come_from() {
    let home = encoder("F32-bert");
    let json = home.run_with("embed -m MODEL --json", &["a", "b c"]).json();
    let data = json["data"].as_array().expect("one entry for each text");
    assert_eq!(data.len(), 2);
    assert_eq!((&json["object"], &data[1]["index"]), (&"list".into(), &1.into()));
    let values: Vec<f64> =
        data[0]["embedding"].as_array().expect("values").iter().filter_map(|x| x.as_f64()).collect();
    let length = values.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!((length - 1.0).abs() < 1e-5, "{length}");

    let lines = home.run_with("embed -m MODEL", &["a", "b c"]).quiet();
    assert_eq!(lines.lines().count(), 2);
    let file = write(&home.path("texts.txt"), "a\nb c\n");
    assert_eq!(home.run_with("embed -m MODEL -f", &[file.to_str().expect("a path")]).quiet(), lines);
    assert_eq!(home.pipe("embed -m MODEL -f -", "a\nb c\n").quiet(), lines);
    let npy = home.path("x.npy");
    home.run_with("embed -m MODEL -o", &[npy.to_str().expect("a path"), "a", "b c"]).quiet();
    let npy = std::fs::read(npy).expect("it is written");
    assert_eq!(npy.len(), 128 + 2 * values.len() * 4);
}

#[test]
fn documents_come_in_the_order_of_their_scores() {
    let home = encoder("F32-bert-reranker");
    let documents = ["one", "two words", "three more words", ""];
    let json = home.run_with("rerank -m MODEL --json query", &documents).json();
    let results = json["results"].as_array().expect("one entry for each document");
    let score = |result: &serde_json::Value| result["relevance_score"].as_f64().expect("a score");
    assert_eq!(results.len(), documents.len());
    assert!(results.is_sorted_by(|a, b| score(a) >= score(b)), "{json}");
    // A document's score does not depend on the others.
    let first = results[0]["index"].as_u64().expect("an index") as usize;
    let alone = home.run_with("rerank -m MODEL --json query", &[documents[first]]).json();
    assert_eq!(score(&alone["results"][0]), score(&results[0]));
}

#[test]
fn what_cannot_be_done_is_said() {
    let home = encoder("F32-bert");
    let text = home.run("run -m MODEL -p x").failed(1);
    assert!(text.contains("embed") && text.contains("rerank"), "{text}");
    let text = home.run_with("embed -m MODEL --jsn", &["a"]).failed(2);
    assert!(text.contains("--jsn"), "{text}");
    let text = home.run("embed -m MODEL --pooling rank x").failed(1);
    assert!(text.contains("no classifier"), "{text}");
    let text = home.run("rerank -m MODEL x y").failed(1);
    assert!(text.contains("no reranker"), "{text}");
    home.run_with("embed -m MODEL --", &["-5"]).quiet();
}
