//! The cache of `huggingface_hub`, in its layout:
//!
//! ```text
//! models--USER--REPO/blobs/ETAG                   the bytes of a file
//! models--USER--REPO/snapshots/COMMIT/a/b.gguf    a link to ../../../blobs/ETAG
//! models--USER--REPO/refs/main                    the commit that `main` was at
//! .locks/models--USER--REPO/ETAG.lock
//! ```
//!
//! Files appear under `snapshots` only when they are complete.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::chunks;
use crate::name::{Commit, ETag, FileName, RepoId, Revision};
use crate::{Error, Lock};

/// What tells backup programs that a folder is a cache (<https://bford.info/cachedir/>).
const CACHEDIR_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This file is a cache directory tag created by rustorch, in the cache of huggingface_hub.\n\
    # For information about cache directory tags, see https://bford.info/cachedir/\n";

/// Ends the name of an unfinished blob. It is not `ETAG.incomplete`, as old versions of `huggingface_hub` would append to that.
const UNFINISHED: &str = "rustorch.incomplete";

/// A folder with repositories.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// A file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CachedFile {
    pub name: FileName,
    pub path: PathBuf,
    pub bytes: u64,
}

impl Cache {
    /// The cache in `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Cache {
        Cache { root: root.into() }
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The repositories in it, by name.
    pub fn repositories(&self) -> Result<Vec<RepoId>, Error> {
        let names = names_in(&self.root)?;
        let mut repositories: Vec<RepoId> =
            names.iter().filter_map(|name| RepoId::from_folder(name)).collect();
        repositories.sort();
        Ok(repositories)
    }

