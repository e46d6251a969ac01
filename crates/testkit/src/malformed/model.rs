//! Valid files with invalid hyper-parameters or tensors.

use super::llama::{Llama, VOCABULARY};
use super::raw::{Value, id, le};
use super::{Malformed, Stage, refused};

const ARCHITECTURE: &str = "general.architecture";
const BLOCKS: &str = "llama.block_count";
const CONTEXT: &str = "llama.context_length";
const EMBEDDING: &str = "llama.embedding_length";
const FEED_FORWARD: &str = "llama.feed_forward_length";
const HEADS: &str = "llama.attention.head_count";
const KV_HEADS: &str = "llama.attention.head_count_kv";
const EPSILON: &str = "llama.attention.layer_norm_rms_epsilon";
const ROPE_DIMS: &str = "llama.rope.dimension_count";
const THETA: &str = "llama.rope.freq_base";
const SCALING: &str = "llama.rope.scaling.type";
const FACTOR: &str = "llama.rope.scaling.factor";
const EXPERTS: &str = "llama.expert_count";
const EXPERTS_USED: &str = "llama.expert_used_count";

fn with(key: &str, value: impl Into<Value>) -> Llama {
    Llama::new().set(key, value)
}

/// The base model with so many experts, of which a token uses so many.
fn experts(count: u32, used: u32) -> Llama {
    with(EXPERTS, count).set(EXPERTS_USED, used)
}

/// The base model with RoPE scaling by `factor`.
fn rope_scaled(factor: f32) -> Llama {
    with(SCALING, "linear").set(FACTOR, factor)
}

pub(super) fn cases() -> Vec<Malformed> {
    let missing = [
        ("no architecture", ARCHITECTURE),
        ("no block count", BLOCKS),
        ("no context length", CONTEXT),
        ("no embedding length", EMBEDDING),
        ("no feed-forward length", FEED_FORWARD),
        ("no head count", HEADS),
        ("no epsilon", EPSILON),
        ("no token embedding", "token_embd.weight"),
        ("no output norm", "output_norm.weight"),
        ("no attention norm", "blk.0.attn_norm.weight"),
        ("no query weight", "blk.1.attn_q.weight"),
        ("no key weight", "blk.0.attn_k.weight"),
        ("no value weight", "blk.1.attn_v.weight"),
        ("no attention output", "blk.0.attn_output.weight"),
        ("no feed-forward norm", "blk.1.ffn_norm.weight"),
        ("no gate", "blk.0.ffn_gate.weight"),
        ("no up", "blk.1.ffn_up.weight"),
        ("no down", "blk.1.ffn_down.weight"),
    ];
    let shapes: [(_, _, &[u64], _); 19] = [
        ("row of the embedding missing", "token_embd.weight", &[8, VOCABULARY - 1], "[8, 263]"),
        ("embedding transposed", "token_embd.weight", &[VOCABULARY, 8], "[264, 8]"),
        ("embedding of one dimension", "token_embd.weight", &[8 * VOCABULARY], "[2112]"),
        ("row of the output missing", "output.weight", &[8, VOCABULARY - 1], "[8, 263]"),
        ("output norm too short", "output_norm.weight", &[7], "[7]"),
        ("norm too long", "blk.1.attn_norm.weight", &[16], "[16]"),
        ("norm of two dimensions", "blk.0.ffn_norm.weight", &[8, 8], "[8, 8]"),
        ("query weight too small", "blk.0.attn_q.weight", &[8, 4], "[8, 4]"),
        ("key weight for all heads", "blk.0.attn_k.weight", &[8, 8], "[8, 8]"),
        ("key weight transposed", "blk.1.attn_k.weight", &[4, 8], "[4, 8]"),
        ("value weight of three dimensions", "blk.0.attn_v.weight", &[8, 2, 2], "[8, 2, 2]"),
        ("attention output too wide", "blk.1.attn_output.weight", &[16, 8], "[16, 8]"),
        ("gate transposed", "blk.0.ffn_gate.weight", &[16, 8], "[16, 8]"),
        ("up too small", "blk.1.ffn_up.weight", &[8, 15], "[8, 15]"),
        ("down transposed", "blk.1.ffn_down.weight", &[8, 16], "[8, 16]"),
        ("bias of the wrong length", "blk.0.attn_q.bias", &[7], ""),
        ("rope factors of the wrong length", "rope_freqs.weight", &[3], "[3]"),
        ("unknown tensor", "blk.0.mystery.weight", &[8], ""),
        ("unknown tensor outside the blocks", "mystery.weight", &[8], ""),
    ];
    let missing =
        missing.map(|(name, key)| refused(Stage::Model, key, [(name, Llama::new().without(key), &[])]));
    let shapes = shapes.map(|(name, tensor, dims, shape)| {
        refused(Stage::Model, tensor, [(name, Llama::new().tensor(tensor, dims), &[shape])])
    });
    [missing.concat(), shapes.concat(), refused(Stage::Model, "", hyper_parameters())].concat()
}

