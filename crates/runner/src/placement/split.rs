//! The division of layers over devices in given proportions.

use std::str::FromStr;

use backend::Error;

use super::{
    CutPoints, DeviceBudget, Layers, Needs, PlacedLayers, Placement, PlacementError, Range, SkipReason, need,
};

/// Proportions of the offloaded layers, one for each device: finite numbers from 0 on, at least one above 0. [`FromStr`]
/// reads `3,1`, and `3/1` as llama-bench does.
#[derive(Clone, Debug, PartialEq)]
pub struct Split(Vec<f32>);

/// Why numbers are no proportions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum SplitError {
    #[error("{0:?} is no proportion: expected numbers from 0 on, such as 3,1")]
    Number(String),
    #[error("no proportion is above 0: expected at least one, such as 3,1")]
    NoneAboveZero,
}

impl Split {
    /// The proportions of devices, the first device first. Devices without one get no layer.
    pub fn new(proportions: impl Into<Vec<f32>>) -> Result<Split, SplitError> {
        let proportions = proportions.into();
        let is_proportion = |number: f32| number.is_finite() && number >= 0.0;
        if let Some(wrong) = proportions.iter().find(|&&number| !is_proportion(number)) {
            return Err(SplitError::Number(wrong.to_string()));
        }
        if proportions.iter().all(|&number| number == 0.0) {
            return Err(SplitError::NoneAboveZero);
        }
        Ok(Split(proportions))
    }

    /// Checks that each proportion has one of so many devices.
    pub fn check(&self, devices: usize) -> Result<(), TooManyProportions> {
        let proportions = self.0.len();
        if proportions > devices { Err(TooManyProportions { proportions, devices }) } else { Ok(()) }
    }

    /// The devices with a proportion above 0, if all these are equal.
    pub(super) fn equal(&self) -> Option<Vec<usize>> {
        let above = self.0.iter().enumerate().filter(|(_, proportion)| **proportion > 0.0);
        let first = above.clone().next()?.1;
        let is_equal = above.clone().all(|(_, proportion)| proportion == first);
        is_equal.then(|| above.map(|(device, _)| device).collect())
    }

    /// Divides the layers from `floor` on. Each boundary is the cut point nearest to the exact one; of two, the later one,
    /// because the device behind it also has the output. Last layers first, as [`Placement`] fills devices.
    fn stages(&self, model: CutPoints<'_>, floor: usize) -> Vec<PlacedLayers> {
        let layers = model.layers;
        let mut cuts = model.starts(floor, layers);
        cuts.push(layers);
        let total: f64 = self.0.iter().copied().map(f64::from).sum();
        let (mut given, mut end, mut stages) = (0.0, layers, Vec::new());
        for (device, &proportion) in self.0.iter().enumerate() {
            // The last sum is the total, and the boundary then `floor`, without rounding.
            given += f64::from(proportion);
            let exact = layers as f64 - (layers - floor) as f64 * (given / total);
            let distance = |cut: usize| (cut as f64 - exact).abs();
            let nearest = cuts.iter().copied().rev().min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
            let start = nearest.unwrap_or(floor);
            if start < end {
                stages.push(PlacedLayers { device: Some(device), layers: start..end });
                end = start;
            }
        }
        stages
    }
}

impl FromStr for Split {
    type Err = SplitError;

    fn from_str(text: &str) -> Result<Split, SplitError> {
        let number = |text: &str| text.trim().parse().map_err(|_| SplitError::Number(text.to_owned()));
        Split::new(text.split([',', '/']).map(number).collect::<Result<Vec<f32>, _>>()?)
    }
}

/// Implements [`super::place`] for a split: places the layers from `floor` on or, with [`Layers::Auto`], as many as fit.
pub(super) fn divide(
    model: CutPoints<'_>,
    budgets: &[DeviceBudget],
    (requested, floor): (Layers, usize),
    split: &Split,
    needs: &mut Needs<'_>,
) -> Result<Placement, PlacementError> {
    let layers = model.layers;
    if floor < layers {
        split.check(budgets.len())?;
    }
    // Rounding may give a device more of fewer layers, so each number is tried.
    let floors = if requested == Layers::Auto { model.starts(0, layers) } else { vec![floor] };
    let mut skipped = Vec::new();
    for floor in floors {
        let stages = split.stages(model, floor);
        match first_refusal(&stages, budgets, requested, needs) {
            None => return Ok(Placement::with_host(stages, floor, Vec::new())),
            Some(Refusal { device, why, .. }) if requested == Layers::Auto => {
                skipped = vec![(device, why.clone())];
                if matches!(why, SkipReason::Error(_)) {
                    break;
                }
            }
            Some(Refusal { why: SkipReason::Error(error), .. }) => return Err(error.into()),
            Some(Refusal { device, range, needed, .. }) => {
                let budget = budgets[device].clone();
                return Err(ShareTooLarge { device, budget, range, layers, needed }.into());
            }
        }
    }
    Ok(Placement::with_host(Vec::new(), layers, skipped))
}

/// Layers that a device cannot take, and the memory in bytes that they need, if known.
struct Refusal {
    device: usize,
    range: Range<usize>,
    needed: Option<u64>,
    why: SkipReason,
}

fn first_refusal(
    stages: &[PlacedLayers],
    budgets: &[DeviceBudget],
    requested: Layers,
    needs: &mut Needs<'_>,
) -> Option<Refusal> {
    stages.iter().find_map(|stage| {
        let (device, range) = (stage.device?, stage.layers.clone());
        let available = budgets.get(device)?.budget.available(requested)?;
        let (needed, why) = match needs(device, range.clone()) {
            Ok(needed) if needed <= available => return None,
            Ok(needed) => (Some(needed), SkipReason::OutOfMemory),
            Err(Error::OutOfMemory { .. }) => (None, SkipReason::OutOfMemory),
            Err(error) => (None, SkipReason::Error(error)),
        };
        Some(Refusal { device, range, needed, why })
    })
}

/// There are fewer devices than proportions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of layers, but there {}", counted(.proportions), there(.devices))]
#[expect(missing_docs, reason = "the names say it")]
pub struct TooManyProportions {
    pub proportions: usize,
    pub devices: usize,
}

/// Such as `2 proportions`.
fn counted(proportions: &usize) -> String {
    match proportions {
        1 => "1 proportion".to_owned(),
        more => format!("{more} proportions"),
    }
}

/// Such as `are 2 GPUs`.
pub(super) fn there(devices: &usize) -> String {
    match devices {
        0 => "is no GPU".to_owned(),
        1 => "is 1 GPU".to_owned(),
        more => format!("are {more} GPUs"),
    }
}

/// The share of a device does not fit its memory.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} of {layers} layers{} {} on GPU {device}, {budget}", range.len(), output(range, layers), need(needed))]
#[expect(missing_docs, reason = "the message explains the fields")]
pub struct ShareTooLarge {
    pub device: usize,
    pub budget: DeviceBudget,
    pub range: Range<usize>,
    /// Of the model.
    pub layers: usize,
    /// Bytes, if known.
    pub needed: Option<u64>,
}

fn output(range: &Range<usize>, layers: &usize) -> &'static str {
    if range.end == *layers { " and the output" } else { "" }
}

#[cfg(test)]
mod tests;
