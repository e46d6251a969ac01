//! Placing a model on made-up devices, each a reference backend that says it has some memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{
    Backend, Bucket, Description, Device, DeviceInfo, DeviceKind, DeviceMemory, Error, KvFormat, KvLayout,
    LoadedModel, Memory, MemoryKind, OpenOptions, OutputRow, Remedy, Sequence, Step, Taps, Weights,
};
use backend_reference::Reference;
use graph::Graph;
use runner::placement::{Layers, PlacementError};
use runner::{Deployed, Deployment, Opening, Workload};

use crate::common::{LAYERS, dense};

/// A device on which a layer takes 10 bytes.
#[derive(Default)]
struct Fake {
    free: u64,
    /// Layers it takes in truth, whatever it says.
    takes: usize,
    cannot_be_opened: bool,
    opened: AtomicUsize,
}

struct FakeBackend {
    takes: usize,
}

fn no_room(memory: MemoryKind) -> Error {
    Error::OutOfMemory { what: "layers", bytes: 1, memory, remedy: Remedy::FewerLayers }
}

fn broken() -> Error {
    Error::Device { device: "fake".to_owned(), why: "it is broken".to_owned() }
}

impl Device for Fake {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            backend: "fake",
            name: "fake".to_owned(),
            kind: DeviceKind::DiscreteGpu,
            address: None,
            memory: DeviceMemory { total: None, free: Some(self.free) },
            instruction_sets: Vec::new(),
        }
    }

    fn facts(&self, _: &OpenOptions) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn open(&self, _: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if self.cannot_be_opened { Err(broken()) } else { Ok(Box::new(FakeBackend { takes: self.takes })) }
    }
}

impl Backend for FakeBackend {
    fn describe(&self) -> Description {
        Description { device: "fake".to_owned(), ..Reference::new().describe() }
    }

    fn requirements(
        &self,
        graph: &Graph,
        _: &dyn Weights,
        _: &KvLayout,
        buckets: &[Bucket],
        _: Taps<'_>,
    ) -> Result<Memory, Error> {
        // Programs of the last part have output rows.
        assert_eq!(buckets[0].outputs, usize::from(graph.find("logits").is_some()));
        Ok(Memory { weights_on_device: 10 * graph.layers() as u64, ..Memory::default() })
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        if graph.layers() > self.takes {
            return Err(no_room(MemoryKind::Device));
        }
        Box::new(Reference::new()).load(graph, weights, kv_layout)
    }
}

fn opening(fake: &Arc<Fake>) -> Opening {
    Opening { device: fake.clone(), options: OpenOptions::default() }
}

/// The host takes all there is.
fn deployment(devices: &[&Arc<Fake>], wanted: Layers, falls_back: bool) -> Deployment {
    let host = opening(&Arc::new(Fake { takes: LAYERS, ..Fake::default() }));
    let devices = devices.iter().map(|device| opening(device)).collect();
    Deployment { host, devices, wanted, falls_back }
}

fn place(deployment: Deployment) -> Result<Deployed, PlacementError> {
    workload(|workload| deployment.place(workload))
}

fn workload<T>(with: impl FnOnce(&Workload<'_>) -> T) -> T {
    let (graph, weights) = dense();
    let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F32);
    let buckets = vec![Bucket { rows: 4, outputs: 1 }];
    with(&Workload { weights: &weights, graph: &graph, kv_layout, buckets, taps: Taps::None })
}

/// The logits of a step.
fn logits(backend: Box<dyn Backend>) -> Result<Vec<f32>, Error> {
    let (graph, weights) = dense();
    let mut loaded = backend.load(&graph, &weights, &KvLayout::uniform(&graph, 1, KvFormat::F32))?;
    let mut program = loaded.compile(Bucket { rows: 4, outputs: 1 }, Taps::None)?;
    let step = Step::new(vec![1, 5, 2], vec![Sequence::uniform(0, 3, 1, [0])], OutputRow::all([2]))?;
    Ok(program.run(&step)?.values().to_vec())
}

