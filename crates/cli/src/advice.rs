//! What to do about an error of the engine, in the words of this program: its flags and commands.

use engine::{Error, Refusal};

/// What the user can do about it, when there is more to say than the error does.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    Some(match error.downcast_ref()? {
        Error::Prompt(Refusal::TooLong { .. }) => "-c N makes the context larger",
        Error::ConversationFull { .. } => {
            "-c N makes the context larger; in a chat, /clear begins a new conversation"
        }
        Error::Option { name: "n_ctx", .. } | Error::TrainedContext { .. } => "-c N sets the context",
        Error::Backend(backend::Error::OutOfMemory { .. }) => {
            "-c N with fewer tokens takes less memory, -ngl N with fewer layers less of a graphics processor's"
        }
        Error::Backend(backend::Error::Device { .. }) => {
            "in a chat, /backend cpu goes on with the conversation"
        }
        Error::Template(_) => "--raw sends text without the template; in a chat, /toggle does",
        _ => return None,
    })
}
