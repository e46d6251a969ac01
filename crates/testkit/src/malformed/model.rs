//! Valid files with invalid hyper-parameters or tensors.

use super::llama::{Llama, VOCABULARY};
use super::raw::{array, id, le, string};
use super::{Malformed, Stage};

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

fn case(name: &'static str, model: Llama, expect: &'static [&'static str]) -> Malformed {
    Malformed { name, bytes: model.bytes(), stage: Stage::Model, expect }
}

fn with_u32(key: &str, value: u32) -> Llama {
    Llama::new().set(key, id::U32, le(value))
}

fn with_f32(key: &str, value: f32) -> Llama {
    Llama::new().set(key, id::F32, le(value))
}

fn with_string(key: &str, value: &str) -> Llama {
    Llama::new().set(key, id::STRING, string(value))
}

fn without(name: &str) -> Llama {
    Llama::new().without(name)
}

fn shaped(tensor: &str, dims: &[u64]) -> Llama {
    Llama::new().tensor(tensor, dims)
}

/// The base model with RoPE scaling by `factor`.
fn rope_scaled(factor: f32) -> Llama {
    with_string(SCALING, "linear").set(FACTOR, id::F32, le(factor))
}

pub(super) fn cases() -> Vec<Malformed> {
    [hyper_parameters(), tensors()].concat()
}

fn hyper_parameters() -> Vec<Malformed> {
    vec![
        case("no architecture", without("general.architecture"), &["general.architecture"]),
        case(
            "unknown architecture",
            with_string("general.architecture", "perceptron"),
            &["general.architecture", "perceptron"],
        ),
        case(
            "architecture as number",
            with_u32("general.architecture", 1),
            &["general.architecture", "u32 1"],
        ),
        case("no block count", without(BLOCKS), &[BLOCKS]),
        case("no context length", without(CONTEXT), &[CONTEXT]),
        case("no embedding length", without(EMBEDDING), &[EMBEDDING]),
        case("no feed-forward length", without(FEED_FORWARD), &[FEED_FORWARD]),
        case("no head count", without(HEADS), &[HEADS]),
        case("no epsilon", without(EPSILON), &[EPSILON]),
        case("0 blocks", with_u32(BLOCKS, 0), &[BLOCKS, "0"]),
        case("context of 0", with_u32(CONTEXT, 0), &[CONTEXT, "0"]),
        case("embedding of 0", with_u32(EMBEDDING, 0), &[EMBEDDING, "0"]),
        case("feed-forward of 0", with_u32(FEED_FORWARD, 0), &[FEED_FORWARD, "0"]),
        case("0 heads", with_u32(HEADS, 0), &[HEADS, "0"]),
        case("0 key/value heads", with_u32(KV_HEADS, 0), &[KV_HEADS, "0"]),
        case(
            "20,000 blocks, and as many tensors that are none of theirs",
            with_u32(BLOCKS, 20_000).scalars(20_000),
            &[BLOCKS, "20000"],
        ),
        case(
            "2,000,000 empty tokens",
            Llama::new().set(
                "tokenizer.ggml.tokens",
                id::ARRAY,
                [le(id::STRING), le(2_000_000u64), vec![0; 16_000_000]].concat(),
            ),
            &["token_embd.weight", "2000000"],
        ),
        case("2^32-1 blocks", with_u32(BLOCKS, u32::MAX), &["4294967295"]),
        case("one block more than the file has", with_u32(BLOCKS, 3), &["blk.2."]),
        case("embedding of 2^32-1", with_u32(EMBEDDING, u32::MAX), &["4294967295"]),
        case("2^32-1 heads", with_u32(HEADS, u32::MAX), &[HEADS, "4294967295"]),
        case("heads that do not divide the embedding", with_u32(HEADS, 3), &[HEADS, "3"]),
        case("heads that are no multiple of key/value heads", with_u32(KV_HEADS, 3), &[KV_HEADS, "3"]),
        case("more key/value heads than heads", with_u32(KV_HEADS, 4), &[KV_HEADS, "4"]),
        case("block count negative", Llama::new().set(BLOCKS, id::I32, le(-1i32)), &[BLOCKS, "-1"]),
        case("block count as float", with_f32(BLOCKS, 2.0), &[BLOCKS, "f32 2"]),
        case("head count as string", with_string(HEADS, "2"), &[HEADS, "string \"2\""]),
        case(
            "embedding of 2^40",
            Llama::new().set(EMBEDDING, id::U64, le(1u64 << 40)),
            &[EMBEDDING, "1099511627776"],
        ),
        case(
            "more head counts than blocks",
            Llama::new().set(HEADS, id::ARRAY, array(id::U32, &[le(2u32), le(2u32), le(2u32)])),
            &[HEADS],
        ),
        case("epsilon not a number", with_f32(EPSILON, f32::NAN), &[EPSILON, "NaN"]),
        case("epsilon infinite", with_f32(EPSILON, f32::INFINITY), &[EPSILON, "inf"]),
        case("epsilon negative", with_f32(EPSILON, -1e-5), &[EPSILON, "-0.00001"]),
        case("epsilon as string", with_string(EPSILON, "1e-5"), &[EPSILON, "string \"1e-5\""]),
        case("theta not a number", with_f32(THETA, f32::NAN), &[THETA, "NaN"]),
        case("theta infinite", with_f32(THETA, f32::INFINITY), &[THETA, "inf"]),
        case("theta 0", with_f32(THETA, 0.0), &[THETA, "0"]),
        case("theta negative", with_f32(THETA, -10000.0), &[THETA, "-10000"]),
        case("odd rope dimension", with_u32(ROPE_DIMS, 3), &[ROPE_DIMS, "3"]),
        case("rope dimension beyond the head", with_u32(ROPE_DIMS, 8), &[ROPE_DIMS, "8"]),
        case("unknown rope scaling", with_string(SCALING, "wishful"), &[SCALING, "wishful"]),
        case("rope scaling factor not a number", rope_scaled(f32::NAN), &[FACTOR, "NaN"]),
        case("rope scaling factor negative", rope_scaled(-2.0), &[FACTOR, "-2"]),
        case("experts without their tensors", with_u32(EXPERTS, 4), &["expert"]),
        case("experts without end", with_u32(EXPERTS, u32::MAX), &["expert"]),
        case(
            "more experts per token than experts",
            with_u32(EXPERTS, 4).set(EXPERTS_USED, id::U32, le(5u32)),
            &[EXPERTS_USED, "5", "4 experts"],
        ),
        case(
            "2^24 experts, none of them there",
            with_u32(EXPERTS, 1 << 24).set(EXPERTS_USED, id::U32, le(1u32 << 24)),
            &["blk.0.ffn_gate_inp.weight", "16777216"],
        ),
        case(
            "a separate tensor per expert",
            with_u32(EXPERTS, 2)
                .set(EXPERTS_USED, id::U32, le(1u32))
                .tensor("blk.0.ffn_gate.0.weight", &[8, 16]),
            &["blk.0.ffn_gate.0.weight", "a single expert"],
        ),
        case(
            "a key that nobody knows",
            with_u32("llama.something_new", 1),
            &["llama.something_new", "u32 1"],
        ),
        case(
            "a key with an escape sequence",
            with_u32("llama.\x1b[2J", 1),
            &["llama.\\u{1b}[2J", "not supported"],
        ),
        case(
            "no width for some layers",
            Llama::new().set(FEED_FORWARD, id::ARRAY, array(id::U32, &[le(16u32), le(0u32)])),
            &[FEED_FORWARD, "0"],
        ),
        case(
            "sizes for some layers only",
            Llama::new().set(FEED_FORWARD, id::ARRAY, array(id::U32, &[le(16u32)])),
            &[FEED_FORWARD, "array of 1 u32", "2 layers"],
        ),
        case(
            "key/value heads of a layer that do not divide its heads",
            Llama::new().set(KV_HEADS, id::ARRAY, array(id::U32, &[le(1u32), le(3u32)])),
            &[KV_HEADS, "3"],
        ),
    ]
}

fn tensors() -> Vec<Malformed> {
    vec![
        case("no token embedding", without("token_embd.weight"), &["token_embd.weight"]),
        case("no output norm", without("output_norm.weight"), &["output_norm.weight"]),
        case("no attention norm", without("blk.0.attn_norm.weight"), &["blk.0.attn_norm.weight"]),
        case("no query weight", without("blk.1.attn_q.weight"), &["blk.1.attn_q.weight"]),
        case("no key weight", without("blk.0.attn_k.weight"), &["blk.0.attn_k.weight"]),
        case("no value weight", without("blk.1.attn_v.weight"), &["blk.1.attn_v.weight"]),
        case("no attention output", without("blk.0.attn_output.weight"), &["blk.0.attn_output.weight"]),
        case("no feed-forward norm", without("blk.1.ffn_norm.weight"), &["blk.1.ffn_norm.weight"]),
        case("no gate", without("blk.0.ffn_gate.weight"), &["blk.0.ffn_gate.weight"]),
        case("no up", without("blk.1.ffn_up.weight"), &["blk.1.ffn_up.weight"]),
        case("no down", without("blk.1.ffn_down.weight"), &["blk.1.ffn_down.weight"]),
        case(
            "one row of the embedding missing",
            shaped("token_embd.weight", &[8, VOCABULARY - 1]),
            &["token_embd.weight", "[8, 263]"],
        ),
        case(
            "embedding turned over",
            shaped("token_embd.weight", &[VOCABULARY, 8]),
            &["token_embd.weight", "[264, 8]"],
        ),
        case(
            "embedding of one dimension",
            shaped("token_embd.weight", &[8 * VOCABULARY]),
            &["token_embd.weight", "[2112]"],
        ),
        case(
            "one row of the output missing",
            shaped("output.weight", &[8, VOCABULARY - 1]),
            &["output.weight", "[8, 263]"],
        ),
        case("output norm too short", shaped("output_norm.weight", &[7]), &["output_norm.weight", "[7]"]),
        case("norm too long", shaped("blk.1.attn_norm.weight", &[16]), &["blk.1.attn_norm.weight", "[16]"]),
        case(
            "norm of two dimensions",
            shaped("blk.0.ffn_norm.weight", &[8, 8]),
            &["blk.0.ffn_norm.weight", "[8, 8]"],
        ),
        case(
            "query weight too small",
            shaped("blk.0.attn_q.weight", &[8, 4]),
            &["blk.0.attn_q.weight", "[8, 4]"],
        ),
        case(
            "key weight for all heads",
            shaped("blk.0.attn_k.weight", &[8, 8]),
            &["blk.0.attn_k.weight", "[8, 8]"],
        ),
        case(
            "key weight turned over",
            shaped("blk.1.attn_k.weight", &[4, 8]),
            &["blk.1.attn_k.weight", "[4, 8]"],
        ),
        case(
            "value weight of three dimensions",
            shaped("blk.0.attn_v.weight", &[8, 2, 2]),
            &["blk.0.attn_v.weight", "[8, 2, 2]"],
        ),
        case(
            "attention output too wide",
            shaped("blk.1.attn_output.weight", &[16, 8]),
            &["blk.1.attn_output.weight", "[16, 8]"],
        ),
        case(
            "gate turned over",
            shaped("blk.0.ffn_gate.weight", &[16, 8]),
            &["blk.0.ffn_gate.weight", "[16, 8]"],
        ),
        case("up too small", shaped("blk.1.ffn_up.weight", &[8, 15]), &["blk.1.ffn_up.weight", "[8, 15]"]),
        case(
            "down turned over",
            shaped("blk.1.ffn_down.weight", &[8, 16]),
            &["blk.1.ffn_down.weight", "[8, 16]"],
        ),
        case("bias of the wrong length", shaped("blk.0.attn_q.bias", &[7]), &["blk.0.attn_q.bias"]),
        case(
            "rope factors of the wrong length",
            shaped("rope_freqs.weight", &[3]),
            &["rope_freqs.weight", "[3]"],
        ),
        case("unknown tensor", shaped("blk.0.mystery.weight", &[8]), &["blk.0.mystery.weight"]),
        case("unknown tensor outside the blocks", shaped("mystery.weight", &[8]), &["mystery.weight"]),
        case("one block more than the count says", Llama::new().block(2), &["blk.2."]),
    ]
}
