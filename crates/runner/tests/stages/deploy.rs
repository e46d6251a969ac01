//! Deployment on fake devices: reference backends that report some device memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{
    Backend, Bucket, Description, Device, DeviceInfo, DeviceKind, DeviceMemory, Error, KvFormat, KvLayout,
    LoadedModel, Member, Memory, MemoryKind, OpenOptions, Remedy, Row, Sequence, Step, Taps, Weights,
};
use backend_reference::Reference;
use graph::Graph;
use runner::placement::{Layers, PlacementError, Request, Split, SplitMode};
use runner::{Deployed, Deployment, DeviceConfig, Workload};

use crate::common::{LAYERS, dense};

/// A device on which a layer needs 10 bytes.
#[derive(Default)]
struct Fake {
    free: u64,
    /// Layers that it actually loads, whatever it reports.
    max_layers: usize,
    cannot_be_opened: bool,
    opened: AtomicUsize,
}

struct FakeBackend {
    max_layers: usize,
    computes: Reference,
}

fn out_of_memory(memory: MemoryKind) -> Error {
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
        if self.cannot_be_opened {
            Err(broken())
        } else {
            Ok(Box::new(FakeBackend { max_layers: self.max_layers, computes: Reference::new() }))
        }
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
        // Only programs of the last stage have output rows.
        assert_eq!(buckets[0].outputs, usize::from(graph.find("logits").is_some()));
        Ok(Memory { weights_on_device: 10 * graph.layers() as u64, ..Memory::default() })
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        if graph.layers() > self.max_layers {
            return Err(out_of_memory(MemoryKind::Device));
        }
        Box::new(self.computes).load(graph, weights, kv_layout)
    }

    fn join(&mut self, member: Member) -> Result<(), Error> {
        self.computes.join(member)
    }
}

fn config(fake: &Arc<Fake>) -> DeviceConfig {
    DeviceConfig { device: fake.clone(), options: OpenOptions::default() }
}

/// The host can load all layers.
fn deployment(devices: &[&Arc<Fake>], requested: impl Into<Request>, fallback: bool) -> Deployment {
    let host = config(&Arc::new(Fake { max_layers: LAYERS, ..Fake::default() }));
    let devices = devices.iter().map(|device| config(device)).collect();
    Deployment { host, devices, requested: requested.into(), fallback }
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
    let step = Step::new(Row::logits(vec![1, 5, 2], [2]), vec![Sequence::uniform(0, 3, 1, [0])])?;
    Ok(program.run(&step)?.values().to_vec())
}

fn on(deployed: &Deployed) -> Vec<(Option<usize>, usize)> {
    deployed.placement().stages.iter().map(|stage| (stage.device, stage.layers.len())).collect()
}

/// The reported memory is wrong: the number of layers is halved until they fit, and the logits do not change.
#[test]
fn layers_are_halved_until_they_fit() {
    let fake = Arc::new(Fake { free: 40, max_layers: 1, ..Fake::default() });
    let mut deployed = place(deployment(&[&fake], Layers::Auto, false)).expect("a placement");
    let mut tried = Vec::new();
    let found = loop {
        tried.push(on(&deployed));
        match deployed.open().and_then(logits) {
            Ok(logits) => break logits,
            Err(error) => assert!(deployed.fall_back(&error), "{error}"),
        }
    };
    let with = |host, device| vec![(None, host), (Some(0), device)];
    assert_eq!(tried, [with(1, 4), with(3, 2), with(4, 1)]);
    assert_eq!(found, logits(Box::new(Reference::new())).expect("the reference computes"));
    // Offloading fewer layers does not help a host that is out of memory.
    assert!(!deployed.fall_back(&out_of_memory(MemoryKind::Host)));
    assert_eq!(on(&deployed), with(4, 1));
    // The backend opened for the memory query is reused.
    assert_eq!(fake.opened.load(Ordering::Relaxed), 3);
}

#[test]
fn a_requested_number_of_layers_is_not_reduced() {
    let fake = Arc::new(Fake { free: 40, max_layers: 1, ..Fake::default() });
    let mut deployed = place(deployment(&[&fake], Layers::Last(3), true)).expect("a placement");
    assert_eq!(on(&deployed), [(None, 2), (Some(0), 3)]);
    let error = deployed.open().and_then(logits).expect_err("one layer at most");
    assert!(error == out_of_memory(MemoryKind::Device) && !deployed.fall_back(&error), "{error}");
    let refused = place(deployment(&[&fake], Layers::All, true)).err().expect("4 layers fit");
    assert!(refused.to_string().ends_with("4 layers fit"), "{refused}");
}

#[test]
fn the_host_takes_over_if_fallback_is_on() {
    let [good, bad] = [false, true].map(|cannot_be_opened| {
        Arc::new(Fake { free: 40, max_layers: LAYERS, cannot_be_opened, ..Fake::default() })
    });
    let refused = place(deployment(&[&bad], Layers::Auto, false)).err().expect("it is broken");
    assert!(matches!(refused, PlacementError::Backend(Error::Device { .. })), "{refused}");
    let deployed = place(deployment(&[&bad], Layers::Auto, true)).expect("the host computes");
    assert_eq!(on(&deployed), [(None, LAYERS)]);
    // Opened once per deployment, however many layer counts are tried.
    assert_eq!(bad.opened.load(Ordering::Relaxed), 2);
    // A device that fails after placement.
    for (fallback, expected) in [(true, vec![(None, LAYERS)]), (false, vec![(None, 1), (Some(0), 4)])] {
        let mut deployed = place(deployment(&[&good], Layers::Auto, fallback)).expect("a placement");
        assert_eq!(deployed.fall_back(&broken()), fallback);
        assert_eq!(on(&deployed), expected);
        assert!(!deployed.fall_back(&broken()), "no layers are offloaded any more");
    }
}

