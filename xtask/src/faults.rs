//! `cargo xtask faults`: mutation testing with hand-written faults. Each fault is applied to a copy of the checkout,
//! and its tests must fail. A test that never failed proves nothing.
//!
//! The copy has no `../shared` beside it, so tests run as in a plain checkout.

mod cargo;
mod check;
mod checkout;
mod compare;
mod fault;

use std::cmp::Reverse;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;
use checkout::Checkout;
use fault::{FOLDER, Fault, Tests};

/// Mistakes 1 to this number must have at least one fault each.
const MISTAKES: u32 = 13;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Option<Suite>,
    #[command(flatten)]
    selection: Selection,
    /// List the faults and their tests
    #[arg(long)]
    list: bool,
}

#[derive(clap::Subcommand)]
enum Suite {
    /// Applies each fault of tools/faults/compare and checks that `rustorch compare` finds it
    Compare(Selection),
    /// Checks that the tests which the patches name exist
    Check,
}

#[derive(clap::Args)]
struct Selection {
    /// Faults to apply, by name prefix, such as 11 or 11a [default: all]
    names: Vec<String>,
    /// Apply every Nth fault, starting at an offset that depends on the commit, so that consecutive commits cover all
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "names")]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    one_in: usize,
}

impl Selection {
    /// The selected faults of `all`, at least one.
    fn of<'a, T>(&self, workspace: &Workspace, all: &'a [T], name: fn(&T) -> &str) -> Result<Vec<&'a T>> {
        let is_named = |fault: &&T| {
            self.names.is_empty() || self.names.iter().any(|start| name(fault).starts_with(start))
        };
        let mut first = 0;
        if self.one_in > 1 {
            first = workspace.share(self.one_in)?;
            eprintln!("every {}th fault, from number {}", self.one_in, first + 1);
        }
        let faults: Vec<&T> = all.iter().filter(is_named).skip(first).step_by(self.one_in).collect();
        ensure!(!faults.is_empty(), "no fault matches {:?}", self.names);
        Ok(faults)
    }

    fn is_all(&self) -> bool {
        self.names.is_empty() && self.one_in == 1
    }
}

/// Applies the selected faults; returns whether all were caught.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<bool> {
    match &args.suite {
        Some(Suite::Compare(selection)) => return compare::run(workspace, selection),
        Some(Suite::Check) => return check::run(workspace),
        None => {}
    }
    let all = fault::read_all(&workspace.root, FOLDER, Fault::parse)?;
    let missing = (1..=MISTAKES).find(|number| all.iter().all(|fault| fault.mistake != *number));
    ensure!(missing.is_none(), "mistake {} has no patch in {FOLDER}", missing.unwrap_or_default());
    let faults = args.selection.of(workspace, &all, |fault| &fault.name)?;
    if args.list {
        for fault in faults {
            println!("{}\n    mistake {}: {}", fault.name, fault.mistake, fault.what);
            fault.tests.iter().for_each(|tests| println!("    {tests}"));
        }
        return Ok(true);
    }
    plant_all(workspace, faults)
}

fn plant_all(workspace: &Workspace, mut faults: Vec<&Fault>) -> Result<bool> {
    let start = Instant::now();
    let checkout = Checkout::make(workspace)?;
    eprintln!("without faults:");
    run_healthy(&checkout, &faults)?;

    // Crates with many dependents come last, so that few crates are rebuilt per fault. Faults of the same file are
    // adjacent, because removing a fault rebuilds the crate, too.
    let row = |path: &String| workspace.row(&path.split('/').take(2).collect::<Vec<_>>().join("/"));
    faults.sort_by_key(|fault| (Reverse(fault.changed.iter().map(row).min()), &fault.changed));
    let width = faults.iter().map(|fault| fault.name.len()).max().unwrap_or_default();
    println!("{:width$}  {:>5}  {:>6}  caught by", "fault", "tests", "time");
    let mut caught = 0;
    for fault in &faults {
        let start = Instant::now();
        let outcome = plant(&checkout, fault)?;
        let tests: usize = fault.tests.iter().map(|tests| tests.names.len()).sum();
        print!("{:width$}  {tests:>5}  {:>4} s  ", fault.name, start.elapsed().as_secs());
        match &outcome {
            Ok(failed) => println!("{}", failed.join(", ")),
            Err(why) => println!("NOT CAUGHT: {why}"),
        }
        caught += usize::from(outcome.is_ok());
    }
    println!("{caught} of {} faults caught in {} s", faults.len(), start.elapsed().as_secs());
    Ok(caught == faults.len())
}

/// Runs all tests without faults: a test that fails anyway proves nothing.
fn run_healthy(checkout: &Checkout, faults: &[&Fault]) -> Result<()> {
    for tests in Tests::by_target(faults.iter().flat_map(|fault| &fault.tests)) {
        let (start, target) = (Instant::now(), &tests.target);
        let binary = cargo::build(checkout, &tests)?.map_err(anyhow::Error::msg);
        let binary = binary.with_context(|| format!("`{target}` does not build without a fault"))?;
        let failed = cargo::failures(checkout, &binary, &tests)?;
        ensure!(failed.is_empty(), "tests fail without a fault: `{target} {}`", failed.join(" "));
        eprintln!("  {target}: {} passed, {} s", tests.names.len(), start.elapsed().as_secs());
    }
    Ok(())
}

/// The tests that failed with a fault, or why it is not caught.
fn plant(checkout: &Checkout, fault: &Fault) -> Result<Result<Vec<String>, String>> {
    let try_all =
        || fault.tests.iter().map(|tests| try_tests(checkout, tests)).collect::<Result<Result<Vec<_>, _>>>();
    Ok(match checkout.with_patch(&fault.patch, try_all)? {
        Ok(tried) => tried?.map(|failed| failed.concat()),
        Err(why) => Err(format!(
            "the patch no longer applies\n{why}\nmake the mistake by hand in the current code, put \
             `git diff -U1` below the header of {FOLDER}/{}.patch and revert the change",
            fault.name
        )),
    })
}

/// The failed tests, if all of `tests` failed; otherwise what is wrong.
fn try_tests(checkout: &Checkout, tests: &Tests) -> Result<Result<Vec<String>, String>> {
    let binary = match cargo::build(checkout, tests)? {
        Ok(binary) => binary,
        Err(errors) => return Ok(Err(format!("the fault does not compile; fix the patch\n{errors}"))),
    };
    let failed = cargo::failures(checkout, &binary, tests)?;
    let passed: Vec<&str> = tests.names.iter().filter(|name| !failed.contains(name)).map(|n| &**n).collect();
    Ok(match &passed[..] {
        [] => Ok(failed),
        passed => Err(format!("survived: {} of {} still pass", passed.join(", "), tests.target)),
    })
}
