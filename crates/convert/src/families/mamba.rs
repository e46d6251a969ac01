//! Mamba 2, and the mixers of Mamba 2 in hybrid models.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "mamba2",
    classes: &["Mamba2ForCausalLM"],
    tokenizer: Kind::Mamba2(16),
    parameters,
    shared: MIXER,
    ..BASE
};

/// The tokens that a recurrent model is said to see: any number would do.
pub(super) const ENDLESS: usize = 1 << 20;

/// A mixer of Mamba 2. Where it is called `mamba`, [`mixer`] finds it.
pub(super) const MIXER: &[Rule] = &[
    rename("{embeddings,norm_f}", &["{token_embd,output_norm}"]),
    rename("layers.{}.norm", &["blk.{}.attn_norm"]),
    rename("layers.{}.mixer.in_proj", &["blk.{}.ssm_in"]),
    change("layers.{}.mixer.conv1d", &["blk.{}.ssm_conv1d"], |view, _| Ok(view.squeeze())),
    rename("layers.{}.mixer.dt_bias", &["blk.{}.ssm_dt.bias"]),
    change("layers.{}.mixer.A_log", &["blk.{}.ssm_a"], |view, _| Ok(decay(view.with_axes(1)?).expand(1))),
    change("layers.{}.mixer.D", &["blk.{}.ssm_d"], |view, _| Ok(view.with_axes(1)?.expand(1))),
    change("layers.{}.mixer.norm", &["blk.{}.ssm_norm"], |view, config| {
        view.split(0, &[config.need_count(GROUPS)?, 0])
    }),
    rename("layers.{}.mixer.out_proj", &["blk.{}.ssm_out"]),
];

/// Groups of heads that share B and C.
const GROUPS: &[&str] = &["n_groups", "mamba_n_groups"];

/// The rate of the decay from its logarithm, rounded as on every machine.
pub(super) fn decay(view: View) -> View {
    view.then(|log| -f64::from(log).exp() as f32)
}

pub(super) fn mixer(name: &str, _: &Config) -> Result<Option<String>, Error> {
    Ok(name.contains(".mamba.").then(|| name.replacen(".mamba.", ".mixer.", 1)))
}

fn inner(config: &Config) -> Result<usize, Error> {
    match config.u32(&["mamba_d_ssm", "intermediate_size", "d_inner"])? {
        Some(len) => Ok(len as usize),
        None => Ok(config.u32(&["mamba_expand", "expand"])?.unwrap_or(2) as usize * config.hidden()?),
    }
}

pub(super) fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    let inner = inner(config)?;
    let head = config.u32(&["mamba_d_head", "head_dim"])?.unwrap_or(64).max(1) as usize;
    keys.count("block_count", config.layers()?);
    keys.count("context_length", ENDLESS);
    keys.count("embedding_length", config.hidden()?);
    keys.count("feed_forward_length", 0);
    keys.count("attention.head_count", 0);
    let epsilon = config.f32(&["layer_norm_epsilon", "rms_norm_eps"])?.unwrap_or(1e-5);
    keys.set("attention.layer_norm_rms_epsilon", epsilon);
    keys.set("ssm.conv_kernel", config.u32(&["conv_kernel", "d_conv", "mamba_d_conv"])?.unwrap_or(4));
    keys.set("ssm.state_size", config.u32(&["state_size", "d_state", "mamba_d_state"])?.unwrap_or(128));
    keys.set("ssm.group_count", config.u32(GROUPS)?.unwrap_or(1));
    keys.count("ssm.inner_size", inner);
    keys.count("ssm.time_step_rank", inner / head);
    Ok(())
}

/// The sizes of the mixers of hybrid models, whose channels are given.
pub(super) fn hybrid_parameters(config: &Config, inner: usize, keys: &mut Keys<'_>) -> Result<(), Error> {
    keys.set("ssm.conv_kernel", config.need_u32(&["conv_kernel", "mamba_d_conv"])?);
    keys.set("ssm.state_size", config.need_u32(&["ssm_state_size", "mamba_d_state"])?);
    keys.set("ssm.group_count", config.need_u32(GROUPS)?);
    keys.count("ssm.inner_size", inner);
    keys.set("ssm.time_step_rank", config.need_u32(&["mamba_num_heads", "mamba_n_heads"])?);
    Ok(())
}
