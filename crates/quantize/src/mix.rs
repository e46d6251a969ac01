//! The mixes of formats that `llama-quantize` makes, for dense models of the supported families.
//!
//! Most tensors get the format that the mix is named after. Those whose error costs most get more bits: the output matrix, and
//! `attn_v` and `ffn_down` in some layers or with grouped-query attention. `tests/mixes.rs` compares the choices with
//! llama.cpp's.

use std::fmt;
use std::str::FromStr;

use models::Family;
use quant::Format;

/// A mix of formats, which files are named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, non_camel_case_types, reason = "the names that users know")]
pub enum Mix {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q2_K_S,
    Q3_K_S,
    Q3_K_M,
    Q3_K_L,
    Q4_K_S,
    Q4_K_M,
    Q5_K_S,
    Q5_K_M,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
}

/// Name, `general.file_type`, and the format of most tensors.
const TABLE: [(Mix, &str, u32, Format); 20] = [
    (Mix::F32, "F32", 0, Format::F32),
    (Mix::F16, "F16", 1, Format::F16),
    (Mix::BF16, "BF16", 32, Format::BF16),
    (Mix::Q4_0, "Q4_0", 2, Format::Q4_0),
    (Mix::Q4_1, "Q4_1", 3, Format::Q4_1),
    (Mix::Q5_0, "Q5_0", 8, Format::Q5_0),
    (Mix::Q5_1, "Q5_1", 9, Format::Q5_1),
    (Mix::Q8_0, "Q8_0", 7, Format::Q8_0),
    (Mix::Q2_K, "Q2_K", 10, Format::Q2_K),
    (Mix::Q2_K_S, "Q2_K_S", 21, Format::Q2_K),
    (Mix::Q3_K_S, "Q3_K_S", 11, Format::Q3_K),
    (Mix::Q3_K_M, "Q3_K_M", 12, Format::Q3_K),
    (Mix::Q3_K_L, "Q3_K_L", 13, Format::Q3_K),
    (Mix::Q4_K_S, "Q4_K_S", 14, Format::Q4_K),
    (Mix::Q4_K_M, "Q4_K_M", 15, Format::Q4_K),
    (Mix::Q5_K_S, "Q5_K_S", 16, Format::Q5_K),
    (Mix::Q5_K_M, "Q5_K_M", 17, Format::Q5_K),
    (Mix::Q6_K, "Q6_K", 18, Format::Q6_K),
    (Mix::IQ4_NL, "IQ4_NL", 25, Format::IQ4_NL),
    (Mix::IQ4_XS, "IQ4_XS", 30, Format::IQ4_XS),
];

/// Mixes by names of formats.
const ALIASES: [(&str, Mix); 3] = [("Q3_K", Mix::Q3_K_M), ("Q4_K", Mix::Q4_K_M), ("Q5_K", Mix::Q5_K_M)];

impl Mix {
    /// The name, such as `Q4_K_M`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// `general.file_type`.
    pub fn file_type(self) -> u32 {
        TABLE[self as usize].2
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Mix> {
        TABLE.into_iter().map(|(mix, ..)| mix)
    }

    /// Its other names.
    pub fn aliases(self) -> impl Iterator<Item = &'static str> {
        ALIASES.into_iter().filter(move |(_, mix)| *mix == self).map(|(name, _)| name)
    }

    /// The format of most tensors.
    pub fn format(self) -> Format {
        TABLE[self as usize].3
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By name, whatever the case.
impl FromStr for Mix {
    type Err = String;

    fn from_str(name: &str) -> Result<Mix, String> {
        let named = Mix::all().map(|mix| (mix.name(), mix)).chain(ALIASES);
        let found = named.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let names = || Mix::all().map(Mix::name).collect::<Vec<_>>().join(", ");
        found.map(|(_, mix)| mix).ok_or_else(|| format!("no type {name:?}; there are {}", names()))
    }
}

/// The properties of a model that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The family.
    pub architecture: &'static Family,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// The embedding is also the output matrix: there is no `output.weight`.
    pub tied: bool,
    /// An imatrix is used.
    pub imatrix: bool,
    /// All tensors get the same format, as far as their rows allow.
    pub pure: bool,
}

impl Facts {
    /// Models of 70 billion parameters, by llama.cpp's criterion.
    fn is_70b(&self) -> bool {
        self.layers == 80 && (self.heads != self.kv_heads || self.architecture.name != "llama")
    }

    fn shared(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(0)
    }

