//! Running the program away from its user's settings.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::fixtures::Spec;

/// A home of its own with a small model in it.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    pub(crate) model: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home::with(&Spec { layers: 1, ..Spec::new(quant::Format::F32) })
    }

    pub(crate) fn with(spec: &Spec) -> Home {
        let folder = TempDir::new().expect("a temporary folder");
        let model = folder.path().join("model.gguf");
        spec.write_to(&model).expect("the model is written");
        Home { folder, model }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these arguments, split at spaces; `MODEL` stands for the model's path.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rustorch"));
        let of_user =
            |name: &str| ["RUSTORCH_", "HF_", "OLLAMA_"].iter().any(|prefix| name.starts_with(prefix));
        for (name, _) in std::env::vars_os().filter(|(name, _)| of_user(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        // The same results with and without a GPU.
        command.env("RUSTORCH_BACKEND", "cpu");
        let arg = |arg: &str| if arg == "MODEL" { self.model.clone().into_os_string() } else { arg.into() };
        command.args(args.split_whitespace().map(arg));
        let config = self.path(".config");
        command
            .env("HOME", self.folder.path())
            .env("XDG_CONFIG_HOME", config)
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("COLUMNS");
        for proxy in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
            command.env_remove(proxy).env_remove(proxy.to_lowercase());
        }
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &str) -> Ran {
        Ran::from(self.command(args).output().expect("the program starts"))
    }

    pub(crate) fn run_with(&self, args: &str, more: &[&str]) -> Ran {
        Ran::from(self.command(args).args(more).output().expect("the program starts"))
    }

    pub(crate) fn pipe(&self, args: &str, input: impl AsRef<[u8]>) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.as_ref().to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().expect("the program ends");
        // It may have ended before it read everything.
        let _ = writer.join().expect("the writer ends");
        Ran::from(output)
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ran {
    /// What went to stdout, when all went well and nothing was said.
    #[track_caller]
    pub(crate) fn quiet(self) -> String {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// What went to stdout, when all went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// The message, when it failed with this code and left stdout alone.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        self.stderr
    }

    /// The same, after notes about what was done before it failed.
    #[track_caller]
    pub(crate) fn failed_after(self, note: &str, code: i32) -> String {
        assert_eq!((self.code, &*self.stdout), (Some(code), ""), "{self:?}");
        let (notes, error) = self.stderr.split_once("\nerror: ").unwrap_or_else(|| panic!("{self:?}"));
        assert!(notes.contains(note), "{self:?}");
        error.to_owned()
    }
}

/// The ids in a JSON array.
#[track_caller]
pub(crate) fn ids(value: &Value) -> Vec<u64> {
    let ids = value.as_array().unwrap_or_else(|| panic!("no array: {value}"));
    ids.iter().map(|id| id.as_u64().expect("an id")).collect()
}

/// Writes `bytes` to a file and returns its path.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> PathBuf {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
    std::fs::write(path, bytes).expect("the file is written");
    path.to_owned()
}
