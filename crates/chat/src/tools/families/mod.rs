//! The formats, one file a family.

mod apertus;
mod cohere;
mod deepseek;
mod functionary;
mod gemma;
mod gigachat;
mod glm;
mod harmony;
mod hermes;
mod kimi;
mod lfm;
mod lists;
mod llama;
mod minicpm;
mod minimax;
mod mistral;
mod qwen_coder;
mod solar;

use super::format::Format;

/// All formats. Where a template shows no calls, the first one whose texts it contains is used.
pub(crate) const FORMATS: &[&Format] = &[
    &harmony::HARMONY,
    &gemma::GEMMA_4,
    &gemma::FUNCTION_GEMMA,
    &deepseek::V3_1,
    &deepseek::R1,
    &deepseek::V3_2,
    &deepseek::V4,
    &kimi::K2,
    &kimi::K3,
    &minimax::M2,
    &minimax::M1,
    &glm::GLM_4_5,
    &glm::GLM_4_7,
    &glm::LING,
    &glm::HUNYUAN,
    &qwen_coder::SEED,
    &qwen_coder::QWEN_CODER,
    &minicpm::MINICPM,
    &solar::SOLAR,
    &cohere::COHERE,
    &apertus::APERTUS,
    &lfm::LFM,
    &lists::GRANITE,
    &lists::NEMOTRON,
    &lists::APRIEL,
    &mistral::ARGS,
    &mistral::LIST,
    &gigachat::GIGACHAT_3_1,
    &gigachat::GIGACHAT_3,
    &functionary::V3_2,
    &functionary::V3_1,
    &hermes::HERMES,
    &llama::PYTHONIC,
    &llama::JSON,
    &gemma::TOOL_CODE,
];
