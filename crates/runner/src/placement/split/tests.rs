//! Division on fake devices. A layer of the fake model needs 10 bytes, the output 5. Expected values are computed by hand.

use backend::{DeviceMemory, MemoryKind, Remedy};
use proptest::prelude::*;

use super::super::tests::{EVERYWHERE, LAYERS, budgets, placed, stages};
use super::super::{Budget, Request, SplitMode, place};
use super::*;

const HOST: Option<usize> = None;

fn split(text: &str) -> Split {
    text.parse().expect("proportions")
}

fn in_proportion(layers: Layers, text: &str) -> Request {
    Request { layers, split: Some(split(text)), mode: SplitMode::Layer }
}

#[track_caller]
fn assert_divided(
    budgets: &[DeviceBudget],
    requested: Layers,
    text: &str,
    expected: &[(Option<usize>, Range<usize>)],
) {
    let placement = placed(EVERYWHERE, budgets, in_proportion(requested, text)).expect("a placement");
    assert_eq!(stages(&placement), expected, "{text}");
}

#[test]
fn proportions_are_numbers_from_0_on() {
    for (text, numbers) in [
        ("3,1", vec![3.0, 1.0]),
        ("3/1", vec![3.0, 1.0]),
        (" 0.5, 1e3 ", vec![0.5, 1000.0]),
        ("1", vec![1.0]),
        ("0,-0,2", vec![0.0, 0.0, 2.0]),
    ] {
        assert_eq!(text.parse(), Split::new(numbers), "{text}");
    }
    for (text, wrong) in [
        ("", ""),
        ("3,", ""),
        ("3,,1", ""),
        ("1,-1", "-1"),
        ("nan", "NaN"),
        ("1,inf", "inf"),
        // Beyond f32.
        ("1e39", "inf"),
        ("half,half", "half"),
        ("1 1", "1 1"),
    ] {
        assert_eq!(text.parse::<Split>(), Err(SplitError::Number(wrong.to_owned())), "{text}");
    }
    assert_eq!("0,0".parse::<Split>(), Err(SplitError::NoneAboveZero));
    assert_eq!(Split::new([]), Err(SplitError::NoneAboveZero));
}

#[test]
fn layers_are_divided_in_proportion() {
    let (two, three) = (budgets([Some(1000), Some(1000)]), budgets([Some(1000), None, Some(1000)]));
    for requested in [Layers::Auto, Layers::All, Layers::Last(99)] {
        assert_divided(&two, requested, "3,1", &[(Some(1), 0..2), (Some(0), 2..8)]);
        assert_divided(&two, requested, "0.1,0.1", &[(Some(1), 0..4), (Some(0), 4..8)]);
        assert_divided(&two, requested, "0,1", &[(Some(1), 0..8)]);
        assert_divided(&two, requested, "1,0", &[(Some(0), 0..8)]);
        // Missing ones count as 0.
        assert_divided(&two, requested, "1", &[(Some(0), 0..8)]);
        // Boundaries at 5 1/3 and 2 2/3.
        assert_divided(&three, requested, "1,1,1", &[(Some(2), 0..3), (Some(1), 3..5), (Some(0), 5..8)]);
        assert_divided(&three, requested, "1,0,1", &[(Some(2), 0..4), (Some(0), 4..8)]);
        // The second share is 0.08 of a layer.
        assert_divided(&two, requested, "100,1", &[(Some(0), 0..8)]);
        // At 1/2 the device with the output gets less.
        assert_divided(&two, requested, "15,1", &[(Some(1), 0..1), (Some(0), 1..8)]);
        assert_divided(&two, requested, "1,15", &[(Some(1), 0..8)]);
    }
    assert_divided(&two, Layers::Last(5), "1,1", &[(HOST, 0..3), (Some(1), 3..6), (Some(0), 6..8)]);
    assert_divided(&two, Layers::Last(4), "3,1", &[(HOST, 0..4), (Some(1), 4..5), (Some(0), 5..8)]);
    assert_divided(&two, Layers::Last(0), "3,1", &[(HOST, 0..8)]);
}

/// Layers 2 to 5 depend on each other: the model can only be cut before and after them.
#[test]
fn shares_end_at_the_nearest_cut_point() {
    let model = CutPoints { layers: LAYERS, after: &[1, 2, 6, 7] };
    let two = budgets([Some(1000), Some(1000)]);
    for (text, start) in [("5,3", 2), ("1,1", 6), ("3,5", 6), ("7,1", 1), ("1,7", 7)] {
        let placement = placed(model, &two, in_proportion(Layers::All, text)).expect("room");
        assert_eq!(stages(&placement), [(Some(1), 0..start), (Some(0), start..8)], "{text}");
    }
}