fn on(deployed: &Deployed) -> Vec<(Option<usize>, usize)> {
    deployed.placement().stages.iter().map(|stage| (stage.device, stage.layers.len())).collect()
}

/// What was worked out is too little: halves are tried until there is room, and the numbers are the same.
#[test]
fn fewer_layers_are_tried() {
    let fake = Arc::new(Fake { free: 40, takes: 1, ..Fake::default() });
    let mut deployed = place(deployment(&[&fake], Layers::Auto, false)).expect("a placement");
    let mut tried = Vec::new();
    let found = loop {
        tried.push(on(&deployed));
        match deployed.open().and_then(logits) {
            Ok(logits) => break logits,
            Err(error) => assert!(deployed.give_way(&error), "{error}"),
        }
    };
    let with = |host, device| vec![(None, host), (Some(0), device)];
    assert_eq!(tried, [with(1, 4), with(3, 2), with(4, 1)]);
    assert_eq!(found, logits(Box::new(Reference::new())).expect("the reference computes"));
    // Fewer layers there would be more for a host that has no room.
    assert!(!deployed.give_way(&no_room(MemoryKind::Host)));
    assert_eq!(on(&deployed), with(4, 1));
    // The instance that was asked what layers take was used.
    assert_eq!(fake.opened.load(Ordering::Relaxed), 3);
}

#[test]
fn a_number_of_layers_is_final() {
    let fake = Arc::new(Fake { free: 40, takes: 1, ..Fake::default() });
    let mut deployed = place(deployment(&[&fake], Layers::Last(3), true)).expect("a placement");
    assert_eq!(on(&deployed), [(None, 2), (Some(0), 3)]);
    let error = deployed.open().and_then(logits).expect_err("one layer at most");
    assert!(error == no_room(MemoryKind::Device) && !deployed.give_way(&error), "{error}");
    let refused = place(deployment(&[&fake], Layers::All, true)).err().expect("4 fit");
    assert!(refused.to_string().ends_with("4 fit"), "{refused}");
}

#[test]
fn the_host_takes_over_where_it_may() {
    let [good, bad] = [false, true].map(|cannot_be_opened| {
        Arc::new(Fake { free: 40, takes: LAYERS, cannot_be_opened, ..Fake::default() })
    });
    let refused = place(deployment(&[&bad], Layers::Auto, false)).err().expect("it is broken");
    assert!(matches!(refused, PlacementError::Backend(Error::Device { .. })), "{refused}");
    let deployed = place(deployment(&[&bad], Layers::Auto, true)).expect("the host computes");
    assert_eq!(on(&deployed), [(None, LAYERS)]);
    // Asked once, however many numbers of layers are thought of.
    assert_eq!(bad.opened.load(Ordering::Relaxed), 2);
    // A device that fails later.
    for (falls_back, expected) in [(true, vec![(None, LAYERS)]), (false, vec![(None, 1), (Some(0), 4)])] {
        let mut deployed = place(deployment(&[&good], Layers::Auto, falls_back)).expect("a placement");
        assert_eq!(deployed.give_way(&broken()), falls_back);
        assert_eq!(on(&deployed), expected);
        assert!(!deployed.give_way(&broken()), "there is nothing left to give up");
    }
}

#[test]
fn several_devices_compute_one_model() {
    let [a, b] = [20, 10].map(|free| Arc::new(Fake { free, takes: LAYERS, ..Fake::default() }));
    let mut deployed = place(deployment(&[&a, &b], Layers::Auto, false)).expect("a placement");
    assert_eq!(on(&deployed), [(None, 2), (Some(1), 1), (Some(0), 2)]);
    let found = deployed.open().and_then(logits).expect("room");
    assert_eq!(found, logits(Box::new(Reference::new())).expect("the reference computes"));
    let fits = workload(|workload| deployment(&[&a, &b], Layers::Auto, false).fits(workload));
    let facts = |fit: &runner::Fit| (fit.room, fit.needed.clone(), fit.fitting);
    let expected = [(Some(20), Ok(50), Some(2)), (Some(10), Ok(50), Some(1))];
    assert_eq!(fits.iter().map(facts).collect::<Vec<_>>(), expected);
}
