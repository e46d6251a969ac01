//! The hub: what a repository has, and its files in the cache.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use ureq::http::Uri;

use crate::address::{encode_part, encode_path};
use crate::chunks;
use crate::download::{Task, fetch};
use crate::http::{Follow, Http, Method, Subject};
use crate::name::{Commit, ETag, FileName, RepoId, Revision, Sha256};
use crate::{Cache, Error, Event, Lock, Settings, Watch, address};

/// Access to the hub.
#[derive(Debug)]
pub struct Client {
    http: Http,
    endpoint: String,
    is_offline: bool,
}

/// A repository at a commit.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Snapshot {
    pub repo: RepoId,
    pub revision: Revision,
    pub commit: Commit,
    pub files: Vec<RemoteFile>,
    /// Whether the owner decides who may download the files.
    pub is_gated: bool,
    pub license: Option<String>,
    /// Downloads in a month.
    pub downloads: Option<u64>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RemoteFile {
    pub name: FileName,
    pub bytes: Option<u64>,
    /// If it is in LFS.
    pub sha256: Option<Sha256>,
}

/// A file in the cache or beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Fetched {
    pub path: PathBuf,
    pub bytes: u64,
    /// Bytes of it that came over the network now.
    pub transferred: u64,
}

/// The answer to `/api/models/REPO/revision/REVISION?blobs=true`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelInfo {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
    /// `false`, `"auto"` or `"manual"`.
    #[serde(default)]
    gated: serde_json::Value,
    downloads: Option<u64>,
    card_data: Option<CardData>,
}

#[derive(Deserialize)]
struct CardData {
    /// A text, or several.
    #[serde(default)]
    license: serde_json::Value,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

struct Described {
    tag: Option<ETag>,
    size: Option<u64>,
    at: Uri,
}

impl Client {
    /// A client with these settings. Fails if the endpoint is no address, or the certificates cannot be read.
    pub fn new(settings: &Settings) -> Result<Client, Error> {
        Ok(Client {
            http: Http::new(settings)?,
            endpoint: settings.endpoint.clone(),
            is_offline: settings.offline,
        })
    }

    /// What `repo` has at `revision`. Files whose names would lead out of the cache are left out.
    /// Fails if the hub cannot be reached, or does not show the repository.
    pub fn snapshot(&self, repo: &RepoId, revision: &Revision, watch: Watch<'_>) -> Result<Snapshot, Error> {
        self.go_online(repo)?;
        let uri = format!(
            "{}/api/models/{repo}/revision/{}?blobs=true",
            self.endpoint,
            encode_part(revision.as_str())
        );
        let (uri, subject) = (address::parse(&uri)?, Subject::Repo(repo, revision));
        let info = self.http.persist(watch, || {
            let reply = self.http.send(Method::Get, &uri, None, Follow::All, subject)?;
            reply.json::<ModelInfo>()
        })?;
        let commit = Commit::new(&info.sha)
            .ok_or_else(|| address::unexpected(&uri, format!("{:?} is no commit", info.sha)))?;
        let license = info.card_data.map(|card| card.license);
        Ok(Snapshot {
            repo: repo.clone(),
            revision: revision.clone(),
            commit,
            files: info.siblings.into_iter().filter_map(RemoteFile::new).collect(),
            is_gated: !matches!(info.gated, serde_json::Value::Null | serde_json::Value::Bool(false)),
            license: license.and_then(|license| license.as_str().map(str::to_owned)),
            downloads: info.downloads,
        })
    }

    /// Brings files of a snapshot into the cache, those that are not there. When all are, the cache knows the revision.
    /// Fails if a file cannot be had, or the cache cannot be written. What has come of it is kept.
    pub fn pull(
        &self,
        cache: &Cache,
        snapshot: &Snapshot,
        files: &[FileName],
        watch: Watch<'_>,
    ) -> Result<Vec<Fetched>, Error> {
        let Snapshot { repo, revision, commit, .. } = snapshot;
        let fetched = files.iter().enumerate().map(|(number, name)| {
            watch(Event::File { number, of: files.len(), name: name.as_str() });
            self.pull_file(cache, snapshot, name, watch)
        });
        let fetched = fetched.collect::<Result<Vec<_>, Error>>()?;
        let recorded = cache.set_ref(repo, revision, commit);
        // A cache that cannot be written may still be read.
        if fetched.iter().any(|file| file.transferred > 0) {
            recorded?;
        }
        Ok(fetched)
    }

