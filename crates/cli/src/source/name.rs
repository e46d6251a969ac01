//! A model's name: a file, a repository on the hub, an address, or a short name.

use std::fmt;
use std::path::{Path, PathBuf};

use hub::{FileName, RepoId, Revision};

use crate::files;

const HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Name {
    File(PathBuf),
    Hub(HubName),
    /// A file that is not on the hub.
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

impl Name {
    /// Reads what was typed. A file that exists is never anything else.
    pub(crate) fn of(typed: &Path) -> anyhow::Result<Name> {
        let path = files::expand(typed);
        // A folder may have the name of a repository.
        let is_file = path.exists() && !path.is_dir();
        let Some(text) = typed.to_str().filter(|_| !is_file) else { return Ok(Name::File(path)) };
        let address = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let (host, rest) = address.unwrap_or(text).split_once('/').unwrap_or_default();
        if HOSTS.contains(&host) {
            return Ok(Name::Hub(parse_hub_path(rest)?));
        }
        if address.is_some() {
            return Ok(Name::Address(text.to_owned()));
        }
        // A tag, a quantisation or a file in a repository follows a colon.
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

/// Short names, each with a repository and a quantisation.
const TABLE: &str = include_str!("short_names.txt");

pub(crate) fn short_names() -> impl Iterator<Item = (&'static str, HubName)> {
    let entries = TABLE.lines().filter(|line| !line.starts_with('#'));
    entries.filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, repo, quant) = (words.next()?, words.next()?, words.next()?);
        Some((name, HubName::of(&format!("{repo}:{quant}")).ok()?))
    })
}

/// The model of a short name; without a tag, the first of its family.
pub(crate) fn find_short(name: &str) -> Option<HubName> {
    let name = name.strip_suffix(":latest").unwrap_or(name);
    let is_it = |known: &str| {
        known.eq_ignore_ascii_case(name)
            || family(known).is_some_and(|family| family.eq_ignore_ascii_case(name))
    };
    short_names().find(|(known, _)| is_it(known)).map(|(_, target)| target)
}

pub(crate) fn short_tags(name: &str) -> Vec<&'static str> {
    let own = family(name).unwrap_or(name);
    short_names().filter(|(known, _)| family(known) == Some(own)).map(|(known, _)| known).collect()
}

fn family(name: &str) -> Option<&str> {
    name.split_once(':').map(|(family, _)| family)
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
            let Ok(Name::Hub(at)) = Name::of(Path::new(typed)) else { panic!("{typed} is on the hub") };
            assert_eq!((at.to_string(), at.revision.as_str()), ("a/b@v1:m.gguf".to_owned(), "v1"));
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

    #[test]
    fn every_line_of_the_table_is_an_entry() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count();
        assert_eq!(short_names().count(), lines);
        let mut names: Vec<_> = short_names().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines, "a name has two lines");
    }

    #[test]
    fn a_family_has_a_usual_size() {
        let target = |name| find_short(name).map(|target| target.to_string());
        assert_eq!(target("qwen3:0.6b").as_deref(), Some("Qwen/Qwen3-0.6B-GGUF:Q8_0"));
        assert_eq!(target("qwen3"), target("qwen3:8b"));
        assert_eq!(target("Qwen3:latest"), target("qwen3:8b"));
        assert_eq!(target("qwen"), None);
        assert!(short_tags("gemma3:9b").contains(&"gemma3:4b"));
    }
}
