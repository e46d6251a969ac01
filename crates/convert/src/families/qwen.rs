//! Qwen 2 and 3, dense and with experts.

use super::{BASE, Family};
use crate::Error;
use crate::config::Config;
use crate::keys::Keys;
use crate::parameters::common;

pub(super) const QWEN2: Family = Family {
    architecture: "qwen2",
    classes: &["Qwen2ForCausalLM", "Qwen2Model"],
    parameters: common,
    rules: &[],
    ..BASE
};

pub(super) const QWEN3: Family =
    Family { architecture: "qwen3", classes: &["Qwen3ForCausalLM", "Qwen3Model"], ..QWEN2 };

pub(super) const QWEN2MOE: Family =
    Family { architecture: "qwen2moe", classes: &["Qwen2MoeForCausalLM"], parameters: experts, ..QWEN2 };

pub(super) const QWEN3MOE: Family =
    Family { architecture: "qwen3moe", classes: &["Qwen3MoeForCausalLM"], ..QWEN2MOE };

pub(super) fn experts(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.optional("expert_feed_forward_length", config.u32(&["moe_intermediate_size"])?);
    keys.optional("expert_shared_feed_forward_length", config.u32(&["shared_expert_intermediate_size"])?);
    Ok(())
}
