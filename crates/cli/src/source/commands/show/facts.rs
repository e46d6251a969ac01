//! What a model's header tells.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use engine::{Model, Options};
use gguf::Gguf;
use gguf::output::temporary_folder;
use runner::FileWeights;

use super::super::super::fetch::{Hub, Plan};
use crate::args::ContextArgs;
use crate::fit::Fit;
use crate::fit::formats::{OtherFormats, Zeros};
use crate::fit::machine::Machine;
use crate::load;

/// How much of a file is fetched to read its header: enough for most, for large vocabularies, and for anything.
const HEADS: [u64; 3] = [8 << 20, 32 << 20, 128 << 20];

pub(super) struct Facts {
    pub(super) architecture: String,
    pub(super) parameters: usize,
    pub(super) n_ctx: usize,
    model: Model,
    options: Options,
    zeros: Zeros,
    /// Bytes of the files that the header is from.
    bytes: u64,
}

impl Facts {
    /// Reads a model on the hub by the beginnings of its files: the rest is holes.
    pub(super) fn from_hub(context: &ContextArgs, hub: &Hub, plan: &Plan) -> anyhow::Result<Facts> {
        let folder = temporary_folder().context("cannot create a temporary folder")?;
        let mut last = None;
        for most in HEADS {
            let mut first = None;
            for (name, bytes) in &plan.chosen.files {
                let bytes = bytes.context("the hub does not say how large the file is")?;
                let head = hub.client.head(&plan.snapshot, name, most.min(bytes), &|_| {})?;
                let path = folder.path().join(name.base());
                let mut file = File::create(&path)?;
                file.write_all(&head)?;
                file.set_len(bytes)?;
                first.get_or_insert(path);
            }
            let path = first.context("the model has no file")?;
            let bytes = plan.chosen.bytes().unwrap_or(0);
            match Facts::of(context, &path, bytes) {
                Ok(facts) => return Ok(facts),
                Err(error) if most >= bytes => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("the header is too long")))
    }

    /// Reads a file; `bytes` is the size of all files of the model.
    pub(super) fn of(context: &ContextArgs, path: &Path, bytes: u64) -> anyhow::Result<Facts> {
        let file = Gguf::open(path)?;
        let architecture = file.metadata().str("general.architecture").ok().flatten().unwrap_or_default();
        let (architecture, parameters) = (architecture.to_owned(), load::parameters(&file));
        let zeros = Zeros::for_tensors_of(&file)?;
        let model = Model::new(file)?;
        let options = load::options(context, &model);
        let n_ctx = options.layout(&model)?.limits.n_ctx;
        Ok(Facts { architecture, parameters, n_ctx, model, options, zeros, bytes })
    }

    /// Where the model of the header fits.
    pub(super) fn fit(&self, machine: &mut Machine<'_>) -> anyhow::Result<Fit> {
        machine.fit(&self.model, &FileWeights(self.model.file()), &self.options, 1.0)
    }

    /// Where it fits in another quantisation of this size.
    pub(super) fn fit_in(
        &self,
        machine: &mut Machine<'_>,
        quant: Option<&str>,
        bytes: Option<u64>,
    ) -> anyhow::Result<Fit> {
        let file = self.model.file();
        let own: u64 = file.tensors().map(|tensor| tensor.data.len() as u64).sum();
        let bytes = bytes.context("the hub does not say how large the file is")?;
        // Headers are alike.
        let bytes = bytes.saturating_sub(self.bytes.saturating_sub(own)) as f64;
        match quant.and_then(|quant| OtherFormats::of(file, quant, &self.zeros)) {
            Some(other) => {
                machine.fit(&self.model, &other, &self.options, bytes / other.bytes().max(1) as f64)
            }
            None => machine.fit(&self.model, &FileWeights(file), &self.options, bytes / own.max(1) as f64),
        }
    }
}
