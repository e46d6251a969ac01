//! The lines of `rustorch verify`, printed as checks end.

use std::io::Write;
use std::process::ExitCode;

use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::ModelArgs;
use crate::output::{self, GREEN, RED};

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Good,
    Bad,
    Skipped,
}

/// What is wrong, where the check knows better than its caller which command shows more.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) more: String,
}

/// A check that has ended.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    outcome: Outcome,
    /// What was looked at, what is wrong, or why it was left out.
    detail: String,
    /// The command that shows more of what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<String>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Summary<'a> {
    model: &'a str,
    good: bool,
    checks: &'a [Check],
}

/// All checks so far.
pub(super) struct Report {
    /// As the command line names it.
    model: Option<String>,
    json: bool,
    checks: Vec<Check>,
    /// Printing has failed: nothing more is printed.
    broken: Option<std::io::Error>,
}

impl Report {
    pub(super) fn new(model: &ModelArgs, json: bool) -> Report {
        let model = model.model.as_ref().map(|path| path.display().to_string());
        Report { model, json, checks: Vec::new(), broken: None }
    }

    /// Runs a check, which says what it looked at or fails with what is wrong. `more` is the command,
    /// without the model, that shows more. Returns whether it is good.
    pub(super) fn check(
        &mut self,
        name: &str,
        more: &str,
        work: impl FnOnce(&ProgressBar) -> anyhow::Result<String>,
    ) -> bool {
        self.get(name, more, |bar| Ok((work(bar)?, ()))).is_some()
    }

    /// The same for a check that finds something the others need.
    pub(super) fn get<T>(
        &mut self,
        name: &str,
        more: &str,
        work: impl FnOnce(&ProgressBar) -> anyhow::Result<(String, T)>,
    ) -> Option<T> {
        let bar = progress(name);
        let result = work(&bar);
        bar.finish_and_clear();
        match result {
            Ok((detail, found)) => {
                self.add(name, Outcome::Good, &detail, None);
                Some(found)
            }
            Err(error) => {
                let more = error.downcast_ref().map_or(more, |wrong: &Wrong| &wrong.more);
                self.add(name, Outcome::Bad, &output::message(&error), Some(self.command(more)));
                None
            }
        }
    }

    /// Says that a check was left out.
    pub(super) fn skip(&mut self, name: &str, why: &str) {
        self.add(name, Outcome::Skipped, why, None);
    }

    /// The command `rustorch COMMAND -m MODEL ARGUMENTS`, as a shell reads it.
    fn command(&self, more: &str) -> String {
        let (command, arguments) = more.split_once(' ').unwrap_or((more, ""));
        let is_plain = |c: char| c.is_alphanumeric() || "._-/+:@".contains(c);
        let model = self.model.as_ref().map_or(String::new(), |model| {
            let quoted = model.replace('\'', r"'\''");
            if model.chars().all(is_plain) { format!(" -m {model}") } else { format!(" -m '{quoted}'") }
        });
        format!("rustorch {command}{model} {arguments}").trim_end().to_owned()
    }

    fn add(&mut self, name: &str, outcome: Outcome, detail: &str, more: Option<String>) {
        let check = Check { name: name.to_owned(), outcome, detail: output::printable(detail, ""), more };
        if !self.json
            && self.broken.is_none()
            && let Err(error) = print(&check)
        {
            self.broken = Some(error);
        }
        self.checks.push(check);
    }

    /// Ends the report; the exit code says whether all is good.
    pub(super) fn finish(self) -> anyhow::Result<ExitCode> {
        if let Some(error) = self.broken {
            return Err(error.into());
        }
        let count = |outcome| self.checks.iter().filter(|check| check.outcome == outcome).count();
        let (good, bad) = (count(Outcome::Good), count(Outcome::Bad));
        if self.json {
            let model = self.model.as_deref().unwrap_or("embedded model");
            output::json(&Summary { model, good: bad == 0, checks: &self.checks })?;
        } else {
            let mut out = output::stdout();
            match bad {
                0 => writeln!(out, "all {good} checks are good")?,
                _ => writeln!(out, "{bad} of {} checks failed", good + bad)?,
            }
            out.flush()?;
        }
        Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn print(check: &Check) -> std::io::Result<()> {
    let mut out = output::stdout();
    let (style, word) = match check.outcome {
        Outcome::Good => (GREEN, "ok  "),
        Outcome::Bad => (RED, "FAIL"),
        Outcome::Skipped => (output::BOLD, "-   "),
    };
    writeln!(out, "{style}{word}{style:#}  {:<22}  {}", check.name, check.detail)?;
    if let Some(more) = &check.more {
        writeln!(out, "      more: {}", output::printable(more, ""))?;
    }
    out.flush()
}

/// What is being checked and for how long, on stderr when that is a terminal.
fn progress(name: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(name.to_owned());
    output::show(bar, "{spinner} {msg}, {elapsed}")
}

/// Shows how far a check of `parts` parts has come.
pub(super) fn measure(bar: &ProgressBar, parts: usize) {
    output::restyle(bar, "{spinner} {msg} {bar:20} {percent}%, {eta} left");
    bar.set_length(parts as u64);
}
