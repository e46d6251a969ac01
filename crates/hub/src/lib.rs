//! Models on the Hugging Face hub: their names, files and quantisations, downloads that continue where they stopped, and the
//! cache that `huggingface_hub` and llama.cpp use as well.
//!
//! The crate `hf-hub` (1.0.0) does not serve: it starts an interrupted file again at its first byte, over one connection, and
//! compares no SHA-256. With its async runtime, `reqwest` and `hf-xet` it is 327 packages.
//!
//! ```no_run
//! use hub::{Cache, Client, Revision, Settings, choice};
//!
//! let settings = Settings::from_env()?;
//! let (client, cache) = (Client::new(&settings)?, Cache::new(&settings.cache));
//! let snapshot = client.snapshot(&"Qwen/Qwen3-0.6B-GGUF".parse()?, &Revision::main(), &|_| {})?;
//! let models = choice::models(snapshot.files.iter().map(|file| (file.name.clone(), file.bytes)));
//! if let Some((model, _)) = choice::choose(&models, Some("Q8_0")) {
//!     let files = client.pull(&cache, &snapshot, &model.names(), &|event| eprintln!("{event:?}"))?;
//!     println!("{}", files[0].path.display());
//! }
//! # Ok::<(), hub::Error>(())
//! ```

mod address;
mod cache;
pub mod choice;
mod chunks;
mod client;
mod download;
mod error;
mod http;
mod lock;
mod name;
mod proxy;
mod settings;

use std::time::Duration;

pub use cache::{Cache, CachedFile};
pub use client::{Client, Fetched, RemoteFile, Snapshot};
pub use error::Error;
pub use name::{Commit, FileName, NameError, RepoId, Revision, Sha256};
pub use settings::{ENDPOINT, Patience, Settings, Token};

use lock::Lock;

/// What happens during a download.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum Event<'a> {
    File {
        /// Counted from 0.
        number: usize,
        of: usize,
        name: &'a str,
    },
    Waiting,
    Started {
        /// Bytes that an earlier process has got.
        done: u64,
        total: u64,
    },
    Received {
        /// In all; less than before if a connection broke off.
        done: u64,
        total: u64,
    },
    Checked {
        done: u64,
        total: u64,
    },
    Retrying {
        error: &'a Error,
        wait: Duration,
    },
}

/// The callback for events, called from several threads.
pub type Watch<'a> = &'a (dyn Fn(Event<'_>) + Sync);
