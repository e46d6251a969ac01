//! What a model's name may be: a file, a repository on the hub, an address, or a short name.

use std::fmt;
use std::path::{Path, PathBuf};

use hub::{FileName, RepoId, Revision};

use crate::folders;

/// Hosts of the hub.
const HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Name {
    File(PathBuf),
    Hub(HubName),
    /// Of a file that is not on the hub.
    Address(String),
    /// Without a slash: a short name, or that of a file in `~/.rustorch/models`.
    Short(String),
}

/// `user/repo`, a quantisation or a file of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HubName {
    pub(crate) repo: RepoId,
    pub(crate) revision: Revision,
    pub(crate) part: Option<String>,
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.repo)?;
        if self.revision != Revision::main() {
            write!(f, "@{}", self.revision)?;
        }
        self.part.as_ref().map_or(Ok(()), |part| write!(f, ":{part}"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::File(path) => write!(f, "{}", path.display()),
            Name::Hub(name) => write!(f, "{name}"),
            Name::Address(text) | Name::Short(text) => f.write_str(text),
        }
    }
}

impl Name {
    /// Reads what was typed. A file that exists is never anything else.
    pub(crate) fn of(typed: &Path) -> anyhow::Result<Name> {
        let path = folders::expand(typed);
        // A folder may have the name of a repository.
        let is_file = path.exists() && !path.is_dir();
        let Some(text) = typed.to_str().filter(|_| !is_file) else { return Ok(Name::File(path)) };
        if text.starts_with("https://") || text.starts_with("http://") {
            return parse_address(text);
        }
        if let Some(rest) = HOSTS.iter().find_map(|host| text.strip_prefix(host)?.strip_prefix('/')) {
            return Ok(Name::Hub(parse_hub_path(rest)?));
        }
        // What follows a colon is a tag, a quantisation or a file in a repository.
        let named = text.split(':').next().unwrap_or_default();
        let parts = named.split(std::path::is_separator).count();
        let is_gguf = parts > 1 && named.to_lowercase().ends_with(".gguf");
        Ok(match parts {
            _ if is_gguf || text.starts_with(['.', '~']) || path.is_absolute() => Name::File(path),
            1 => Name::Short(text.to_owned()),
            // A name that the hub does not allow is a path.
            2 => HubName::of(text).map_or(Name::File(path), Name::Hub),
            _ => Name::File(path),
        })
    }
}

impl HubName {
    /// Reads `user/repo[@REVISION][:PART]`.
    pub(crate) fn of(text: &str) -> Result<HubName, hub::NameError> {
        let (repo, part) = text.split_once(':').map_or((text, None), |(repo, part)| (repo, Some(part)));
        let part = part.filter(|part| !part.is_empty()).map(str::to_owned);
        let (repo, revision) = match repo.split_once('@') {
            Some((repo, revision)) => (repo, revision.parse()?),
            None => (repo, Revision::main()),
        };
        Ok(HubName { repo: repo.parse()?, revision, part })
    }
}

fn parse_address(text: &str) -> anyhow::Result<Name> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if HOSTS.contains(&host) {
        return Ok(Name::Hub(parse_hub_path(path)?));
    }
    Ok(Name::Address(text.to_owned()))
}

/// Reads what follows the host: `user/repo[:PART]`, `user/repo/FILE` or `user/repo/resolve/REVISION/FILE`.
fn parse_hub_path(path: &str) -> anyhow::Result<HubName> {
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let (user, repo, rest) = match &parts[..] {
        [user, repo, rest @ ..] => (user, repo, rest),
        _ => return Ok(HubName::of(path)?),
    };
    let (revision, file) = match rest {
        ["resolve" | "blob" | "tree" | "raw", revision, file @ ..] => (revision.parse()?, file),
        file => (Revision::main(), file),
    };
    let mut name = HubName { revision, ..HubName::of(&format!("{user}/{repo}"))? };
    if !file.is_empty() {
        let file: FileName = file.join("/").replace("%20", " ").parse()?;
        name.part = Some(file.to_string());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(repo: &str, part: Option<&str>) -> Name {
        let (repo, part) = (repo.parse().expect("a repository"), part.map(str::to_owned));
        Name::Hub(HubName { repo, revision: Revision::main(), part })
    }

    #[track_caller]
    fn check(typed: &str, expected: Name) {
        assert_eq!(Name::of(Path::new(typed)).expect("a name"), expected, "{typed}");
    }

    #[test]
    fn repositories_may_be_given_in_several_ways() {
        check("Qwen/Qwen3-0.6B-GGUF", hub("Qwen/Qwen3-0.6B-GGUF", None));
        check("Qwen/Qwen3-0.6B-GGUF:q8_0", hub("Qwen/Qwen3-0.6B-GGUF", Some("q8_0")));
        check("hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0", hub("Qwen/Qwen3-0.6B-GGUF", Some("Q8_0")));
        check("a/b:folder/m-Q8_0.gguf", hub("a/b", Some("folder/m-Q8_0.gguf")));
        check("huggingface.co/a/b", hub("a/b", None));
        check("https://huggingface.co/a/b", hub("a/b", None));
        check("https://hf.co/a/b/tree/main", hub("a/b", None));
        check("https://huggingface.co/a/b/blob/main/c/d%20e.gguf?x=y", hub("a/b", Some("c/d e.gguf")));
        check("https://huggingface.co/a/b/resolve/main/m.gguf", hub("a/b", Some("m.gguf")));
        check("hf.co/a/b/m.gguf", hub("a/b", Some("m.gguf")));
        for typed in ["https://huggingface.co/a/b/resolve/v1/m.gguf", "a/b@v1:m.gguf"] {
            let at = Name::of(Path::new(typed)).expect("a name");
            assert_eq!(at.to_string(), "a/b@v1:m.gguf");
            assert!(matches!(at, Name::Hub(HubName { revision, .. }) if revision.as_str() == "v1"));
        }
    }

    #[test]
    fn other_names_are_files_addresses_or_short() {
        for path in ["no/such.gguf", "./a", "../a/b", "/a/b", "a/b/c", "a/b c", "Cargo.toml"] {
            check(path, Name::File(path.into()));
        }
        for short in ["qwen3:0.6b", "model", "model.gguf"] {
            check(short, Name::Short(short.to_owned()));
        }
        check("https://example.org/a/m.gguf", Name::Address("https://example.org/a/m.gguf".to_owned()));
        for bad in ["https://hf.co/a", "hf.co/../x", "https://hf.co/a/b/resolve/main/../../x"] {
            assert!(Name::of(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
