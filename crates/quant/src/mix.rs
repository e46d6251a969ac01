//! The mixes of formats that `llama-quantize` makes, for models of the supported families.
//!
//! Most tensors get the format that the mix is named after. Those whose error costs most get more bits: the output matrix, and
//! `attn_v` and `ffn_down` in some layers or with grouped-query attention. With eight experts, attention is so small a part that
//! it gets more bits too. `crates/convert/tests/mixes.rs` compares the choices with llama.cpp's.

use std::fmt;
use std::str::FromStr;

use crate::Format;

macro_rules! mixes {
    ($($name:ident $file_type:literal $format:ident),* $(,)?) => {
        /// A mix of formats, which files are named after.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, non_camel_case_types, reason = "the names that users know")]
        pub enum Mix { $($name),* }

        const TABLE: &[(Mix, &str, u32, Format)] =
            &[$((Mix::$name, stringify!($name), $file_type, Format::$format)),*];
    };
}

// Name, `general.file_type`, and the format of most tensors.
mixes! {
    F32 0 F32,
    F16 1 F16,
    BF16 32 BF16,
    Q4_0 2 Q4_0,
    Q4_1 3 Q4_1,
    Q5_0 8 Q5_0,
    Q5_1 9 Q5_1,
    Q8_0 7 Q8_0,
    Q2_K 10 Q2_K,
    Q2_K_S 21 Q2_K,
    Q3_K_S 11 Q3_K,
    Q3_K_M 12 Q3_K,
    Q3_K_L 13 Q3_K,
    Q4_K_S 14 Q4_K,
    Q4_K_M 15 Q4_K,
    Q5_K_S 16 Q5_K,
    Q5_K_M 17 Q5_K,
    Q6_K 18 Q6_K,
    IQ4_NL 25 IQ4_NL,
    IQ4_XS 30 IQ4_XS,
    IQ3_XXS 23 IQ3_XXS,
    IQ3_XS 22 IQ3_S,
    IQ3_S 26 IQ3_S,
    IQ3_M 27 IQ3_S,
    IQ2_XXS 19 IQ2_XXS,
    IQ2_XS 20 IQ2_XS,
    IQ2_S 28 IQ2_XS,
    IQ2_M 29 IQ2_S,
    IQ1_S 24 IQ1_S,
    IQ1_M 31 IQ1_M,
    TQ1_0 36 TQ1_0,
    TQ2_0 37 TQ2_0,
    MXFP4_MOE 38 MXFP4,
}