#[test]
fn a_share_that_does_not_fit_is_refused() {
    let refused = |free, requested, text| {
        let error = placed(EVERYWHERE, &budgets(free), in_proportion(requested, text));
        error.expect_err("it does not fit").to_string()
    };
    let all = [(Some(1), 0..4), (Some(0), 4..8)];
    assert_divided(&budgets([Some(45), Some(40)]), Layers::All, "1,1", &all);
    assert_eq!(
        refused([Some(44), Some(1000)], Layers::All, "1,1"),
        "4 of 8 layers and the output need 45 bytes on GPU 0, a device (44 bytes free)"
    );
    assert_eq!(
        refused([Some(1000), Some(39)], Layers::Last(8), "1,1"),
        "4 of 8 layers need 40 bytes on GPU 1, a device (39 bytes free)"
    );
    let (memory, remedy) = (MemoryKind::Device, Remedy::FewerLayers);
    let mut needs =
        |_, _: Range<usize>| Err(Error::OutOfMemory { what: "a buffer", bytes: 1, memory, remedy });
    let one = budgets([Some(1000)]);
    let error = place(EVERYWHERE, &one, &in_proportion(Layers::All, "1"), &mut needs).expect_err("no room");
    assert_eq!(
        error.to_string(),
        "8 of 8 layers and the output do not fit on GPU 0, a device (1000 bytes free)"
    );
}

#[test]
fn auto_offloads_fewer_layers_in_the_same_proportion() {
    // Of six layers the first device would get three, of five two.
    let first = budgets([Some(34), Some(1000)]);
    assert_divided(&first, Layers::Auto, "1,1", &[(HOST, 0..3), (Some(1), 3..6), (Some(0), 6..8)]);
    let second = budgets([Some(1000), Some(10)]);
    assert_divided(&second, Layers::Auto, "3,1", &[(HOST, 0..3), (Some(1), 3..4), (Some(0), 4..8)]);
    // Of seven layers the second device would get three, of eight two.
    let second = budgets([Some(1000), Some(20), Some(1000)]);
    assert_divided(&second, Layers::Auto, "1,1,1", &[(Some(2), 0..3), (Some(1), 3..5), (Some(0), 5..8)]);
    let placement = placed(EVERYWHERE, &budgets([Some(14)]), in_proportion(Layers::Auto, "1")).expect("host");
    assert_eq!(stages(&placement), [(HOST, 0..8)]);
    assert_eq!(placement.skipped, [(0, SkipReason::OutOfMemory)]);
}

#[test]
fn each_proportion_needs_a_device() {
    for (devices, expected) in [
        (budgets([Some(1000)]).as_slice(), "2 proportions of layers, but there is 1 GPU"),
        (&[], "2 proportions of layers, but there is no GPU"),
    ] {
        for requested in [Layers::Auto, Layers::All, Layers::Last(1)] {
            let refused = placed(EVERYWHERE, devices, in_proportion(requested, "1,0"));
            assert_eq!(refused.expect_err("too many").to_string(), expected);
        }
        // There is nothing to divide.
        assert_divided(devices, Layers::Last(0), "1,1", &[(HOST, 0..8)]);
    }
}

/// A device that cannot be opened makes the division impossible.
#[test]
fn device_errors_are_reported() {
    let broken = Error::Device { device: "a device".to_owned(), why: "it is broken".to_owned() };
    let mut needs = |device, _: Range<usize>| if device == 1 { Err(broken.clone()) } else { Ok(1) };
    let two = budgets([Some(1000), Some(1000)]);
    let mut place = |requested, text| place(EVERYWHERE, &two, &in_proportion(requested, text), &mut needs);
    let placement = place(Layers::Auto, "1,1").expect("the host computes");
    assert_eq!(stages(&placement), [(HOST, 0..8)]);
    assert_eq!(placement.skipped, [(1, SkipReason::Error(broken.clone()))]);
    let error = place(Layers::All, "1,1").expect_err("it is broken");
    assert!(error.to_string().contains("it is broken"), "{error}");
    assert_eq!(stages(&place(Layers::All, "1,0").expect("it is not used")), [(Some(0), 0..8)]);
}

/// A model, the free memory of devices, and proportions for some of them.
#[derive(Clone, Debug)]
struct Case {
    layers: usize,
    after: Vec<usize>,
    free: Vec<Option<u64>>,
    proportions: Vec<f32>,
}

