//! The classes of transformers that can be converted, by the architecture that they become.

mod bert;
mod cohere;
mod deepseek;
mod ernie;
mod falcon_h1;
mod gemma;
mod gemma4;
mod glm;
mod gpt_oss;
mod granite;
mod granite_hybrid;
mod hunyuan;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod minimax;
mod modern_bert;
mod nemotron;
mod olmo;
mod phi;
mod qwen;
mod qwen35;
mod stablelm;
mod starcoder;

// Every family takes these by `use super::*`.
use indexmap::IndexSet;
use quant::{Format, Mix};

use crate::Error;
use crate::checkpoint::View;
use crate::config::{Config, MAX_HEAD};
use crate::keys::Keys;
use crate::output::Output;
use crate::parameters::{common, gating, sizes};
use crate::pooling::{RANK, labels, pooling};
use crate::rope::Rope;
use crate::rules::{GATE_UP_EXPS, Rule, change, halves, interleave, plus_one, rename, skip, split};
use crate::tokenizer::Kind;

static FAMILIES: &[Family] = &[
    llama::LLAMA,
    llama::MISTRAL3,
    llama::SMOLLM3,
    llama4::FAMILY,
    qwen::QWEN2,
    qwen::QWEN3_RERANKER,
    qwen::QWEN3,
    qwen::QWEN3VL,
    qwen::QWEN2MOE,
    qwen::QWEN3MOE,
    gemma::GEMMA2,
    gemma::GEMMA3,
    gemma4::FAMILY,
    granite::GRANITE,
    granite::GRANITEMOE,
    phi::FAMILY,
    glm::GLM4,
    glm::GLM4MOE,
    glm::GLM4MOE_LITE,
    cohere::COMMAND_R,
    cohere::COHERE2,
    olmo::FAMILY,
    starcoder::FAMILY,
    stablelm::FAMILY,
    ernie::FAMILY,
    gpt_oss::FAMILY,
    deepseek::FAMILY,
    minimax::FAMILY,
    hunyuan::FAMILY,
    mamba::FAMILY,
    granite_hybrid::DENSE,
    granite_hybrid::EXPERTS,
    granite_hybrid::ATTENTION,
    granite_hybrid::ATTENTION_EXPERTS,
    falcon_h1::FAMILY,
    nemotron::NEMOTRON_H,
    nemotron::NEMOTRON_H_MOE,
    lfm2::LFM2,
    lfm2::LFM2MOE,
    qwen35::QWEN3NEXT,
    qwen35::QWEN35,
    qwen35::QWEN35MOE,
    bert::BERT,
    bert::CLASSIFIER,
    bert::DISTILBERT,
    bert::ROBERTA,
    bert::XLM_ROBERTA,
    bert::NOMIC_BERT,
    bert::NOMIC_BERT_MOE,
    bert::JINA_BERT_V2,
    modern_bert::FAMILY,
    modern_bert::MASKED,
    gemma::EMBEDDING,
];

#[derive(Debug)]
pub(crate) struct Family {
    /// `general.architecture`.
    pub(crate) architecture: &'static str,
    /// `architectures` of `config.json`.
    pub(crate) classes: &'static [&'static str],
    /// Whether a checkpoint of these classes is of this architecture: classes may have several.
    pub(crate) fits: fn(&Config) -> bool,
    /// Which files of the tokenizer are read, and how.
    pub(crate) tokenizer: Kind,
    /// Writes the architecture's keys.
    pub(crate) parameters: fn(&Config, &mut Keys<'_>) -> Result<(), Error>,
    /// Names that differ from the common ones, or tensors that change.
    pub(crate) rules: &'static [Rule],
    /// Rules of several families, which come after.
    pub(crate) shared: &'static [Rule],
    /// The name that a tensor would have if it stood where the rules expect it.
    pub(crate) alias: fn(&str, &Config) -> Result<Option<String>, Error>,
    /// Whether layers that predict further tokens are left out.
    pub(crate) drops_prediction: bool,
    /// Tensors that no checkpoint has.
    pub(crate) extra: fn(&Config) -> Result<Extra, Error>,
}

pub(crate) type Extra = Vec<(&'static str, Vec<f32>)>;

const BASE: Family = Family {
    architecture: "",
    classes: &[],
    fits: |_| true,
    tokenizer: Kind::Bpe,
    parameters: common,
    rules: &[],
    shared: &[],
    alias: |_, _| Ok(None),
    drops_prediction: false,
    extra: |_| Ok(Vec::new()),
};

impl Family {
    pub(crate) fn of(config: &Config) -> Result<&'static Family, Error> {
        let class = config.class()?;
        let found = FAMILIES.iter().find(|family| family.classes.contains(&class) && (family.fits)(config));
        found.ok_or_else(|| {
            let known: IndexSet<&str> = FAMILIES.iter().flat_map(|family| family.classes).copied().collect();
            let known = Vec::from_iter(known).join(", ");
            config.error(format!("models of the class {class:?} cannot be converted; these can: {known}"))
        })
    }

    /// The format of a tensor: vectors, norms and some small matrices stay in F32, as in llama.cpp's files.
    pub(crate) fn format(&self, output: &Output, file_type: Mix) -> Format {
        const SMALL: &str = ".ffn_gate_inp.weight .ffn_gate_inp_shexp.weight position_embd.weight token_types.weight \
            .ssm_conv1d.weight .shortconv.conv.weight .indexer.proj.weight";
        let name = output.name.as_str();
        if output.has_blocks() {
            return Format::MXFP4;
        }
        if output.dims() <= 1
            || !name.ends_with(".weight")
            || name.ends_with("_norm.weight")
            || SMALL.split(' ').any(|small| name.ends_with(small))
        {
            return Format::F32;
        }
        let is_outer = ["token_embd.weight", "per_layer_token_embd.weight", "output.weight"].contains(&name);
        let format = match file_type {
            Mix::TQ1_0 | Mix::TQ2_0 if is_outer => Format::F16,
            _ => file_type.format(),
        };
        if output.row_len().is_multiple_of(format.block_len()) { format } else { Format::F16 }
    }
}
