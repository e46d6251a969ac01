//! A model that writes text.

use std::sync::Arc;

use engine::{Engine, Limits};
use rustorch::Model;
use tokenizer::Tokenizer;

use super::digest::Digest;
use crate::id;
use crate::metrics::{self, Stats};

/// A model that writes text.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) name: String,
    /// When it was loaded, in seconds since 1970.
    pub(crate) created: i64,
    pub(crate) model: Model,
    pub(crate) limits: Limits,
    pub(super) digest: Digest,
}

impl Generator {
    pub(super) fn start(
        name: String,
        engine: Engine,
        stats: Arc<Stats>,
    ) -> Result<Generator, rustorch::Error> {
        let limits = engine.limits();
        let model = Model::from_engine(engine, Some(Box::new(metrics::Monitor(stats))))?;
        Ok(Generator { name, created: id::now(), model, limits, digest: Digest::default() })
    }

    /// The opened file.
    pub(crate) fn file(&self) -> &Arc<engine::Model> {
        self.model.file()
    }

    pub(crate) fn tokenizer(&self) -> &Arc<Tokenizer> {
        self.file().tokenizer()
    }
}
