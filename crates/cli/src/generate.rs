//! Runs a request and streams its text.

use std::io;
use std::time::Duration;

use ::grammar::Grammar;
use anyhow::bail;
use engine::template::Answer;
use engine::{Chat, DraftCounts, Engine, Event, Model, Processor, RequestId, StopReason, Usage};
use indicatif::ProgressBar;

use crate::args::{AnswerArgs, Reasoning, TemplateArgs, TemplateChoice};
use crate::interrupt::Answering;
use crate::output::{self, TextOut, counted, note};
use crate::params::ParamArgs;

pub(crate) struct Outcome {
    pub(crate) ids: Vec<u32>,
    pub(crate) text: String,
    pub(crate) reason: StopReason,
    pub(crate) usage: Usage,
}

/// Steps until request `id` ends, and passes every event to `each`. Ctrl-C ends it early.
pub(crate) fn follow(
    engine: &mut Engine,
    id: RequestId,
    prompt_tokens: usize,
    mut each: impl FnMut(&Event) -> io::Result<()>,
) -> anyhow::Result<Outcome> {
    let answering = Answering::begin(engine.interrupt());
    let mut progress = Some(prefill_bar(prompt_tokens, engine.limits().n_batch));
    let (mut ids, mut answer) = (Vec::new(), String::new());
    loop {
        if answering.is_to_stop() {
            engine.cancel(id);
        }
        let events = engine.step()?;
        if let Some(bar) = &progress {
            bar.set_position(engine.cached(id) as u64);
        }
        for event in events {
            if let Some(bar) = progress.take() {
                bar.finish_and_clear();
            }
            each(&event)?;
            match event {
                Event::Token { token, text, .. } => {
                    ids.push(token);
                    answer.push_str(&text);
                }
                Event::Done { reason, usage, .. } => return Ok(Outcome { ids, text: answer, reason, usage }),
                Event::Failed { error, .. } => bail!(error),
            }
        }
    }
}

/// Hidden if the prompt takes a single step.
fn prefill_bar(tokens: usize, n_batch: usize) -> ProgressBar {
    if tokens <= n_batch {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(tokens as u64);
    output::show(bar, "prefill {bar:30} {pos}/{len} tokens")
}

/// Applies the options of answers and of the template's variables.
///
/// A grammar applies to the content of answers: a model that reasons may do so before.
pub(crate) fn configure(
    chat: &mut Chat,
    model: &Model,
    args: &AnswerArgs,
    template: &TemplateChoice,
    grammar: Option<&Grammar>,
) {
    let AnswerArgs { params: ParamArgs(params), reasoning } = args;
    chat.params = params.clone();
    chat.processors =
        grammar.map(|grammar| Box::new(grammar.constraint()) as Box<dyn Processor>).into_iter().collect();
    let mut variables = serde_json::Map::new();
    if let (Reasoning::Off, Ok(template)) = (reasoning, model.template()) {
        match template.without_reasoning() {
            Some(off) => variables = off,
            None if template.has_reasoning() => {
                note(format_args!("the chat template cannot turn reasoning off: it is hidden"));
            }
            None => note(format_args!("the chat template knows no reasoning")),
        }
    }
    variables.extend(template.variables());
    chat.template_options.variables = variables;
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

    pub(crate) fn push(&mut self, text: &Answer) -> io::Result<()> {
        if self.reasoning == Reasoning::Show && !text.reasoning.is_empty() {
            self.out.push_dimmed(&text.reasoning)?;
            (self.has_reasoned, self.is_empty) = (true, false);
        }
        if text.content.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.has_reasoned) {
            self.out.end_line()?;
            self.out.push("\n")?;
        }
        self.is_empty = false;
        self.out.push(&text.content)
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
