//! From the names of a checkpoint's tensors to those of the file.

use crate::Error;
use crate::checkpoint::View;
use crate::config::Config;

/// Tensors of one name, and what becomes of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The name in the checkpoint without `model.` before it and `.weight` or `.bias` after it. A `{}` is a number: the layer,
    /// and after it the expert. `{q,k}` are names of several tensors, which get those at the same place in `to`.
    pub(crate) from: &'static str,
    /// The names in the file, `{}` for the layer. A `.weight` or `.bias` of the checkpoint follows. Tensors of the same name are
    /// rows of one, in this order.
    pub(crate) to: &'static [&'static str],
    pub(crate) change: Change,
}

/// Makes the tensors of a rule's names from one of the checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    One(fn(View, &Config) -> Result<View, Error>),
    Many(fn(View, &Config) -> Result<Vec<View>, Error>),
}

pub(crate) const fn rename(from: &'static str, to: &'static [&'static str]) -> Rule {
    change(from, to, |view, _| Ok(view))
}

pub(crate) const fn change(
    from: &'static str,
    to: &'static [&'static str],
    change: fn(View, &Config) -> Result<View, Error>,
) -> Rule {
    Rule { from, to, change: Change::One(change) }
}

/// A rule for a tensor that becomes several.
pub(crate) const fn split(
    from: &'static str,
    to: &'static [&'static str],
    change: fn(View, &Config) -> Result<Vec<View>, Error>,
) -> Rule {
    Rule { from, to, change: Change::Many(change) }
}

pub(crate) const fn skip(from: &'static str) -> Rule {
    split(from, &[], |_, _| Ok(Vec::new()))
}

#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) layer: Option<usize>,
    pub(crate) expert: Option<usize>,
    /// Which name in the braces of the rule it has.
    choice: usize,
    /// `.weight`, `.bias` or nothing.
    pub(crate) ending: &'static str,
}

impl Place {
    /// The name in the file without its ending, of one in a rule's `to`.
    pub(crate) fn stem(&self, to: &str) -> String {
        let to = to.replacen("{}", &self.layer.unwrap_or_default().to_string(), 1);
        match alternatives(&to) {
            Some((before, mut choices, after)) => {
                format!("{before}{}{after}", choices.nth(self.choice).unwrap_or_default())
            }
            None => to,
        }
    }
}

/// What is before `{a,b}`, in it, and after it.
fn alternatives(text: &str) -> Option<(&str, std::str::Split<'_, char>, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    inside.contains(',').then(|| (before, inside.split(','), after))
}

impl Rule {
    /// Names in the file, and what `view` becomes for each.
    pub(crate) fn apply(
        &self,
        view: View,
        config: &Config,
    ) -> Result<impl Iterator<Item = (&str, View)>, Error> {
        let views = match self.change {
            Change::One(change) => vec![change(view, config)?],
            Change::Many(change) => change(view, config)?,
        };
        Ok(self.to.iter().copied().zip(views))
    }

    /// The place of the tensor `name`, if it is of this rule.
    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        // The last two are TensorFlow's names.
        let endings =
            [("", ""), (".weight", ".weight"), (".bias", ".bias"), (".gamma", ".weight"), (".beta", ".bias")];
        for (from, ending) in endings {
            let Some(stem) = name.strip_suffix(from) else { continue };
            if let Some((numbers, choice)) = matched(self.from, stem) {
                let mut numbers = numbers.into_iter();
                return Some(Place { layer: numbers.next(), expert: numbers.next(), choice, ending });
            }
        }
        None
    }
}

/// The numbers at the `{}` of a pattern, and which name in its other braces it is.
fn matched(pattern: &str, name: &str) -> Option<(Vec<usize>, usize)> {
    let (mut parts, mut names) = (pattern.split('.'), name.split('.'));
    let (mut numbers, mut choice) = (Vec::new(), 0);
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return Some((numbers, choice)),
            (Some("{}"), Some(number)) => numbers.push(number.parse().ok()?),
            (Some(part), Some(name)) if part == name => {}
            (Some(part), Some(name)) => {
                let (before, mut choices, after) = alternatives(part)?;
                let inside = name.strip_prefix(before)?.strip_suffix(after)?;
                choice = choices.position(|choice| choice == inside)?;
            }
            _ => return None,
        }
    }
}

