//! Adapters of PEFT: low-rank changes of a model's matrices (<https://arxiv.org/abs/2106.09685>).

use std::path::Path;

use gguf::{Metadata, quoted};
use indexmap::IndexMap;
use quant::{Format, Mix};
use serde_json::Value as Json;

use crate::checkpoint::{Checkpoint, View};
use crate::config::object;
use crate::families::Family;
use crate::output::{Output, Outputs};
use crate::plan::{Plan, find, stem};
use crate::{Error, describe};

const CONFIG: &str = "adapter_config.json";

/// An open adapter: a folder with `adapter_config.json` and `adapter_model.safetensors`.
#[derive(Debug)]
pub struct Adapter {
    /// The adapter's tensors, and the configuration of the model that it changes.
    checkpoint: Checkpoint,
    alpha: f32,
    /// The tokens after which the adapter is active.
    invocation: Option<Vec<u32>>,
}

impl Adapter {
    /// Whether a folder has an adapter.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(CONFIG).exists()
    }

    /// The repository or folder of the model that the adapter in `folder` changes, as its configuration names it.
    pub fn base_model(folder: &Path) -> Result<Option<String>, Error> {
        let config = object(&folder.join(CONFIG))?;
        Ok(config.get("base_model_name_or_path").and_then(Json::as_str).map(str::to_owned))
    }

    /// Opens the adapter in `folder` of the model whose `config.json` is in `base`.
    /// Fails if a file is missing or malformed, or if the adapter is of a kind that a file cannot express.
    pub fn open(folder: impl AsRef<Path>, base: impl AsRef<Path>) -> Result<Adapter, Error> {
        let path = folder.as_ref().join(CONFIG);
        let config = object(&path)?;
        let get = |key: &str| config.get(key).filter(|value| !value.is_null());
        let is = |key| get(key).and_then(Json::as_bool) == Some(true);
        let has = |key| get(key).and_then(Json::as_object).is_some_and(|pattern| !pattern.is_empty());
        let unknown = [
            (get("peft_type").and_then(Json::as_str) != Some("LORA"), "\"peft_type\" is not LORA"),
            (is("use_dora"), "\"use_dora\" is set: it is no sum of a matrix and a product"),
            (is("fan_in_fan_out"), "\"fan_in_fan_out\" is set: its matrices are transposed"),
            (has("alpha_pattern"), "\"alpha_pattern\" gives matrices an alpha of their own; files have one"),
            (
                is("use_rslora") && has("rank_pattern"),
                "\"use_rslora\" and \"rank_pattern\" are set; files have one alpha",
            ),
            (
                get("invocation_string").is_some() && get("alora_invocation_tokens").is_none(),
                "\"invocation_string\" is there without \"alora_invocation_tokens\"; add its token ids",
            ),
        ];
        if let Some((_, why)) = unknown.into_iter().find(|(is_so, _)| *is_so) {
            return Err(Error::invalid(path, format!("{why}; such adapters cannot be converted")));
        }
        let number = |key: &str| {
            let number = get(key).and_then(Json::as_f64);
            number.ok_or_else(|| Error::invalid(&path, format!("{key:?} is missing or no number")))
        };
        // Engines divide by the rank; this kind by its square root.
        let factor = if is("use_rslora") { number("r")?.sqrt() } else { 1.0 };
        let alpha = (number("lora_alpha")? * factor) as f32;
        let invocation = get("alora_invocation_tokens").map(|tokens| {
            let tokens = tokens.as_array()?.iter().map(|token| token.as_u64()?.try_into().ok());
            tokens.collect::<Option<Vec<u32>>>()
        });
        let no_ids = || Error::invalid(&path, "\"alora_invocation_tokens\" is no list of token ids");
        let invocation = invocation.map(|tokens| tokens.ok_or_else(no_ids)).transpose()?;
        Ok(Adapter {
            checkpoint: Checkpoint::open_adapter(folder.as_ref(), base.as_ref())?,
            alpha,
            invocation,
        })
    }

    /// What the adapter's file gets: each matrix's factors by its name, ending in `.lora_a` and `.lora_b`, in F32 or
    /// `file_type`. Without a name, the adapter is called as its folder.
    /// Fails if the class of the model is not known, or if a tensor does not fit it.
    pub fn plan(&self, name: Option<&str>, file_type: Option<Mix>) -> Result<Plan<'_>, Error> {
        let family = Family::of(&self.checkpoint.config)?;
        let file_type = file_type.unwrap_or(Mix::F32);
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", family.architecture);
        metadata.insert("general.type", "adapter");
        metadata.insert("adapter.type", "lora");
        metadata.insert("adapter.lora.alpha", self.alpha);
        if let Some(tokens) = &self.invocation {
            metadata.insert("adapter.alora.invocation_tokens", tokens.clone());
        }
        describe::adapter(&self.checkpoint, name, &mut metadata);
        let mut outputs = convert(&self.checkpoint, family)?;
        for output in &mut outputs {
            output.format = format(output, file_type);
        }
        let (checkpoint, architecture) = (&self.checkpoint, family.architecture);
        Ok(Plan { checkpoint, architecture, file_type, metadata, outputs, warnings: Vec::new() })
    }
}

