//! A fault: a patch `tools/faults/NAME.patch`.
//!
//! Its header has a line `# mistake 6: what is wrong` and one or more lines
//! `# test: -p PACKAGE --test TARGET NAME…` or `# test: -p PACKAGE --lib NAME…`. Every test named there must fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

pub(super) const FOLDER: &str = "tools/faults";

pub(super) struct Fault {
    pub(super) name: String,
    pub(super) patch: PathBuf,
    /// Number and description of the mistake.
    pub(super) mistake: u32,
    pub(super) what: String,
    pub(super) tests: Vec<Tests>,
    /// The files that the patch changes.
    pub(super) changed: Vec<String>,
}

/// Tests of one test binary.
#[derive(Clone)]
pub(super) struct Tests {
    /// The binary as cargo arguments: `-p PACKAGE --test TARGET` or `-p PACKAGE --lib`.
    pub(super) target: String,
    pub(super) names: Vec<String>,
}

/// Parses all patches of a folder, in the order of their names: path, name and text.
pub(super) fn read_all<T>(
    root: &Path,
    folder: &str,
    parse: impl Fn(PathBuf, String, &str) -> Result<T>,
) -> Result<Vec<T>> {
    let entries = fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let context = path.display().to_string();
        parse(path, name, &text).context(context)
    };
    paths.into_iter().map(read).collect()
}

impl Fault {
    pub(super) fn parse(patch: PathBuf, name: String, text: &str) -> Result<Fault> {
        let header = text.lines().take_while(|line| line.starts_with('#'));
        let (mut mistake, mut tests) = (None, Vec::new());
        for line in header {
            if let Some(rest) = line.strip_prefix("# mistake ") {
                let (number, what) = rest.split_once(": ").context("`# mistake NUMBER: WHAT` is expected")?;
                mistake = Some((number.parse().with_context(|| format!("mistake {number}"))?, what));
            } else if let Some(rest) = line.strip_prefix("# test: ") {
                tests.push(Tests::parse(rest).with_context(|| format!("`{line}`"))?);
            }
        }
        let (mistake, what) = mistake.context("no line `# mistake NUMBER: WHAT` before the diff")?;
        ensure!(!tests.is_empty(), "no line `# test: …` before the diff");
        let changed = changed(text);
        Ok(Fault { name, patch, mistake, what: what.to_owned(), tests, changed })
    }
}

/// The files changed by a patch.
pub(super) fn changed(patch: &str) -> Vec<String> {
    patch.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect()
}

impl Tests {
    fn parse(text: &str) -> Result<Tests> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (target, names) = match words[..] {
            ["-p", _, "--test", _, _, ..] => words.split_at(4),
            ["-p", _, "--lib", _, ..] => words.split_at(3),
            _ => bail!("`-p PACKAGE --test TARGET NAME…` or `-p PACKAGE --lib NAME…` is expected"),
        };
        Ok(Tests { target: target.join(" "), names: names.iter().copied().map(str::to_owned).collect() })
    }

    /// Merges tests of the same binary.
    pub(super) fn by_target<'a>(tests: impl IntoIterator<Item = &'a Tests>) -> Vec<Tests> {
        let mut targets: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
        for Tests { target, names } in tests {
            targets.entry(target).or_default().extend(names);
        }
        let tests = |(target, names): (&str, BTreeSet<&String>)| Tests {
            target: target.to_owned(),
            names: names.into_iter().cloned().collect(),
        };
        targets.into_iter().map(tests).collect()
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.target, self.names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Result<Fault> {
        let text = format!(
            "{header}\n--- a/crates/gguf/src/x.rs\n+++ b/crates/gguf/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n"
        );
        Fault::parse(PathBuf::new(), "06a-x".into(), &text)
    }

    #[test]
    fn headers_are_parsed() {
        let header = "# mistake 6: halves\n# More words.\n# test: -p a --test b c::d e\n# test: -p a --lib f";
        let fault = parse(header).expect("a good header");
        assert_eq!((fault.mistake, fault.what.as_str()), (6, "halves"));
        assert_eq!(fault.changed, ["crates/gguf/src/x.rs"]);
        let lines: Vec<String> = fault.tests.iter().map(Tests::to_string).collect();
        assert_eq!(lines, ["-p a --test b c::d e", "-p a --lib f"]);
    }

    #[test]
    fn incomplete_headers_are_refused() {
        for bad in ["", "# mistake 6: x", "# mistake six: x\n# test: -p a --lib b", "# test: -p a --lib b"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        for bad in ["-p a --lib", "-p a b", "a", ""] {
            assert!(Tests::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tests_of_a_binary_are_merged() {
        let tests = ["-p a --lib x y", "-p a --test b x", "-p a --lib y z"];
        let tests: Vec<Tests> = tests.iter().map(|line| Tests::parse(line).expect("good")).collect();
        let lines: Vec<String> = Tests::by_target(&tests).iter().map(Tests::to_string).collect();
        assert_eq!(lines, ["-p a --lib x y z", "-p a --test b x"]);
    }
}
