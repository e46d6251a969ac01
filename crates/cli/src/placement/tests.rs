//! Requirements beside the memory that devices really use, on the first GPU.

use std::ops::ControlFlow;
use std::sync::Arc;

use backend::{Device, KvFormat};
use engine::Engine;
use gguf::Gguf;
use quant::Format;
use runner::{FileWeights, Pipeline};
use testkit::fixtures::Spec;

use super::*;
use rustorch::devices::registry;

const LAYERS: usize = 3;

const OPTIONS: Options = Options {
    n_ctx: Some(200),
    sequences: 1,
    n_batch: 64,
    kv_format: KvFormat::F16,
    blocks: None,
    step_target: None,
    sampling_threads: None,
    speculation: None,
    prefix_key: None,
};

fn model(format: Format) -> Arc<Model> {
    let file = Spec { layers: LAYERS as u32, ..Spec::new(format) }.file();
    let file = Gguf::from_named_bytes("random", file.into()).expect("a file");
    Arc::new(Model::new(file).expect("a model"))
}

/// The device to test on.
fn device() -> Option<Arc<dyn Device>> {
    let found = devices::graphics_backends().find_map(|name| registry().of(name).into_iter().next());
    if found.is_none() {
        assert!(std::env::var_os("RUSTORCH_REQUIRE_GPU").is_none(), "no Vulkan or Metal device");
        eprintln!("skipped: no Vulkan or Metal device");
    }
    found
}

/// The last `layers` layers on `device`, with a memory limit.
fn backend(device: &Arc<dyn Device>, layers: usize, memory: Option<u64>) -> Box<dyn Backend> {
    let options = OpenOptions { memory, ..OpenOptions::default() };
    let graphics = device.open(&options).expect("a device that opens");
    match LAYERS - layers {
        0 => graphics,
        first => {
            let cpu = devices::host(BackendName::CPU, options).open().expect("the processor opens");
            Box::new(Pipeline::new(vec![(cpu, first), (graphics, layers)]))
        }
    }
}

/// What all layers are said to take on `device`.
fn needed(model: &Model, device: &Arc<dyn Device>, read: Read) -> u64 {
    let options = OpenOptions::default();
    let deployment = Deployment {
        host: devices::host(BackendName::CPU, options),
        devices: vec![DeviceConfig { device: device.clone(), options }],
        requested: Layers::Auto.into(),
        fallback: false,
    };
    let weights = FileWeights(model.file());
    let workload = workload(model, &weights, &OPTIONS, read).expect("good options");
    let fit = deployment.fits(&workload).into_iter().next().expect("a device");
    fit.needed.expect("it can compute the model")
}

/// The device refuses allocations beyond a limit, even if the placement planned them.
#[test]
fn a_limit_is_the_devices_too() {
    let Some(device) = device() else { return };
    let model = model(Format::Q4_K);
    let limit = needed(&model, &device, Read::LAST);
    let put = |options| Engine::new(model.clone(), backend(&device, LAYERS, Some(limit)), options);
    put(OPTIONS).expect("room");
    let refused = put(Options { blocks: Some(4000), ..OPTIONS }).expect_err("it is too little");
    assert!(refused.to_string().starts_with("out of memory: "), "{refused}");
    let advice = advice::advice(&refused.into()).unwrap_or_default();
    assert!(advice.contains("--gpu-memory"), "{advice}");
}

/// All logits and values take room of their own, which is counted; programs that others replace take none.
#[test]
fn there_is_room_for_what_is_read() {
    let Some(device) = device() else { return };
    let model = model(Format::Q4_K);
    let names: Vec<&str> = model.graph().values().map(|(_, value)| &*value.name).collect();
    let engine = |read: Read| {
        let memory = needed(&model, &device, read);
        Engine::new(model.clone(), backend(&device, LAYERS, Some(memory)), OPTIONS).expect("room")
    };
    let reads = |engine: &mut Engine, read: Read| {
        if read.values {
            engine.observe(&names, |_| ControlFlow::Continue(()))?;
            // Another takes the place of the first.
            engine.observe(&names, |_| ControlFlow::Continue(()))?;
        }
        if read.logits == LogitRows::Last { Ok(()) } else { engine.prepare_logits() }
    };
    for (logits, values) in [(LogitRows::All, false), (LogitRows::Last, true), (LogitRows::All, true)] {
        let read = Read { logits, values };
        reads(&mut engine(read), read).unwrap_or_else(|error| panic!("{read:?}: {error}"));
        let mut engine = engine(Read::LAST);
        let refused = reads(&mut engine, read).expect_err("it is too little").to_string();
        assert!(refused.starts_with("out of memory: "), "{read:?}: {refused}");
        let mut rows = 0;
        let last = engine.logits(&[1; 80], LogitRows::Last, |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        });
        last.unwrap_or_else(|error| panic!("{read:?}: it computes as before: {error}"));
        assert_eq!(rows, 1);
    }
}

/// What is worked out beforehand is what is taken: with as much it works, with a fifth less it does not. Formats
/// without kernels take more than in the file.
#[test]
fn needs_are_what_is_taken() {
    let Some(device) = device() else { return };
    for format in [Format::F32, Format::Q4_K, Format::IQ4_XS] {
        let model = model(format);
        for layers in [LAYERS, LAYERS - 1] {
            let engine = |memory| Engine::new(model.clone(), backend(&device, layers, memory), OPTIONS);
            let asked = backend(&device, layers, None);
            let said = Engine::requirements(&model, &*asked, OPTIONS).expect("a good model");
            let taken = engine(None).expect("room").runner().memory();
            assert_eq!(said, taken, "{format}, {layers}");
            assert_eq!(taken.weights_converted.is_empty(), format != Format::IQ4_XS, "{taken:?}");
            if layers == LAYERS {
                let room = needed(&model, &device, Read::LAST);
                engine(Some(room)).unwrap_or_else(|error| panic!("{format}: {error}"));
                let refused = engine(Some(room / 5 * 4)).expect_err("it is too little");
                assert!(refused.to_string().starts_with("out of memory: "), "{refused}");
            }
        }
    }
}
