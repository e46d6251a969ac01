//! `cargo xtask faults`: each known mistake is planted in a copy of the checkout, and its tests must go
//! red. A test that nobody has seen fail guards nothing.
//!
//! The copy stands alone: `../shared` is not beside it, and tests run in it as in a plain checkout.

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

/// Mistakes that must have a fault each, by number from 1.
const MISTAKES: u32 = 13;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Option<Suite>,
    /// Faults to plant, by the beginning of their name, such as 11 or 11a; all when none is given
    names: Vec<String>,
    #[command(flatten)]
    share: Share,
    /// List them and what guards against them
    #[arg(long)]
    list: bool,
}

/// Some of many.
#[derive(clap::Args)]
struct Share {
    /// Plant one in so many, which ones is decided by the commit: commits after each other plant all
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "names", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    one_in: usize,
}

impl Share {
    /// Those of `all` whose turn it is.
    fn of<'a, T>(&self, workspace: &Workspace, all: &'a [T]) -> Result<Vec<&'a T>> {
        if self.one_in == 1 {
            return Ok(all.iter().collect());
        }
        let first = workspace.share(self.one_in)?;
        eprintln!("one in {}, from number {} on", self.one_in, first + 1);
        Ok(all.iter().skip(first).step_by(self.one_in).collect())
    }
}

#[derive(clap::Subcommand)]
enum Suite {
    /// Plants each mistake of tools/faults/compare and sees that `rustorch compare` names it
    Compare(compare::Args),
}

/// What became of a planted fault.
struct Outcome {
    /// Tests that went red.
    caught_by: Vec<String>,
    /// Why the fault is not proven to be caught, when it is not: a line, then details.
    trouble: Option<String>,
    time: Duration,
}

/// Plants the faults asked for; whether all were caught.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<bool> {
    if let Some(Suite::Compare(args)) = &args.suite {
        return compare::run(workspace, args);
    }
    let all = fault::read_all(&workspace.root)?;
    let faults: Vec<&Fault> = match &args.names[..] {
        [] => args.share.of(workspace, &all)?,
        names => {
            let asked_for = |fault: &&Fault| names.iter().any(|name| fault.name.starts_with(name.as_str()));
            all.iter().filter(asked_for).collect()
        }
    };
    ensure!(!faults.is_empty(), "no fault is called {:?}; `--list` lists them", args.names);
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

    // What others build on comes last, so that few crates are built again for each fault; and those of one
    // file come one after the other, because what is long to build is built again to take it back, too.
    let mut order: Vec<usize> = (0..faults.len()).collect();
    order.sort_by_key(|&at| (Reverse(faults[at].row), &faults[at].changed));
    let mut outcomes: Vec<Option<Outcome>> = faults.iter().map(|_| None).collect();
    for at in order {
        let fault = faults[at];
        eprint!("{} … ", fault.name);
        let outcome = plant(&checkout, &cargo, fault)?;
        eprintln!("{}", outcome.trouble.as_deref().unwrap_or("caught"));
        outcomes[at] = Some(outcome);
    }
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    print_table(faults, &outcomes);
    let caught = outcomes.iter().filter(|outcome| outcome.trouble.is_none()).count();
    println!("{caught} of {} faults caught in {} s", faults.len(), start.elapsed().as_secs());
    Ok(caught == faults.len())
}

/// A test that is red anyway proves nothing.
fn run_healthy(cargo: &Cargo, faults: &[&Fault]) -> Result<()> {
    let tests: BTreeSet<&Tests> = faults.iter().flat_map(|fault| &fault.tests).collect();
    for tests in Tests::by_target(tests) {
        let start = Instant::now();
        let binary = cargo.build(&tests)?.map_err(anyhow::Error::msg);
        let target = tests.target();
        let binary = binary.with_context(|| format!("`{target}` does not build without a fault"))?;
        let red = cargo.red(&binary, &tests)?;
        ensure!(red.is_empty(), "red without a fault, which proves nothing: `{target} {}`", red.join(" "));
        eprintln!("  {target}: {} green, {} s", tests.names.len(), start.elapsed().as_secs());
    }
    Ok(())
}

fn plant(checkout: &Checkout, cargo: &Cargo, fault: &Fault) -> Result<Outcome> {
    let start = Instant::now();
    if let Err(why) = checkout.apply(&fault.patch)? {
        let trouble = format!(
            "the patch no longer applies\n{why}\nplant the mistake by hand in the code as it is now, put \
             `git diff -U1` below the header of {FOLDER}/{}.patch and take the change back",
            fault.name
        );
        return Ok(Outcome { caught_by: Vec::new(), trouble: Some(trouble), time: start.elapsed() });
    }
    let tried = fault.tests.iter().map(|tests| try_tests(cargo, tests)).collect::<Result<Vec<_>>>();
    checkout.take_back(&fault.patch)?;
    let (mut caught_by, mut trouble) = (Vec::new(), None);
    for tried in tried? {
        match tried {
            Ok(red) => caught_by.extend(red),
            Err(why) => trouble = Some(why),
        }
    }
    Ok(Outcome { caught_by, trouble, time: start.elapsed() })
}

/// The tests that went red, all of `tests`; or else what is wrong.
fn try_tests(cargo: &Cargo, tests: &Tests) -> Result<Result<Vec<String>, String>> {
    let binary = match cargo.build(tests)? {
        Ok(binary) => binary,
        Err(errors) => {
            return Ok(Err(format!("does not compile, which proves nothing; mend the patch\n{errors}")));
        }
    };
    let red = cargo.red(&binary, tests)?;
    let green: Vec<&str> = tests.names.iter().filter(|name| !red.contains(name)).map(|n| &**n).collect();
    Ok(match &green[..] {
        [] => Ok(red),
        green => Err(format!("survived: {} of {} stays green", green.join(", "), tests.target())),
    })
}

fn print_table(faults: &[&Fault], outcomes: &[Outcome]) {
    let width = faults.iter().map(|fault| fault.name.len()).max().unwrap_or_default();
    println!("{:width$}  {:>5}  {:>6}  caught by", "fault", "tests", "time");
    for (fault, Outcome { caught_by, trouble, time }) in faults.iter().zip(outcomes) {
        let named: usize = fault.tests.iter().map(|tests| tests.names.len()).sum();
        let trouble = trouble.as_ref().and_then(|trouble| trouble.lines().next());
        let caught = trouble.map_or_else(|| caught_by.join(", "), |why| format!("NOT CAUGHT: {why}"));
        println!("{:width$}  {named:>5}  {:>4} s  {caught}", fault.name, time.as_secs());
    }
}
