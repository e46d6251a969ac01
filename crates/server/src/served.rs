//! The models that the server has.

use std::sync::{Arc, OnceLock};

use engine::gguf::Gguf;
use engine::{Engine, Model};
use grammar::{Compiler, CompilerOptions, Grammar, Source, Vocabulary};
use sha2::{Digest, Sha256};

use crate::error::{ApiError, Kind};
use crate::id;
use crate::worker::Worker;

/// How long a client may wait for its grammar.
const GRAMMAR_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// A model on its engine.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) name: String,
    /// When it was loaded, in seconds since 1970.
    pub(crate) created: i64,
    pub(crate) model: Arc<Model>,
    pub(crate) limits: engine::Limits,
    pub(crate) worker: Worker,
    compiler: OnceLock<Result<Compiler, String>>,
    digest: OnceLock<String>,
}

impl Served {
    pub(crate) fn start(name: String, engine: Engine) -> std::io::Result<Served> {
        let (model, limits) = (engine.model().clone(), engine.limits());
        let (worker, created) = (Worker::start(engine)?, id::now());
        Ok(Served {
            name,
            created,
            model,
            limits,
            worker,
            compiler: OnceLock::new(),
            digest: OnceLock::new(),
        })
    }

    /// The SHA-256 of the file's header, that is its metadata and its list of tensors: the whole file takes too long.
    pub(crate) fn digest(&self) -> &str {
        self.digest.get_or_init(|| format!("{:x}", Sha256::digest(header(self.model.file()))))
    }

    /// The grammar for this model's tokens. Not for the threads of the runtime.
    pub(crate) fn grammar(&self, param: &str, source: &Source) -> Result<Grammar, ApiError> {
        let compiler = self.compiler.get_or_init(|| {
            let vocabulary = Vocabulary::new(self.model.tokenizer()).map_err(|error| error.to_string())?;
            let options = CompilerOptions { deadline: GRAMMAR_TIME, ..CompilerOptions::default() };
            Ok(Compiler::with(Arc::new(vocabulary), options))
        });
        let compiler = compiler.as_ref().map_err(|why| ApiError::unsupported(param, why.clone()))?;
        compiler.compile(source).map_err(|error| match error {
            grammar::Error::Busy { .. } => ApiError::new(Kind::Busy, error.to_string()),
            error => ApiError::invalid(param, format!("`{param}`: {error}")),
        })
    }
}

/// The bytes of a file (of its first part) before its tensors.
fn header(file: &Gguf) -> &[u8] {
    let bytes = file.contents().next().unwrap_or_default();
    let begin = bytes.as_ptr().addr();
    let places = file.tensors().filter_map(|tensor| tensor.data.as_ptr().addr().checked_sub(begin));
    places.min().and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}

/// All models, in the order of the command line.
#[derive(Debug)]
pub(crate) struct Models(pub(crate) Vec<Arc<Served>>);

impl Models {
    /// The model called `name`; without a name the first one.
    pub(crate) fn get(&self, name: Option<&str>) -> Result<&Arc<Served>, ApiError> {
        let found = match name {
            None => self.0.first(),
            Some(name) => self.0.iter().find(|served| served.name == name),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|served| &*served.name).collect();
            let message = format!(
                "there is no model `{}`; there {} {}",
                name.unwrap_or_default(),
                if names.len() == 1 { "is" } else { "are" },
                names.join(", ")
            );
            ApiError { param: Some("model".into()), ..ApiError::new(Kind::NoModel, message) }
        })
    }
}
