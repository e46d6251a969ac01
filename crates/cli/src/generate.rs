//! Runs a request and streams its text.

use std::io;
use std::time::Duration;

use anyhow::bail;
use engine::{DraftCounts, StopReason, Usage};
use indicatif::ProgressBar;
use rustorch::{Delta, DeltaKind, End, Model, Part, Stopper};
use serde_json::{Map, Value};

use crate::args::{Reasoning, TemplateArgs, TemplateChoice};
use crate::interrupt;
use crate::output::{self, TextOut, counted, note};

pub(crate) struct Outcome {
    pub(crate) ids: Vec<u32>,
    /// As generated.
    pub(crate) text: String,
    pub(crate) end: End,
}

/// Reads an answer to its end, and passes its parts to `each`. Ctrl-C ends it early.
pub(crate) fn follow(
    deltas: impl Iterator<Item = rustorch::Result<Delta>>,
    stopper: Stopper,
    prompt_tokens: usize,
    model: &Model,
    mut each: impl FnMut(Part) -> io::Result<()>,
) -> anyhow::Result<Outcome> {
    let _working = interrupt::working(Some(stopper));
    let n_batch = model.limits().map_or(0, |limits| limits.n_batch);
    // Hidden if the prompt takes a single step.
    let progress = if prompt_tokens <= n_batch {
        ProgressBar::hidden()
    } else {
        output::show(ProgressBar::new(prompt_tokens as u64), "prefill {bar:30} {pos}/{len} tokens")
    };
    let (mut ids, mut text) = (Vec::new(), String::new());
    for delta in deltas {
        match delta?.kind {
            DeltaKind::Progress(prefill) => progress.set_position(prefill.processed as u64),
            DeltaKind::Token { id, text: more, .. } => {
                progress.finish_and_clear();
                ids.push(id);
                text.push_str(&more);
            }
            DeltaKind::Part(part) => each(part)?,
            DeltaKind::End(end) => {
                progress.finish_and_clear();
                return Ok(Outcome { ids, text, end });
            }
            _ => {}
        }
    }
    bail!("the answer has no end")
}

/// Variables of the chat template, those that turn reasoning off included. Notes what a template cannot do.
pub(crate) fn variables(model: &Model, reasoning: Reasoning, choice: &TemplateChoice) -> Map<String, Value> {
    let mut variables = Map::new();
    if let (Reasoning::Off, Ok(template)) = (reasoning, model.file().template()) {
        match template.without_reasoning() {
            Some(off) => variables = off,
            None if template.has_reasoning() => {
                note(format_args!("the chat template cannot turn reasoning off: it is hidden"));
            }
            None => note(format_args!("the chat template knows no reasoning")),
        }
    }
    variables.extend(choice.variables());
    variables
}

/// Writes answers to stdout, their reasoning as requested.
pub(crate) struct AnswerOut {
    out: TextOut,
    reasoning: Reasoning,
    /// Reasoning was written, and no content yet.
    has_reasoned: bool,
    is_empty: bool,
}

impl AnswerOut {
    pub(crate) fn new(reasoning: Reasoning) -> AnswerOut {
        AnswerOut { out: TextOut::new(), reasoning, has_reasoned: false, is_empty: true }
    }

    pub(crate) fn push(&mut self, part: &Part) -> io::Result<()> {
        match part {
            Part::Reasoning(text) if self.reasoning == Reasoning::Show => {
                (self.has_reasoned, self.is_empty) = (true, false);
                self.out.push_dimmed(text)
            }
            Part::Content(text) => {
                if std::mem::take(&mut self.has_reasoned) {
                    self.out.end_line()?;
                    self.out.push("\n")?;
                }
                self.is_empty = false;
                self.out.push(text)
            }
            _ => Ok(()),
        }
    }

    /// Ends the line. Returns whether nothing was written.
    pub(crate) fn end(mut self) -> io::Result<bool> {
        self.out.end_line()?;
        Ok(self.is_empty)
    }
}

pub(crate) fn say_system_is_unused(args: &TemplateArgs) {
    if args.system.is_some() {
        note(format_args!("the system message is not used: the text is used as it is"));
    }
}

pub(crate) fn summary(usage: &Usage, reason: &StopReason) -> String {
    let part = |tokens: usize, time: Duration, rate: Option<f64>| {
        let rate = rate.map_or(String::new(), |rate| format!(", {rate:.1} tokens/s"));
        format!("{} in {:.2} s{rate}", counted(tokens, "token"), time.as_secs_f64())
    };
    let prefill = part(usage.prefilled_tokens(), usage.prefill, usage.prefill_rate());
    let decode = part(usage.generated_tokens, usage.decode, usage.decode_rate());
    let reused = match usage.reused_tokens {
        0 => String::new(),
        reused => format!(" ({reused} more reused)"),
    };
    let drafts = match usage.drafts {
        DraftCounts { drafted: 0, .. } => String::new(),
        DraftCounts { drafted, accepted, .. } => format!(", {accepted} of {drafted} drafted tokens accepted"),
    };
    format!("prompt: {prefill}{reused}; answer: {decode}{drafts}; ended by {reason}; seed {}", usage.seed)
}

pub(crate) fn note_merged_system() {
    note(format_args!(
        "the chat template does not write all system messages: their texts are in messages of the user"
    ));
}
