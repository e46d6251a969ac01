//! The largest context that fits in memory.

use backend::{KvType, Remedy};
use engine::{KvFormat, Model, Options};
use runner::{FileWeights, Workload};

use crate::advice::{ContextTooLarge, allocated, fault};
use crate::args::BackendArgs;
use crate::placement::{self, Read};

/// `error` of loading `model` on the host, with what would fit if a smaller context helps.
pub(crate) fn explain(
    error: anyhow::Error,
    model: &Model,
    options: &Options,
    read: Read,
    args: &BackendArgs,
) -> anyhow::Error {
    let Some(backend::Error::OverBudget {
        limit, remedy: Remedy::SmallerContext | Remedy::SmallerBatch, ..
    }) = fault(&error)
    else {
        return error;
    };
    too_large(*limit, model, options, read, args).map_or(error, Into::into)
}

fn too_large(
    limit: u64,
    model: &Model,
    options: &Options,
    read: Read,
    args: &BackendArgs,
) -> Option<ContextTooLarge> {
    let host = args.host();
    let (backend, weights) = (host.open().ok()?, FileWeights(model.file()));
    let needs = |n_ctx: usize, kv_format: KvFormat| {
        let options = Options { n_ctx: Some(n_ctx), kv_format, ..*options };
        let Workload { weights, graph, kv_layout, buckets, taps } =
            placement::workload(model, &weights, &options, read).ok()?;
        backend.requirements(graph, weights, &kv_layout, &buckets, taps).ok()
    };
    let asked = options.layout(model).ok()?.limits.n_ctx;
    let needed = needs(asked, options.kv_format)?;
    // A smaller batch helps more.
    if needed.kv < needed.activations {
        return None;
    }
    // Free memory changes a little until the next try.
    let room = limit - limit / 64;
    let largest = |format| {
        let fits = |n_ctx| needs(n_ctx, format).is_some_and(|memory| allocated(&memory) <= room);
        if fits(asked) { Some(asked) } else { rounded_down(largest_in(asked, fits)) }
    };
    let q8_0 = KvFormat { k: KvType::Q8_0, v: KvType::Q8_0 };
    let fitting = largest(options.kv_format).filter(|&fitting| fitting < asked)?;
    Some(ContextTooLarge {
        asked,
        needed,
        limit,
        is_limited: host.options.memory.is_some(),
        fitting,
        fitting_in_q8_0: largest(q8_0).filter(|&more| more > fitting),
    })
}

/// The largest number up to `most` that fits, if all smaller ones do; 0 if none does.
fn largest_in(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut excess) = (0, most.saturating_add(1));
    while excess - fitting > 1 {
        let middle = fitting + (excess - fitting) / 2;
        if fits(middle) { fitting = middle } else { excess = middle }
    }
    fitting
}

/// A round number of tokens up to `n_ctx`; `None` if that is too small to be of use.
fn rounded_down(n_ctx: usize) -> Option<usize> {
    let step = if n_ctx >= 4096 { 1024 } else { 32 };
    Some(n_ctx / step * step).filter(|&n_ctx| n_ctx > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits_is_found_and_rounded() {
        for limit in [0, 1, 7, 99, 100] {
            assert_eq!(largest_in(100, |n| n <= limit), limit);
        }
        assert_eq!(largest_in(usize::MAX, |n| n <= 1 << 40), 1 << 40);
        assert_eq!(
            [0, 31, 32, 4095, 4096, 5000].map(rounded_down),
            [None, None, Some(32), Some(4064), Some(4096), Some(4096)]
        );
    }
}
