//! The settings of `huggingface_hub`, from the same variables and files.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use regex::{Captures, Regex};

use crate::Error;

/// The public hub.
pub const ENDPOINT: &str = "https://huggingface.co";

/// Where the hub and the cache are, and how to reach them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the hub, without a slash at the end: `HF_ENDPOINT`.
    pub endpoint: String,
    /// Folder of the cache: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, which is by default `~/.cache/huggingface`.
    pub cache: PathBuf,
    /// `HF_TOKEN`, or the file that `hf auth login` writes.
    pub token: Option<Token>,
    /// Whether the network is off limits: `HF_HUB_OFFLINE`.
    pub offline: bool,
    /// PEM file with certificates to trust instead of the built-in ones: `SSL_CERT_FILE`.
    pub certificates: Option<PathBuf>,
    /// How long to wait and how often to try again.
    pub patience: Patience,
}

/// How long to wait for a server, and how often to try again.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Attempts that may fail in a row.
    pub attempts: u32,
    /// Wait before the second attempt; each later wait is twice as long.
    pub first_wait: Duration,
    /// Longest wait before another attempt, also if the server asks for more.
    pub longest_wait: Duration,
    /// Longest time without a byte.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            attempts: 6,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(300),
            stall: Duration::from_secs(20),
        }
    }
}

/// A secret that identifies the user, and where it is from.
#[derive(Clone)]
pub struct Token {
    pub(crate) secret: String,
    pub(crate) origin: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token of {}", self.origin)
    }
}

impl Token {
    /// `None` if `text` is blank.
    fn new(text: &str, origin: impl Into<String>) -> Option<Token> {
        let secret: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        (!secret.is_empty()).then(|| Token { secret, origin: origin.into() })
    }
}

impl Settings {
    /// Reads this process's environment.
    /// Fails if a token file cannot be read, a variable names a file instead of a folder, or neither a variable nor a home
    /// says where the cache is.
    pub fn from_env() -> Result<Settings, Error> {
        Settings::read(&|name| std::env::var_os(name), std::env::home_dir())
    }

    /// Reads variables by `get`; empty ones count as missing.
    pub fn read(get: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Result<Settings, Error> {
        let text = |name: &str| {
            get(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
        };
        let path = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let is_true = |name: &str| {
            text(name).is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&&*value.to_uppercase()))
        };
        let expand = |path: PathBuf| expand(&path, &text, home.as_deref());
        for variable in ["HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"] {
            if let Some(path) = path(variable).map(expand).filter(|path| path.is_file()) {
                return Err(Error::NoFolder { variable, path });
            }
        }
        let caches = || path("XDG_CACHE_HOME").or_else(|| Some(home.as_deref()?.join(".cache")));
        let hub_home = path("HF_HOME").or_else(|| Some(caches()?.join("huggingface"))).map(expand);
        let cache = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE")).map(expand);
        let cache = cache.or_else(|| Some(hub_home.as_deref()?.join("hub"))).ok_or(Error::NoHome)?;
        let token_file = path("HF_TOKEN_PATH")
            .map(expand)
            .or_else(|| hub_home.as_deref().map(|hub_home| hub_home.join("token")));
        let named = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];
        let token = match named.iter().find_map(|name| Token::new(&text(name)?, *name)) {
            Some(token) => Some(token),
            None => token_file.as_deref().map(read_token).transpose()?.flatten(),
        };
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        Ok(Settings {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache,
            token: token.filter(|_| !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")),
            offline: is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"),
            certificates: path("SSL_CERT_FILE"),
            patience: Patience::default(),
        })
    }
}

/// The token in `path`, if there is such a file.
fn read_token(path: &Path) -> Result<Option<Token>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Token::new(&text, path.display().to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Token { path: path.to_owned(), source }),
    }
}

/// Replaces `~` at the beginning, and variables `$NAME` and `${NAME}` that are set, as Python's `expanduser` and `expandvars`.
fn expand(path: &Path, text: &dyn Fn(&str) -> Option<String>, home: Option<&Path>) -> PathBuf {
    static VARIABLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\$(?:\{([^}]*)\}|([A-Za-z0-9_]+))").expect("a valid pattern"));
    let in_home = path.strip_prefix("~").ok().and_then(|rest| Some(home?.join(rest)));
    let path = in_home.unwrap_or_else(|| path.to_owned());
    let Some(spelt) = path.to_str().filter(|spelt| spelt.contains('$')) else { return path };
    let value = |found: &Captures<'_>| {
        let name = found.get(1).or(found.get(2)).map_or("", |name| name.as_str());
        text(name).unwrap_or_else(|| found[0].to_owned())
    };
    VARIABLE.replace_all(spelt, value).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        let get =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        Settings::read(&get, Some("/home/u".into())).expect("settings")
    }

    /// The expected values are those of `huggingface_hub.constants` under these variables.
    #[test]
    fn the_cache_is_where_huggingface_hub_has_it() {
        for (variables, cache) in [
            (&[][..], "/home/u/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HF_HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/h/hub"),
            (&[("HF_HOME", "~/h")], "/home/u/h/hub"),
            (&[("HF_HOME", "$D/h"), ("D", "/d")], "/d/h/hub"),
            (&[("HF_HOME", "${NONE}/h")], "${NONE}/h/hub"),
            (&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/h")], "/c"),
            (&[("HUGGINGFACE_HUB_CACHE", "/old")], "/old"),
            (&[("HF_HUB_CACHE", "")], "/home/u/.cache/huggingface/hub"),
        ] {
            assert_eq!(read(variables).cache, Path::new(cache), "{variables:?}");
        }
    }

    #[test]
    fn switches_and_endpoint_are_read() {
        let settings = read(&[]);
        assert_eq!((&*settings.endpoint, settings.offline), (ENDPOINT, false));
        let settings = read(&[("HF_ENDPOINT", "http://mirror:80/"), ("HF_HUB_OFFLINE", "yes")]);
        assert_eq!((&*settings.endpoint, settings.offline), ("http://mirror:80", true));
    }

    #[test]
    fn a_file_is_no_place_for_models() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for variable in ["HF_HOME", "HF_HUB_CACHE"] {
            let get = |name: &str| (name == variable).then(|| file.path().into());
            let error = Settings::read(&get, Some("/home/u".into())).expect_err("a refusal").to_string();
            assert!(error.starts_with(variable) && error.contains("is a file"), "{error}");
        }
    }

    #[test]
    fn tokens_are_found_and_kept_secret() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("token");
        fs::write(&file, "hf_of_file\n").expect("a file");
        let home = folder.path().to_str().expect("UTF-8");
        let of_file = read(&[("HF_HOME", home)]).token.expect("a token");
        assert_eq!(of_file.secret, "hf_of_file");
        assert_eq!(of_file.origin, file.display().to_string());
        assert!(!format!("{of_file:?}").contains("hf_of_file"));
        let named = read(&[("HF_HOME", home), ("HF_TOKEN", " hf_named ")]).token.expect("a token");
        assert_eq!((&*named.secret, &*named.origin), ("hf_named", "HF_TOKEN"));
        let hidden = [("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")];
        assert!(read(&hidden).token.is_none());
    }
}
