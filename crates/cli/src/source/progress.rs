//! The progress of a download on stderr: a bar with speed and time left on a terminal, else a line at the beginning.

use std::collections::HashSet;
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::sync::PoisonError;

use hub::Event;
use indicatif::ProgressBar;

use crate::output::{self, note, printable, size};

const TRANSFER: &str =
    "{msg} {bar:20} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
const CHECK: &str = "checking {msg} {bar:20} {binary_bytes} of {binary_total_bytes}";

/// The bar of one file after the other.
pub(super) struct Progress {
    bar: ProgressBar,
    stage: Mutex<Stage>,
    /// Lines about failures: several connections have the same one.
    said: Mutex<HashSet<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Transfer,
    Check,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let bar = output::show(ProgressBar::no_length(), "{msg}");
        Progress { bar, stage: Mutex::new(Stage::Idle), said: Mutex::default() }
    }

    /// A file is next.
    pub(super) fn begin(&self, number: usize, of: usize, name: &str) {
        let name = printable(name.rsplit('/').next().unwrap_or(name), "");
        self.bar.set_message(if of > 1 { format!("{name} ({} of {of})", number + 1) } else { name });
    }

    pub(super) fn on(&self, event: Event<'_>) {
        match event {
            Event::File { number, of, name } => self.begin(number, of, name),
            Event::Waiting => self.say("another process downloads this file; waiting for it"),
            Event::Started { done, total } => {
                self.stage(Stage::Transfer, total);
                self.bar.set_position(done);
                self.bar.reset_eta();
                if done > 0 {
                    self.say(&format!("continuing after {} of {}", size(done), size(total)));
                } else if !stderr().is_terminal() {
                    note(format_args!("downloading {}, {}", self.bar.message(), size(total)));
                }
            }
            Event::Received { done, total } => {
                self.stage(Stage::Transfer, total);
                self.bar.set_position(done);
            }
            Event::Checked { done, total } => {
                self.stage(Stage::Check, total);
                self.bar.set_position(done);
            }
            Event::Retrying { error, wait } => {
                let why = output::message(&anyhow::Error::msg(error.to_string()));
                let line = format!("{why}; trying again in {:.0} s", wait.as_secs_f64());
                if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
                    self.say(&line);
                }
            }
            _ => {}
        }
    }

    fn stage(&self, next: Stage, total: u64) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if *stage != next {
            *stage = next;
            self.bar.set_length(total);
            output::restyle(&self.bar, if next == Stage::Check { CHECK } else { TRANSFER });
        }
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| note(format_args!("{line}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
