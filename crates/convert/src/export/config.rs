//! `tokenizer_config.json` and `config.json`.

use gguf::Metadata;
use serde_json::{Map, Value, json};
use tokenizer::Kind;

use super::Error;
use super::vocabulary::Vocabulary;

/// Names of architectures in GGUF files, and model type and class of Hugging Face.
const ARCHITECTURES: &[(&str, &str, &str)] = &[
    ("llama", "llama", "LlamaForCausalLM"),
    ("mistral3", "ministral3", "Ministral3ForCausalLM"),
    ("llama4", "llama4_text", "Llama4ForCausalLM"),
    ("qwen2", "qwen2", "Qwen2ForCausalLM"),
    ("qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM"),
    ("qwen3", "qwen3", "Qwen3ForCausalLM"),
    ("qwen3vl", "qwen3_vl", "Qwen3VLForConditionalGeneration"),
    ("qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM"),
    ("qwen35", "qwen3_5_text", "Qwen3_5ForCausalLM"),
    ("qwen35moe", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"),
    ("qwen3next", "qwen3_next", "Qwen3NextForCausalLM"),
    ("gemma2", "gemma2", "Gemma2ForCausalLM"),
    ("gemma3", "gemma3_text", "Gemma3ForCausalLM"),
    ("gemma4", "gemma4_text", "Gemma4ForCausalLM"),
    ("ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM"),
    ("glm4", "glm4", "Glm4ForCausalLM"),
    ("glm4moe", "glm4_moe", "Glm4MoeForCausalLM"),
    ("granite", "granite", "GraniteForCausalLM"),
    ("granitemoe", "granitemoe", "GraniteMoeForCausalLM"),
    ("granitehybrid", "granitemoehybrid", "GraniteMoeHybridForCausalLM"),
    ("olmo2", "olmo2", "Olmo2ForCausalLM"),
    ("phi3", "phi3", "Phi3ForCausalLM"),
    ("smollm3", "smollm3", "SmolLM3ForCausalLM"),
    ("command-r", "cohere", "CohereForCausalLM"),
    ("cohere2", "cohere2", "Cohere2ForCausalLM"),
    ("starcoder2", "starcoder2", "Starcoder2ForCausalLM"),
    ("stablelm", "stablelm", "StableLmForCausalLM"),
    ("gpt-oss", "gpt_oss", "GptOssForCausalLM"),
    ("deepseek2", "deepseek_v3", "DeepseekV3ForCausalLM"),
    ("minimax-m2", "minimax_m2", "MiniMaxM2ForCausalLM"),
    ("hunyuan-moe", "hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM"),
    ("lfm2", "lfm2", "Lfm2ForCausalLM"),
    ("lfm2moe", "lfm2_moe", "Lfm2MoeForCausalLM"),
    ("mamba2", "mamba2", "Mamba2ForCausalLM"),
    ("falcon-h1", "falcon_h1", "FalconH1ForCausalLM"),
    ("nemotron_h", "nemotron_h", "NemotronHForCausalLM"),
    ("nemotron_h_moe", "nemotron_h", "NemotronHForCausalLM"),
    ("bert", "bert", "BertModel"),
    ("nomic-bert", "nomic_bert", "NomicBertModel"),
    ("nomic-bert-moe", "nomic_bert", "NomicBertModel"),
    ("jina-bert-v2", "bert", "JinaBertModel"),
    ("modern-bert", "modernbert", "ModernBertModel"),
    ("gemma-embedding", "gemma3_text", "Gemma3TextModel"),
    ("gpt2", "gpt2", "GPT2LMHeadModel"),
];

/// Keys of a GGUF file after the architecture's name, and of `config.json`.
const SIZES: [(&str, &str); 9] = [
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
];

/// The same, of numbers.
const NUMBERS: [(&str, &str); 3] = [
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.layer_norm_epsilon", "layer_norm_eps"),
    ("rope.freq_base", "rope_theta"),
];

const ROLES: [&str; 6] = ["bos", "eos", "unk", "sep", "pad", "mask"];

/// `config.json`: the model's type, its sizes as far as they are single numbers, and ids of special tokens.
pub(super) fn config(vocabulary: &Vocabulary) -> Result<Value, Error> {
    let metadata = vocabulary.metadata;
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    let mut config = Map::new();
    match ARCHITECTURES.iter().find(|(name, ..)| *name == architecture) {
        Some((_, model_type, class)) => {
            let (model_type, class) = match (architecture, metadata.str("tokenizer.ggml.model")?) {
                ("bert", Some("t5")) => ("xlm-roberta", "XLMRobertaModel"),
                ("bert", Some("gpt2")) => ("roberta", "RobertaModel"),
                _ => (*model_type, *class),
            };
            config.insert("architectures".to_owned(), json!([class]));
            config.insert("model_type".to_owned(), model_type.into());
        }
        None => drop(config.insert("model_type".to_owned(), architecture.replace('-', "_").into())),
    }
    for (key, name) in SIZES {
        let value = metadata.get(&format!("{architecture}.{key}")).and_then(gguf::Value::integer);
        if let Some(value) = value.and_then(|value| u64::try_from(value).ok()) {
            config.insert(name.to_owned(), value.into());
        }
    }
    for (key, name) in NUMBERS {
        // The shortest digits of the number in 32 bits: 0.00001, not 0.000009999999747378752.
        let value = metadata.f32(&format!("{architecture}.{key}"))?.map(|value| value.to_string());
        if let Some(value) = value.and_then(|value| value.parse::<f64>().ok()) {
            config.insert(name.to_owned(), value.into());
        }
    }
    config.insert("vocab_size".to_owned(), vocabulary.tokenizer.vocab_size().into());
    for role in ROLES {
        if let Some(id) = stated(metadata, role)? {
            config.insert(format!("{role}_token_id"), id.into());
        }
    }
    Ok(Value::Object(config))
}

fn stated(metadata: &Metadata, role: &str) -> Result<Option<u32>, Error> {
    let name = match role {
        "unk" => "unknown",
        "sep" => "seperator",
        "pad" => "padding",
        other => other,
    };
    Ok(metadata.u32(&format!("tokenizer.ggml.{name}_token_id"))?)
}

/// `tokenizer_config.json`: the roles of tokens, what a prompt begins and ends with, and the chat templates.
pub(super) fn tokenizer_config(vocabulary: &Vocabulary) -> Result<Value, Error> {
    let metadata = vocabulary.metadata;
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    // Takes tokenizer.json as it is.
    set("tokenizer_class", "PreTrainedTokenizerFast".into());
    let cleans_up = metadata.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
    set("clean_up_tokenization_spaces", cleans_up.into());
    for role in ROLES {
        if stated(metadata, role)?.is_some()
            && let Some(token) = vocabulary.role(role)
        {
            set(&format!("{role}_token"), token.text.into());
        }
    }
    // Of these kinds, llama.cpp's converter takes only named tokens for control tokens.
    if matches!(metadata.str("tokenizer.ggml.model")?, Some("t5" | "gemma4")) {
        let special = vocabulary.tokens().filter(|token| token.is_added() && token.kind == Kind::Control);
        set("additional_special_tokens", special.map(|token| token.text).collect());
    }
    for role in ["bos", "eos", "sep"] {
        if let Some(adds) = metadata.bool(&format!("tokenizer.ggml.add_{role}_token"))? {
            set(&format!("add_{role}_token"), adds.into());
        }
    }
    if let Some(adds) = metadata.bool("tokenizer.ggml.add_space_prefix")? {
        set("add_prefix_space", adds.into());
    }
    let architecture = metadata.str("general.architecture")?.unwrap_or_default();
    if let Some(length) = metadata.u64(&format!("{architecture}.context_length"))? {
        set("model_max_length", length.into());
    }
    if let Some(templates) = templates(metadata)? {
        set("chat_template", templates);
    }
    let added = added_by_score(vocabulary)?;
    if !added.is_empty() {
        set("added_tokens_decoder", added.into());
    }
    Ok(Value::Object(config))
}

fn templates(metadata: &Metadata) -> Result<Option<Value>, Error> {
    const KEY: &str = "tokenizer.chat_template";
    let default = metadata.str(KEY)?;
    let mut named = Vec::new();
    for name in metadata.strings("tokenizer.chat_templates")?.unwrap_or_default() {
        if let Some(template) = metadata.str(&format!("{KEY}.{name}"))? {
            named.push(json!({ "name": name, "template": template }));
        }
    }
    if named.is_empty() {
        return Ok(default.map(Value::from));
    }
    named.extend(default.map(|template| json!({ "name": "default", "template": template })));
    Ok(Some(named.into()))
}

/// The added tokens of a SentencePiece model, whose kinds its own file cannot hold: user-defined ones, and those with the
/// score that llama.cpp's converter gives to tokens of this list.
fn added_by_score(vocabulary: &Vocabulary) -> Result<Map<String, Value>, Error> {
    if vocabulary.metadata.str("tokenizer.ggml.model")? != Some("llama") {
        return Ok(Map::new());
    }
    let scores = vocabulary.scores()?;
    let is_listed = |id: u32, kind| kind == Kind::UserDefined || scores.get(id as usize) == Some(&-1000.0);
    let listed = vocabulary.tokens().filter(|token| token.is_added() && is_listed(token.id, token.kind));
    Ok(listed.map(|token| (token.id.to_string(), vocabulary.added_token(&token, false))).collect())
}