fn cases() -> impl Strategy<Value = Case> {
    let number = prop_oneof![Just(0.0_f32), (1_u8..6).prop_map(f32::from), 0.0..100.0_f32];
    let model =
        (1_usize..24).prop_flat_map(|layers| (Just(layers), prop::collection::vec(any::<bool>(), layers)));
    let free = prop::collection::vec(prop::option::weighted(0.9, 0_u64..300), 1..5);
    (model, free, prop::collection::vec(number, 1..5)).prop_filter_map(
        "proportions of devices, one above 0",
        |((layers, can_cut), free, mut proportions)| {
            proportions.truncate(free.len());
            let after = (1..layers).filter(|&layer| can_cut[layer]).collect();
            let is_split = proportions.iter().any(|&number| number > 0.0);
            is_split.then_some(Case { layers, after, free, proportions })
        },
    )
}

impl Case {
    fn place(&self, requested: Layers) -> Result<Placement, PlacementError> {
        let budget = |&free: &Option<u64>| DeviceBudget {
            name: "a device".to_owned(),
            budget: Budget::new(DeviceMemory { total: None, free }, None),
        };
        let budgets: Vec<DeviceBudget> = self.free.iter().map(budget).collect();
        let split = Some(Split::new(self.proportions.clone()).expect("proportions"));
        let model = CutPoints { layers: self.layers, after: &self.after };
        place(
            model,
            &budgets,
            &Request { layers: requested, split, mode: SplitMode::Layer },
            &mut |_, range| Ok(self.needed(&range)),
        )
    }

    fn needed(&self, range: &Range<usize>) -> u64 {
        10 * range.len() as u64 + if range.end == self.layers { 5 } else { 0 }
    }

    /// Checks what holds for every placement, and returns the number of offloaded layers.
    fn check(&self, placement: &Placement) -> usize {
        let stages = stages(placement);
        // Every layer once, in order, cut where the model can be cut; the host first, then devices from the last to the first.
        let mut end = 0;
        for (_, range) in &stages {
            assert_eq!(range.start, end);
            assert!(range.start == 0 || self.after.contains(&range.start), "{range:?}");
            assert!(range.end > range.start);
            end = range.end;
        }
        assert_eq!(end, self.layers);
        assert!(stages.windows(2).all(|pair| match (pair[0].0, pair[1].0) {
            (HOST, Some(_)) => true,
            (Some(before), Some(after)) => before > after,
            (_, HOST) => false,
        }));
        let of = |device: usize| stages.iter().find(|(of, _)| *of == Some(device)).map(|(_, range)| range);
        for device in 0..self.free.len() {
            let Some(range) = of(device) else { continue };
            assert!(self.proportions[device] > 0.0, "GPU {device} has layers");
            assert!(
                self.free[device].is_none_or(|free| self.needed(range) <= free),
                "{range:?} does not fit"
            );
        }
        // No other cut point is nearer to an exact boundary, and so a share is at most one interval off.
        let offloaded = placement.on_devices();
        let floor = self.layers - offloaded;
        let within = |&cut: &usize| cut >= floor;
        let mut cuts: Vec<usize> = self.after.iter().copied().filter(within).collect();
        cuts.extend([floor, self.layers]);
        cuts.sort_unstable();
        let widest = cuts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as f64;
        let total: f64 = self.proportions.iter().copied().map(f64::from).sum();
        let (mut start, mut given) = (self.layers, 0.0);
        for (device, &proportion) in self.proportions.iter().enumerate() {
            let len = of(device).map_or(0, |range| range.len());
            given += f64::from(proportion);
            start -= len;
            let exact = self.layers as f64 - offloaded as f64 * given / total;
            let distance = (start as f64 - exact).abs();
            assert!(
                cuts.iter().all(|&cut| distance <= (cut as f64 - exact).abs() + 1e-6),
                "{start}, {exact}"
            );
            let share = offloaded as f64 * f64::from(proportion) / total;
            assert!((len as f64 - share).abs() <= widest + 1e-6, "GPU {device}: {len}, {share}");
        }
        assert_eq!(start, floor, "all offloaded layers are divided");
        offloaded
    }
}

proptest! {
    #[test]
    fn every_division_is_exact_and_fits(case in cases()) {
        let numbers = case.after.iter().copied().chain([0, case.layers]).map(|floor| case.layers - floor);
        let mut most = 0;
        for number in numbers {
            match case.place(Layers::Last(number)) {
                Ok(placement) => {
                    assert_eq!(case.check(&placement), number);
                    most = most.max(number);
                }
                Err(PlacementError::ShareTooLarge(ShareTooLarge { device, range, needed, .. })) => {
                    let needed = needed.expect("known");
                    assert_eq!(needed, case.needed(&range));
                    assert!(case.free[device].is_some_and(|free| needed > free));
                }
                Err(other) => panic!("{other}"),
            }
        }
        // Auto offloads the largest number that can be divided.
        let auto = case.place(Layers::Auto).expect("the host takes the rest");
        assert_eq!(case.check(&auto), most);
        assert_eq!(case.place(Layers::All).is_ok(), most == case.layers);
    }
}
