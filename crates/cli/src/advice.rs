//! Advice about errors of libraries. Libraries name a remedy; only this file knows the flags.

use backend::Remedy;
use engine::{Error, Refusal, RequestError};
use runner::placement::{InsufficientMemory, PlacementError, TensorSplitError};
use std::sync::Arc;

use crate::context::refusal::ContextTooLarge;

/// Advice beyond the error's own text.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    if let Some(InsufficientMemory { fitting, .. }) = error.chain().find_map(insufficient_memory) {
        return Some(format!(
            "use -ngl {fitting} or -ngl auto, a smaller context (-c N), or a model with fewer bits"
        ));
    }
    if let Some(PlacementError::ShareTooLarge(_)) = error.chain().find_map(|cause| cause.downcast_ref()) {
        return Some(
            "use other proportions (-ts), -ngl auto, which offloads as many layers as fit in these, or a smaller context \
             (-c N)"
                .to_owned(),
        );
    }
    if let Some(PlacementError::TensorSplit(error)) = error.chain().find_map(|cause| cause.downcast_ref()) {
        return Some(of_tensor_split(error).to_owned());
    }
    if let Some(too_large) = error.downcast_ref::<ContextTooLarge>() {
        return Some(too_large.advice());
    }
    if let Some(fault) = fault(error) {
        return of_fault(fault).map(str::to_owned);
    }
    if let Some(eval::Error::NotFinite { .. } | eval::Error::Input { .. }) = error.downcast_ref() {
        return Some("`rustorch verify` checks weights and kernels".to_owned());
    }
    if let Some(hub::Error::Offline { .. }) = error.downcast_ref() {
        return Some(
            "omit --offline, and unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, to use the network"
                .to_owned(),
        );
    }
    match error.downcast_ref() {
        Some(hub::Error::Cut { .. }) => {
            return Some("the same command continues where the download stopped".to_owned());
        }
        Some(hub::Error::Server { status: 500.., .. } | hub::Error::RateLimited { .. }) => {
            return Some("try again later; what has come is kept".to_owned());
        }
        _ => {}
    }
    if error.chain().any(lacks_pre_tokenizer) {
        return Some("--pre-tokenizer NAME uses one that is supported".to_owned());
    }
    match error.downcast_ref() {
        Some(rustorch::Error::TextTooLong { .. }) => return Some("-c N enlarges the context".to_owned()),
        Some(rustorch::Error::ConversationFull { .. }) => {
            return Some(
                "-c N enlarges the context; in a chat, /drop removes the oldest message, /clear all, and --context-shift \
                 does so automatically"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let advice = match error.chain().find_map(engine_error)? {
        Error::Prompt(Refusal::TooLong { .. }) => "-c N enlarges the context",
        Error::Option { name: "n_ctx", .. } | Error::TrainedContext { .. } => "-c N sets the context",
        Error::Template(_) => "--raw uses the text without the template; in a chat, /toggle turns it off",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// The engine's error, also as the front door shares it.
fn engine_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    cause.downcast_ref().or_else(|| cause.downcast_ref::<Arc<Error>>().map(|error| &**error))
}

/// The error of a backend in the chain.
pub(crate) fn fault(error: &anyhow::Error) -> Option<&backend::Error> {
    error.chain().find_map(|cause| {
        if let Some(Error::Backend(fault)) = engine_error(cause) {
            Some(fault)
        } else if let Some(RequestError::Backend(fault)) = cause.downcast_ref() {
            Some(fault)
        } else if let Some(trace::Error::Backend(fault)) = cause.downcast_ref() {
            Some(fault)
        } else if let Some(PlacementError::Backend(fault)) = cause.downcast_ref() {
            Some(fault)
        } else {
            cause.downcast_ref()
        }
    })
}

fn of_tensor_split(error: &TensorSplitError) -> &'static str {
    match error {
        TensorSplitError::Devices { .. } => {
            "`rustorch devices` lists the GPUs; -sm layer uses one, or gives each of several whole layers"
        }
        TensorSplitError::SomeLayers => "omit -ngl, or use -sm layer",
        TensorSplitError::Proportions => "omit -ts, choose cards as -ts 1,1,0 does, or use -sm layer",
        TensorSplitError::RankTooLarge { .. } => {
            "use more cards, a smaller context (-c N), a model with fewer bits, or -sm layer, which leaves layers to the CPU"
        }
    }
}

fn insufficient_memory<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a InsufficientMemory> {
    match cause.downcast_ref() {
        Some(PlacementError::InsufficientMemory(insufficient_memory)) => Some(insufficient_memory),
        _ => cause.downcast_ref(),
    }
}

fn lacks_pre_tokenizer(cause: &(dyn std::error::Error + 'static)) -> bool {
    use tokenizer::Error::{MissingPreTokenizer, UnsupportedPreTokenizer};
    let of_engine = match cause.downcast_ref() {
        Some(Error::Tokenizer { source, .. }) => Some(source),
        _ => None,
    };
    matches!(of_engine.or(cause.downcast_ref()), Some(MissingPreTokenizer | UnsupportedPreTokenizer { .. }))
}

fn of_fault(fault: &backend::Error) -> Option<&'static str> {
    Some(match fault {
        backend::Error::OutOfMemory { remedy, .. } => return of_remedy(*remedy),
        backend::Error::OverBudget { remedy: Remedy::SmallerContext | Remedy::SmallerBatch, .. } => {
            "a smaller context (-c N) or batch (-b N) takes less memory; --memory SIZE allows more"
        }
        backend::Error::OverBudget { remedy, .. } => return of_remedy(*remedy),
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

fn of_remedy(remedy: Remedy) -> Option<&'static str> {
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
