//! Advice about errors of libraries. Libraries name a remedy; only this file knows the flags.

use std::error::Error as Cause;
use std::sync::Arc;

use backend::{Memory, Remedy, readable_size as size};
use engine::{Error, Refusal, RequestError};
use runner::placement::{InsufficientMemory, PlacementError, TensorSplitError};

/// Advice beyond the error's own text.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    if let Some(InsufficientMemory { fitting, .. }) = error.chain().find_map(insufficient_memory) {
        return Some(format!(
            "use -ngl {fitting} or -ngl auto, a smaller context (-c N), or a model with fewer bits"
        ));
    }
    if let Some(too_large) = error.downcast_ref::<ContextTooLarge>() {
        return Some(too_large.advice());
    }
    fixed_advice(error).map(str::to_owned)
}

fn fixed_advice(error: &anyhow::Error) -> Option<&'static str> {
    match error.chain().find_map(|cause| cause.downcast_ref()) {
        Some(PlacementError::ShareTooLarge(_)) => {
            return Some(
                "use other proportions (-ts), -ngl auto, which offloads as many layers as fit in these, or a smaller context \
                 (-c N)",
            );
        }
        Some(PlacementError::TensorSplit(error)) => {
            return Some(match error {
                TensorSplitError::Devices { .. } => {
                    "`rustorch devices` lists the GPUs; -sm layer uses one, or gives each of several whole layers"
                }
                TensorSplitError::SomeLayers => "omit -ngl, or use -sm layer",
                TensorSplitError::Proportions => "omit -ts, choose cards as -ts 1,1,0 does, or use -sm layer",
                TensorSplitError::RankTooLarge { .. } => {
                    "use more cards, a smaller context (-c N), a model with fewer bits, or -sm layer, which leaves layers to \
                     the CPU"
                }
            });
        }
        _ => {}
    }
    if let Some(fault) = fault(error) {
        return fault_advice(fault);
    }
    if let Some(eval::Error::NotFinite { .. } | eval::Error::Input { .. }) = error.downcast_ref() {
        return Some("`rustorch verify` checks weights and kernels");
    }
    match error.downcast_ref() {
        Some(hub::Error::Offline { .. }) => {
            return Some(
                "omit --offline, and unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, to use the network",
            );
        }
        Some(hub::Error::Cut { .. }) => {
            return Some("the same command continues where the download stopped");
        }
        Some(hub::Error::Server { status: 500.., .. } | hub::Error::RateLimited { .. }) => {
            return Some("try again later; what has come is kept");
        }
        _ => {}
    }
    if error.chain().any(lacks_pre_tokenizer) {
        return Some("--pre-tokenizer NAME uses one that is supported");
    }
    match error.downcast_ref() {
        Some(rustorch::Error::TextTooLong { .. }) => return Some("-c N enlarges the context"),
        Some(rustorch::Error::ConversationFull { .. }) => {
            return Some(
                "-c N enlarges the context; in a chat, /drop removes the oldest message, /clear all, and --context-shift \
                 does so automatically",
            );
        }
        _ => {}
    }
    match error.chain().find_map(engine_error)? {
        Error::Prompt(Refusal::TooLong { .. }) => Some("-c N enlarges the context"),
        Error::Option { name: "n_ctx", .. } | Error::TrainedContext { .. } => Some("-c N sets the context"),
        Error::Template(_) => {
            Some("--raw uses the text without the template; in a chat, /toggle turns it off")
        }
        _ => None,
    }
}

/// The engine's error, also as the front door shares it.
fn engine_error<'a>(cause: &'a (dyn Cause + 'static)) -> Option<&'a Error> {
    cause.downcast_ref().or_else(|| cause.downcast_ref::<Arc<Error>>().map(|error| &**error))
}

/// The error of a backend in the chain.
pub(crate) fn fault(error: &anyhow::Error) -> Option<&backend::Error> {
    error.chain().find_map(|cause| match (engine_error(cause), cause.downcast_ref(), cause.downcast_ref()) {
        (Some(Error::Backend(fault)), ..) => Some(fault),
        (_, Some(RequestError::Backend(fault)), _) => Some(fault),
        (.., Some(PlacementError::Backend(fault))) => Some(fault),
        _ => match cause.downcast_ref() {
            Some(trace::Error::Backend(fault)) => Some(fault),
            _ => cause.downcast_ref(),
        },
    })
}

fn insufficient_memory<'a>(cause: &'a (dyn Cause + 'static)) -> Option<&'a InsufficientMemory> {
    match cause.downcast_ref() {
        Some(PlacementError::InsufficientMemory(insufficient_memory)) => Some(insufficient_memory),
        _ => cause.downcast_ref(),
    }
}

fn lacks_pre_tokenizer(cause: &(dyn Cause + 'static)) -> bool {
    use tokenizer::Error::{MissingPreTokenizer, UnsupportedPreTokenizer};
    let engines = match cause.downcast_ref() {
        Some(Error::Tokenizer { source, .. }) => Some(source),
        _ => None,
    };
    matches!(engines.or(cause.downcast_ref()), Some(MissingPreTokenizer | UnsupportedPreTokenizer { .. }))
}

fn fault_advice(fault: &backend::Error) -> Option<&'static str> {
    Some(match fault {
        backend::Error::OutOfMemory { remedy, .. } => return remedy_advice(*remedy),
        backend::Error::OverBudget { remedy: Remedy::SmallerContext | Remedy::SmallerBatch, .. } => {
            "a smaller context (-c N) or batch (-b N) takes less memory; --memory SIZE allows more"
        }
        backend::Error::OverBudget { remedy, .. } => return remedy_advice(*remedy),
        backend::Error::Device { .. } => {
            "use --backend cpu, or in a chat /backend cpu, which continues the conversation"
        }
        backend::Error::Shard(_) | backend::Error::Group { .. } => {
            "-sm layer, the default, gives each GPU whole layers, of any model and without NCCL"
        }
        backend::Error::Cut { .. } => "-ngl auto or -ngl all splits the model only where possible",
        _ => return None,
    })
}

fn remedy_advice(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::SmallerContext => {
            "a smaller context (-c N) takes less memory, fewer layers (-ngl N) less GPU memory"
        }
        Remedy::SmallerBatch => "a smaller batch (-b N) takes less memory",
        Remedy::SmallerModel => {
            "`rustorch quantize` makes the model smaller; a smaller context (-c N) takes less memory, too"
        }
        Remedy::LeaveWeightsInFile => {
            "--no-repack leaves weights in the file; `rustorch quantize` makes the model smaller"
        }
        Remedy::FewerLayers => "fewer layers (-ngl N) or a smaller context (-c N) take less GPU memory",
        Remedy::UseCpu => "--backend cpu computes it",
        Remedy::RaiseLimit => {
            "--gpu-memory allows more; fewer layers (-ngl N) or a smaller context (-c N) take less"
        }
        // No flag helps.
        _ => return None,
    })
}

