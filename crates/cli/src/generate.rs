//! Runs a request and streams its text.

use std::io;
use std::time::Duration;

use anyhow::bail;
use engine::{Chat, Engine, Event, RequestId, Stop, StopReason, Usage};
use indicatif::ProgressBar;

use crate::args::{AnswerArgs, TemplateArgs};
use crate::interrupt::Answering;
use crate::output::{self, counted, note};

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

pub(crate) fn configure(chat: &mut Chat, args: &AnswerArgs) {
    let AnswerArgs { length, sampling } = args;
    // -1 is no limit.
    chat.max_tokens = usize::try_from(length.max_tokens).ok();
    chat.stop = Stop { ids: Vec::new(), strings: length.stop.clone(), ignore_eog: length.ignore_eos };
    chat.sampling = sampling.sampling();
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
    format!("prompt: {prefill}{reused}; answer: {decode}; ended by {reason}; seed {}", usage.seed)
}

pub(crate) fn note_merged_system() {
    note(format_args!("the chat template has no system messages: the text precedes the first user message"));
}
