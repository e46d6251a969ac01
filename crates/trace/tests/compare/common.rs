//! Random models, their traces, and traces changed in known ways.

use std::num::NonZero;
use std::path::PathBuf;

use backend::{Backend, KvFormat};
use backend_cpu::Cpu;
use backend_reference::Reference;
use gguf::Gguf;
use graph::Graph;
use models::Model;
use quant::Format;
use tempfile::TempDir;
use testkit::fixtures::Spec;
use trace::{Matrix, Meta, Oracle, Recording, Report, Trace, Writer};

pub(crate) const TOKENS: usize = 24;

/// A model and the folder of its traces.
pub(crate) struct Bench {
    folder: TempDir,
    file: Gguf,
    pub(crate) graph: Graph,
    /// Types of K and V in traces.
    pub(crate) kv: KvFormat,
}

/// The CPU backend, on so many threads.
pub(crate) fn cpu(threads: Option<NonZero<usize>>) -> Box<dyn Backend> {
    Box::new(Cpu::new(threads))
}

impl Bench {
    pub(crate) fn new(format: Format) -> Bench {
        Bench::of(Spec { layers: 2, ..Spec::new(format) })
    }

    pub(crate) fn of(spec: Spec) -> Bench {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("model.gguf");
        spec.write_to(&path).expect("a model");
        Bench::at(folder, path)
    }

    /// The same model, with a NaN for the number `at` of the F32 tensor `name`.
    pub(crate) fn with_nan(spec: Spec, name: &str, at: usize) -> Bench {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("model.gguf");
        spec.write_to(&path).expect("a model");
        let data = Gguf::open(&path).expect("a good file").tensor(name).expect("the tensor").data.clone();
        let mut bytes = std::fs::read(&path).expect("the file");
        let place = bytes.windows(64).position(|window| *window == data[..64]).expect("its data");
        bytes[place + 4 * at..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
        drop(data);
        std::fs::write(folder.path().join("nan.gguf"), bytes).expect("a file");
        let path = folder.path().join("nan.gguf");
        Bench::at(folder, path)
    }

    fn at(folder: TempDir, path: PathBuf) -> Bench {
        let file = Gguf::open(path).expect("a good file");
        let Model { graph, .. } = Model::new(&file).expect("a good model");
        Bench { folder, file, graph, kv: KvFormat::F16 }
    }

    /// That of a file of these bytes, whose weights `graph` uses.
    pub(crate) fn of_graph(graph: Graph, file: Vec<u8>) -> Bench {
        let folder = TempDir::new().expect("a folder");
        let file = Gguf::from_bytes(file.into()).expect("a good file");
        Bench { folder, file, graph, kv: KvFormat::F16 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn record(&self, name: &str, backend: Box<dyn Backend>, tokens: usize) -> Trace {
        self.record_as(name, &self.graph, backend, tokens)
    }

    /// Records what `graph` computes, be it the model's or not.
    pub(crate) fn record_as(
        &self,
        name: &str,
        graph: &Graph,
        backend: Box<dyn Backend>,
        tokens: usize,
    ) -> Trace {
        let tokens: Vec<u32> = (0..tokens as u32).map(|i| 1 + i * 37 % 500).collect();
        let recording = Recording {
            file: &self.file,
            graph,
            tokens: &tokens,
            kv: self.kv,
            rows: 8,
            select: &|_| true,
            producer: "test",
        };
        recording.run(backend, Some(&self.path(name))).expect("a good run");
        Trace::open(self.path(name)).expect("a good trace")
    }

    pub(crate) fn cpu(&self) -> Trace {
        self.record("cpu", cpu(None), TOKENS)
    }

    pub(crate) fn reference(&self) -> Trace {
        self.record("reference", Box::new(Reference::new()), TOKENS).trusted()
    }

    /// The trace with values changed, or left out where `change` says `None`.
    pub(crate) fn changed(&self, trace: &Trace, change: impl Fn(&str, Matrix) -> Option<Matrix>) -> Trace {
        let path = self.path("changed");
        let kept: Vec<(trace::Shape, Matrix)> = trace
            .values()
            .filter_map(|shape| {
                let data = trace.read(&shape.name).expect("a value");
                Some((shape.clone(), change(&shape.name, Matrix::new(shape.cols, data))?))
            })
            .collect();
        let shape = |(shape, matrix): &(trace::Shape, Matrix)| trace::Shape {
            rows: matrix.rows,
            cols: matrix.cols,
            ..shape.clone()
        };
        let shapes = kept.iter().map(shape);
        let mut writer = Writer::create(&path, trace.meta(), shapes).expect("a file");
        for (shape, matrix) in &kept {
            writer.write(&shape.name, 0, &matrix.data).expect("a value");
        }
        writer.finish().expect("a whole file");
        Trace::open(path).expect("a good trace")
    }

    /// The trace with other metadata.
    pub(crate) fn with_meta(&self, trace: &Trace, meta: Meta) -> Trace {
        let path = self.path("with_meta");
        let mut writer = Writer::create(&path, &meta, trace.values().cloned()).expect("a file");
        for shape in trace.values() {
            writer.write(&shape.name, 0, &trace.read(&shape.name).expect("a value")).expect("rows");
        }
        writer.finish().expect("a whole file");
        Trace::open(path).expect("a good trace")
    }

    pub(crate) fn compare(&self, a: &Trace, b: &Trace) -> Report {
        let reference = || Box::new(Reference::new()) as Box<dyn Backend>;
        trace::compare(a, b, Some(Oracle::new(&self.file, &self.graph, &reference))).expect("a report")
    }
}

/// `value`, with its elements changed if its name is `name`.
pub(crate) fn only(
    name: &'static str,
    change: impl Fn(usize, usize, f32) -> f32,
) -> impl Fn(&str, Matrix) -> Option<Matrix> {
    move |value, x| {
        Some(match value == name {
            true => Matrix::from_fn(x.rows, x.cols, |r, c| change(r, c, x.at(r, c))),
            false => x,
        })
    }
}
