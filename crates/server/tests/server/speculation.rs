//! Speculative decoding, as clients see it.

use serde_json::json;

use crate::client::{Running, speculating};

#[test]
fn drafts_change_no_answer_and_are_counted() {
    let (plain, server) =
        (Running::new(), Running::serve(vec![("demo".into(), speculating().into())], |_| {}));
    let (mut drafted, mut accepted) = (0, 0);
    for temperature in [0.0, 0.7] {
        let body = json!({
            "prompt": "one two three four one two three four one two three four one two",
            "n_predict": 60, "ignore_eos": true, "temperature": temperature, "seed": 3, "n_probs": 2,
        });
        let (expected, answer) =
            (plain.post("/completion", &body).json(), server.post("/completion", &body).json());
        for part in ["content", "tokens", "stop_type", "completion_probabilities", "tokens_predicted"] {
            assert_eq!(answer[part], expected[part], "{part}");
        }
        assert!(expected["timings"].get("draft_n").is_none(), "nothing was drafted");
        let count = |name: &str| answer["timings"][name].as_u64().unwrap_or_else(|| panic!("no `{name}`"));
        drafted += count("draft_n");
        accepted += count("draft_n_accepted");
    }
    assert!(0 < accepted && accepted <= drafted, "{accepted} of {drafted}");
    server.until("vllm:spec_decode_num_draft_tokens_total", drafted as f64);
    server.until("vllm:spec_decode_num_accepted_tokens_total", accepted as f64);
    let drafts = server.figure("vllm:spec_decode_num_drafts_total");
    assert!(1.0 <= drafts && drafts <= drafted as f64, "{drafts} drafts of {drafted} tokens");
    assert_eq!(plain.figure("vllm:spec_decode_num_draft_tokens_total"), 0.0);
}