    fn pull_file(
        &self,
        cache: &Cache,
        snapshot: &Snapshot,
        name: &FileName,
        watch: Watch<'_>,
    ) -> Result<Fetched, Error> {
        let Snapshot { repo, commit, revision, files, .. } = snapshot;
        let pointer = cache.pointer(repo, commit, name);
        if let Ok(metadata) = fs::metadata(&pointer) {
            return Ok(Fetched { path: pointer, bytes: metadata.len(), transferred: 0 });
        }
        self.go_online(repo)?;
        let (uri, subject) = (self.resolve(snapshot, name)?, Subject::File(repo, revision, name));
        let described = self.describe(&uri, subject, watch)?;
        let announced = files.iter().find(|file| file.name == *name);
        let tag = described.tag.ok_or_else(|| address::unexpected(&uri, "the file has no ETag"))?;
        let size = described.size.or_else(|| announced?.bytes);
        let size = size.ok_or_else(|| address::unexpected(&uri, "the file has no size"))?;
        cache.prepare(repo)?;
        let _lock = Lock::acquire(&cache.lock(repo, &tag), watch)?;
        let blob = cache.blob(repo, &tag);
        let transferred = if blob.exists() {
            0
        } else {
            let locate = || Ok(self.describe(&uri, subject, watch)?.at);
            let task = Task {
                http: &self.http,
                locate: &locate,
                subject,
                name: name.as_str(),
                unfinished: cache.unfinished(repo, &tag),
                target: blob,
                identity: tag.to_string(),
                size,
                sha256: tag.sha256().or_else(|| announced?.sha256.clone()),
            };
            fetch(&task, described.at, watch)?
        };
        let path = cache.link(repo, commit, name, &tag)?;
        Ok(Fetched { path, bytes: size, transferred })
    }

    /// Downloads a file that is not on the hub to `target`, if it is not there.
    pub fn pull_address(&self, url: &str, target: &Path, watch: Watch<'_>) -> Result<Fetched, Error> {
        if let Ok(metadata) = fs::metadata(target) {
            return Ok(Fetched { path: target.to_owned(), bytes: metadata.len(), transferred: 0 });
        }
        self.go_online(url)?;
        let uri = address::parse(url)?;
        let described = self.describe_by_part(&uri, watch)?;
        let size = described.size.ok_or_else(|| address::unexpected(&uri, "the file has no size"))?;
        chunks::create_parent(target)?;
        let _lock = Lock::acquire(&target.with_added_extension("lock"), watch)?;
        if target.exists() {
            return Ok(Fetched { path: target.to_owned(), bytes: size, transferred: 0 });
        }
        let locate = || Ok(uri.clone());
        let task = Task {
            http: &self.http,
            locate: &locate,
            subject: Subject::Elsewhere,
            name: url,
            unfinished: target.with_added_extension("incomplete"),
            target: target.to_owned(),
            identity: described.tag.as_ref().map_or_else(|| "-".to_owned(), ETag::to_string),
            size,
            sha256: None,
        };
        // Without a tag, parts of another version could be continued.
        if described.tag.is_none() {
            chunks::remove(&task.unfinished)?;
        }
        let transferred = fetch(&task, described.at, watch)?;
        Ok(Fetched { path: target.to_owned(), bytes: size, transferred })
    }

    /// The first bytes of a file, at most `most`.
    pub fn head(
        &self,
        snapshot: &Snapshot,
        name: &FileName,
        most: u64,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        let Snapshot { repo, revision, .. } = snapshot;
        self.go_online(repo)?;
        let (uri, subject) = (self.resolve(snapshot, name)?, Subject::File(repo, revision, name));
        self.http.persist(watch, || {
            let reply = self.http.send(Method::Get, &uri, Some(&(0..most)), Follow::All, subject)?;
            reply.into_body().bytes(most)
        })
    }

    fn resolve(&self, Snapshot { repo, commit, .. }: &Snapshot, name: &FileName) -> Result<Uri, Error> {
        address::parse(&format!("{}/{repo}/resolve/{commit}/{}", self.endpoint, encode_path(name.as_str())))
    }

    fn describe(&self, uri: &Uri, subject: Subject<'_>, watch: Watch<'_>) -> Result<Described, Error> {
        self.http.persist(watch, || {
            let reply = self.http.send(Method::Head, uri, None, Follow::OnHub, subject)?;
            let tag = reply.header("x-linked-etag").or_else(|| reply.header("etag"));
            let linked = reply.header("x-linked-size").and_then(|size| size.trim().parse().ok());
            let own = reply.len().filter(|_| reply.status.is_success());
            Ok(Described { tag: tag.and_then(ETag::from_header), size: linked.or(own), at: reply.target()? })
        })
    }

    /// Asks any server about a file by its first byte: those of signed addresses refuse `HEAD`.
    fn describe_by_part(&self, uri: &Uri, watch: Watch<'_>) -> Result<Described, Error> {
        self.http.persist(watch, || {
            let reply = self.http.send(Method::Get, uri, Some(&(0..1)), Follow::All, Subject::Elsewhere)?;
            let tag = reply.header("etag").and_then(ETag::from_header);
            let size = reply.content_range().map(|(_, size)| size).or_else(|| reply.len());
            Ok(Described { tag, size, at: reply.target()? })
        })
    }

    fn go_online(&self, what: impl ToString) -> Result<(), Error> {
        if self.is_offline { Err(Error::Offline { what: what.to_string() }) } else { Ok(()) }
    }
}

impl RemoteFile {
    fn new(sibling: Sibling) -> Option<RemoteFile> {
        let Sibling { rfilename, size, lfs } = sibling;
        let lfs_ref = lfs.as_ref();
        Some(RemoteFile {
            name: rfilename.parse().ok()?,
            bytes: size.or_else(|| lfs_ref?.size),
            sha256: lfs_ref.and_then(|lfs| Sha256::from_hex(lfs.sha256.as_deref()?)),
        })
    }
}
