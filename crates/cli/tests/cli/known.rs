//! The answers of a real model, where it is at hand.

use crate::common::Home;

/// What llama.cpp makes of BOS alone at temperature 0.
const STORY: &str = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One \
    day, she saw a big, red ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go \
    to the park.\" Lily was sad and didn't know what to do. She said, \"I want to play with your ball, but I can't \
    find it.\"\nLily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to do.\"\n\
    Lily didn't want to help her mom, so she";

#[test]
fn the_story_is_told_by_both_files_and_backends() {
    let home = Home::new();
    for (file, backend) in
        [("stories260k.gguf", "cpu"), ("stories260k-v1.gguf", "cpu"), ("stories260k.gguf", "reference")]
    {
        let Some(path) = testkit::shared(&format!("models/{file}")) else { return };
        let path = path.display().to_string();
        let args = format!("run --raw -n 200 --temp 0 --backend {backend} -p");
        let text = home.run_with(&args, &["", "-m", &path]).quiet();
        assert_eq!(text.strip_suffix('\n').unwrap_or(&text), STORY, "{file} on {backend}");
        let plain = home.run_with("run -n 5 --temp 0 -p", &["", "-m", &path]);
        assert_eq!(plain.stderr.lines().count(), 1, "no template: said once");
        assert!(text.starts_with(plain.ok().trim_end_matches('\n')));
    }
}
