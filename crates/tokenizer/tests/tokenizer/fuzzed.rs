//! The fuzz target's body on vocabularies and texts made of pieces of others.

use std::time::Duration;

#[path = "../../../../fuzz/bodies/tokenizer.rs"]
mod body;
#[path = "../../../../fuzz/bodies/mutation.rs"]
mod mutation;

#[test]
fn pieces_of_vocabularies_and_texts() {
    let texts =
        ["Hello world, it's 12345!\r\n\n  x", "日本語 e\u{301} \u{a0}\u{3000}½", "a<|x|>b \u{fdd0}\u{0}"];
    let tokens = "\0ab\0\u{120}a\0<|x|>\0\u{2581}a\0\u{2581}\u{2581}\0bc\0a b\0ab c\0\u{120} a\0<unk>\0</s>";
    let choices = [
        [0, 0, 0, 1],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 2, 3, 0],
        [1, 3, 0, 0],
        [2, 4, 5, 7],
        [3, 1, 1, 1],
        [1, 5, 0, 0],
        [1, 6, 0, 0],
        [4, 0, 0, 0],
        [8, 0, 0, 1],
        [12, 0, 0, 0],
    ];
    let corpus = choices.iter().flat_map(|choice| {
        texts.iter().map(|text| [&choice[..], text.as_bytes(), tokens.as_bytes()].concat())
    });
    mutation::run(&corpus.collect::<Vec<_>>(), Duration::from_secs(5), body::tokenize);
}