#[test]
fn several_devices_compute_one_model() {
    let [a, b] = [20, 10].map(|free| Arc::new(Fake { free, max_layers: LAYERS, ..Fake::default() }));
    let mut deployed = place(deployment(&[&a, &b], Layers::Auto, false)).expect("a placement");
    assert_eq!(on(&deployed), [(None, 2), (Some(1), 1), (Some(0), 2)]);
    let found = deployed.open().and_then(logits).expect("it fits");
    assert_eq!(found, logits(Box::new(Reference::new())).expect("the reference computes"));
    let fits = workload(|workload| deployment(&[&a, &b], Layers::Auto, false).fits(workload));
    let facts = |fit: &runner::Fit| (fit.available, fit.needed.clone(), fit.fitting);
    let expected = [(Some(20), Ok(50), Some(2)), (Some(10), Ok(50), Some(1))];
    assert_eq!(fits.iter().map(facts).collect::<Vec<_>>(), expected);
}

#[test]
fn layers_are_divided_as_asked() {
    let [a, b] = [100, 20].map(|free| Arc::new(Fake { free, max_layers: LAYERS, ..Fake::default() }));
    let divided = |layers, proportions: [f32; 2]| Request {
        split: Split::new(proportions).ok(),
        ..Request::from(layers)
    };
    let mut deployed = place(deployment(&[&a, &b], divided(Layers::All, [3.0, 2.0]), false)).expect("room");
    assert_eq!(on(&deployed), [(Some(1), 2), (Some(0), 3)]);
    let found = deployed.open().and_then(logits).expect("it fits");
    assert_eq!(found, logits(Box::new(Reference::new())).expect("the reference computes"));
    // Three layers do not fit the second device; of four it gets two.
    let offloaded = |layers| {
        let deployment = deployment(&[&a, &b], divided(layers, [2.0, 3.0]), false);
        workload(|workload| deployment.survey().offloaded(workload, 1.0))
    };
    assert_eq!((offloaded(Layers::Auto), offloaded(Layers::All)), (4, 4));
    let refused = place(deployment(&[&a, &b], divided(Layers::All, [2.0, 3.0]), true)).err();
    assert!(matches!(refused, Some(PlacementError::ShareTooLarge(_))), "{refused:?}");
    // Without a device there is nothing to divide, which is refused unless all layers are for the host.
    let refused = place(deployment(&[], divided(Layers::Auto, [1.0, 1.0]), true)).err();
    assert!(matches!(refused, Some(PlacementError::TooManyProportions(_))), "{refused:?}");
    let deployed = place(deployment(&[], divided(Layers::Last(0), [1.0, 1.0]), true)).expect("the host");
    assert_eq!(on(&deployed), [(None, LAYERS)]);
}

/// All devices compute every layer, whose needs are those of the fake: 10 bytes each, however they are divided.
#[test]
fn devices_share_every_layer() {
    let fake = |free| Arc::new(Fake { free, max_layers: LAYERS, ..Fake::default() });
    let [a, b, c] = [50, 49, 50].map(fake);
    let shared = |split: Option<[f32; 3]>| Request {
        split: split.and_then(|split| Split::new(split).ok()),
        mode: SplitMode::Tensor,
        ..Request::from(Layers::All)
    };
    let mut deployed = place(deployment(&[&a, &b, &c], shared(Some([1.0, 0.0, 1.0])), true)).expect("room");
    assert_eq!((deployed.ranks(), deployed.placement().on_devices()), (&[0, 2][..], LAYERS));
    let found = deployed.open().and_then(logits).expect("it fits");
    let expected = logits(Box::new(Reference::new())).expect("the reference computes");
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found}, expected {expected}");
    }
    // Opened once, for requirements and model.
    assert_eq!([&a, &b, &c].map(|fake| fake.opened.load(Ordering::Relaxed)), [1, 0, 1]);
    assert!(!deployed.fall_back(&broken()), "the host does not take over what was asked for");
    let refused = |devices: &[&Arc<Fake>], request| {
        place(deployment(devices, request, true)).err().expect("it is refused").to_string()
    };
    let too_large = refused(&[&a, &b], shared(None));
    assert!(too_large.contains("one of 2 parts of every layer needs 50 bytes on GPU 1, fake"), "{too_large}");
    let heads = refused(&[&a, &a, &a, &a], shared(None));
    assert!(heads.contains("2 key and value heads over 4 ranks"), "{heads}");
    assert!(refused(&[&a], shared(None)).contains("two GPUs or more"));
    assert!(refused(&[&a, &b], shared(Some([1.0, 1.0, 1.0]))).contains("3 proportions"));
}
