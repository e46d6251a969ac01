//! StarCoder 2.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "starcoder2",
    classes: &["Starcoder2ForCausalLM"],
    parameters: common,
    rules: &[rename("layers.{}.mlp.c_{fc,proj}", &["blk.{}.ffn_{up,down}"])],
    ..BASE
};
