//! `cargo xtask faults`: mutation testing with hand-written faults. Each fault is applied to a copy of the checkout,
//! and its tests must fail. A test that never failed proves nothing.
//!
//! The copy has no `../shared` beside it, so tests run as in a plain checkout.

mod cargo;
mod checkout;
mod compare;
mod fault;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;
use cargo::Cargo;
use checkout::Checkout;
use fault::{FOLDER, Fault, Tests};

/// Mistakes 1 to this number must have at least one fault each.
const MISTAKES: u32 = 13;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Option<Suite>,
    /// Faults to apply, by name prefix, such as 11 or 11a [default: all]
    names: Vec<String>,
    #[command(flatten)]
    share: Share,
    /// List the faults and their tests
    #[arg(long)]
    list: bool,
}

/// A share of all faults.
#[derive(clap::Args)]
struct Share {
    /// Apply every Nth fault, starting at an offset that depends on the commit, so that consecutive commits cover all
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "names", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    one_in: usize,
}

impl Share {
    /// The faults of `all` that this commit covers.
    fn of<'a, T>(&self, workspace: &Workspace, all: &'a [T]) -> Result<Vec<&'a T>> {
        if self.one_in == 1 {
            return Ok(all.iter().collect());
        }
        let first = workspace.share(self.one_in)?;
        eprintln!("every {}th fault, from number {}", self.one_in, first + 1);
        Ok(all.iter().skip(first).step_by(self.one_in).collect())
    }
}

#[derive(clap::Subcommand)]
enum Suite {
    /// Applies each fault of tools/faults/compare and checks that `rustorch compare` finds it
    Compare(compare::Args),
}

/// The result of an applied fault.
struct Outcome {
    /// Tests that failed.
    caught_by: Vec<String>,
    /// Why the fault is not caught: a summary line, then details.
    failure: Option<String>,
    time: Duration,
}

/// Applies the selected faults; returns whether all were caught.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<bool> {
    if let Some(Suite::Compare(args)) = &args.suite {
        return compare::run(workspace, args);
    }
    let all = fault::read_all(&workspace.root)?;
    let faults: Vec<&Fault> = match &args.names[..] {
        [] => args.share.of(workspace, &all)?,
        names => {
            let is_selected = |fault: &&Fault| names.iter().any(|name| fault.name.starts_with(name.as_str()));
            all.iter().filter(is_selected).collect()
        }
    };
    ensure!(!faults.is_empty(), "no fault matches {:?}; use `--list` to see all", args.names);
    if args.names.is_empty() {
        let missing = (1..=MISTAKES).find(|number| all.iter().all(|fault| fault.mistake != *number));
        ensure!(missing.is_none(), "mistake {} has no patch in {FOLDER}", missing.unwrap_or_default());
    }
    if args.list {
        for fault in faults {
            println!("{}\n    mistake {}: {}", fault.name, fault.mistake, fault.what);
            fault.tests.iter().for_each(|tests| println!("    {tests}"));
        }
        return Ok(true);
    }
    plant_all(workspace, &faults)
}

fn plant_all(workspace: &Workspace, faults: &[&Fault]) -> Result<bool> {
    let start = Instant::now();
    let checkout = Checkout::make(workspace)?;
    let cargo = Cargo::new(&checkout);
    eprintln!("without faults:");
    run_healthy(&cargo, faults)?;

    // Crates with many dependents come last, so that few crates are rebuilt per fault. Faults of the same file are
    // adjacent, because removing a fault rebuilds the crate, too.
    let mut order: Vec<usize> = (0..faults.len()).collect();
    order.sort_by_key(|&at| (Reverse(faults[at].row), &faults[at].changed));
    let mut outcomes: Vec<Option<Outcome>> = faults.iter().map(|_| None).collect();
    for at in order {
        let fault = faults[at];
        eprint!("{} … ", fault.name);
        let outcome = plant(&checkout, &cargo, fault)?;
        eprintln!("{}", outcome.failure.as_deref().unwrap_or("caught"));
        outcomes[at] = Some(outcome);
    }
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    print_table(faults, &outcomes);
    let caught = outcomes.iter().filter(|outcome| outcome.failure.is_none()).count();
    println!("{caught} of {} faults caught in {} s", faults.len(), start.elapsed().as_secs());
    Ok(caught == faults.len())
}

/// Runs all tests without faults: a test that fails anyway proves nothing.
fn run_healthy(cargo: &Cargo, faults: &[&Fault]) -> Result<()> {
    let tests: BTreeSet<&Tests> = faults.iter().flat_map(|fault| &fault.tests).collect();
    for tests in Tests::by_target(tests) {
        let start = Instant::now();
        let binary = cargo.build(&tests)?.map_err(anyhow::Error::msg);
        let target = tests.target();
        let binary = binary.with_context(|| format!("`{target}` does not build without a fault"))?;
        let failed = cargo.failures(&binary, &tests)?;
        ensure!(failed.is_empty(), "tests fail without a fault: `{target} {}`", failed.join(" "));
        eprintln!("  {target}: {} passed, {} s", tests.names.len(), start.elapsed().as_secs());
    }
    Ok(())
}

fn plant(checkout: &Checkout, cargo: &Cargo, fault: &Fault) -> Result<Outcome> {
    let start = Instant::now();
    if let Err(why) = checkout.apply(&fault.patch)? {
        let failure = format!(
            "the patch no longer applies\n{why}\nmake the mistake by hand in the current code, put \
             `git diff -U1` below the header of {FOLDER}/{}.patch and revert the change",
            fault.name
        );
        return Ok(Outcome { caught_by: Vec::new(), failure: Some(failure), time: start.elapsed() });
    }
    let tried = fault.tests.iter().map(|tests| try_tests(cargo, tests)).collect::<Result<Vec<_>>>();
    checkout.revert(&fault.patch)?;
    let (mut caught_by, mut failure) = (Vec::new(), None);
    for tried in tried? {
        match tried {
            Ok(failed) => caught_by.extend(failed),
            Err(why) => failure = Some(why),
        }
    }
    Ok(Outcome { caught_by, failure, time: start.elapsed() })
}

/// The failed tests, if all of `tests` failed; otherwise what is wrong.
fn try_tests(cargo: &Cargo, tests: &Tests) -> Result<Result<Vec<String>, String>> {
    let binary = match cargo.build(tests)? {
        Ok(binary) => binary,
        Err(errors) => {
            return Ok(Err(format!("the fault does not compile; fix the patch\n{errors}")));
        }
    };
    let failed = cargo.failures(&binary, tests)?;
    let passed: Vec<&str> = tests.names.iter().filter(|name| !failed.contains(name)).map(|n| &**n).collect();
    Ok(match &passed[..] {
        [] => Ok(failed),
        passed => Err(format!("survived: {} of {} still pass", passed.join(", "), tests.target())),
    })
}

fn print_table(faults: &[&Fault], outcomes: &[Outcome]) {
    let width = faults.iter().map(|fault| fault.name.len()).max().unwrap_or_default();
    println!("{:width$}  {:>5}  {:>6}  caught by", "fault", "tests", "time");
    for (fault, Outcome { caught_by, failure, time }) in faults.iter().zip(outcomes) {
        let named: usize = fault.tests.iter().map(|tests| tests.names.len()).sum();
        let failure = failure.as_ref().and_then(|failure| failure.lines().next());
        let caught = failure.map_or_else(|| caught_by.join(", "), |why| format!("NOT CAUGHT: {why}"));
        println!("{:width$}  {named:>5}  {:>4} s  {caught}", fault.name, time.as_secs());
    }
}
