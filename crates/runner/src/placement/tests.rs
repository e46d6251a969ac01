//! Placement on fake devices. A layer of the fake model needs 10 bytes, the output 5.

use backend::{MemoryKind, Remedy};

use super::*;

pub(super) const LAYERS: usize = 8;
pub(super) const EVERYWHERE: CutPoints<'_> = CutPoints { layers: LAYERS, after: &[1, 2, 3, 4, 5, 6, 7] };

/// Devices with the given free memory; `None` if the driver does not report it.
pub(super) fn budgets<const N: usize>(free: [Option<u64>; N]) -> Vec<DeviceBudget> {
    let budget = |free| DeviceBudget {
        name: "a device".to_owned(),
        budget: Budget::new(DeviceMemory { total: None, free }, None),
    };
    free.map(budget).into()
}

fn needed(layers: Range<usize>) -> u64 {
    10 * layers.len() as u64 + if layers.end == LAYERS { 5 } else { 0 }
}

pub(super) fn placed(
    model: CutPoints<'_>,
    budgets: &[DeviceBudget],
    requested: impl Into<Request>,
) -> Result<Placement, PlacementError> {
    place(model, budgets, &requested.into(), &mut |_, layers| Ok(needed(layers)))
}

/// As `[(device, layers)]`.
pub(super) fn stages(placement: &Placement) -> Vec<(Option<usize>, Range<usize>)> {
    placement.stages.iter().map(|stage| (stage.device, stage.layers.clone())).collect()
}

#[track_caller]
fn assert_placement(budgets: &[DeviceBudget], requested: Layers, expected: &[(Option<usize>, Range<usize>)]) {
    assert_eq!(stages(&placed(EVERYWHERE, budgets, requested).expect("a placement")), expected);
}

#[test]
fn auto_places_as_many_layers_as_fit() {
    let (host, device) = (None, Some(0));
    assert_placement(&budgets([Some(85)]), Layers::Auto, &[(device, 0..8)]);
    assert_placement(&budgets([Some(84)]), Layers::Auto, &[(host, 0..1), (device, 1..8)]);
    assert_placement(&budgets([Some(15)]), Layers::Auto, &[(host, 0..7), (device, 7..8)]);
    assert_placement(&budgets([Some(14)]), Layers::Auto, &[(host, 0..8)]);
    assert_placement(&budgets([]), Layers::Auto, &[(host, 0..8)]);
    // With unknown memory, all layers are tried.
    assert_placement(&budgets([None]), Layers::Auto, &[(device, 0..8)]);
    let placement = placed(EVERYWHERE, &budgets([Some(14)]), Layers::Auto).expect("the host has room");
    assert_eq!(placement.skipped, [(0, SkipReason::OutOfMemory)]);
}

#[test]
fn a_requested_number_of_layers_is_respected() {
    let (host, device) = (None, Some(0));
    assert_placement(&budgets([Some(85)]), Layers::All, &[(device, 0..8)]);
    assert_placement(&budgets([Some(85)]), Layers::Last(3), &[(host, 0..5), (device, 5..8)]);
    assert_placement(&budgets([Some(35)]), Layers::Last(3), &[(host, 0..5), (device, 5..8)]);
    assert_placement(&budgets([Some(85)]), Layers::Last(99), &[(device, 0..8)]);
    assert_placement(&budgets([Some(85)]), Layers::Last(0), &[(host, 0..8)]);
    assert_placement(&budgets([None]), Layers::Last(3), &[(host, 0..5), (device, 5..8)]);
    // Without devices, the host computes everything.
    assert_placement(&budgets([]), Layers::All, &[(host, 0..8)]);
    let refused = placed(EVERYWHERE, &budgets([Some(34)]), Layers::Last(3)).expect_err("2 fit");
    assert_eq!(
        refused.to_string(),
        "3 of 8 layers and the output need 35 bytes on a device (34 bytes free): 2 layers fit"
    );
    let PlacementError::InsufficientMemory(insufficient_memory) = refused else { panic!("{refused}") };
    assert_eq!(insufficient_memory.fitting, 2);
}