fn format(output: &Output, file_type: Mix) -> Format {
    let format = if output.dims() <= 1 { Format::F32 } else { file_type.format() };
    if output.row_len().is_multiple_of(format.block_len()) { format } else { Format::F16 }
}

#[derive(Default)]
struct Factors {
    a: Option<View>,
    b: Option<View>,
    /// Of a table, of which A has the columns and B the rows, transposed.
    is_table: bool,
}

fn convert(checkpoint: &Checkpoint, family: &Family) -> Result<Vec<Output>, Error> {
    let mut outputs = Outputs::default();
    let mut matrices: IndexMap<String, Factors> = IndexMap::new();
    for (name, view) in &checkpoint.tensors {
        let base = name.strip_prefix("base_model.model.").unwrap_or(name);
        let part = |ending: &str| base.strip_suffix(ending).map(|stem| format!("{stem}.weight"));
        let (a, b) = (part(".lora_A.weight"), part(".lora_B.weight"));
        let (table_a, table_b) = (part(".lora_embedding_A"), part(".lora_embedding_B"));
        let is_table = table_a.is_some() || table_b.is_some();
        if let Some(matrix) = a.or(table_a) {
            let factors = matrices.entry(matrix).or_default();
            (factors.a, factors.is_table) = (Some(view.clone()), is_table);
        } else if let Some(matrix) = b.or(table_b) {
            let factors = matrices.entry(matrix).or_default();
            (factors.b, factors.is_table) = (Some(view.clone()), is_table);
        } else if base.contains("_layernorm") || base.contains(".norm") {
            add(checkpoint, family, base, view, &mut outputs, |view, _| Ok(vec![("", view)]))?;
        } else if !base.contains(".base_layer.") {
            return Err(view.error(
                "it is no part of a low-rank product; weights that were trained as a whole belong in the model: merge the \
                 adapter with `merge_and_unload` of PEFT and convert the result",
            ));
        }
    }
    for (name, Factors { a, b, is_table }) in matrices {
        let (Some(a), Some(b)) = (a, b) else {
            return Err(Error::tensor(name, "one of its factors, lora_A and lora_B, is missing"));
        };
        // The matrix is `left` times `right`.
        let (left, right) =
            if is_table { (a.with_axes(2)?.swap(0, 1), b.with_axes(2)?.swap(0, 1)) } else { (b, a) };
        let matrix = View::product(&name, &left, &right)?;
        add(checkpoint, family, &name, &matrix, &mut outputs, |view, name| {
            let (left, right) = view.factors(&left, &right)?;
            if is_table && name == "token_embd" {
                Ok(vec![(".lora_a", left), (".lora_b", right.swap(0, 1))])
            } else {
                Ok(vec![(".lora_a", right), (".lora_b", left)])
            }
        })?;
    }
    outputs.finish()
}

fn add(
    checkpoint: &Checkpoint,
    family: &Family,
    name: &str,
    view: &View,
    outputs: &mut Outputs,
    parts: impl Fn(View, &str) -> Result<Vec<(&'static str, View)>, Error>,
) -> Result<(), Error> {
    let config = &checkpoint.config;
    let stem = stem(name).ok_or_else(|| view.error("it is no tensor of the language model"))?;
    let stem = (family.alias)(&stem, config)?.unwrap_or(stem);
    let (rule, place) = find(family, &stem).ok_or_else(|| {
        let (architecture, stem) = (family.architecture, quoted(&stem));
        view.error(format!("a model of the architecture {architecture} has no tensor {stem}"))
    })?;
    outputs.begin();
    for (to, view) in rule.apply(view.clone(), config)? {
        let to = place.stem(to);
        for (ending, part) in parts(view, &to)? {
            let name = format!("{to}{}{ending}", place.ending);
            // Parts of a matrix by its rows share A.
            if ending != ".lora_a" || !outputs.has_same(&name, &part)? {
                outputs.add(name, place.expert, part)?;
            }
        }
    }
    Ok(())
}
