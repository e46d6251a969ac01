//! Loads models.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Context, bail};
use backend::{ConvertedWeights, Memory};
use bytes::Bytes;
use engine::{DraftModel, Engine, LogitRows, Model, Options};
use gguf::{Gguf, UnsupportedTensor};
use runner::FileWeights;
use tokenizer::{Encode, Tokenizer};

use crate::args::{ContextArgs, EngineArgs, ModelArgs, NetworkArgs, WritingArgs};
use crate::output::size;
use crate::placement::{self, Placement, Read};
use crate::{context, output, source};

/// Opens the model file, by default the embedded one. Refuses tensors in unknown formats.
pub(crate) fn file(args: &ModelArgs) -> anyhow::Result<Gguf> {
    let file = match source::locate(args)? {
        Some(path) => Gguf::open(path)?,
        None => Gguf::from_named_bytes("embedded model", Bytes::from_static(demo_model::EMBEDDED))?,
    };
    Ok(with_pre_tokenizer(file, args))
}

fn with_pre_tokenizer(mut file: Gguf, args: &ModelArgs) -> Gguf {
    if let Some(name) = &args.open.pre_tokenizer {
        file.override_metadata("tokenizer.ggml.pre", name.as_str());
    }
    file
}

/// As [`introduced`], with tensors in unknown formats set aside.
pub(crate) fn inspect(args: &ModelArgs) -> anyhow::Result<(Gguf, Vec<UnsupportedTensor>)> {
    let Some(path) = source::locate(args)? else { return Ok((introduced(args)?, Vec::new())) };
    let (file, unsupported) = Gguf::inspect(path)?;
    let file = with_pre_tokenizer(file, args);
    introduce(args, &file);
    Ok((file, unsupported))
}

/// Opens the model file and introduces it.
pub(crate) fn introduced(args: &ModelArgs) -> anyhow::Result<Gguf> {
    let file = file(args)?;
    introduce(args, &file);
    Ok(file)
}

/// Prints notes on the embedded model, on an option without effect, and on unused multi-token prediction blocks.
pub(crate) fn introduce(args: &ModelArgs, file: &Gguf) {
    let is_bpe = file.metadata().str("tokenizer.ggml.model").is_ok_and(|model| model == Some("gpt2"));
    if args.open.pre_tokenizer.is_some() && !is_bpe {
        output::note(format_args!(
            "warning: --pre-tokenizer changes nothing: only byte-level BPE has a choice of pre-tokenizers"
        ));
    }
    let architecture = file.metadata().str("general.architecture").ok().flatten().unwrap_or_default();
    let blocks = file.metadata().u32(&format!("{architecture}.nextn_predict_layers")).ok().flatten();
    if let Some(blocks) = blocks.filter(|&blocks| blocks > 0) {
        output::note(format_args!(
            "rustorch: {} for multi-token prediction, which would only speed up generation: not used",
            output::counted(blocks, "block"),
        ));
    }
    let others = file.tensors().filter(|tensor| models::is_other_modality(&tensor.name)).count();
    if others > 0 {
        output::note(format_args!(
            "rustorch: {} of an encoder of pictures or sound: not used, the model reads text only",
            output::counted(others, "tensor"),
        ));
    }
    if !args.is_given() {
        let parameters = output::count(parameters(file));
        output::note(format_args!(
            "rustorch: the embedded demo model ({parameters} parameters) knows little; for a real one, add {}",
            source::suggestion(),
        ));
    }
}

pub(crate) fn parameters(file: &Gguf) -> usize {
    file.tensors().map(|tensor| tensor.row_len() * tensor.rows()).sum()
}

/// The requested number of threads, or as many as the system suggests.
pub(crate) fn threads(requested: Option<NonZero<usize>>) -> NonZero<usize> {
    requested.or(std::thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN)
}

pub(crate) fn tokenizer(file: &Gguf) -> anyhow::Result<Tokenizer> {
    Tokenizer::from_metadata(file.metadata()).with_context(|| format!("{}: no usable tokenizer", file.file()))
}

/// Encodes `prompt` without a chat template: with BOS if the file says so, without EOS.
pub(crate) fn raw_tokens(file: &Gguf, prompt: &str) -> anyhow::Result<Vec<u32>> {
    let tokenizer = tokenizer(file)?;
    let text = Encode { add_special: false, parse_special: false };
    Ok(tokenizer.with_bos(tokenizer.encode(prompt, text)))
}

pub(crate) fn model(args: &ModelArgs) -> anyhow::Result<Model> {
    let model = Model::new(introduced(args)?)?;
    if let Some(pooling) = model.config().pooling {
        let (file, architecture) = (model.file().file(), model.config().architecture);
        bail!(
            "{file}: `{architecture}` computes embeddings ({pooling} pooling), not text; use `rustorch embed`, \
             or `rustorch rerank` for a reranker"
        );
    }
    Ok(model)
}

/// An engine whose rows of logits are read.
pub(crate) fn for_logits(model: Model, args: &EngineArgs, logits: LogitRows) -> anyhow::Result<Engine> {
    let options = engine_options(args, &model);
    engine(model, args, options, logits)
}

/// A model that writes one text at a time. A draft model is downloaded as `network` says.
pub(crate) fn writing(
    model: Model,
    args: &WritingArgs,
    network: NetworkArgs,
) -> anyhow::Result<rustorch::Model> {
    let options = engine_options(&args.engine, &model);
    Ok(rustorch::Model::from_engine(speculating(model, args, network, options)?, None)?)
}