/// A context that was refused before anything was allocated.
#[derive(Debug, thiserror::Error)]
#[error(
    "a context of {asked} tokens needs {}: the KV cache {}, weights {}, activations {}; {} are {}",
    size(allocated(needed)), size(needed.kv), size(needed.weights_owned), size(needed.activations), size(*limit),
    if *is_limited { "allowed" } else { "free" }
)]
pub(crate) struct ContextTooLarge {
    pub(crate) asked: usize,
    pub(crate) needed: Memory,
    /// Bytes that are free, or those of `--memory`.
    pub(crate) limit: u64,
    pub(crate) is_limited: bool,
    /// The largest context that fits.
    pub(crate) fitting: usize,
    /// The same with K and V in Q8_0, if that is more.
    pub(crate) fitting_in_q8_0: Option<usize>,
}

impl ContextTooLarge {
    pub(crate) fn advice(&self) -> String {
        let ContextTooLarge { fitting, fitting_in_q8_0, is_limited, .. } = self;
        let quantised = fitting_in_q8_0
            .map_or_else(String::new, |more| format!("; with -ctk q8_0 -ctv q8_0 it is -c {more}"));
        let memory = if *is_limited { "allows more" } else { "allows more than what is free" };
        format!("the largest context that fits is -c {fitting}{quantised}; --memory SIZE {memory}")
    }
}

/// Bytes that are allocated besides the file.
pub(crate) fn allocated(memory: &Memory) -> u64 {
    memory.weights_owned.saturating_add(memory.kv).saturating_add(memory.activations)
}

#[cfg(test)]
mod tests {
    use backend::{DeviceMemory, MemoryKind};
    use runner::placement::{Budget, DeviceBudget, ShareTooLarge};

    use super::*;

    /// The advice does not depend on the crate that passes the error on.
    #[test]
    fn a_remedy_is_found_in_any_chain() {
        let (memory, remedy) = (MemoryKind::Device, Remedy::RaiseLimit);
        let fault = backend::Error::OutOfMemory { what: "weights", bytes: 1, memory, remedy };
        let errors: [anyhow::Error; 5] = [
            fault.clone().into(),
            Error::from(fault.clone()).into(),
            RequestError::from(fault.clone()).into(),
            trace::Error::from(fault.clone()).into(),
            PlacementError::from(fault.clone()).into(),
        ];
        for error in errors {
            let error = error.context("while loading");
            assert_eq!(super::fault(&error), Some(&fault), "{error:#}");
            assert!(advice(&error).is_some_and(|advice| advice.contains("--gpu-memory")), "{error:#}");
        }
        assert_eq!(advice(&anyhow::anyhow!("something else")), None);
    }

    #[test]
    fn what_fits_is_named() {
        let insufficient_memory =
            InsufficientMemory { requested: 8, layers: 8, needed: Some(9), budgets: Vec::new(), fitting: 3 };
        let advice = advice(&PlacementError::from(insufficient_memory).into());
        assert!(advice.is_some_and(|advice| advice.starts_with("use -ngl 3 or -ngl auto")));
        let budget = Budget::new(DeviceMemory { total: None, free: Some(8) }, None);
        let budget = DeviceBudget { name: "a device".to_owned(), budget };
        let too_large = ShareTooLarge { device: 1, budget, range: 0..4, layers: 8, needed: Some(9) };
        let advice = super::advice(&PlacementError::from(too_large).into());
        assert!(advice.is_some_and(|advice| advice.starts_with("use other proportions (-ts), -ngl auto")));
    }
}
