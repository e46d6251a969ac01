//! What is recorded is what the backend computes, however the run is cut.

use backend::{
    Backend, Bucket, Description, Error as BackendError, KvFormat, KvLayout, LoadedModel, Memory, Output,
    Outputs, Program, Step, Taps, Ticket, Weights,
};
use graph::Graph;
use tempfile::TempDir;
use testkit::whole::Whole;
use trace::{Error, Recording, Trace, digest};

use crate::common::{cpu, everything, record, reference, small, tokens};

#[test]
fn every_value_is_there_in_the_order_of_the_graph() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    let table = record(cpu(), &tokens(), 128, &path).expect("a good run");
    let trace = Trace::open(&path).expect("a trace");
    let (file, model) = small();
    let names: Vec<&str> = trace.values().map(|value| &*value.name).collect();
    let mut expected: Vec<&str> = model.graph.values().map(|(_, value)| &*value.name).collect();
    expected.insert(expected.len() - 1, "result_output.tapped");
    assert_eq!(names, expected);
    assert!(trace.values().all(|value| value.rows == tokens().len()));
    assert_eq!(
        table.iter().map(|value| &value.shape).collect::<Vec<_>>(),
        trace.values().collect::<Vec<_>>()
    );
    for value in &table {
        let data = trace.read(&value.shape.name).expect("a value");
        assert_eq!(value.stats.first, data[..5], "{}", value.shape.name);
        assert_eq!(value.stats.count, data.len() as u64);
        assert_eq!(value.stats.max, data.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    }
    let meta = trace.meta();
    assert_eq!((&*meta.backend, &*meta.producer, meta.n_layer), ("cpu", "test", 2));
    assert_eq!((&*meta.types, meta.kv), ("F32 22", KvFormat::F16));
    assert_eq!(meta.model_digest, Some(digest(&file)), "a model in memory has an identity, too");
    assert_eq!(meta.tokens, tokens());
}

/// Both outputs are those of a run without the recorder, bit for bit.
#[test]
fn the_output_is_the_models() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t.safetensors");
    let spec = testkit::fixtures::small();
    for (backend, other) in [(cpu(), cpu()), (reference(), reference())] {
        record(backend, &tokens(), 16, &path).expect("a good run");
        let trace = Trace::open(&path).expect("a trace");
        let expected = Whole::new(spec.file(), other, KvFormat::F16, 128, 128).logits(&tokens(), 128);
        assert_eq!(trace.read("result_output").expect("a value"), expected);
        assert_eq!(trace.read("result_output.tapped").expect("a value"), expected);
    }
}

#[test]
fn the_cut_changes_no_bit() {
    let folder = TempDir::new().expect("a folder");
    let [one, many] = ["one", "many"].map(|name| folder.path().join(name));
    record(cpu(), &tokens(), 128, &one).expect("a good run");
    for rows in [1, 17] {
        record(cpu(), &tokens(), rows, &many).expect("a good run");
        assert!(std::fs::read(&one).expect("a file") == std::fs::read(&many).expect("a file"), "{rows} rows");
    }
}

#[test]
fn keys_and_values_are_stored_as_the_trace_says() {
    let folder = TempDir::new().expect("a folder");
    let (file, model) = small();
    let tokens = tokens();
    let run = |backend, kv| {
        let path = folder.path().join("t");
        let recording = Recording { kv, ..everything(&file, &model, &tokens) };
        recording.run(backend, Some(&path)).expect("a good run");
        let trace = Trace::open(&path).expect("a trace");
        (trace.meta().kv, trace.read("kqv_out-0").expect("a value"))
    };
    let (kv_f16, kv_f32) = (run(cpu(), KvFormat::F16), run(cpu(), KvFormat::F32));
    assert_eq!((kv_f16.0, kv_f32.0), (KvFormat::F16, KvFormat::F32));
    assert_ne!(kv_f16.1, kv_f32.1);
    assert_eq!(run(reference(), KvFormat::F16).0, KvFormat::F32, "it has but one way");
}

#[test]
fn what_is_selected_is_recorded() {
    let folder = TempDir::new().expect("a folder");
    let (file, model) = small();
    let (tokens, path) = (tokens(), folder.path().join("t"));
    let all = everything(&file, &model, &tokens).run(cpu(), None).expect("a good run");
    let recording =
        Recording { select: &|name| name.starts_with("Qcur-"), ..everything(&file, &model, &tokens) };
    let table = recording.run(cpu(), Some(&path)).expect("a good run");
    assert_eq!(table.iter().map(|value| &*value.shape.name).collect::<Vec<_>>(), ["Qcur-0", "Qcur-1"]);
    assert!(table.iter().all(|value| all.contains(value)));
    assert_eq!(Trace::open(&path).expect("a trace").values().len(), 2);
}

#[test]
fn nothing_to_do_is_said() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t");
    let (file, model) = small();
    let run = |tokens: &[u32], select| {
        Recording { select, ..everything(&file, &model, tokens) }.run(cpu(), Some(&path))
    };
    assert!(matches!(run(&[], &|_| true), Err(Error::NoTokens)));
    assert!(matches!(run(&[1], &|_| false), Err(Error::NothingSelected)));
    let error = run(&[1, 512], &|_| true).expect_err("512 tokens").to_string();
    assert!(error.contains("token 512"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0, "nothing is left behind");
}

/// A backend whose program is wrong only without taps.
struct Fused(Box<dyn Backend>);

struct FusedModel(Box<dyn LoadedModel>);

struct Wrong {
    program: Box<dyn Program>,
    output: Vec<f32>,
    cols: usize,
    asked: Vec<Output>,
}

impl Backend for Fused {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, BackendError> {
        self.0.requirements(graph, weights, kv_layout, buckets, taps)
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, BackendError> {
        Ok(Box::new(FusedModel(self.0.load(graph, weights, kv_layout)?)))
    }
}

impl LoadedModel for FusedModel {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, BackendError> {
        let program = self.0.compile(bucket, taps)?;
        let is_watched = taps.contains("Qcur-0");
        let wrong = |program| Wrong { program, output: Vec::new(), cols: 512, asked: Vec::new() };
        Ok(if is_watched { program } else { Box::new(wrong(program)) })
    }

    fn memory(&self) -> Memory {
        // A device may pad what it stores: of heads of one column, F16 takes as much as F32.
        let memory = self.0.memory();
        Memory { kv: 2 * memory.kv, ..memory }
    }
}

impl Program for Wrong {
    fn submit(&mut self, step: &Step) -> Result<Ticket, BackendError> {
        self.asked = step.outputs().map(|(_, output)| output.clone()).collect();
        self.program.submit(step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, BackendError> {
        self.output = self.program.wait(ticket)?.values().iter().map(|x| x * 1.01).collect();
        Ok(Outputs::new(&self.asked, &self.output, self.cols))
    }

    fn read(&self, name: &str) -> Result<&[f32], BackendError> {
        self.program.read(name)
    }
}

#[test]
fn a_fault_of_what_is_fused_does_not_hide() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("t");
    record(Box::new(Fused(cpu())), &tokens(), 128, &path).expect("a run");
    let trace = Trace::open(&path).expect("a trace");
    let [tapped, output] =
        ["result_output.tapped", "result_output"].map(|name| trace.read(name).expect("a value"));
    assert!(tapped.iter().zip(&output).all(|(a, b)| a * 1.01 == *b));
    assert_ne!(tapped, output);
    assert_eq!(trace.meta().kv, KvFormat::F16, "whatever memory it takes");
}
