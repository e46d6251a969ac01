//! StarCoder 2.

use super::{BASE, Family};
use crate::parameters::common;
use crate::rules::rename;

pub(super) const FAMILY: Family = Family {
    architecture: "starcoder2",
    classes: &["Starcoder2ForCausalLM"],
    parameters: common,
    rules: &[
        rename("layers.{}.mlp.c_fc", &["blk.{}.ffn_up"]),
        rename("layers.{}.mlp.c_proj", &["blk.{}.ffn_down"]),
    ],
    ..BASE
};
