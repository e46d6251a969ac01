//! `cargo xtask faults compare`: each fault is applied to a copy of the checkout, the faulty program records a trace,
//! and the correct program must find the first wrong value and the cause.
//!
//! A fault is a patch in `tools/faults/compare`, with this header before the diff:
//!
//! ```text
//! # fault: what is wrong
//! # model: a model of `testkit::fixtures::models`, such as F32; or demo-f16 or demo-q6_k
//! # steps: tokens per step; all at once without this line
//! # cache: type of the KV cache; that of `rustorch trace` without this line
//! # value: NAME, position N
//! # cause: KIND, words of its text
//! ```
//!
//! `cause` is the cause that must be ranked first; `none` if no cause may be reported as likely; or `unexplained` if
//! `compare` has no hypothesis for the mistake, which counts as a cause that was not found.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Selection;
use super::checkout::Checkout;
use super::fault::{changed, read_all};
use crate::workspace::Workspace;

const FOLDER: &str = "tools/faults/compare";

/// Recorded positions.
const POSITIONS: usize = 32;

/// Input of the demo model: a question and the beginning of its answer.
const DEMO_TOKENS: [u32; POSITIONS] = [
    1, 305, 1047, 1612, 1103, 271, 339, 1960, 1974, 384, 1972, 303, 1952, 1982, 1988, 401, 1158, 1959, 579,
    542, 301, 1360, 1967, 323, 357, 278, 271, 549, 909, 587, 315, 301,
];

/// Of a hundred causes, those that must be found.
const CAUSES: usize = 80;

struct Fault {
    name: String,
    patch: PathBuf,
    model: String,
    steps: usize,
    cache: Option<String>,
    expected: Finding,
    /// Whether `compare` has no hypothesis for the mistake.
    is_unexplained: bool,
    changed: Vec<String>,
}

/// A finding of `rustorch compare`: the first wrong value and position, and kind and text of the first cause if that is
/// likely.
struct Finding {
    value: String,
    position: u64,
    cause: Option<(String, String)>,
}

impl Fault {
    fn parse(patch: PathBuf, name: String, text: &str) -> Result<Fault> {
        let line = |key: &str| {
            let lines = text.lines().take_while(|line| line.starts_with('#'));
            lines.filter_map(|line| line.strip_prefix("# ")?.strip_prefix(key)?.strip_prefix(": ")).next()
        };
        let needed = |key: &str| line(key).with_context(|| format!("no line `# {key}: …` before the diff"));
        needed("fault")?;
        let (value, position) =
            needed("value")?.split_once(", position ").context("`# value: NAME, position N`")?;
        let cause = needed("cause")?;
        let (kind, words) = cause.split_once(", ").unwrap_or((cause, ""));
        Ok(Fault {
            name,
            model: needed("model")?.to_owned(),
            cache: line("cache").map(str::to_owned),
            steps: line("steps").map_or(Ok(POSITIONS), str::parse)?,
            expected: Finding {
                value: value.to_owned(),
                position: position.parse()?,
                cause: (!["none", "unexplained"].contains(&kind))
                    .then(|| (kind.to_owned(), words.to_owned())),
            },
            is_unexplained: kind == "unexplained",
            changed: changed(text),
            patch,
        })
    }

    /// What is wrong about the value, and about the cause.
    fn judge(&self, found: &Finding) -> [Option<String>; 2] {
        let Finding { value, position, cause } = &self.expected;
        let is_right = (&found.value, found.position) == (value, *position);
        let wrong_cause = match (cause, &found.cause) {
            (None, None) => None,
            (Some((kind, words)), Some((found, text))) if kind == found && text.contains(words) => None,
            (Some((kind, words)), _) => Some(format!("expected {kind}: … {words} …")),
            (None, Some(_)) => Some("expected no likely cause".to_owned()),
        };
        [(!is_right).then(|| format!("expected {value}, position {position}")), wrong_cause]
    }
}

