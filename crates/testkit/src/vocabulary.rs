//! A SentencePiece vocabulary of 512 tokens with every kind of token.

use gguf::{Array, Metadata, Value};

/// Number of tokens.
pub const VOCAB: usize = 512;

/// Merged pieces, highest rank first.
const MERGED: &str = "▁t he in ▁a er on ▁the re ▁s ▁w or at en ▁b is it an ed es ▁c ▁o ou al ar ing ▁f ▁p ▁m nd ▁h \
    ▁d st ▁to ▁and ▁in le ▁of ▁n ▁l ll om ent ic ▁is ▁g ▁e as ro ve ion ▁it et ▁be ▁re ▁th ▁y el \
    ow ay ▁I ▁u ▁on ▁you ▁wh ot id ut ur ac ▁for ▁st ver ▁we ▁was ▁he ld ad ig ▁an ▁that im \
    ith ▁with ce gh ▁not ▁no ir ▁are ▁as ch us ke ▁at av ave ▁have ly ▁one igh ight ter ▁or ▁do \
    ▁can ai aid ▁said ▁but oul ould ▁so ▁by and all ill out ▁my ▁go ▁up 世界 你好 ▁H ▁T ▁Hel lo \
    ▁Hello ▁wor ▁world ▁The ▁▁ ▁▁▁▁";

/// Single-character pieces.
const CHARACTERS: &str = "▁eatonishrdlucmfwgypbvkxjqzETAOINSHRDLUCMFWGYPBVKXJQZ0123456789.,!?'\"-:;()[]{}<>/\\|@#$%&*+=_~^`éèüöäñçßøåαβγδабвд你好世界日本語🙂";

/// The chat template: role and content of each message, terminated by EOS.
const TEMPLATE: &str = r"{% for message in messages %}
{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
";

/// Sets all `tokenizer.*` keys. Tokens are in the order of real Llama files: `<unk>`, BOS, EOS, 256 bytes, merged
/// pieces by rank, single characters.
pub(crate) fn describe(metadata: &mut Metadata) {
    let [normal, unknown, control, byte]: [i32; 4] = [1, 2, 3, 6];
    let (mut tokens, mut scores, mut types) = (Vec::new(), Vec::new(), Vec::new());
    for (token, kind) in [("<unk>", unknown), ("<s>", control), ("</s>", control)] {
        tokens.push(token.to_owned());
        types.push(kind);
    }
    tokens.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    types.resize(tokens.len(), byte);
    scores.resize(tokens.len(), 0.0);
    tokens.extend(MERGED.split_whitespace().map(str::to_owned));
    tokens.extend(CHARACTERS.chars().map(String::from));
    types.resize(tokens.len(), normal);
    scores.extend((0..tokens.len() - scores.len()).map(|rank| -(rank as f32)));
    assert_eq!(tokens.len(), VOCAB);

    let text = |s: &str| Value::String(s.to_owned());
    for (key, value) in [
        ("model", text("llama")),
        ("pre", text("default")),
        ("tokens", Value::Array(Array::String(tokens))),
        ("scores", Value::Array(Array::F32(scores))),
        ("token_type", Value::Array(Array::I32(types))),
        ("bos_token_id", Value::U32(1)),
        ("eos_token_id", Value::U32(2)),
        ("unknown_token_id", Value::U32(0)),
        ("add_bos_token", Value::Bool(true)),
        ("add_eos_token", Value::Bool(false)),
        ("add_space_prefix", Value::Bool(true)),
    ] {
        metadata.insert(format!("tokenizer.ggml.{key}"), value);
    }
    metadata.insert("tokenizer.chat_template", text(TEMPLATE));
}
