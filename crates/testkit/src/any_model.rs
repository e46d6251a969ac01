//! Any bytes as a model file, which must give an error or logits.

use backend::{Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, Output, Row, Sequence, Step};
use gguf::{Array, Gguf, Metadata, Tensor, Value};
use models::Model;
use quant::Format;
use runner::ModelRunner;
use synth::{Random, RopeFreqs};

use crate::fixtures::{self, Spec};

/// Rows of the first step; the second has one.
const ROWS: usize = 3;

/// Reads `bytes` as a model, loads it on `backend` and runs a prefill and a decode step, or returns the message of the
/// layer that refuses it.
pub fn two_steps(bytes: Vec<u8>, backend: Box<dyn Backend>) -> Result<Vec<f32>, String> {
    let file = Gguf::from_bytes(bytes.into()).map_err(|error| error.to_string())?;
    let Model { graph, .. } = Model::new(&file).map_err(|error| error.to_string())?;
    let (layout, groups) = (KvLayout::new(&graph, KV_BLOCK, 1, ROWS, KvFormat::F16), graph.groups().len());
    let buckets = [1, ROWS].map(|rows| Bucket { rows, outputs: rows });
    let runner = ModelRunner::new(&file, &graph, backend, &layout, &buckets);
    let mut runner = runner.map_err(|error| error.to_string())?;
    let mut logits = Vec::new();
    for (n_past, tokens) in [(0, vec![0; ROWS]), (ROWS, vec![0])] {
        let sequence = Sequence::uniform(n_past, tokens.len(), groups, [0]);
        let rows = Row::all(tokens, &Output::Logits);
        let step = Step::new(rows, vec![sequence]).map_err(|error| error.to_string())?;
        logits.extend_from_slice(runner.run(&step).map_err(|error| error.to_string())?.values());
    }
    Ok(logits)
}

/// Sizes that replace others: near usual ones, and near the limits of types.
const SIZES: [u32; 16] =
    [0, 1, 2, 3, 5, 7, 8, 31, 33, 64, 4096, 1 << 20, 1 << 24, (1 << 24) + 1, 1 << 31, u32::MAX];

/// The same for other numbers.
const FLOATS: [f32; 9] = [0.0, -0.0, -1.0, 1e-45, 1e-30, 1e30, f32::MAX, f32::INFINITY, f32::NAN];

/// Model file number `number`, of any family in odd sizes, usually with errors.
pub fn odd_model(number: u64) -> Vec<u8> {
    let mut dice = Dice { random: Random::new(number, "any model"), thrown: 0 };
    let spec = odd_spec(&mut dice);
    let (mut metadata, mut tensors) = (spec.metadata(), spec.tensors());
    let errors = dice.below(3);
    for _ in 0..errors {
        match dice.below(6) {
            0..3 => exchange_value(&mut metadata, &mut dice),
            3 => swap_values(&mut metadata, &mut dice),
            4 => change_tensor(&mut tensors, &mut dice),
            _ => drop(metadata.remove(&key(&metadata, &mut dice))),
        }
    }
    // The writer refuses some errors; these do not test readers.
    let mut bytes = gguf::write(Vec::new(), &metadata, &tensors).unwrap_or_else(|_| spec.file());
    if dice.below(4) == 0 {
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
    }
    bytes
}

struct Dice {
    random: Random,
    thrown: u64,
}

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.thrown += 1;
        (self.random.word(self.thrown) % end.max(1) as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A small model of any family, in sizes of no real model.
fn odd_spec(dice: &mut Dice) -> Spec {
    let format = dice.one_of(&Format::ALL);
    let families = [Spec::new, fixtures::qwen3, fixtures::qwen3moe, fixtures::mixtral, fixtures::gemma3];
    let spec = dice.one_of(&families)(format);
    // Rows are whole blocks.
    let block = format.block_len() as u32;
    let kv_heads = dice.one_of(&[1, 2, 3]);
    let is_dense_llama = spec.architecture == "llama" && spec.experts.is_none();
    Spec {
        architecture: if is_dense_llama { dice.one_of(&["llama", "qwen2"]) } else { spec.architecture },
        experts: spec.experts.map(|_| dice.one_of(&[[1, 1], [2, 1], [3, 3], [5, 2]])),
        layers: dice.one_of(&[1, 2]),
        hidden: block.max(2) * dice.one_of(&[1, 2]),
        heads: kv_heads * dice.one_of(&[1, 2]),
        kv_heads,
        head_length: Some(if block > 1 { block } else { dice.one_of(&[2, 6, 34]) }),
        ffn: if block > 1 { block } else { dice.one_of(&[1, 3, 33]) },
        rope_freqs: if spec.architecture == "llama" && dice.below(2) == 0 {
            RopeFreqs::Rising
        } else {
            RopeFreqs::None
        },
        tied: dice.below(2) == 0,
        ..spec
    }
}

/// A key that is not of the vocabulary.
fn key(metadata: &Metadata, dice: &mut Dice) -> String {
    let keys: Vec<&str> =
        metadata.iter().map(|(key, _)| key).filter(|key| !key.starts_with("tokenizer.")).collect();
    dice.one_of(&keys).to_owned()
}

/// Replaces a value by another number or type.
fn exchange_value(metadata: &mut Metadata, dice: &mut Dice) {
    let key = key(metadata, dice);
    let size = dice.one_of(&SIZES);
    let value = match (metadata.get(&key), dice.below(6)) {
        (_, 0) => Value::Array(Array::U32((0..dice.below(4)).map(|_| dice.one_of(&SIZES)).collect())),
        (_, 1) => Value::U64(u64::from(size) << dice.below(40)),
        (Some(Value::F32(_)), _) | (_, 2) => Value::F32(dice.one_of(&FLOATS)),
        _ => Value::U32(size),
    };
    metadata.insert(key, value);
}

fn swap_values(metadata: &mut Metadata, dice: &mut Dice) {
    let keys = [key(metadata, dice), key(metadata, dice)];
    if let [Some(first), Some(second)] = keys.each_ref().map(|key| metadata.get(key).cloned()) {
        let [one, other] = keys;
        metadata.insert(one, second);
        metadata.insert(other, first);
    }
}

/// Changes dimensions, name or format of a tensor, with as many bytes, or removes it.
fn change_tensor(tensors: &mut Vec<Tensor>, dice: &mut Dice) {
    let [one, other] = [(); 2].map(|()| dice.below(tensors.len()));
    match dice.below(5) {
        0 => tensors[one].shape.reverse(),
        1 => tensors[one].shape.push(1),
        2 => {
            let name = tensors[one].name.clone();
            tensors[one].name = std::mem::replace(&mut tensors[other].name, name);
        }
        3 => {
            let like = |format: &Format| {
                (format.block_len(), format.block_bytes())
                    == (tensors[one].format.block_len(), tensors[one].format.block_bytes())
            };
            let alike: Vec<Format> = Format::ALL.into_iter().filter(like).collect();
            tensors[one].format = dice.one_of(&alike);
        }
        _ => drop(tensors.remove(one)),
    }
}
