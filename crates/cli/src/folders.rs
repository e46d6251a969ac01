//! The user's folders: `~/.rustorch/models`, and those of the XDG Base Directory Specification.

use std::path::{Path, PathBuf};

/// For the configuration file.
pub(crate) fn config() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", &[".config"])
}

/// For the history of chats.
pub(crate) fn data() -> Option<PathBuf> {
    xdg("XDG_DATA_HOME", &[".local", "share"])
}

/// For models from addresses.
pub(crate) fn cache() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", &[".cache"])
}

/// For models without a path.
pub(crate) fn models() -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(".rustorch").join("models"))
}

/// Replaces `~` at the beginning of `path`, as a shell does.
pub(crate) fn expand(path: &Path) -> PathBuf {
    let expanded = path.strip_prefix("~").ok().and_then(|rest| Some(std::env::home_dir()?.join(rest)));
    expanded.unwrap_or_else(|| path.to_owned())
}

/// Our folder in that of `variable`, or under home; the specification ignores relative paths.
fn xdg(variable: &str, under_home: &[&str]) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder =
        named.or_else(|| Some(std::env::home_dir()?.join(under_home.iter().collect::<PathBuf>())))?;
    Some(folder.join("rustorch"))
}