/// The first device gets the last layers, the next device the layers that did not fit.
#[test]
fn devices_are_filled_in_order() {
    let three = budgets([Some(36), Some(29), Some(1000)]);
    assert_placement(&three, Layers::Auto, &[(Some(2), 0..3), (Some(1), 3..5), (Some(0), 5..8)]);
    assert_placement(&three, Layers::Last(4), &[(None, 0..4), (Some(1), 4..5), (Some(0), 5..8)]);
    assert_placement(&three, Layers::Last(3), &[(None, 0..5), (Some(0), 5..8)]);
    assert_placement(
        &budgets([Some(36), Some(9), Some(29)]),
        Layers::Auto,
        &[(None, 0..3), (Some(2), 3..5), (Some(0), 5..8)],
    );
    let refused = placed(EVERYWHERE, &budgets([Some(36), Some(29)]), Layers::All).expect_err("5 fit");
    assert_eq!(
        refused.to_string(),
        "8 of 8 layers and the output do not fit on a device (36 bytes free) and a device (29 bytes free): \
         5 layers fit"
    );
}

/// Layers 2 to 5 depend on each other: the model can only be cut before and after them.
#[test]
fn models_are_cut_only_at_cut_points() {
    let model = CutPoints { layers: LAYERS, after: &[1, 2, 6, 7] };
    for (free, first) in [(1000, 0), (76, 1), (65, 2), (64, 6), (25, 6), (24, 7)] {
        let placement = placed(model, &budgets([Some(free)]), Layers::Auto).expect("room");
        assert_eq!(placement.on_devices(), LAYERS - first, "{free} bytes");
    }
    let error = placed(model, &budgets([Some(1000)]), Layers::Last(4)).expect_err("it cannot be cut after 4");
    assert!(error.to_string().contains("cannot be cut after 4"), "{error}");
    let placement = placed(model, &budgets([Some(1000)]), Layers::Last(6)).expect("it can be cut after 2");
    // Half of 6 layers is 3, but the nearest cut point leaves 2.
    assert_eq!(stages(&placement.halved(model).expect("fewer")), [(None, 0..6), (Some(0), 6..8)]);
}

#[test]
fn halving_reduces_every_device() {
    let placement = placed(EVERYWHERE, &budgets([Some(50), Some(45)]), Layers::Auto).expect("room");
    assert_eq!(stages(&placement), [(Some(1), 0..4), (Some(0), 4..8)]);
    let halved = |placement: &Placement| placement.halved(EVERYWHERE).expect("devices have layers");
    let half = halved(&placement);
    assert_eq!(stages(&half), [(None, 0..4), (Some(1), 4..6), (Some(0), 6..8)]);
    let quarter = halved(&half);
    assert_eq!(stages(&quarter), [(None, 0..6), (Some(1), 6..7), (Some(0), 7..8)]);
    let none = halved(&quarter);
    assert_eq!((stages(&none), none.halved(EVERYWHERE)), (vec![(None, 0..8)], None));
}

/// The other devices take the layers of a device that cannot be opened, unless a number of layers was requested.
#[test]
fn device_errors_are_reported() {
    let broken = Error::Device { device: "a device".to_owned(), why: "it is broken".to_owned() };
    let mut needs = |device, layers| if device == 0 { Err(broken.clone()) } else { Ok(needed(layers)) };
    let two = budgets([Some(1000), Some(35)]);
    let placement = place(EVERYWHERE, &two, &Layers::Auto.into(), &mut needs).expect("others compute");
    assert_eq!(stages(&placement), [(None, 0..5), (Some(1), 5..8)]);
    assert_eq!(placement.skipped, [(0, SkipReason::Error(broken.clone()))]);
    let error = place(EVERYWHERE, &two, &Layers::All.into(), &mut needs).expect_err("the first is broken");
    assert!(error.to_string().contains("it is broken"), "{error}");
    // The error has priority over another device's lack of memory.
    let both = budgets([Some(1000), Some(5)]);
    let error = place(EVERYWHERE, &both, &Layers::All.into(), &mut needs).expect_err("the first is broken");
    assert!(error.to_string().contains("it is broken"), "{error}");
    // Out-of-memory errors of a device count as not fitting.
    let (memory, remedy) = (MemoryKind::Device, Remedy::FewerLayers);
    let mut needs = |_, layers: Range<usize>| match layers.len() {
        ..3 => Ok(1),
        _ => Err(Error::OutOfMemory { what: "a buffer", bytes: 1, memory, remedy }),
    };
    let placement = place(EVERYWHERE, &two[..1], &Layers::Auto.into(), &mut needs).expect("some fit");
    assert_eq!(placement.on_devices(), 2);
}

