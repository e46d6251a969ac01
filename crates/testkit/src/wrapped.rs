//! A backend whose programs are those of another one, changed: devices that fail, choose tokens or count steps.

use std::sync::Arc;

use backend::{
    Backend, Bucket, Description, Error, KvLayout, LoadedModel, Member, Memory, Program, Taps, Weights,
};
use graph::Graph;

type Change = Arc<dyn Fn(Box<dyn Program>) -> Box<dyn Program> + Send + Sync>;

struct Wrapped {
    inner: Box<dyn Backend>,
    change: Change,
}

struct WrappedModel {
    inner: Box<dyn LoadedModel>,
    change: Change,
}

/// The backend `inner`, with `change` applied to each program that it compiles.
pub fn wrapped(
    inner: Box<dyn Backend>,
    change: impl Fn(Box<dyn Program>) -> Box<dyn Program> + Send + Sync + 'static,
) -> Box<dyn Backend> {
    Box::new(Wrapped { inner, change: Arc::new(change) })
}

impl Backend for Wrapped {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn join(&mut self, member: Member) -> Result<(), Error> {
        self.inner.join(member)
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        self.inner.requirements(graph, weights, kv_layout, buckets, taps)
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let Wrapped { inner, change } = *self;
        Ok(Box::new(WrappedModel { inner: inner.load(graph, weights, kv_layout)?, change }))
    }
}

impl LoadedModel for WrappedModel {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        Ok((self.change)(self.inner.compile(bucket, taps)?))
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}