    /// The commits of `repo` with files: first that of `main`, then the newest.
    pub fn commits(&self, repo: &RepoId) -> Result<Vec<Commit>, Error> {
        let folder = self.folder(repo).join("snapshots");
        let main = self.resolved_commit(repo, &Revision::main());
        let changed = |commit: &Commit| {
            let metadata = fs::metadata(folder.join(commit.as_str()));
            metadata.and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut commits: Vec<Commit> =
            names_in(&folder)?.iter().filter_map(|name| Commit::new(name)).collect();
        commits.sort_by_cached_key(|commit| {
            (main.as_ref() != Some(commit), std::cmp::Reverse(changed(commit)), commit.clone())
        });
        Ok(commits)
    }

    /// The commit at which `revision` was when it was last downloaded.
    pub fn resolved_commit(&self, repo: &RepoId, revision: &Revision) -> Option<Commit> {
        let text = fs::read_to_string(self.folder(repo).join("refs").join(revision.path())).ok();
        text.and_then(|text| Commit::new(text.trim())).or_else(|| Commit::new(revision.as_str()))
    }

    /// The complete files of a commit, by name.
    pub fn files(&self, repo: &RepoId, commit: &Commit) -> Result<Vec<CachedFile>, Error> {
        let snapshot = self.snapshot(repo, commit);
        let (mut files, mut folders) = (Vec::new(), vec![snapshot.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in entries(&folder)? {
                let path = entry.path();
                // Metadata of the link's target; a dangling link is not a file.
                let Ok(metadata) = fs::metadata(&path) else { continue };
                if metadata.is_dir() && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if metadata.is_file()
                    && let Some(name) = FileName::below(&snapshot, &path)
                {
                    files.push(CachedFile { name, path, bytes: metadata.len() });
                }
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// Removes files of `repo` from all commits, with the blobs that no other file has, and the repository if nothing is left.
    /// Returns the number of bytes that this frees.
    /// Fails if something cannot be removed, or another process downloads one of these files.
    pub fn remove(&self, repo: &RepoId, names: &[FileName]) -> Result<u64, Error> {
        let folder = self.folder(repo);
        let (mut removed, mut kept) = (HashSet::new(), HashSet::new());
        let mut links = Vec::new();
        for commit in self.commits(repo)? {
            for file in self.files(repo, &commit)? {
                let blob = fs::canonicalize(&file.path).map_err(Error::cache("read", &file.path))?;
                if names.contains(&file.name) {
                    links.push(file.path);
                    removed.insert(blob);
                } else {
                    kept.insert(blob);
                }
            }
        }
        let (mut freed, mut blobs) = (0, Vec::new());
        for blob in removed.difference(&kept) {
            let tag = blob.file_name().and_then(|name| name.to_str()).and_then(ETag::from_header);
            // Files without links, as on Windows, are gone.
            let Some(tag) =
                tag.filter(|_| blob.exists() && blob.parent().is_some_and(|at| at.ends_with("blobs")))
            else {
                continue;
            };
            blobs.push((blob, self.lock_alone(repo, &tag)?));
        }
        for link in &links {
            fs::remove_file(link).map_err(Error::cache("remove", link))?;
        }
        for (blob, _lock) in &blobs {
            freed += fs::metadata(blob).map_or(0, |metadata| metadata.len());
            fs::remove_file(blob).map_err(Error::cache("remove", blob))?;
        }
        drop(blobs);
        remove_empty_folders(&folder.join("snapshots"));
        // A download that goes on needs its folder.
        let unfinished = self.unfinished_blobs(repo)?.into_iter();
        let locks: Result<Vec<Lock>, Error> =
            unfinished.map(|(tag, _)| self.lock_alone(repo, &tag)).collect();
        if self.commits(repo)?.is_empty() && locks.is_ok() {
            for folder in [folder, self.root.join(".locks").join(repo.folder())] {
                chunks::removed(fs::remove_dir_all(&folder), &folder)?;
            }
        }
        Ok(freed)
    }

    fn folder(&self, repo: &RepoId) -> PathBuf {
        self.root.join(repo.folder())
    }

    fn snapshot(&self, repo: &RepoId, commit: &Commit) -> PathBuf {
        self.folder(repo).join("snapshots").join(commit.as_str())
    }

    pub(crate) fn pointer(&self, repo: &RepoId, commit: &Commit, name: &FileName) -> PathBuf {
        self.snapshot(repo, commit).join(name.path())
    }

    pub(crate) fn blob(&self, repo: &RepoId, tag: &ETag) -> PathBuf {
        self.folder(repo).join("blobs").join(tag.as_str())
    }

    pub(crate) fn unfinished(&self, repo: &RepoId, tag: &ETag) -> PathBuf {
        self.blob(repo, tag).with_added_extension(UNFINISHED)
    }

    pub(crate) fn lock(&self, repo: &RepoId, tag: &ETag) -> PathBuf {
        self.root.join(".locks").join(repo.folder()).join(format!("{tag}.lock"))
    }

    pub(crate) fn prepare(&self, repo: &RepoId) -> Result<(), Error> {
        for folder in ["blobs", "refs", "snapshots"].map(|name| self.folder(repo).join(name)) {
            fs::create_dir_all(&folder).map_err(Error::cache("create", folder))?;
        }
        let tag = self.root.join("CACHEDIR.TAG");
        if !tag.exists() {
            // Nothing depends on it.
            let _ = fs::write(tag, CACHEDIR_TAG);
        }
        Ok(())
    }

    pub(crate) fn link(
        &self,
        repo: &RepoId,
        commit: &Commit,
        name: &FileName,
        tag: &ETag,
    ) -> Result<PathBuf, Error> {
        let (blob, pointer) = (self.blob(repo, tag), self.pointer(repo, commit, name));
        if pointer.exists() {
            return Ok(pointer);
        }
        chunks::create_parent(&pointer)?;
        // A link that leads nowhere is in the way.
        let _ = fs::remove_file(&pointer);
        let depth = name.as_str().split('/').count() + 1;
        let target = std::iter::repeat_n("..", depth).chain(["blobs", tag.as_str()]).collect::<PathBuf>();
        match symlink(&target, &blob, &pointer) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(pointer),
            Err(error) => Err(Error::cache("create", pointer)(error)),
            Ok(()) => Ok(pointer),
        }
    }

    pub(crate) fn set_ref(&self, repo: &RepoId, revision: &Revision, commit: &Commit) -> Result<(), Error> {
        if revision.as_str() == commit.as_str() {
            return Ok(());
        }
        let path = self.folder(repo).join("refs").join(revision.path());
        if fs::read_to_string(&path).is_ok_and(|known| known == commit.as_str()) {
            return Ok(());
        }
        let temporary = path.with_added_extension(format!("{}.tmp", std::process::id()));
        chunks::create_parent(&path)?;
        fs::write(&temporary, commit.as_str())
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(Error::cache("write", path))
    }

    /// Removes what is left of interrupted downloads of `repo`. Returns the number of bytes.
    /// Fails if something cannot be removed, or a download goes on.
    pub fn remove_unfinished(&self, repo: &RepoId) -> Result<u64, Error> {
        let mut freed = 0;
        for (tag, path) in self.unfinished_blobs(repo)? {
            let _lock = self.lock_alone(repo, &tag)?;
            freed += fs::metadata(&path).map_or(0, |metadata| metadata.len());
            chunks::remove(&path)?;
        }
        Ok(freed)
    }

    /// Checks that no process downloads a file of `repo`. Fails if one does, or if a folder cannot be read.
    pub fn check_idle(&self, repo: &RepoId) -> Result<(), Error> {
        self.unfinished_blobs(repo)?.iter().try_for_each(|(tag, _)| self.lock_alone(repo, tag).map(drop))
    }

    fn unfinished_blobs(&self, repo: &RepoId) -> Result<Vec<(ETag, PathBuf)>, Error> {
        let blobs = self.folder(repo).join("blobs");
        let tag = |name: &str| ETag::from_header(name.strip_suffix(UNFINISHED)?.strip_suffix('.')?);
        let names = names_in(&blobs)?.into_iter();
        Ok(names.filter_map(|name| Some((tag(&name)?, blobs.join(name)))).collect())
    }

    /// The lock on a blob, unless another process downloads it.
    fn lock_alone(&self, repo: &RepoId, tag: &ETag) -> Result<Lock, Error> {
        Lock::try_acquire(&self.lock(repo, tag))?.ok_or_else(|| Error::Busy { repo: repo.clone() })
    }
}

#[cfg(unix)]
fn symlink(target: &Path, _blob: &Path, pointer: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, pointer)
}

/// Without the right to create links, the blob itself is moved, as `huggingface_hub` does.
#[cfg(not(unix))]
fn symlink(target: &Path, blob: &Path, pointer: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, pointer).or_else(|_| fs::rename(blob, pointer))
}

fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>, Error> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<_>>().map_err(Error::cache("read", folder)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(Error::cache("read", folder)(error)),
    }
}

fn names_in(folder: &Path) -> Result<Vec<String>, Error> {
    Ok(entries(folder)?.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

fn remove_empty_folders(folder: &Path) {
    for entry in entries(folder).unwrap_or_default() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty_folders(&entry.path());
            // Fails if it is not empty.
            let _ = fs::remove_dir(entry.path());
        }
    }
}