#[test]
fn auto_reserves_some_memory() {
    const GIB: u64 = 1 << 30;
    let memory = |total, free| DeviceMemory { total, free };
    let budget = |total, free, limit| Budget::new(memory(total, free), limit);
    // The reserve is 1/16 of the total, clamped to 256 MiB to 1 GiB.
    assert_eq!(budget(Some(8 * GIB), Some(6 * GIB), None).for_auto(), Some(6 * GIB - GIB / 2));
    assert_eq!(budget(Some(80 * GIB), None, None).for_auto(), Some(79 * GIB));
    assert_eq!(budget(Some(GIB), Some(GIB / 8), None).for_auto(), Some(0));
    // A user limit has no reserve; a limit above the free memory has no effect.
    assert_eq!(budget(Some(8 * GIB), Some(6 * GIB), Some(GIB)).for_auto(), Some(GIB));
    assert_eq!(budget(Some(8 * GIB), Some(GIB), Some(6 * GIB)).for_auto(), Some(GIB / 2));
    assert_eq!(
        (budget(None, None, None).for_auto(), budget(None, None, Some(7)).for_auto()),
        (None, Some(7))
    );
    let words =
        [budget(Some(GIB), Some(3), None), budget(Some(GIB), None, None), budget(None, None, Some(7))];
    assert_eq!(words.map(|budget| budget.to_string()), ["3 bytes free", "1.0 GiB in total", "limit 7 bytes"]);
    // The reserve applies to `Auto` alone.
    let budgets = [DeviceBudget { name: "a device".to_owned(), budget: budget(Some(GIB), Some(85), None) }];
    assert_eq!(placed(EVERYWHERE, &budgets, Layers::All).expect("room").on_devices(), LAYERS);
    assert_eq!(placed(EVERYWHERE, &budgets, Layers::Auto).expect("the host's").on_devices(), 0);
}

#[test]
fn all_devices_of_the_best_kind_are_used_once() {
    use DeviceKind::{Cpu, DiscreteGpu, IntegratedGpu, Reference, SoftwareGpu};
    let chosen = |devices: &[(DeviceKind, Option<&str>)], is_named| {
        let info = |&(kind, address): &(DeviceKind, Option<&str>)| DeviceInfo {
            backend: "made-up",
            name: "a device".to_owned(),
            kind,
            address: address.map(str::to_owned),
            memory: DeviceMemory::default(),
            instruction_sets: Vec::new(),
        };
        accelerators(&devices.iter().map(info).collect::<Vec<_>>(), is_named)
    };
    let host = [(Cpu, None), (Reference, None)];
    assert_eq!(chosen(&host, true), [] as [usize; 0]);
    let [a, b] = [Some("00:01.0"), Some("00:02.0")];
    // The second device is the first one, found by another driver.
    assert_eq!(
        chosen(&[(DiscreteGpu, a), (DiscreteGpu, a), (DiscreteGpu, b), (IntegratedGpu, None)], false),
        [0, 2]
    );
    assert_eq!(chosen(&[(Cpu, None), (IntegratedGpu, a), (SoftwareGpu, None)], true), [1]);
    // Without addresses, these may be the same device.
    assert_eq!(chosen(&[(DiscreteGpu, None), (DiscreteGpu, None)], false), [0]);
    assert_eq!(chosen(&[(DiscreteGpu, a), (DiscreteGpu, None)], false), [0]);
    let software = [(Cpu, None), (SoftwareGpu, None)];
    assert_eq!((chosen(&software, false), chosen(&software, true)), (vec![], vec![1]));
}
