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
pub enum Event<'a> {
    /// A file is next.
    File {
        /// Counted from 0.
        number: usize,
        /// Of so many.
        of: usize,
        /// Its name.
        name: &'a str,
    },
    /// Another process downloads the same file.
    Waiting,
    /// The transfer begins.
    Started {
        /// Bytes that an earlier process has got.
        done: u64,
        /// Size of the file.
        total: u64,
    },
    /// Bytes have come.
    Received {
        /// In all; less than before if a connection broke off.
        done: u64,
        /// Size of the file.
        total: u64,
    },
    /// The hash is being computed.
    Checked {
        /// Bytes so far.
        done: u64,
        /// Size of the file.
        total: u64,
    },
    /// A request failed and is repeated.
    Retrying {
        /// Why.
        error: &'a Error,
        /// When.
        wait: Duration,
    },
}

/// The callback for events, called from several threads.
pub type Watch<'a> = &'a (dyn Fn(Event<'_>) + Sync);