/// Applies the selected faults; returns whether each first value was found, and enough of the causes: of all faults
/// [`CAUSES`] in a hundred, of a selection those that can be.
pub(super) fn run(workspace: &Workspace, selection: &Selection) -> Result<bool> {
    let faults = read_all(&workspace.root, FOLDER, Fault::parse)?;
    let mut faults = selection.of(workspace, &faults, |fault| &fault.name)?;
    // Faults of the same file are adjacent, as in `plant_all`.
    faults.sort_by_key(|fault| &fault.changed);

    let start = Instant::now();
    let checkout = Checkout::make(workspace)?;
    let work = checkout.target.with_file_name("compare");
    fs::create_dir_all(&work)?;
    let built = build(&checkout)?.map_err(anyhow::Error::msg)?;
    let good = work.join("good");
    fs::copy(built, &good)?;
    let models = ["run", "-q", "-p", "rustorch-testkit", "--example", "models", "--"].map(OsStr::new);
    let written = checkout.cargo(models.into_iter().chain([work.as_os_str()]))?;
    written.map_err(anyhow::Error::msg).context("cannot write the test models")?;

    let width = faults.iter().map(|fault| fault.name.len()).max().unwrap_or_default();
    let (mut values, mut causes, mut expected) = (0, 0, 0);
    for fault in &faults {
        let (line, [value, cause]) = match plant(&checkout, &work, &good, fault) {
            Ok(found) => {
                let cause = found.cause.as_ref();
                let cause = cause.map_or("no likely cause".into(), |(kind, text)| format!("{kind}: {text}"));
                let line = format!("{}, position {}; {cause}", found.value, found.position);
                (line, fault.judge(&found))
            }
            Err(error) => {
                let nothing = ["expected a value", "expected a cause"];
                (format!("{error:#}"), nothing.map(|text| Some(text.to_owned())))
            }
        };
        values += usize::from(value.is_none());
        expected += usize::from(cause.is_none());
        causes += usize::from(cause.is_none() && !fault.is_unexplained);
        println!("{:width$}  {line}", fault.name);
        value.iter().chain(&cause).for_each(|wrong| println!("{:width$}  WRONG: {wrong}", ""));
    }
    let (all, seconds) = (faults.len(), start.elapsed().as_secs());
    println!("first value right: {values} of {all}; first cause right: {causes} of {all}; {seconds} s");
    let are_enough = if selection.is_all() { causes * 100 >= all * CAUSES } else { expected == all };
    Ok(values == all && are_enough)
}

/// Builds the program; returns its path or the compiler's errors.
fn build(checkout: &Checkout) -> Result<Result<PathBuf, String>> {
    Ok(checkout
        .cargo(["build", "-q", "-p", "rustorch-cli"])?
        .map(|_| checkout.target.join("debug").join("rustorch")))
}

/// Records a trace with the fault, and compares it with the correct program.
fn plant(checkout: &Checkout, work: &Path, good: &Path, fault: &Fault) -> Result<Finding> {
    let built = checkout.with_patch(&fault.patch, || build(checkout))?;
    let built = built.map_err(|why| anyhow::anyhow!("the patch no longer applies\n{why}"))?;
    let program = built?.map_err(|errors| anyhow::anyhow!("does not compile\n{errors}"))?;

    let trace = work.join("trace.safetensors");
    let (model, tokens) = match fault.model.strip_prefix("demo-") {
        Some(format) => {
            let file = format!("demo-model/rustorch-demo-{format}.gguf");
            (checkout.root.join(file), DEMO_TOKENS.to_vec())
        }
        None => {
            let tokens = (0..POSITIONS as u32).map(|i| 1 + i * 37 % 500);
            (work.join(format!("{}.gguf", fault.model)), tokens.collect())
        }
    };
    let tokens: Vec<String> = tokens.iter().map(u32::to_string).collect();
    let mut record = Command::new(program);
    record.args(["trace", "--tokens", &tokens.join(","), "--batch-size", &fault.steps.to_string()]);
    // The mistakes are planted in the CPU backend; on a machine with a GPU, another would compute.
    record.args(["--backend", "cpu"]);
    if let Some(cache) = &fault.cache {
        record.args(["--cache-type", cache]);
    }
    let recorded = record.arg("-m").arg(&model).arg("-o").arg(&trace).output()?;
    ensure!(recorded.status.success(), "trace: {}", String::from_utf8_lossy(&recorded.stderr));

    let mut compare = Command::new(good);
    let compared = compare.arg("compare").arg(&trace).arg("-m").arg(&model).arg("--json").output()?;
    let status = compared.status.code();
    ensure!(status != Some(0), "compare finds nothing wrong");
    ensure!(status == Some(1), "compare: {status:?}: {}", String::from_utf8_lossy(&compared.stderr));
    let report: Value = serde_json::from_slice(&compared.stdout)?;
    let first = &report["first"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cause = Some(&first["causes"][0]).filter(|cause| cause["likely"] == true);
    Ok(Finding {
        value: text(&first["name"]),
        position: first["position"].as_u64().context("no position")?,
        cause: cause.map(|cause| (text(&cause["kind"]), text(&cause["text"]))),
    })
}
