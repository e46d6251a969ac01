//! A model that writes text.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::{Engine, Model};
use grammar::{Compiler, CompilerOptions, Grammar, Source, Vocabulary};

use super::digest::Digest;
use crate::error::{ApiError, Kind};
use crate::id;
use crate::metrics::Stats;
use crate::worker::Worker;

/// How long a client may wait for its grammar.
const GRAMMAR_TIME: Duration = Duration::from_secs(5);

/// A model that writes text, on its engine.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) name: String,
    /// When it was loaded, in seconds since 1970.
    pub(crate) created: i64,
    pub(crate) model: Arc<Model>,
    pub(crate) limits: engine::Limits,
    pub(crate) worker: Worker,
    pub(super) digest: Digest,
    compiler: OnceLock<Result<Compiler, String>>,
}

impl Generator {
    pub(super) fn start(name: String, engine: Engine, stats: Arc<Stats>) -> std::io::Result<Generator> {
        let (model, limits) = (engine.model().clone(), engine.limits());
        let worker = Worker::start(engine, stats)?;
        Ok(Generator {
            name,
            created: id::now(),
            model,
            limits,
            worker,
            digest: Digest::default(),
            compiler: OnceLock::new(),
        })
    }

    /// The grammar for this model's tokens, which the field `param` asks for. Not for the threads of the runtime.
    pub(crate) fn grammar(&self, param: &str, source: &Source) -> Result<Grammar, ApiError> {
        self.compiler(param)?.compile(source).map_err(|error| refused(param, &error))
    }

    /// The compiler of such grammars.
    pub(crate) fn compiler(&self, param: &str) -> Result<&Compiler, ApiError> {
        let compiler = self.compiler.get_or_init(|| {
            let vocabulary = Vocabulary::new(self.model.tokenizer()).map_err(|error| error.to_string())?;
            let options = CompilerOptions { deadline: GRAMMAR_TIME, ..CompilerOptions::default() };
            Ok(Compiler::with(Arc::new(vocabulary), options))
        });
        compiler.as_ref().map_err(|why| ApiError::unsupported(param, why.clone()))
    }
}

/// The error of a grammar that the field `param` asks for.
pub(crate) fn refused(param: &str, error: &grammar::Error) -> ApiError {
    match error {
        grammar::Error::Busy { .. } => ApiError::new(Kind::Busy, error.to_string()),
        error => ApiError::invalid(param, format!("`{param}`: {error}")),
    }
}
