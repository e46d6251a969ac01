//! `cargo xtask instructions`: instruction counts of small runs, compared with committed ones.
//!
//! Wall time on a shared machine is too noisy for changes of a few percent; the instruction count of a single-threaded
//! run is nearly constant. Valgrind counts instructions with the AVX2 kernels, the best set that it supports. Start-up
//! and model loading are excluded by counting the difference between a long run and a short one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::{Value, json};

use crate::workspace::{Workspace, cargo, output};

const FILE: &str = "tools/bench/instructions.json";

/// Relative increase that counts as a failure.
const LIMIT: f64 = 0.03;

/// The runs: name, additional prompt tokens and additional generated tokens.
const RUNS: [(&str, usize, usize); 3] = [("prompt", 64, 0), ("answer", 0, 16), ("attention", 256, 0)];

/// Random models besides the demo model (Q6_K): one for each kind of kernel.
const RANDOM: [&str; 8] = ["F32", "F16", "Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q4_K", "IQ4_XS"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the counts to tools/bench/instructions.json, to be committed with the change that caused them
    #[arg(long)]
    accept: bool,
}

/// Instruction counts by model and run.
type Counts = BTreeMap<String, u64>;

/// Counts, and compares or accepts; returns whether nothing has increased beyond the limit.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<bool> {
    let compiler = output(Command::new("rustc").arg("--version"))?.trim().to_owned();
    let found = count(workspace)?;
    let path = workspace.root.join(FILE);
    if args.accept {
        let file = json!({ "compiler": compiler, "instructions": found });
        fs::write(&path, serde_json::to_string_pretty(&file)? + "\n")?;
        found.iter().for_each(|(name, count)| println!("{name:20} {count:>14}"));
        eprintln!("written to {FILE}; commit it with the change that caused it");
        return Ok(true);
    }
    let file: Value = serde_json::from_str(&fs::read_to_string(&path).with_context(|| FILE)?)?;
    let accepted: Counts = serde_json::from_value(file["instructions"].clone()).with_context(|| FILE)?;
    if file["compiler"] != compiler.as_str() {
        eprintln!("{FILE} was counted with {}, this is {compiler}", file["compiler"]);
    }
    let lines = compare(&accepted, &found);
    lines.iter().for_each(|(line, _)| println!("{line}"));
    let failed = lines.iter().filter(|(_, is_good)| !is_good).count();
    if failed > 0 {
        eprintln!(
            "{failed} counts exceed {} %: fix the regression, or accept it with `cargo xtask instructions --accept`, which \
             rewrites {FILE}, in the same commit",
            LIMIT * 100.0
        );
    }
    Ok(failed == 0)
}

/// One line per count, and whether it is within the limit; counts missing on one side are not.
fn compare(accepted: &Counts, found: &Counts) -> Vec<(String, bool)> {
    let names: BTreeSet<&String> = accepted.keys().chain(found.keys()).collect();
    let line = |name: &String| match (accepted.get(name), found.get(name)) {
        (Some(&old), Some(&new)) => {
            let rise = new as f64 / old as f64 - 1.0;
            let is_good = new as f64 <= old as f64 * (1.0 + LIMIT);
            let word = match rise {
                _ if !is_good => "  EXCEEDED",
                _ if rise < -LIMIT => "  lower: use `--accept` to update",
                _ => "",
            };
            (format!("{name:20} {old:>14} {new:>14} {:>+7.2} %{word}", rise * 100.0), is_good)
        }
        (None, _) => (format!("{name:20} is not in {FILE}"), false),
        (_, None) => (format!("{name:20} is in {FILE}, but no longer counted"), false),
    };
    names.into_iter().map(line).collect()
}

/// Builds the program and the models, and counts instructions.
fn count(workspace: &Workspace) -> Result<Counts> {
    let models = workspace.target.join("instructions");
    fs::create_dir_all(&models)?;
    let cargo = |args: &str| {
        let mut cargo = cargo();
        cargo.args(args.split(' ')).current_dir(&workspace.root);
        cargo
    };
    output(&mut cargo("build --release --package rustorch-cli"))?;
    output(cargo("run --package rustorch-testkit --example models --").arg(&models))?;
    let program = workspace.target.join("release/rustorch");
    let random = RANDOM.map(|format| (format, Some(models.join(format!("{format}.gguf")))));
    let mut counts = Counts::new();
    for (name, model) in [("demo", None)].into_iter().chain(random) {
        let instructions = |prompt, new| instructions(&program, model.as_deref(), &models, prompt, new);
        let short = instructions(1, 1)?;
        // The `attention` run is dominated by attention, which does not depend on the weight format.
        let runs = if model.is_none() { &RUNS[..] } else { &RUNS[..2] };
        for (what, prompt, new) in runs {
            let more = instructions(1 + prompt, 1 + new)?.checked_sub(short);
            counts.insert(format!("{name} {what}"), more.context("a long run costs less than a short one")?);
        }
        eprintln!("counted {name}");
    }
    Ok(counts)
}

/// The instruction count of a run with a prompt of `prompt` tokens that generates `new` tokens.
fn instructions(program: &Path, model: Option<&Path>, home: &Path, prompt: usize, new: usize) -> Result<u64> {
    let tokens: Vec<String> = (0..prompt).map(|i| (3 + i * 37 % 500).to_string()).collect();
    let mut run = Command::new("valgrind");
    run.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).arg("run");
    // The user's environment must not affect the count.
    run.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
    run.args(["--tokens", &tokens.join(","), "--max-tokens", &new.to_string(), "--ignore-eos"]);
    run.args(["--temperature", "0", "--threads", "1", "--isa", "avx2", "--ctx-size", "1024"]);
    if let Some(model) = model {
        run.arg("--model").arg(model);
    }
    let ran =
        run.output().context("valgrind, which counts the instructions (Debian: apt-get install valgrind)")?;
    let text = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{run:?}: {}\n{text}", ran.status);
    parse_count(&text).with_context(|| format!("no instruction count in the output of {run:?}:\n{text}"))
}

/// Parses the count in callgrind's output.
fn parse_count(text: &str) -> Option<u64> {
    let line = Regex::new(r"(?m)^==\d+== I +refs: +([\d,]+)$").ok()?;
    line.captures(text)?.get(1)?.as_str().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increases_fail_and_decreases_are_reported() {
        let counts = |pairs: &[(&str, u64)]| -> Counts {
            pairs.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
        };
        let accepted = counts(&[("a", 1000), ("b", 1000), ("c", 1000), ("d", 1000)]);
        let lines = compare(&accepted, &counts(&[("a", 1030), ("b", 1031), ("c", 900), ("e", 1)]));
        let good: Vec<bool> = lines.iter().map(|(_, is_good)| *is_good).collect();
        assert_eq!(good, [true, false, true, false, false], "{lines:?}");
        assert!(lines[2].0.contains("--accept"), "{lines:?}");
    }

    #[test]
    fn the_count_is_parsed() {
        assert_eq!(
            parse_count("==7== Events    : Ir\n==7== \n==7== I   refs:      1,234,567\n"),
            Some(1_234_567)
        );
        assert_eq!(parse_count("==7== I   refs:"), None);
    }
}
