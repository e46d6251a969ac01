//! A model on two backends: the first layers on one, the others and the output on another.

use std::collections::HashMap;

use backend::{Backend, Bucket, Description, Error, KvLayout, Memory, Program, Step, Taps, Timing, Weight};
use graph::Graph;

/// Two backends that compute a model one after the other; hidden rows are handed over once a step.
pub struct Split {
    first: Part,
    rest: Part,
    /// Layers of the first.
    layers: usize,
    weights: HashMap<String, Weight>,
}

/// A backend, and which weights it has.
struct Part {
    backend: Box<dyn Backend>,
    loaded: Vec<String>,
}

impl Part {
    fn new(backend: Box<dyn Backend>) -> Part {
        Part { backend, loaded: Vec::new() }
    }

    /// Compiles its part of a model, with the taps that it has.
    fn compile(
        &mut self,
        graph: &Graph,
        weights: &HashMap<String, Weight>,
        bucket: Bucket,
        taps: Taps<'_>,
    ) -> Result<Box<dyn Program>, Error> {
        for (_, weight) in graph.weights() {
            if let Some(bytes) = weights.get(&weight.name)
                && !self.loaded.contains(&weight.name)
            {
                self.backend.load(&weight.name, bytes.clone())?;
                self.loaded.push(weight.name.clone());
            }
        }
        match taps {
            Taps::Names(names) => {
                let names: Vec<&str> =
                    names.iter().copied().filter(|name| graph.find(name).is_some()).collect();
                self.backend.compile(graph, bucket, Taps::Names(&names))
            }
            Taps::None | Taps::All => self.backend.compile(graph, bucket, taps),
        }
    }
}

impl Split {
    /// The first `layers` layers on `first`, which should be some and not all, the others on `rest`.
    pub fn new(first: Box<dyn Backend>, rest: Box<dyn Backend>, layers: usize) -> Split {
        Split { first: Part::new(first), rest: Part::new(rest), layers, weights: HashMap::new() }
    }

    /// What each of the two computes of `graph`. None when it cannot be cut after so many layers.
    pub fn cut(graph: &Graph, layers: usize) -> Option<(Graph, Graph)> {
        graph.cut(graph.find(&last_value(layers))?)
    }
}

/// The value that is handed over.
fn last_value(layers: usize) -> String {
    format!("l_out-{}", layers.saturating_sub(1))
}

impl Backend for Split {
    fn describe(&self) -> Description {
        let [first, rest] = [self.first.backend.describe(), self.rest.backend.describe()];
        let device = format!("{} for {} layers, then {}", first.device, self.layers, rest.device);
        Description { name: "split", device, facts: [first.facts, rest.facts].concat() }
    }

    fn load(&mut self, name: &str, weight: Weight) -> Result<(), Error> {
        weight.check(name)?;
        for part in [&mut self.first, &mut self.rest] {
            part.loaded.retain(|loaded| loaded != name);
        }
        self.weights.insert(name.to_owned(), weight);
        Ok(())
    }

    fn allocate_kv(&mut self, layout: KvLayout) -> Result<(), Error> {
        let first = layout.layers.min(self.layers);
        self.first.backend.allocate_kv(KvLayout { layers: first, ..layout })?;
        self.rest.backend.allocate_kv(KvLayout { layers: layout.layers - first, ..layout })
    }

    fn compile(&mut self, graph: &Graph, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let cannot =
            |name: String| Error::Value { name, why: "cannot be handed from one backend to another" };
        if let Taps::Names(names) = taps
            && let Some(name) = names.iter().find(|name| graph.find(name).is_none())
        {
            return Err(Error::Value { name: (*name).to_owned(), why: "is not in the graph" });
        }
        let cut = Split::cut(graph, self.layers);
        let (first_graph, rest_graph) = cut.ok_or_else(|| cannot(last_value(self.layers)))?;
        Ok(Box::new(SplitProgram {
            first: self.first.compile(&first_graph, &self.weights, bucket, taps)?,
            rest: self.rest.compile(&rest_graph, &self.weights, bucket, taps)?,
            is_first: first_graph.values().map(|(_, value)| value.name.clone()).collect(),
        }))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        // What both have was read twice when the second has it.
        let mut by_first = Vec::new();
        self.first.backend.prepare(&mut |name| by_first.push(name.to_owned()))?;
        by_first.iter().for_each(|name| copied(name));
        self.rest.backend.prepare(copied)
    }

    fn timings(&self) -> Vec<Timing> {
        let [first, rest] = [&self.first, &self.rest].map(|part| part.backend.timings());
        [first, rest].concat()
    }

    fn memory(&self) -> Memory {
        let [first, rest] = [self.first.backend.memory(), self.rest.backend.memory()];
        Memory {
            weights_mapped: first.weights_mapped + rest.weights_mapped,
            weights_owned: first.weights_owned + rest.weights_owned,
            weights_on_device: first.weights_on_device + rest.weights_on_device,
            weights_plain: [first.weights_plain, rest.weights_plain].concat(),
            kv: first.kv + rest.kv,
            activations: first.activations + rest.activations,
        }
    }
}

struct SplitProgram {
    first: Box<dyn Program>,
    rest: Box<dyn Program>,
    /// The values of the first.
    is_first: Vec<String>,
}

impl Program for SplitProgram {
    fn run(&mut self, step: &Step) -> Result<(), Error> {
        self.first.run(step)?;
        self.rest.run(&step.clone().with_input(self.first.output().to_vec()))
    }

    fn output(&self) -> &[f32] {
        self.rest.output()
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        if self.is_first.iter().any(|first| first == name) {
            self.first.read(name)
        } else {
            self.rest.read(name)
        }
    }
}
