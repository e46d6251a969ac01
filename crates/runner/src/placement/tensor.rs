//! The devices of tensor parallelism: each has an equal part of every layer.

use backend::readable_size;

use super::split::there;
use super::{DeviceBudget, Layers, Request};

/// How a model is divided over several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitMode {
    /// Each has consecutive layers, and they compute one after the other.
    #[default]
    Layer,
    /// Each has a part of every layer, and they compute together ([`crate::TensorParallel`]).
    Tensor,
}

impl SplitMode {
    /// All modes.
    pub const ALL: [SplitMode; 2] = [SplitMode::Layer, SplitMode::Tensor];

    /// The name, such as `tensor`.
    pub fn name(self) -> &'static str {
        if self == SplitMode::Layer { "layer" } else { "tensor" }
    }
}

/// Why devices cannot share every layer.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum TensorSplitError {
    #[error("tensor parallelism needs two GPUs or more, but there {}", there(devices))]
    Devices { devices: usize },
    #[error("tensor parallelism divides every layer over the GPUs and leaves none to the CPU")]
    SomeLayers,
    #[error("tensor parallelism gives each GPU an equal part of every layer: proportions are 1 or 0")]
    Proportions,
    #[error("one of {ranks} parts of every layer {} on GPU {device}, {budget}", needs(needed))]
    RankTooLarge { device: usize, budget: DeviceBudget, ranks: usize, needed: Option<u64> },
}

fn needs(needed: &Option<u64>) -> String {
    needed.map_or_else(|| "does not fit".to_owned(), |bytes| format!("needs {}", readable_size(bytes)))
}

/// The devices, of so many, that share every layer as requested, by rank. They are two or more, with equal parts of all layers.
pub fn ranks(devices: usize, request: &Request) -> Result<Vec<usize>, TensorSplitError> {
    if let Layers::Last(_) = request.layers {
        return Err(TensorSplitError::SomeLayers);
    }
    let ranks: Vec<usize> = match &request.split {
        None => (0..devices).collect(),
        Some(split) => split.equal().ok_or(TensorSplitError::Proportions)?,
    };
    match ranks.len() {
        devices @ (0 | 1) => Err(TensorSplitError::Devices { devices }),
        _ => Ok(ranks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_of_all_layers_are_shared() {
        let of = |devices, layers, split: Option<&str>| {
            let split = split.map(|split| split.parse().expect("proportions"));
            ranks(devices, &Request { layers, split, mode: SplitMode::Tensor })
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(3, Layers::Auto, None), Ok(vec![0, 1, 2]));
        assert_eq!(of(4, Layers::All, Some("0,2,0,2")), Ok(vec![1, 3]));
        let refused = |result: Result<Vec<usize>, String>| result.expect_err("it is refused");
        assert!(refused(of(1, Layers::Auto, None)).ends_with("needs two GPUs or more, but there is 1 GPU"));
        assert!(refused(of(0, Layers::Auto, None)).ends_with("there is no GPU"));
        assert!(refused(of(2, Layers::Auto, Some("0,1"))).ends_with("there is 1 GPU"));
        assert!(refused(of(2, Layers::Auto, Some("3,1"))).contains("equal part"));
        assert!(refused(of(2, Layers::Last(3), None)).contains("every layer"));
    }
}
