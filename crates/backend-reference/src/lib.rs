//! The reference backend: dequantise to f32, sum in f64.
//!
//! The oracle every other backend is judged by: slow, short, obviously right. Each operation is the
//! formula of [`graph::Op`] written down; values between operations are f32, and so are K and V,
//! whatever format is asked for.

mod ops;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backend::{
    Backend, Bound, Bucket, Description, Error, KvFormat, KvLayout, Memory, Program, Step, Taps, Weight,
};
use graph::Graph;
use ops::Kv;

/// The backend. One instance holds one model.
#[derive(Debug, Default)]
pub struct Reference {
    weights: HashMap<String, Weight>,
    kv: Arc<Mutex<Option<Kv>>>,
}

impl Reference {
    /// An instance without a model.
    pub fn new() -> Reference {
        Reference::default()
    }
}

impl Backend for Reference {
    fn describe(&self) -> Description {
        Description {
            name: "reference",
            device: "CPU".into(),
            facts: vec![("arithmetic", "weights dequantised to f32, sums in f64, K/V in f32".into())],
        }
    }

    fn load(&mut self, name: &str, weight: Weight) -> Result<(), Error> {
        weight.check(name)?;
        self.weights.insert(name.to_owned(), weight);
        Ok(())
    }

    fn allocate_kv(&mut self, layout: KvLayout) -> Result<(), Error> {
        // The old store goes first, so that there is room for the new one.
        *lock(&self.kv) = None;
        *lock(&self.kv) = Some(Kv::new(KvLayout { format: KvFormat::F32, ..layout })?);
        Ok(())
    }

    fn compile(&mut self, graph: &Graph, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let layout = lock(&self.kv).as_ref().map(|kv| kv.layout);
        let bound = Bound::new(graph, &self.weights, layout, bucket, taps)?;
        let results = vec![Vec::new(); bound.values().len()];
        Ok(Box::new(Interpreter { bound, results, kv: self.kv.clone() }))
    }

    fn memory(&self) -> Memory {
        Memory {
            weights_mapped: self.weights.values().map(|weight| weight.bytes.len() as u64).sum(),
            kv: lock(&self.kv).as_ref().map_or(0, |kv| kv.layout.bytes()),
            ..Memory::default()
        }
    }
}

/// A graph whose values are computed one after the other.
struct Interpreter {
    bound: Bound,
    results: Vec<Vec<f32>>,
    kv: Arc<Mutex<Option<Kv>>>,
}

impl Program for Interpreter {
    fn run(&mut self, step: &Step) -> Result<(), Error> {
        let mut kv = lock(&self.kv);
        self.bound.check(step, kv.as_ref().map(|kv| kv.layout))?;
        for now in 0..self.results.len() {
            self.results[now] = ops::compute(&self.bound, now, &self.results, step, kv.as_mut());
            for &dead in self.bound.dying_at(now) {
                self.results[dead] = Vec::new();
            }
        }
        Ok(())
    }

    fn output(&self) -> &[f32] {
        &self.results[self.bound.output().index()]
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(&self.results[self.bound.readable(name)?.index()])
    }
}

/// A step that panicked leaves the store with old or new rows, both of which the next step overwrites.
fn lock(kv: &Mutex<Option<Kv>>) -> MutexGuard<'_, Option<Kv>> {
    kv.lock().unwrap_or_else(PoisonError::into_inner)
}