/// The names of most decoders. A family's own rules come first.
pub(crate) const COMMON: &[Rule] = &[
    rename("{embed_tokens,norm,lm_head}", &["{token_embd,output_norm,output}"]),
    rename("layers.{}.input_layernorm", &["blk.{}.attn_norm"]),
    rename("layers.{}.self_attn.{q,k,v,o}_proj", &["blk.{}.attn_{q,k,v,output}"]),
    rename("layers.{}.self_attn.{q_norm,k_norm,qkv_proj}", &["blk.{}.attn_{q_norm,k_norm,qkv}"]),
    rename("layers.{}.self_attn.sinks", &["blk.{}.attn_sinks.weight"]),
    rename("layers.{}.post_attention_layernorm", &["blk.{}.ffn_norm"]),
    rename("layers.{}.mlp.{gate,up,down,gate_up}_proj", &["blk.{}.ffn_{gate,up,down,up}"]),
    rename("layers.{}.mlp.gate", &["blk.{}.ffn_gate_inp"]),
    rename("layers.{}.mlp.gate.e_score_correction_bias", &["blk.{}.exp_probs_b.bias"]),
    rename("layers.{}.mlp.experts.{}.{gate,up,down}_proj", &["blk.{}.ffn_{gate,up,down}_exps"]),
    split("layers.{}.mlp.experts.gate_up_proj", GATE_UP_EXPS, |view, _| halves(view.with_axes(3)?, 1)),
    rename("layers.{}.mlp.experts.down_proj", &["blk.{}.ffn_down_exps.weight"]),
    rename("layers.{}.mlp.shared_expert.{gate,up,down}_proj", &["blk.{}.ffn_{gate,up,down}_shexp"]),
    rename("layers.{}.mlp.shared_expert_gate", &["blk.{}.ffn_gate_inp_shexp"]),
    rename("layers.{}.mlp.shared_experts.{gate,up,down}_proj", &["blk.{}.ffn_{gate,up,down}_shexp"]),
    skip("layers.{}.self_attn.rotary_emb.inv_freq"),
    skip("layers.{}.attention.bias"),
    skip("layers.{}.attention.masked_bias"),
];

/// The gate and up matrices of experts, which checkpoints store as one tensor.
pub(crate) const GATE_UP_EXPS: &[&str] = &["blk.{}.ffn_gate_exps.weight", "blk.{}.ffn_up_exps.weight"];

/// The first and the second half of an axis.
pub(crate) fn halves(view: View, axis: usize) -> Result<Vec<View>, Error> {
    let view = view.split(axis, &[2, 0])?;
    Ok(vec![view.clone().index(axis, 0)?, view.index(axis, 1)?])
}

/// Rows of heads for RoPE of neighbours instead of halves: row i and row i + half become rows 2i and 2i + 1.
pub(crate) fn interleave(view: View, heads: usize) -> Result<View, Error> {
    Ok(view.split(0, &[heads, 2, 0])?.swap(1, 2).merge(0..3))
}

pub(crate) fn plus_one(view: View, _: &Config) -> Result<View, Error> {
    Ok(view.then(|value| value + 1.0))
}

/// The number between `prefix` and the next dot of a tensor's name.
pub(crate) fn number_after(prefix: &str, name: &str) -> Option<usize> {
    name.strip_prefix(prefix)?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_name_several_tensors() {
        let rule = rename("layers.{}.mlp.{gate,up,gate_up}_proj", &["blk.{}.ffn_{gate,up,up}"]);
        for (name, expected) in [("gate", "ffn_gate"), ("up", "ffn_up"), ("gate_up", "ffn_up")] {
            let place = rule.place(&format!("layers.3.mlp.{name}_proj.weight")).expect("a place");
            assert_eq!(place.stem(rule.to[0]) + place.ending, format!("blk.3.{expected}.weight"));
        }
        for other in ["layers.3.mlp.down_proj", "layers.3.mlp.gate,up_proj", "layers.3.mlp.proj"] {
            assert_eq!(rule.place(other), None, "{other}");
        }
    }

    #[test]
    fn a_rule_finds_the_layer_the_expert_and_the_ending() {
        let rule = rename("layers.{}.mlp.experts.{}.up_proj", &["blk.{}.ffn_up_exps"]);
        let place = rule.place("layers.3.mlp.experts.17.up_proj.weight");
        assert_eq!(place, Some(Place { layer: Some(3), expert: Some(17), choice: 0, ending: ".weight" }));
        assert_eq!(rule.place("layers.3.mlp.experts.x.up_proj.weight"), None);
        assert_eq!(rule.place("layers.3.mlp.experts.17.up_proj.weight.scale"), None);
        for (name, ending) in
            [("norm", ""), ("norm.bias", ".bias"), ("norm.gamma", ".weight"), ("norm.beta", ".bias")]
        {
            assert_eq!(rename("norm", &[]).place(name).map(|place| place.ending), Some(ending));
        }
    }
}
