//! A hub, a cache and a client.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hub::{Cache, Client, Error, Event, Fetched, FileName, Patience, RepoId, Revision, Settings, Snapshot};
use tempfile::TempDir;
use testkit::hub::Hub;

pub(crate) const REPO: &str = "user/Model-GGUF";
pub(crate) const FILE: &str = "Model-Q4_K_M.gguf";

pub(crate) const MIB: usize = 1 << 20;

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) folder: TempDir,
    pub(crate) cache: Cache,
    pub(crate) settings: Settings,
}

impl World {
    /// A hub with a file of this size.
    pub(crate) fn with(size: usize) -> World {
        let (hub, folder) = (Hub::start(), TempDir::new().expect("a folder"));
        hub.add(REPO, FILE, bytes(size));
        let get = |name: &str| match name {
            "HF_ENDPOINT" => Some(hub.endpoint.clone().into()),
            "HF_HOME" => Some(folder.path().into()),
            _ => None,
        };
        let mut settings = Settings::read(&get, None).expect("settings");
        settings.patience = Patience {
            first_wait: Duration::from_millis(10),
            stall: Duration::from_millis(400),
            ..Patience::default()
        };
        World { cache: Cache::new(&settings.cache), hub, folder, settings }
    }

    /// With this token.
    pub(crate) fn token(mut self, token: &str) -> World {
        let get = |name: &str| match name {
            "HF_TOKEN" => Some(token.into()),
            "HF_HOME" => Some(self.folder.path().into()),
            _ => None,
        };
        self.settings.token = Settings::read(&get, None).expect("settings").token;
        self
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.settings).expect("a client")
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        self.client().snapshot(&repo(), &Revision::main(), &|_| {})
    }

    /// Pulls the file.
    pub(crate) fn pull(&self) -> Result<Fetched, Error> {
        self.pull_watched(&|_| {})
    }

    pub(crate) fn pull_watched(&self, watch: &(dyn Fn(Event<'_>) + Sync)) -> Result<Fetched, Error> {
        let mut fetched = self.client().pull(&self.cache, &self.snapshot()?, &[name(FILE)], watch)?;
        Ok(fetched.remove(0))
    }

    /// The error of a pull.
    #[track_caller]
    pub(crate) fn refused(&self) -> Error {
        let error = self.pull().expect_err("a refusal");
        assert_eq!(self.visible(), [] as [PathBuf; 0], "{error}");
        error
    }

    /// Everything in the folders of snapshots.
    pub(crate) fn visible(&self) -> Vec<PathBuf> {
        let snapshots = self.folder_of_repo().join("snapshots");
        files_in(&snapshots)
    }

    pub(crate) fn folder_of_repo(&self) -> PathBuf {
        self.settings.cache.join("models--user--Model-GGUF")
    }
}

/// Files and links in `folder` and below, in order.
pub(crate) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files_in(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

pub(crate) fn repo() -> RepoId {
    REPO.parse().expect("a repository")
}

pub(crate) fn name(file: &str) -> FileName {
    file.parse().expect("a file")
}

/// Bytes that differ from place to place.
pub(crate) fn bytes(size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
