//! The [`LoadedModel`] of this backend.

use std::sync::Arc;

use backend::{BoundProgram, Bucket, Description, Error, LoadedModel, Memory, Program, Taps, Timing};

use crate::compile::Blueprint;
use crate::lock::lock;
use crate::model::Model;
use crate::program::GpuProgram;

pub(crate) struct Loaded(pub(crate) Arc<Model>);

impl LoadedModel for Loaded {
    fn describe(&self) -> Description {
        self.0.device.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let Model { device, plan, .. } = &*self.0;
        let bound = BoundProgram::new(plan.bound.clone(), bucket, taps)?;
        let blueprint = Blueprint::new(device, plan, bound, taps)?;
        Ok(Box::new(GpuProgram::new(self.0.clone(), blueprint)?))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.0.upload(copied)
    }

    fn memory(&self) -> Memory {
        let activations = lock(&self.0.state).activations;
        self.0.plan.memory(activations)
    }

    fn timings(&self) -> Vec<Timing> {
        std::mem::take(&mut lock(&self.0.state).timings)
    }
}