/// An engine with options that `adjust` has changed.
pub(crate) fn serving(
    model: Model,
    args: &WritingArgs,
    network: NetworkArgs,
    adjust: impl FnOnce(&mut Options),
) -> anyhow::Result<Engine> {
    let mut options = engine_options(&args.engine, &model);
    options.n_ctx = Some(options.n_ctx.unwrap_or(model.config().context_length.min(engine::DEFAULT_N_CTX)));
    adjust(&mut options);
    speculating(model, args, network, options)
}

/// An engine that uses drafts, if requested. A draft model is loaded first, so that the model has the rest of the memory.
fn speculating(
    model: Model,
    args: &WritingArgs,
    network: NetworkArgs,
    mut options: Options,
) -> anyhow::Result<Engine> {
    let Some((speculation, draft)) = args.speculation.choice()? else {
        return engine(model, &args.engine, options, LogitRows::Last);
    };
    options.speculation = Some(speculation);
    let draft = draft.map(|name| {
        let draft = Arc::new(Model::new(file(&ModelArgs::at(name, network))?)?);
        let (own, weights) = (options.for_draft(&model)?, FileWeights(draft.file()));
        let workload = placement::workload(&draft, &weights, &own, Read::LAST)?;
        Placement::new(&args.engine.backend, &workload)?.with(|backend, placement| {
            let model = DraftModel::new(draft.clone(), backend, &model, options)?;
            tracing::debug!("the draft model runs on {}", placement.in_words());
            Ok(model)
        })
    });
    let draft = draft.transpose()?;
    let mut engine = engine(model, &args.engine, options, LogitRows::Last)?;
    draft.map_or(Ok(()), |draft| engine.draft_with(draft))?;
    Ok(engine)
}

fn engine_options(args: &EngineArgs, model: &Model) -> Options {
    Options {
        n_batch: args.backend.batch_size.get(),
        sampling_threads: args.backend.cpu.threads,
        ..options(&args.context, model)
    }
}

fn engine(model: Model, args: &EngineArgs, options: Options, logits: LogitRows) -> anyhow::Result<Engine> {
    let read = Read { logits, values: args.debug };
    let weights = FileWeights(model.file());
    let placement = Placement::new(&args.backend, &placement::workload(&model, &weights, &options, read)?)?;
    let model = Arc::new(model);
    let is_on_host = placement.on_gpu() == 0;
    let engine = placement.with(|backend, placement| {
        let mut engine = Engine::new(model.clone(), backend, options)?;
        if read.values {
            show_steps(&mut engine)?;
        }
        if read.logits != LogitRows::Last {
            engine.prepare_logits()?;
        }
        tracing::debug!("the model runs on {}", placement.in_words());
        Ok(engine)
    });
    let engine = engine.map_err(|error| {
        if is_on_host { context::explain(error, &model, &options, read, &args.backend) } else { error }
    })?;
    let (memory, limits) = (in_words(&engine.runner().memory()), engine.limits());
    let (n_ctx, n_batch) = (limits.n_ctx, limits.n_batch);
    tracing::debug!("the model is ready: {memory}; context of {n_ctx} tokens, prompts in steps of {n_batch}");
    Ok(engine)
}

/// Prints a table of all values to stderr after each step of `engine`.
fn show_steps(engine: &mut Engine) -> anyhow::Result<()> {
    let model = engine.model().clone();
    let names: Vec<&str> = model.graph().values().map(|(_, value)| &*value.name).collect();
    let shown = model.clone();
    let (mut values, mut step) = (Vec::new(), String::new());
    engine.observe(&names, move |observed| {
        if values.is_empty() {
            let rows = observed.rows.iter().map(|row| format!("{}@{}", row.token, row.position));
            step = rows.collect::<Vec<_>>().join(" ");
        }
        let graph = shown.graph();
        let cols = graph.find(observed.name).map_or(1, |id| graph.value(id).cols);
        values.push(trace::Summary::of(observed.name, cols, observed.values));
        if values.len() == graph.values().len() {
            let table = trace::table(&std::mem::take(&mut values));
            output::note(format_args!("step of {step} (token@position)\n{table}"));
        }
        ControlFlow::Continue(())
    })?;
    Ok(())
}

pub(crate) fn in_words(memory: &Memory) -> String {
    let mut weights = format!(
        "weights take {} in the file and {} of copies",
        size(memory.weights_mapped),
        size(memory.weights_owned - memory.weights_on_device)
    );
    if memory.weights_on_device > 0 {
        weights += &format!(", {} on the device", size(memory.weights_on_device));
    }
    for ConvertedWeights { format, device_format, bytes } in &memory.weights_converted {
        weights += &format!(", of which {} of {format} converted to {device_format}", size(*bytes));
    }
    format!("{weights}, the KV cache {}, activations {}", size(memory.kv), size(memory.activations))
}

/// The engine's options; without a context size, the engine chooses.
pub(crate) fn options(args: &ContextArgs, model: &Model) -> Options {
    let n_ctx = requested_n_ctx(args.ctx_size, model);
    Options { n_ctx, kv_format: args.cache.format(), ..Options::default() }
}

/// The value of `--ctx-size`, of which 0 is the training context.
pub(crate) fn requested_n_ctx(ctx_size: Option<usize>, model: &Model) -> Option<usize> {
    ctx_size.map(|n_ctx| if n_ctx == 0 { model.config().context_length } else { n_ctx })
}
