//! One request from its prompt to its end, with text as it comes.

use std::io;
use std::time::Duration;

use anyhow::bail;
use engine::{Engine, Event, Request, Sampling, Stop, StopReason, Usage};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{LengthArgs, LogitBias, SamplingArgs};
use crate::interrupt::Answering;

/// How a request went.
pub(crate) struct Outcome {
    /// Tokens generated.
    pub(crate) ids: Vec<u32>,
    /// Their text.
    pub(crate) text: String,
    /// Why it ended.
    pub(crate) reason: StopReason,
    /// What it took.
    pub(crate) usage: Usage,
}

/// Runs `request` alone and gives its text to `each` as it comes. Ctrl-C ends it early.
///
/// # Errors
/// When the engine refuses the request or fails, or `each` does.
pub(crate) fn generate(
    engine: &mut Engine,
    request: Request,
    mut each: impl FnMut(&str) -> io::Result<()>,
) -> anyhow::Result<Outcome> {
    let answering = Answering::begin();
    let mut progress = Some(prefill_bar(request.prompt.len(), engine.limits().n_batch));
    let request = engine.submit(request)?;
    let (mut ids, mut answer) = (Vec::new(), String::new());
    loop {
        if answering.is_to_stop() {
            engine.cancel(request);
        }
        let events = engine.step()?;
        if let Some(bar) = &progress {
            bar.inc(engine.limits().n_batch as u64);
        }
        for event in events {
            if let Some(bar) = progress.take() {
                bar.finish_and_clear();
            }
            match event {
                Event::Token { token, text, .. } => {
                    ids.push(token);
                    answer.push_str(&text);
                    each(&text)?;
                }
                Event::Done { reason, usage, .. } => return Ok(Outcome { ids, text: answer, reason, usage }),
                Event::Failed { error, .. } => bail!(error),
            }
        }
    }
}

/// A bar on stderr, when that is a terminal and the prompt takes more than one step.
fn prefill_bar(tokens: usize, n_batch: usize) -> ProgressBar {
    if tokens <= n_batch {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(tokens as u64);
    if let Ok(style) = ProgressStyle::with_template("reading the prompt {wide_bar} {pos}/{len} tokens") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The engine's sampling from the command line's.
pub(crate) fn sampling(args: &SamplingArgs) -> Sampling {
    Sampling {
        temperature: args.temperature,
        top_k: usize::try_from(args.top_k).unwrap_or(0),
        typical_p: args.typical_p,
        top_p: args.top_p,
        min_p: args.min_p,
        repeat_penalty: args.repeat_penalty,
        frequency_penalty: args.frequency_penalty,
        presence_penalty: args.presence_penalty,
        penalty_last_n: usize::try_from(args.repeat_last_n).unwrap_or(usize::MAX),
        logit_bias: args.logit_bias.iter().map(|&LogitBias(token, bias)| (token, bias)).collect(),
        seed: u32::try_from(args.seed).ok(),
    }
}

/// The request's stop conditions from the command line's.
pub(crate) fn stop(args: &LengthArgs) -> Stop {
    Stop { ids: Vec::new(), strings: args.stop.clone(), ignore_eog: args.ignore_eos }
}

/// The request's length from the command line's; -1 is until it stops.
pub(crate) fn max_tokens(args: &LengthArgs) -> Option<usize> {
    usize::try_from(args.max_tokens).ok()
}

/// What a request took, in a line for people.
pub(crate) fn summary(usage: &Usage, reason: &StopReason) -> String {
    let part = |tokens: usize, time: Duration, rate: Option<f64>| {
        let rate = rate.map_or(String::new(), |rate| format!(", {rate:.1} tokens/s"));
        format!("{tokens} tokens in {:.2} s{rate}", time.as_secs_f64())
    };
    let prefill = part(usage.prefilled_tokens(), usage.prefill, usage.prefill_rate());
    let decode = part(usage.generated_tokens, usage.decode, usage.decode_rate());
    let reused = match usage.reused_tokens {
        0 => String::new(),
        reused => format!(" ({reused} more reused)"),
    };
    format!("prompt: {prefill}{reused}; answer: {decode}; ended by {reason}; seed {}", usage.seed)
}
