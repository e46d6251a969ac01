//! What to do about an error of a library, in the words of this program: its flags and commands. Libraries say what went
//! wrong and name a remedy; nothing but this file says which flag that is.

use backend::Remedy;
use engine::{Error, Refusal, RequestError};
use runner::placement::{InsufficientMemory, PlacementError};

/// What the user can do about it, when there is more to say than the error does.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    if let Some(insufficient_memory) = error.chain().find_map(insufficient_memory) {
        return Some(advice_on_insufficient_memory(insufficient_memory));
    }
    if let Some(fault) = fault(error) {
        return of_fault(fault).map(str::to_owned);
    }
    if let Some(eval::Error::NotFinite { .. }) = error.downcast_ref() {
        return Some("`rustorch verify` says whether weights or kernels are to blame".to_owned());
    }
    let advice = match error.chain().find_map(|cause| cause.downcast_ref())? {
        Error::Prompt(Refusal::TooLong { .. }) | Error::TextTooLong { .. } => "-c N makes the context larger",
        Error::ConversationFull { .. } => {
            "-c N makes the context larger; in a chat, /drop forgets the oldest message, /clear all of them, and \
             --context-shift does so by itself"
        }
        Error::Option { name: "n_ctx", .. } | Error::TrainedContext { .. } => "-c N sets the context",
        Error::Template(_) => "--raw sends text without the template; in a chat, /toggle does",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// What a backend has said, if that is what went wrong.
pub(crate) fn fault(error: &anyhow::Error) -> Option<&backend::Error> {
    error.chain().find_map(|cause| {
        let of_engine = match cause.downcast_ref() {
            Some(Error::Backend(fault)) => Some(fault),
            _ => None,
        };
        let of_request = match cause.downcast_ref() {
            Some(RequestError::Backend(fault)) => Some(fault),
            _ => None,
        };
        let of_trace = match cause.downcast_ref() {
            Some(trace::Error::Backend(fault)) => Some(fault),
            _ => None,
        };
        let of_placement = match cause.downcast_ref() {
            Some(PlacementError::Backend(fault)) => Some(fault),
            _ => None,
        };
        of_engine.or(of_request).or(of_trace).or(of_placement).or_else(|| cause.downcast_ref())
    })
}

fn insufficient_memory<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a InsufficientMemory> {
    match cause.downcast_ref() {
        Some(PlacementError::InsufficientMemory(insufficient_memory)) => Some(insufficient_memory),
        _ => cause.downcast_ref(),
    }
}

fn advice_on_insufficient_memory(insufficient_memory: &InsufficientMemory) -> String {
    let fitting = insufficient_memory.fitting;
    format!("use -ngl {fitting} or -ngl auto, a smaller context (-c N), or a model of fewer bits")
}

fn of_fault(fault: &backend::Error) -> Option<&'static str> {
    Some(match fault {
        backend::Error::OutOfMemory { remedy, .. } => return of_remedy(*remedy),
        backend::Error::OverBudget { remedy: Remedy::SmallerContext | Remedy::SmallerBatch, .. } => {
            "-c N with fewer tokens of context and -b N with fewer rows take less memory; --memory SIZE allows more"
        }
        backend::Error::OverBudget { remedy, .. } => return of_remedy(*remedy),
        backend::Error::Device { .. } => {
            "--backend cpu needs no such device; in a chat, /backend cpu goes on with the conversation"
        }
        backend::Error::Cut { .. } => {
            "-ngl auto or -ngl all cuts the model where it can be cut, or not at all"
        }
        _ => return None,
    })
}

/// A remedy by its flags.
fn of_remedy(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::SmallerContext => {
            "-c N with fewer tokens takes less memory, -ngl N with fewer layers less of a graphics processor's"
        }
        Remedy::SmallerBatch => "-b N with fewer tokens takes less memory",
        Remedy::SmallerModel => {
            "`rustorch quantize` writes a model in fewer bits; -c N with fewer tokens takes less, too"
        }
        Remedy::LeaveWeightsInFile => {
            "--no-repack leaves weights in the file; `rustorch quantize` writes a model in fewer bits"
        }
        Remedy::FewerLayers => {
            "-ngl N with fewer layers takes less of a graphics processor's memory, -c N with fewer tokens as well"
        }
        Remedy::UseCpu => "--backend cpu computes it",
        Remedy::RaiseLimit => {
            "--gpu-memory with more allows it; -ngl N with fewer layers or -c N with fewer tokens takes less"
        }
        // One that this program has no flag for; the error itself says it.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use backend::MemoryKind;

    use super::*;

    /// Whatever crate hands on what a backend said, and whatever it was doing, the flags are the same.
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
    }
}
