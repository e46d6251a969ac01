//! Devices that run out of memory, or are gone in the middle: an error each, never wrong numbers.

use std::sync::Arc;

use backend::{Backend, Bucket, Error, KvFormat, KvLayout, Program, Span, Step, Taps, Weight};
use backend_cpu::Cpu;
use backend_reference::Reference;
use gguf::Gguf;
use models::Model;
use testkit::conformance::random::nmse;
use testkit::llama;

use super::adapter;
use crate::Gpu;
use crate::device::{Device, Settings};

/// A small model on `backend`, ready for its first step.
fn compile(backend: &mut dyn Backend) -> Result<Box<dyn Program>, Error> {
    let file = Gguf::from_bytes(llama::small().file().into()).expect("a good file");
    let Model { graph, .. } = Model::new(&file).expect("a good model");
    for (_, weight) in graph.weights() {
        let tensor = file.tensor(&weight.name).expect("the model has checked its tensors");
        let bytes = tensor.data.clone();
        let (format, rows, cols) = (tensor.format, weight.rows, weight.cols);
        backend.load(&weight.name, Weight { format, rows, cols, bytes })?;
    }
    backend.allocate_kv(KvLayout::of(&graph, 2, KvFormat::F16).expect("it attends"))?;
    let program = backend.compile(&graph, Bucket { rows: 16, wanted: 16 }, Taps::None)?;
    backend.prepare(&mut |_| {})?;
    Ok(program)
}

fn step() -> Step {
    let span = Span { past: 0, len: 12, pages: vec![0] };
    Step::new((0..12).collect(), vec![span], (0..12).collect()).expect("a good step")
}

fn exact() -> Vec<f32> {
    let mut program = compile(&mut Reference::new()).expect("a good model");
    program.run(&step()).expect("a good step");
    program.output().to_vec()
}

/// Whatever there is room for, the model is refused with what to do, or computed.
#[test]
fn too_little_memory_is_an_error() {
    let Some(adapter) = adapter() else { return };
    let exact = exact();
    let (mut refused, mut computed) = (Vec::new(), 0);
    for budget in (0..20).map(|i| i * i * 4000) {
        let settings = Settings { budget: Some(budget), ..Settings::default() };
        let device = Arc::new(Device::open(&adapter, &settings).expect("a device that opens"));
        let mut gpu = Gpu::on(device.clone());
        match compile(&mut gpu) {
            Ok(mut program) => {
                program.run(&step()).expect("a good step");
                let error = nmse(&exact, program.output());
                assert!(error <= 1e-5, "budget {budget}: NMSE {error:e}");
                computed += 1;
            }
            Err(Error::OutOfMemory { what, bytes, hint }) => {
                assert!(bytes > 0 && hint.contains("--gpu-memory"), "{what}: {bytes}, {hint}");
                assert_eq!(computed, 0, "with less there was room");
                refused.push(what);
            }
            Err(other) => panic!("budget {budget}: {other}"),
        }
        drop(gpu);
        assert_eq!(device.used(), 0, "budget {budget}: everything is given back");
    }
    refused.dedup();
    assert!(refused.len() > 2 && computed > 1, "refused: {refused:?}, {computed} computed");
}

/// What kernels are told is counted, too.
#[test]
fn constants_are_refused_where_there_is_no_room() {
    let Some(adapter) = adapter() else { return };
    let settings = Settings { budget: Some(64), ..Settings::default() };
    let device = Device::open(&adapter, &settings).expect("a device that opens");
    let constants = || device.constants(&[7; 16], wgpu::BufferUsages::UNIFORM);
    let first = constants().expect("room for 64 bytes");
    match constants() {
        Err(Error::OutOfMemory { what: "constants", bytes: 64, hint }) => {
            assert!(hint.contains("--gpu-memory"), "{hint}");
        }
        other => panic!("{other:?}"),
    }
    drop(first);
    constants().expect("room again");
}

/// A device that goes while programs wait for their next step, with others beside it.
#[test]
fn a_device_that_is_gone_is_an_error_and_nobody_elses() {
    let Some(adapter) = adapter() else { return };
    let exact = exact();
    let open = || Gpu::open(&adapter, &Settings::default()).expect("a device that opens");
    let (mut lost, mut other, mut cpu) = (open(), open(), Cpu::new(1.try_into().ok()));
    let mut programs = [
        compile(&mut lost).expect("a good model"),
        compile(&mut other).expect("a good model"),
        compile(&mut cpu).expect("a good model"),
    ];
    for program in &mut programs {
        program.run(&step()).expect("a good step");
    }
    lost.device.device.destroy();
    for _ in 0..2 {
        match programs[0].run(&step()) {
            Err(Error::Device { device, why }) => assert!(!device.is_empty() && !why.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    let layout = KvLayout { layers: 1, kv_heads: 1, k_dim: 2, v_dim: 2, pages: 1, format: KvFormat::F16 };
    assert!(matches!(lost.allocate_kv(layout), Err(Error::Device { .. })));
    assert!(matches!(compile(&mut lost).err(), Some(Error::Device { .. })));
    for program in &mut programs[1..] {
        program.run(&step()).expect("a good step");
        let error = nmse(&exact, program.output());
        assert!(error <= 1e-5, "beside one that is gone: NMSE {error:e}");
    }
    drop(lost);
    let [program, ..] = programs;
    drop(program);
}

/// It goes while a step is computed.
#[test]
fn a_device_that_goes_in_the_middle_of_a_step_is_an_error_or_the_step_is_right() {
    let Some(adapter) = adapter() else { return };
    let exact = exact();
    let mut gpu = Gpu::open(&adapter, &Settings::default()).expect("a device that opens");
    let mut program = compile(&mut gpu).expect("a good model");
    let device = gpu.device.clone();
    let breaker = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        device.device.destroy();
    });
    loop {
        match program.run(&step()) {
            Ok(()) => {
                let error = nmse(&exact, program.output());
                assert!(error <= 1e-5, "while it goes: NMSE {error:e}");
            }
            Err(Error::Device { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    breaker.join().expect("nothing that panics");
}