type Case = (&'static str, Llama, &'static [&'static str]);

fn hyper_parameters() -> [Case; 46] {
    let empty_tokens = [le(id::STRING), le(2_000_000u64), vec![0; 16_000_000]].concat();
    let split_expert = experts(2, 1).tensor("blk.0.ffn_gate.0.weight", &[8, 16]);
    [
        ("unknown architecture", with(ARCHITECTURE, "perceptron"), &[ARCHITECTURE, "perceptron"]),
        ("architecture as number", with(ARCHITECTURE, 1u32), &[ARCHITECTURE, "u32 1"]),
        ("0 blocks", with(BLOCKS, 0u32), &[BLOCKS, "0"]),
        ("context of 0", with(CONTEXT, 0u32), &[CONTEXT, "0"]),
        ("embedding of 0", with(EMBEDDING, 0u32), &[EMBEDDING, "0"]),
        ("feed-forward of 0", with(FEED_FORWARD, 0u32), &[FEED_FORWARD, "0"]),
        ("0 heads", with(HEADS, 0u32), &[HEADS, "0"]),
        ("0 key/value heads", with(KV_HEADS, 0u32), &[KV_HEADS, "0"]),
        ("20,000 blocks, other tensors", with(BLOCKS, 20_000u32).scalars(20_000), &[BLOCKS, "20000"]),
        (
            "2,000,000 empty tokens",
            with("tokenizer.ggml.tokens", (id::ARRAY, empty_tokens)),
            &["token_embd.weight", "2000000"],
        ),
        ("2^32-1 blocks", with(BLOCKS, u32::MAX), &["4294967295"]),
        ("one block more than the file has", with(BLOCKS, 3u32), &["blk.2."]),
        ("one block more than the count says", Llama::new().block(2), &["blk.2."]),
        ("embedding of 2^32-1", with(EMBEDDING, u32::MAX), &["4294967295"]),
        ("2^32-1 heads", with(HEADS, u32::MAX), &[HEADS, "4294967295"]),
        ("heads that do not divide the embedding", with(HEADS, 3u32), &[HEADS, "3"]),
        ("heads no multiple of key/value heads", with(KV_HEADS, 3u32), &[KV_HEADS, "3"]),
        ("more key/value heads than heads", with(KV_HEADS, 4u32), &[KV_HEADS, "4"]),
        ("block count negative", with(BLOCKS, -1i32), &[BLOCKS, "-1"]),
        ("block count as float", with(BLOCKS, 2.0f32), &[BLOCKS, "f32 2"]),
        ("head count as string", with(HEADS, "2"), &[HEADS, "string \"2\""]),
        ("embedding of 2^40", with(EMBEDDING, 1u64 << 40), &[EMBEDDING, "1099511627776"]),
        ("more head counts than blocks", with(HEADS, vec![2u32; 3]), &[HEADS]),
        ("epsilon not a number", with(EPSILON, f32::NAN), &[EPSILON, "NaN"]),
        ("epsilon infinite", with(EPSILON, f32::INFINITY), &[EPSILON, "inf"]),
        ("epsilon negative", with(EPSILON, -1e-5f32), &[EPSILON, "-0.00001"]),
        ("epsilon as string", with(EPSILON, "1e-5"), &[EPSILON, "string \"1e-5\""]),
        ("theta not a number", with(THETA, f32::NAN), &[THETA, "NaN"]),
        ("theta infinite", with(THETA, f32::INFINITY), &[THETA, "inf"]),
        ("theta 0", with(THETA, 0.0f32), &[THETA, "0"]),
        ("theta negative", with(THETA, -10000.0f32), &[THETA, "-10000"]),
        ("odd rope dimension", with(ROPE_DIMS, 3u32), &[ROPE_DIMS, "3"]),
        ("rope dimension beyond the head", with(ROPE_DIMS, 8u32), &[ROPE_DIMS, "8"]),
        ("unknown rope scaling", with(SCALING, "wishful"), &[SCALING, "wishful"]),
        ("rope scaling factor not a number", rope_scaled(f32::NAN), &[FACTOR, "NaN"]),
        ("rope scaling factor negative", rope_scaled(-2.0), &[FACTOR, "-2"]),
        ("experts without their tensors", with(EXPERTS, 4u32), &["expert"]),
        ("experts without end", with(EXPERTS, u32::MAX), &["expert"]),
        ("more experts per token than experts", experts(4, 5), &[EXPERTS_USED, "5", "4 experts"]),
        (
            "2^24 experts, none of them there",
            experts(1 << 24, 1 << 24),
            &["blk.0.ffn_gate_inp.weight", "16777216"],
        ),
        ("a tensor per expert", split_expert, &["blk.0.ffn_gate.0.weight", "a single expert"]),
        ("unknown key", with("llama.something_new", 1u32), &["llama.something_new", "u32 1"]),
        ("escape sequence in a key", with("llama.\x1b[2J", 1u32), &["llama.\\u{1b}[2J", "not supported"]),
        ("no width for some layers", with(FEED_FORWARD, vec![16u32, 0]), &[FEED_FORWARD, "0"]),
        (
            "sizes for some layers only",
            with(FEED_FORWARD, vec![16u32]),
            &[FEED_FORWARD, "array of 1 u32", "2 layers"],
        ),
        ("key/value heads that do not divide heads", with(KV_HEADS, vec![1u32, 3]), &[KV_HEADS, "3"]),
    ]
}
