//! Rotary position embeddings of a configuration.

use serde_json::{Map, Value};

use crate::Error;
use crate::config::{Config, as_f32s};
use crate::keys::Keys;

/// `rope_parameters`, or what older files have instead: `rope_scaling` beside `rope_theta` and others.
#[derive(Debug)]
pub(crate) struct Rope<'a> {
    config: &'a Config,
    /// For all layers, or for those with full attention.
    all: Map<String, Value>,
    /// For layers with a sliding window, if they differ.
    sliding: Option<Map<String, Value>>,
}

const THETA: [&str; 4] = ["global_rope_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
const LOCAL_THETA: [&str; 5] =
    ["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];

impl Rope<'_> {
    pub(crate) fn of(config: &Config) -> Result<Rope<'_>, Error> {
        let of = |key| config.value(key).and_then(Value::as_object).cloned();
        let found = of("rope_parameters").or_else(|| of("rope_scaling")).unwrap_or_default();
        let kind = |kind: &str| found.get(kind).and_then(Value::as_object).cloned();
        if kind("full_attention").is_some() || kind("sliding_attention").is_some() {
            let all = kind("full_attention").unwrap_or_default();
            return Ok(Rope { config, all, sliding: kind("sliding_attention") });
        }
        let mut rope = Rope { config, all: found, sliding: None };
        if let Some(theta) = config.f32(&LOCAL_THETA)? {
            rope.sliding = Some(Map::from_iter([("rope_theta".to_owned(), theta.into())]));
        }
        rope.default("rope_theta", &THETA);
        rope.default("partial_rotary_factor", &["partial_rotary_factor", "rope_pct", "rope_percent"]);
        rope.default("original_max_position_embeddings", &["original_max_position_embeddings"]);
        if let Some(kind) = rope.all.get("type").cloned() {
            rope.all.entry("rope_type").or_insert(kind);
        }
        Ok(rope)
    }

    fn default(&mut self, name: &str, keys: &[&str]) {
        if !self.all.contains_key(name)
            && let Some(value) = keys.iter().find_map(|key| self.config.value(key))
        {
            self.all.insert(name.to_owned(), value.clone());
        }
    }

    pub(crate) fn theta(&self) -> Result<Option<f32>, Error> {
        self.f32("rope_theta")
    }

    /// How positions are scaled: `linear`, `yarn`, `llama3`, `longrope`…
    pub(crate) fn kind(&self) -> &str {
        self.all.get("rope_type").and_then(Value::as_str).unwrap_or("default")
    }

    pub(crate) fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(value) = self.all.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        let wrong = || self.config.error(format!("{key:?} of the RoPE is {value}, expected a number"));
        value.as_f64().map(|number| Some(number as f32)).ok_or_else(wrong)
    }

    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        Ok(self.f32(key)?.map(|value| value as u32))
    }

    pub(crate) fn f32s(&self, key: &str) -> Option<Vec<f32>> {
        self.all.get(key).and_then(as_f32s)
    }

    pub(crate) fn partial(&self) -> Result<Option<f32>, Error> {
        self.f32("partial_rotary_factor")
    }

    /// Writes the keys that all architectures have.
    pub(crate) fn write(&self, keys: &mut Keys<'_>) -> Result<(), Error> {
        let factor = self.f32("factor")?;
        match (self.kind(), factor) {
            ("linear", Some(factor)) => {
                keys.set("rope.scaling.type", "linear");
                keys.set("rope.scaling.factor", factor);
            }
            ("yarn", Some(factor)) => {
                keys.set("rope.scaling.type", "yarn");
                keys.set("rope.scaling.factor", factor);
                let original = self.u32("original_max_position_embeddings")?;
                let original = original
                    .ok_or_else(|| self.config.error("YaRN lacks \"original_max_position_embeddings\""))?;
                keys.set("rope.scaling.original_context_length", original);
                keys.optional("rope.scaling.yarn_ext_factor", self.f32("extrapolation_factor")?);
                let attention = self.f32("attention_factor")?.or(self.f32("attn_factor")?);
                keys.optional("rope.scaling.yarn_attn_factor", attention);
                keys.optional("rope.scaling.yarn_beta_fast", self.f32("beta_fast")?);
                keys.optional("rope.scaling.yarn_beta_slow", self.f32("beta_slow")?);
            }
            ("su" | "longrope", _) => keys.set("rope.scaling.type", "longrope"),
            _ => {}
        }
        if let Some(mut sections) = self.sections() {
            sections.resize(4, 0);
            keys.counts("rope.dimension_sections", sections);
        }
        keys.optional("rope.freq_base", self.theta()?);
        let sliding = self.sliding.as_ref().and_then(|values| values.get("rope_theta")?.as_f64());
        keys.optional("rope.freq_base_swa", sliding.map(|theta| theta as f32));
        Ok(())
    }

    /// Dimensions that rotate by time, height and width.
    fn sections(&self) -> Option<Vec<usize>> {
        let sections = self.all.get("mrope_section")?.as_array()?;
        sections.iter().map(|len| usize::try_from(len.as_u64()?).ok()).collect()
    }

    /// The factors by which Llama 3.1 divides the frequencies of a head of `len` values;
    /// `_compute_llama3_parameters` of transformers.
    pub(crate) fn llama3(&self, len: usize) -> Result<Option<Vec<f32>>, Error> {
        if !self.kind().eq_ignore_ascii_case("llama3") {
            return Ok(None);
        }
        let base = self.theta()?.unwrap_or(10000.0);
        let factor = self.f32("factor")?.unwrap_or(8.0);
        let low = self.f32("low_freq_factor")?.unwrap_or(1.0);
        let high = self.f32("high_freq_factor")?.unwrap_or(4.0);
        let context = self.f32("original_max_position_embeddings")?.unwrap_or(8192.0);
        let of = |i: usize| {
            let frequency = 1.0 / base.powf(2.0 * i as f32 / len as f32);
            let wavelength = 2.0 * std::f32::consts::PI / frequency;
            if wavelength < context / high {
                1.0
            } else if wavelength > context / low {
                factor
            } else {
                let smooth = (context / wavelength - low) / (high - low);
                1.0 / ((1.0 - smooth) / factor + smooth)
            }
        };
        Ok(Some((0..len / 2).map(of).collect()))
    }
}
