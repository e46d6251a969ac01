//! Names of repositories, revisions, commits, files and blobs. Each becomes a part of a path, so none can lead out of the cache.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A name that is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum NameError {
    #[error("`{name}` is not a repository: {why}; expected user/repo")]
    Repo { name: String, why: &'static str },
    #[error("{name:?} is refused: a file or revision has a relative path without `..`, `:` and `\\`")]
    File { name: String },
}

/// Names in the manner of paths, for `Display`, comparison and `as_str`.
macro_rules! text {
    ($visible:vis $name:ident) => {
        impl $name {
            /// The text.
            $visible fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Parses a name that stays below its folder, and makes it a path of this system.
macro_rules! relative_path {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<$name, NameError> {
                let refused = || NameError::File { name: name.to_owned() };
                stays_below(name).then(|| $name(name.to_owned())).ok_or_else(refused)
            }
        }

        impl $name {
            pub(crate) fn path(&self) -> PathBuf {
                self.0.split('/').collect()
            }
        }
    };
}

/// A repository of models, such as `Qwen/Qwen3-0.6B-GGUF`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoId(String);

text!(pub RepoId);

impl FromStr for RepoId {
    type Err = NameError;

    /// The hub's rules: `user/repo` of at most 96 letters, digits, `-`, `_` and `.`.
    fn from_str(name: &str) -> Result<RepoId, NameError> {
        let refuse = |why| Err(NameError::Repo { name: name.to_owned(), why });
        let Some((user, repo)) = name.split_once('/') else { return refuse("it has no user") };
        for part in [user, repo] {
            if part.is_empty() || !part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                return refuse("only letters, digits, -, _ and . are allowed");
            }
            if part.starts_with(['-', '.']) || part.ends_with(['-', '.']) {
                return refuse("neither part may begin or end with - or .");
            }
        }
        if name.contains("--") || name.contains("..") {
            return refuse("-- and .. are not allowed");
        }
        if name.len() > 96 || name.ends_with(".git") {
            return refuse("it may be no longer than 96 letters, and not end in .git");
        }
        Ok(RepoId(name.to_owned()))
    }
}

impl RepoId {
    pub(crate) fn folder(&self) -> String {
        format!("models--{}", self.0.replace('/', "--"))
    }

    pub(crate) fn from_folder(folder: &str) -> Option<RepoId> {
        folder.strip_prefix("models--")?.replacen("--", "/", 1).parse().ok()
    }
}

/// A file in a repository: a relative path with slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

text!(pub FileName);
relative_path!(FileName);

impl FileName {
    pub(crate) fn below(folder: &Path, path: &Path) -> Option<FileName> {
        let parts = path.strip_prefix(folder).ok()?.iter().map(|part| part.to_str());
        parts.collect::<Option<Vec<_>>>()?.join("/").parse().ok()
    }

    /// The part after the last slash.
    pub fn base(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

/// Whether `name`, a path with slashes, stays below the folder that it is relative to, on every system.
fn stays_below(name: &str) -> bool {
    let is_safe = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_plain = |c: char| !c.is_control() && c != '\\' && c != ':';
    name.len() <= 1024 && name.chars().all(is_plain) && name.split('/').all(is_safe)
}

/// A branch, a tag or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(String);

text!(pub Revision);
relative_path!(Revision);

impl Revision {
    /// The branch that repositories have from the beginning.
    pub fn main() -> Revision {
        Revision("main".to_owned())
    }
}

/// The hash of a commit: 40 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Commit(String);

text!(pub Commit);

impl Commit {
    pub(crate) fn new(text: &str) -> Option<Commit> {
        let is_hash = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Commit(text.to_owned()))
    }
}

/// The entity tag of a file, which names its blob: a SHA-256 for files in LFS, else a SHA-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ETag(String);

text!(pub(crate) ETag);

impl ETag {
    /// Reads the header `ETag`, strong or weak.
    pub(crate) fn from_header(header: &str) -> Option<ETag> {
        let tag = header.trim().trim_start_matches("W/").trim_matches('"');
        let is_name = !tag.is_empty()
            && tag.len() <= 128
            && !tag.starts_with('.')
            && tag.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        is_name.then(|| ETag(tag.to_owned()))
    }

    /// The SHA-256 of the file, if that is what it is.
    pub(crate) fn sha256(&self) -> Option<Sha256> {
        Sha256::from_hex(&self.0)
    }
}

/// A SHA-256 in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sha256(String);

text!(pub Sha256);

impl Sha256 {
    /// `None` if `hex` does not have 64 hexadecimal digits.
    pub(crate) fn from_hex(hex: &str) -> Option<Sha256> {
        let is_hash = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| Sha256(hex.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules and examples are those of `huggingface_hub.utils.validate_repo_id`.
    #[test]
    fn repositories_have_a_user_and_a_name() {
        for good in ["foo/bar", "Foo-BAR/foo.bar123", "a/b_c", "123/4"] {
            assert_eq!(good.parse::<RepoId>().map(|id| id.to_string()).ok(), Some(good.to_owned()));
        }
        let long = format!("a/{}", "b".repeat(95));
        for bad in [
            "foo", "foo/", "/foo", "a/b/c", "../x", "a/..", "a/.b", "a/b.", "-a/b", "a/b--c", "a/b.git",
            "a/b c", &long,
        ] {
            assert!(matches!(bad.parse::<RepoId>(), Err(NameError::Repo { .. })), "{bad}");
        }
    }

    #[test]
    fn folders_are_those_of_huggingface_hub() {
        let id: RepoId = "julien-c/EsperBERTo-small".parse().expect("a repository");
        assert_eq!(id.folder(), "models--julien-c--EsperBERTo-small");
        assert_eq!(RepoId::from_folder(&id.folder()), Some(id));
        assert_eq!(RepoId::from_folder("datasets--a--b"), None);
        assert_eq!(RepoId::from_folder("models--gpt2"), None);
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for good in ["a.gguf", "folder/a b.gguf", "..a/b..c", "ж.gguf"] {
            assert!(good.parse::<FileName>().is_ok(), "{good}");
        }
        for bad in
            ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/", "..\\a", "c:a", "a\0b", "a\nb"]
        {
            assert!(bad.parse::<FileName>().is_err(), "{bad:?}");
            assert!(bad.parse::<Revision>().is_err(), "{bad:?}");
        }
    }

    /// The first three are of `TestNormalizeEtag` in huggingface_hub.
    #[test]
    fn tags_lose_their_quotes() {
        for (header, tag) in [
            (
                "\"a16a55fda99d2f2e7b69cce5cf93ff4ad3049930\"",
                Some("a16a55fda99d2f2e7b69cce5cf93ff4ad3049930"),
            ),
            (
                "W/\"a16a55fda99d2f2e7b69cce5cf93ff4ad3049930\"",
                Some("a16a55fda99d2f2e7b69cce5cf93ff4ad3049930"),
            ),
            ("a16a55fda99d2f2e7b69cce5cf93ff4ad3049930", Some("a16a55fda99d2f2e7b69cce5cf93ff4ad3049930")),
            ("\"../../x\"", None),
            ("\"..\"", None),
            ("", None),
        ] {
            assert_eq!(ETag::from_header(header).as_ref().map(ETag::as_str), tag, "{header}");
        }
    }
}
