//! Out of memory and lost devices: an error each, never wrong values.

use std::sync::Arc;

use backend::{Backend, Error, MemoryKind, Remedy, Taps};
use backend_reference::Reference;
use testkit::conformance::random::nmse;
use testkit::one_step::{BUCKET, compile, run, small, step};

use super::adapter;
use gpu::Purpose;

use crate::Gpu;
use crate::device::{Device, Settings};

fn exact() -> Vec<f32> {
    testkit::one_step::exact(Box::new(Reference::new()))
}

fn open() -> Arc<Device> {
    let adapter = adapter().expect("checked by the caller");
    Arc::new(Device::open(&adapter, &Settings::default()).expect("the device opens"))
}

/// For any budget, the model is either refused with a remedy or computed correctly, and requirements equal actual
/// use.
#[test]
fn too_little_memory_is_an_error() {
    let Some(adapter) = adapter() else { return };
    let exact = exact();
    let needed = |gpu: &Gpu| {
        let memory = small(|graph, weights, kv_layout| {
            gpu.requirements(graph, weights, kv_layout, &[BUCKET], Taps::None)
        });
        let memory = memory.expect("requirements ignore the budget");
        (memory.weights_on_device + memory.kv + memory.activations, memory)
    };
    let (mut refused, mut computed) = (Vec::new(), 0);
    let budget_of = |budget| Settings { budget, ..Settings::default() };
    let all = Device::open(&adapter, &budget_of(None)).expect("the device opens");
    let (all, _) = needed(&Gpu::on(Arc::new(all)));
    for budget in (0..10).map(|i| i * all / 10).chain([all - 1, all]) {
        let device = Device::open(&adapter, &budget_of(Some(budget))).expect("the device opens");
        let (device, gpu) = (Arc::new(device), |device: &Arc<Device>| Gpu::on(device.clone()));
        assert_eq!(needed(&gpu(&device)).0, all);
        match compile(Box::new(gpu(&device))) {
            Ok((loaded, mut program)) => {
                assert_eq!(device.used(), all, "requirements equal use");
                assert_eq!(needed(&gpu(&device)).1, loaded.memory());
                let error = nmse(&exact, &run(&mut *program).expect("a good step"));
                assert!(error <= 1e-5, "budget {budget}: NMSE {error:e}");
                computed += 1;
            }
            Err(Error::OutOfMemory { what, bytes, memory: MemoryKind::Device, remedy }) => {
                assert!(bytes > 0 && remedy == Remedy::RaiseLimit, "{what}: {bytes}, {remedy}");
                assert_eq!(computed, 0, "a smaller budget sufficed");
                refused.push(what);
            }
            Err(other) => panic!("budget {budget}: {other}"),
        }
        assert_eq!(device.used(), 0, "budget {budget}: all memory is released");
    }
    refused.dedup();
    assert!(refused.len() > 2 && computed == 1, "refused: {refused:?}, {computed} computed");
}

/// Parameter buffers count towards the budget.
#[test]
fn constants_count_towards_the_budget() {
    let Some(adapter) = adapter() else { return };
    let settings = Settings { budget: Some(64), ..Settings::default() };
    let device = Device::open(&adapter, &settings).expect("the device opens");
    let constants = || device.params(&[7; 16]);
    let first = constants().expect("64 bytes fit");
    let (memory, remedy) = (MemoryKind::Device, Remedy::RaiseLimit);
    let expected = Error::OutOfMemory { what: "constants", bytes: 64, memory, remedy };
    assert_eq!(constants().err(), Some(expected));
    drop(first);
    constants().expect("memory was released");
}

/// Losing a device between steps fails its programs, but not those of another device.
#[test]
fn a_lost_device_fails_only_its_own_programs() {
    let Some(_) = adapter() else { return };
    let exact = exact();
    let (lost, other) = (open(), open());
    let gpu = |device: &Arc<Device>| Box::new(Gpu::on(device.clone()));
    let (_lost_model, mut lost_program) = compile(gpu(&lost)).expect("a good model");
    let (_other_model, mut other_program) = compile(gpu(&other)).expect("a good model");
    run(&mut *lost_program).expect("a good step");
    run(&mut *other_program).expect("a good step");
    lost.device.destroy();
    for _ in 0..2 {
        match run(&mut *lost_program) {
            Err(Error::Device { device, why }) => assert!(!device.is_empty() && !why.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(lost.buffer(Purpose::Store, 64), Err(Error::Device { .. })));
    assert!(matches!(compile(gpu(&lost)).err(), Some(Error::Device { .. })));
    let error = nmse(&exact, &run(&mut *other_program).expect("a good step"));
    assert!(error <= 1e-5, "beside a lost device: NMSE {error:e}");
    drop(lost_program);
}

/// Losing a device during a step yields an error or correct values.
#[test]
fn a_device_lost_during_a_step_gives_an_error_or_correct_values() {
    let Some(_) = adapter() else { return };
    let exact = exact();
    let device = open();
    let (_loaded, mut program) = compile(Box::new(Gpu::on(device.clone()))).expect("a good model");
    let breaker = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        device.device.destroy();
    });
    loop {
        match run(&mut *program) {
            Ok(values) => {
                let error = nmse(&exact, &values);
                assert!(error <= 1e-5, "while it is being lost: NMSE {error:e}");
            }
            Err(Error::Device { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    breaker.join().expect("no panic");
}

/// Programs of one device can have steps in flight at once. A second `submit` makes the first ticket stale.
#[test]
fn programs_can_have_steps_in_flight_at_once() {
    let Some(_) = adapter() else { return };
    let exact = exact();
    let device = open();
    let compiled = || compile(Box::new(Gpu::on(device.clone()))).expect("a good model");
    let ((_a, mut a), (_b, mut b)) = (compiled(), compiled());
    let first = a.submit(&step()).expect("a good step");
    let other = b.submit(&step()).expect("a good step");
    let second = a.submit(&step()).expect("a good step");
    assert!(matches!(a.wait(first), Err(Error::Step(_))));
    for (program, ticket) in [(&mut a, second), (&mut b, other)] {
        let outputs = program.wait(ticket).expect("a good step");
        assert!(nmse(&exact, outputs.values()) <= 1e-5);
    }
}