const ALIASES: [(&str, Mix); 4] =
    [("Q3_K", Mix::Q3_K_M), ("Q4_K", Mix::Q4_K_M), ("Q5_K", Mix::Q5_K_M), ("MXFP4", Mix::MXFP4_MOE)];

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
        TABLE.iter().map(|(mix, ..)| *mix)
    }

    /// Its other names.
    pub fn aliases(self) -> impl Iterator<Item = &'static str> {
        ALIASES.into_iter().filter(move |(_, mix)| *mix == self).map(|(name, _)| name)
    }

    /// The format of most tensors.
    pub fn format(self) -> Format {
        TABLE[self as usize].3
    }

    /// Mixes of less than three bits per weight.
    fn is_tiny(self) -> bool {
        matches!(self, Mix::IQ1_S | Mix::IQ1_M | Mix::IQ2_XXS | Mix::IQ2_XS | Mix::IQ2_S | Mix::IQ2_M)
    }

    fn is_iq2_s_or_m(self) -> bool {
        matches!(self, Mix::IQ2_S | Mix::IQ2_M)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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
#[expect(missing_docs, reason = "the names say it")]
pub struct Facts {
    pub architecture: &'static str,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    /// 0 if the model is dense.
    pub experts: usize,
    /// The embedding is also the output matrix: there is no `output.weight`.
    pub tied: bool,
    pub imatrix: bool,
    /// All tensors get the same format, as far as their rows allow.
    pub pure: bool,
}

impl Facts {
    /// Models of 70 billion parameters, by llama.cpp's criterion.
    fn is_70b(&self) -> bool {
        self.layers == 80 && (self.heads != self.kv_heads || self.architecture != "llama")
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
pub fn is_quantised(name: &str, shape: &[usize]) -> bool {
    let is_matrix = name.ends_with("weight") && shape.len() > 1;
    is_matrix && !name.contains("_norm.weight") && !name.contains("ffn_gate_inp.weight")
}

fn by_name(mix: Mix, name: &str, row_len: usize, facts: &Facts) -> Format {
    if name == "output.weight" || (facts.tied && name == "token_embd.weight") {
        let is_whole = row_len.is_multiple_of(mix.format().block_len());
        return match mix {
            Mix::Q8_0 | Mix::MXFP4_MOE => Format::Q8_0,
            _ if !is_whole => Format::Q8_0,
            Mix::IQ3_XXS => Format::Q5_K,
            _ if mix.is_tiny() => Format::Q5_K,
            _ => Format::Q6_K,
        };
    }
    let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0);
    let is = |part: &str| name.contains(part);
    match mix {
        Mix::MXFP4_MOE => return if is("_exps.") { Format::MXFP4 } else { Format::Q8_0 },
        _ if name == "token_embd.weight" => return embedding(mix),
        _ if mix.is_tiny() => return tiny(mix, name, layer, facts),
        _ => {}
    }
    if is("attn_v.weight") || is("attn_qkv.weight") {
        values(mix, layer, facts)
    } else if is("attn_k.weight") && facts.experts == 8 {
        Format::Q8_0
    } else if is("attn_q.weight") || is("attn_k.weight") {
        match mix {
            Mix::IQ3_XS => Format::IQ3_XXS,
            Mix::IQ3_XXS => Format::IQ2_S,
            _ => mix.format(),
        }
    } else if is("ffn_down") {
        down(mix, layer, facts)
    } else if is("ffn_gate") || is("ffn_up") {
        let is_between = layer >= facts.layers / 8 && layer < 7 * facts.layers / 8;
        if mix == Mix::IQ3_XS && is_between { Format::IQ3_XXS } else { mix.format() }
    } else if is("attn_output.weight") {
        attention_output(mix, facts)
    } else {
        mix.format()
    }
}

fn embedding(mix: Mix) -> Format {
    match mix {
        Mix::IQ2_S | Mix::IQ2_M | Mix::IQ3_XXS => Format::IQ3_S,
        Mix::TQ1_0 | Mix::TQ2_0 => Format::Q4_K,
        _ if mix.is_tiny() => Format::Q2_K,
        _ => mix.format(),
    }
}

fn tiny(mix: Mix, name: &str, layer: usize, facts: &Facts) -> Format {
    let more = if mix.is_iq2_s_or_m() { Format::IQ3_S } else { Format::Q2_K };
    if name.contains("attn_v.weight") || name.contains("attn_qkv.weight") {
        if facts.shared() >= 4 || facts.experts >= 4 { Format::Q4_K } else { more }
    } else if name.contains("attn_k.weight") && facts.experts == 8 {
        Format::Q4_K
    } else if name.contains("ffn_down") && layer < facts.layers / 8 {
        more
    } else if name.contains("attn_output.weight") {
        match mix {
            _ if facts.experts == 8 => Format::Q5_K,
            Mix::IQ1_S | Mix::IQ1_M => Format::IQ2_XXS,
            Mix::IQ2_S | Mix::IQ2_M => Format::IQ3_S,
            _ => mix.format(),
        }
    } else {
        mix.format()
    }
}

fn attention_output(mix: Mix, facts: &Facts) -> Format {
    if facts.experts == 8 {
        let is_raised = matches!(mix.format(), Format::Q3_K | Format::Q4_K | Format::IQ4_NL | Format::IQ4_XS)
            || matches!(mix, Mix::Q2_K | Mix::IQ3_XXS | Mix::IQ3_XS | Mix::IQ3_S | Mix::IQ3_M);
        return if is_raised && mix != Mix::Q3_K_L { Format::Q5_K } else { mix.format() };
    }
    match mix {
        Mix::Q2_K => Format::Q3_K,
        Mix::Q3_K_M | Mix::IQ3_M => Format::Q4_K,
        Mix::Q3_K_L => Format::Q5_K,
        Mix::IQ3_XXS => Format::IQ3_S,
        _ => mix.format(),
    }
}

fn values(mix: Mix, layer: usize, facts: &Facts) -> Format {
    if facts.experts == 8 {
        return Format::Q8_0;
    }
    let format = match mix {
        Mix::Q2_K | Mix::Q2_K_S | Mix::IQ3_XXS | Mix::IQ3_XS | Mix::IQ3_S if facts.shared() >= 4 => {
            Format::Q4_K
        }
        Mix::Q2_K => Format::Q3_K,
        Mix::IQ3_XXS if !facts.imatrix => Format::IQ3_S,
        Mix::Q3_K_M if layer < 2 => Format::Q5_K,
        Mix::Q3_K_M | Mix::IQ3_M => Format::Q4_K,
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
        Mix::IQ3_XXS if !facts.imatrix && !is_first => Format::Q3_K,
        Mix::IQ3_XXS if !facts.imatrix => Format::Q4_K,
        Mix::IQ3_M if is_first || (facts.experts == 8 && facts.is_worth_more(layer)) => Format::Q4_K,
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
pub fn fitting(wanted: Format, row_len: usize) -> Format {
    let smaller = match wanted {
        Format::Q2_K | Format::Q3_K | Format::TQ1_0 | Format::TQ2_0 => Format::Q4_0,
        Format::Q4_K => Format::Q5_0,
        Format::Q5_K => Format::Q5_1,
        Format::Q6_K => Format::Q8_0,
        Format::IQ1_S
        | Format::IQ1_M
        | Format::IQ2_XXS
        | Format::IQ2_XS
        | Format::IQ2_S
        | Format::IQ3_XXS
        | Format::IQ3_S
        | Format::IQ4_XS => Format::IQ4_NL,
        other => other,
    };
    let fits = |format: &Format| row_len.is_multiple_of(format.block_len());
    [wanted, smaller].into_iter().find(fits).unwrap_or(Format::F16)
}
