//! The model to try instead of the embedded one.

use std::fmt;

use backend::host_memory;
use gguf::Gguf;
use hub::Settings;

use super::held::Held;
use super::stores;
use crate::output::printable;

/// Small, good at chatting, and with an open licence; the size of the download.
const DOWNLOAD: (&str, &str) = ("qwen3:0.6b", "0.6 GB");

/// What to give to `-m`.
#[derive(Debug, PartialEq)]
pub(crate) enum Suggestion {
    Here(String),
    Download,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suggestion::Here(name) => write!(f, "-m {}, which is here", printable(name, "")),
            Suggestion::Download => write!(f, "-m {} ({} to download)", DOWNLOAD.0, DOWNLOAD.1),
        }
    }
}

/// A chat model on this machine: the largest that leaves half of the free memory, or else the smallest. Without any, a small one
/// to download.
pub(crate) fn suggestion() -> Suggestion {
    let held = Settings::from_env().map_err(Into::into).and_then(|settings| stores::all(&settings));
    let room = host_memory().free.map_or(u64::MAX, |free| free / 2);
    let mut held: Vec<Held> = held.unwrap_or_default();
    held.sort_by_key(|held| {
        (held.bytes > room, if held.bytes > room { held.bytes } else { room - held.bytes })
    });
    let chosen = held.into_iter().find(chats);
    chosen.map_or(Suggestion::Download, |held| Suggestion::Here(held.name))
}

/// Whether it is of a known family and has a chat template.
fn chats(held: &Held) -> bool {
    let Ok(file) = Gguf::open(held.path()) else { return false };
    let model = models::Model::from_metadata(file.metadata(), &|name| file.tensor(name).is_some());
    file.metadata().contains("tokenizer.chat_template")
        && model.is_ok_and(|model| model.config.pooling.is_none())
}
