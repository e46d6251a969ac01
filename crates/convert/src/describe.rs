//! The keys that say what a model is and how its makers sample from it.

use std::fs;

use gguf::Metadata;
use serde_json::Value as Json;

use crate::checkpoint::Checkpoint;
use crate::output::Output;
use crate::quantize::QUANTIZATION_VERSION;

/// Writes `general.*`, for a model that is called `name` or else as its folder.
pub(crate) fn write(
    checkpoint: &Checkpoint,
    name: Option<&str>,
    file_type: u32,
    outputs: &[Output],
    metadata: &mut Metadata,
) {
    metadata.insert("general.type", "model");
    sampling(checkpoint, metadata);
    metadata.insert("general.name", self::name(checkpoint, name));
    metadata.insert("general.size_label", size_label(outputs));
    license(checkpoint, metadata);
    metadata.insert("general.file_type", file_type);
    metadata.insert("general.quantization_version", QUANTIZATION_VERSION);
}

/// The same, for an adapter.
pub(crate) fn adapter(checkpoint: &Checkpoint, name: Option<&str>, metadata: &mut Metadata) {
    metadata.insert("general.name", self::name(checkpoint, name));
    license(checkpoint, metadata);
    metadata.insert("general.quantization_version", QUANTIZATION_VERSION);
}

fn name(checkpoint: &Checkpoint, name: Option<&str>) -> String {
    let folder = checkpoint.folder().canonicalize().ok();
    let folder = folder.as_deref().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let name = name.map(str::to_owned).or(folder).unwrap_or_else(|| "model".to_owned());
    title(name.rsplit('/').next().unwrap_or(&name))
}

/// What `generation_config.json` advises.
fn sampling(checkpoint: &Checkpoint, metadata: &mut Metadata) {
    let generation = &checkpoint.config.generation;
    let number = |key: &str| generation.get(key).and_then(Json::as_f64);
    let keys = "top_p min_p xtc_probability xtc_threshold temperature repetition_penalty penalty_repeat mirostat_tau \
        mirostat_eta";
    for key in keys.split(' ') {
        if let Some(value) = number(key) {
            let name = match key {
                "temperature" => "temp",
                "repetition_penalty" => "penalty_repeat",
                other => other,
            };
            metadata.insert(format!("general.sampling.{name}"), value as f32);
        }
    }
    for key in ["top_k", "penalty_last_n", "mirostat"] {
        if let Some(value) = number(key) {
            metadata.insert(format!("general.sampling.{key}"), value as i32);
        }
    }
}

/// A name as in a title: without hyphens, lower-case words with a capital.
fn title(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
        let is_version = is_number(word) || word.strip_prefix('v').is_some_and(is_number);
        match letters.next() {
            Some(first) if !is_version && !word.chars().any(char::is_uppercase) => {
                first.to_uppercase().chain(letters).collect()
            }
            _ => word.to_owned(),
        }
    };
    name.split(['-', ' ']).filter(|part| !part.is_empty()).map(word).collect::<Vec<String>>().join(" ")
}

/// `license` and what belongs to it, from the lines before the text of `README.md`.
fn license(checkpoint: &Checkpoint, metadata: &mut Metadata) {
    let text = fs::read_to_string(checkpoint.folder().join("README.md")).unwrap_or_default();
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return;
    }
    for line in lines.take_while(|line| line.trim_end() != "---") {
        let Some((key, value)) = line.split_once(':') else { continue };
        let key = match key {
            "license" => "general.license",
            "license_name" => "general.license.name",
            "license_link" => "general.license.link",
            _ => continue,
        };
        let value = value.trim().trim_matches(['"', '\'']);
        if !value.is_empty() {
            metadata.insert(key, value);
        }
    }
}

/// Number of parameters, as in `7.2B`; with experts as in `8x7.2B`, where the second number is of a model with one expert.
fn size_label(outputs: &[Output]) -> String {
    let (mut shared, mut of_one, mut experts, mut tensors) = (0, 0, 0, 0);
    for output in outputs {
        match output.experts() {
            None => shared += output.len(),
            Some(count) => {
                of_one += output.len() / count;
                experts += count;
                tensors += 1;
            }
        }
    }
    match experts.checked_div(tensors) {
        None => count(shared),
        Some(experts) => format!("{experts}x{}", count(shared + of_one)),
    }
}

/// A count with two digits at least.
fn count(parameters: u64) -> String {
    let parameters = parameters as f64;
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M")];
    let (unit, letter) = units.into_iter().find(|(unit, _)| parameters > *unit).unwrap_or((1e3, "K"));
    let scaled = parameters / unit;
    // As Python's round: halves to even.
    let digits = match scaled.round_ties_even() {
        10.0.. => 0,
        1.0.. => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `gguf.utility.size_label` and `gguf.Metadata.id_to_title`.
    #[test]
    fn labels_are_those_of_the_gguf_package() {
        for (parameters, label) in [
            (999, "1.0K"),
            (105_000, "105K"),
            (1_100_000_000, "1.1B"),
            (70_553_706_496, "71B"),
            (751_632_384, "752M"),
        ] {
            assert_eq!(count(parameters), label);
        }
        for (name, of_title) in [
            ("Qwen3-0.6B", "Qwen3 0.6B"),
            ("tiny-llama-v1.1-chat", "Tiny Llama v1.1 Chat"),
            ("gpt-oss", "Gpt Oss"),
        ] {
            assert_eq!(title(name), of_title);
        }
    }
}
