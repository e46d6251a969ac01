//! Finding models and making them ready: the one place that knows files and backends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use backend::Backend;
use engine::{Engine, Model, Options};
use gguf::Gguf;

use crate::args::{BackendName, ContextArgs, EngineArgs, ModelArgs};
use crate::output::Usage;

/// Opens the model's file, for commands that need no more.
pub(crate) fn file(args: &ModelArgs) -> anyhow::Result<Gguf> {
    let Some(named) = &args.model else {
        return Err(Usage(
            "which model? Pass -m FILE, set RUSTORCH_MODEL, or put model = \"FILE\" into the \
                          configuration file"
                .to_owned(),
        )
        .into());
    };
    Ok(Gguf::open(find(named)?)?)
}

/// Puts the model on its backend.
pub(crate) fn engine(model: &ModelArgs, args: &EngineArgs) -> anyhow::Result<Engine> {
    let model = Model::new(file(model)?)?;
    let options =
        Options { n_ctx: n_ctx(&args.context, &model), n_batch: args.batch_size.get(), ..Options::default() };
    let engine = Engine::new(Arc::new(model), backend(args), options)?;
    tracing::debug!(memory = ?engine.backend().memory(), limits = ?engine.limits(), "the model is ready");
    Ok(engine)
}

/// The context asked for; none leaves it to the engine.
pub(crate) fn n_ctx(args: &ContextArgs, model: &Model) -> Option<usize> {
    args.ctx_size.map(|n_ctx| if n_ctx == 0 { model.n_ctx_train() } else { n_ctx })
}

/// The backend asked for, empty.
fn backend(args: &EngineArgs) -> Box<dyn Backend> {
    match args.backend {
        BackendName::Cpu => Box::new(backend_cpu::Cpu::new(args.threads)),
        BackendName::Reference => Box::new(backend_reference::Reference::new()),
    }
}

/// Every backend of this program.
pub(crate) fn backends(threads: Option<std::num::NonZero<usize>>) -> [Box<dyn Backend>; 2] {
    [Box::new(backend_cpu::Cpu::new(threads)), Box::new(backend_reference::Reference::new())]
}

/// The file that `named` means: itself, or without a path one in `~/.rustorch/models`.
fn find(named: &Path) -> anyhow::Result<PathBuf> {
    let is_bare = named.components().count() == 1 && named.file_name().is_some() && !has_separator(named);
    if !is_bare || named.exists() {
        return Ok(named.to_owned());
    }
    let Some(folder) = std::env::home_dir().map(|home| home.join(".rustorch").join("models")) else {
        return Ok(named.to_owned());
    };
    let mut with_suffix = named.as_os_str().to_owned();
    with_suffix.push(".gguf");
    let places = [folder.join(named), folder.join(with_suffix)];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => bail!(
            "no model `{}`: it is no file here, and neither {} nor {} is there",
            named.display(),
            places[0].display(),
            places[1].display()
        ),
    }
}

fn has_separator(path: &Path) -> bool {
    path.to_string_lossy().contains(std::path::is_separator)
}