    /// The layers that get more bits in the larger mixes: the first and last eighth, and every third between them.
    fn is_worth_more(&self, layer: usize) -> bool {
        let eighth = self.layers / 8;
        layer < eighth || layer >= 7 * self.layers / 8 || (layer - eighth) % 3 == 2
    }
}

/// The format of a tensor in `mix`; `None` if it stays as it is, as norms do. `shape` has the fastest dimension first.
pub fn choose(mix: Mix, name: &str, shape: &[usize], facts: &Facts) -> Option<Format> {
    if !is_quantised(name, shape) {
        return None;
    }
    let row_len = shape.first().copied().unwrap_or(1);
    let is_float = matches!(mix, Mix::F32 | Mix::F16 | Mix::BF16);
    let wanted = if facts.pure || is_float { mix.format() } else { by_name(mix, name, row_len, facts) };
    Some(fitting(wanted, row_len))
}

/// Norms, biases and routers stay as they are.
pub(crate) fn is_quantised(name: &str, shape: &[usize]) -> bool {
    let is_matrix = name.ends_with("weight") && shape.len() > 1;
    is_matrix && !name.contains("_norm.weight") && !name.contains("ffn_gate_inp.weight")
}

/// The choice if rows are whole blocks.
fn by_name(mix: Mix, name: &str, row_len: usize, facts: &Facts) -> Format {
    if name == "output.weight" || (facts.tied && name == "token_embd.weight") {
        let is_whole = row_len.is_multiple_of(mix.format().block_len());
        return if is_whole && mix != Mix::Q8_0 { Format::Q6_K } else { Format::Q8_0 };
    }
    let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0);
    if name.contains("attn_v.weight") {
        values(mix, layer, facts)
    } else if name.contains("ffn_down") {
        down(mix, layer, facts)
    } else if name.contains("attn_output.weight") {
        match mix {
            Mix::Q2_K => Format::Q3_K,
            Mix::Q3_K_M => Format::Q4_K,
            Mix::Q3_K_L => Format::Q5_K,
            _ => mix.format(),
        }
    } else {
        mix.format()
    }
}

fn values(mix: Mix, layer: usize, facts: &Facts) -> Format {
    let format = match mix {
        Mix::Q2_K | Mix::Q2_K_S if facts.shared() >= 4 => Format::Q4_K,
        Mix::Q2_K => Format::Q3_K,
        Mix::Q3_K_M if layer < 2 => Format::Q5_K,
        Mix::Q3_K_M => Format::Q4_K,
        Mix::Q3_K_L => Format::Q5_K,
        Mix::IQ4_NL | Mix::IQ4_XS if facts.shared() >= 4 => Format::Q5_K,
        Mix::Q4_K_M | Mix::Q5_K_M if facts.is_worth_more(layer) => Format::Q6_K,
        Mix::Q4_K_S if layer < 4 => Format::Q5_K,
        _ => mix.format(),
    };
    // Eight query heads share them: they are small, and more bits cost little.
    if facts.is_70b() && matches!(format, Format::Q3_K | Format::Q4_K) { Format::Q5_K } else { format }
}

fn down(mix: Mix, layer: usize, facts: &Facts) -> Format {
    let is_first = layer < facts.layers / 8;
    match mix {
        Mix::Q2_K => Format::Q3_K,
        Mix::Q3_K_M if layer < facts.layers / 16 => Format::Q5_K,
        Mix::Q3_K_M => Format::Q4_K,
        Mix::Q3_K_L => Format::Q5_K,
        Mix::Q4_K_M | Mix::Q5_K_M if facts.is_worth_more(layer) => Format::Q6_K,
        Mix::IQ4_NL | Mix::IQ4_XS if is_first && !facts.imatrix => Format::Q5_K,
        Mix::Q2_K_S if is_first => Format::Q4_K,
        Mix::Q4_K_S if is_first => Format::Q5_K,
        Mix::Q4_0 if is_first && facts.imatrix => Format::Q4_1,
        Mix::Q5_0 if is_first && facts.imatrix => Format::Q5_1,
        _ => mix.format(),
    }
}

/// `wanted`, or if rows are not whole blocks of it, a format with blocks of 32, or F16.
pub(crate) fn fitting(wanted: Format, row_len: usize) -> Format {
    let smaller = match wanted {
        Format::Q2_K | Format::Q3_K => Format::Q4_0,
        Format::Q4_K => Format::Q5_0,
        Format::Q5_K => Format::Q5_1,
        Format::Q6_K => Format::Q8_0,
        Format::IQ4_XS => Format::IQ4_NL,
        other => other,
    };
    let fits = |format: &Format| row_len.is_multiple_of(format.block_len());
    [wanted, smaller].into_iter().find(fits).unwrap_or(Format::F16)
}
