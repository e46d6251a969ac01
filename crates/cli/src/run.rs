//! `rustorch run`: continues one prompt.

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use engine::{Engine, Request, StopReason};
use serde::Serialize;

use crate::args::{RunArgs, TokenIds};
use crate::generate::{self, Outcome};
use crate::output::{self, INTERRUPTED, TextOut};
use crate::{interrupt, load};

pub(crate) fn run(args: RunArgs, verbose: bool) -> anyhow::Result<ExitCode> {
    let text = match (&args.source.prompt, &args.source.file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(file)) => Some(read_prompt(file)?),
        (None, None) => None,
    };
    let mut engine = load::engine(&args.model, &args.engine)?;
    let prompt = prompt_ids(&engine, &args, text)?;
    let request = Request::new(prompt.clone())
        .sampling(generate::sampling(&args.sampling))
        .stop(generate::stop(&args.length))
        .max_tokens(generate::max_tokens(&args.length));

    interrupt::install()?;
    let mut out = TextOut::new();
    let outcome = generate::generate(&mut engine, request, |text| if args.json { Ok(()) } else { out.push(text) })?;
    if out.is_terminal() {
        out.end_line()?;
    }
    drop(out);
    if args.json {
        output::json(&Answer::new(engine.model().file().file(), &prompt, &outcome))?;
    }
    if verbose {
        output::note(format_args!("{}", generate::summary(&outcome.usage, &outcome.reason)));
    }
    let interrupted = outcome.reason == StopReason::Cancelled;
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The prompt in a file, `-` for stdin, without a newline at its end.
fn read_prompt(file: &Path) -> anyhow::Result<String> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).context("cannot read the prompt from stdin")?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| format!("cannot read the prompt {}", file.display()))?
    };
    Ok(text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text).to_owned())
}

/// The ids the engine is to continue; without `text` those of the command line.
fn prompt_ids(engine: &Engine, args: &RunArgs, text: Option<String>) -> anyhow::Result<Vec<u32>> {
    match (text, &args.source.tokens) {
        (Some(text), _) => Ok(engine.model().encode_prompt(&text, args.template.parse_special)),
        (None, tokens) => Ok(tokens.clone().map_or_else(Vec::new, |TokenIds(ids)| ids)),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    model: &'a str,
    prompt_ids: &'a [u32],
    ids: &'a [u32],
    text: &'a str,
    stop_reason: &'static str,
    /// The end-of-generation token or stop token.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_string: Option<&'a str>,
    seed: u32,
    usage: Tokens,
    timings: Timings,
}

#[derive(Serialize)]
struct Tokens {
    prompt_tokens: usize,
    reused_tokens: usize,
    generated_tokens: usize,
}

#[derive(Serialize)]
struct Timings {
    prefill_seconds: f64,
    decode_seconds: f64,
    prefill_tokens_per_second: Option<f64>,
    decode_tokens_per_second: Option<f64>,
}

impl<'a> Answer<'a> {
    fn new(model: &'a str, prompt_ids: &'a [u32], outcome: &'a Outcome) -> Answer<'a> {
        let Outcome { ids, text, reason, usage } = outcome;
        let (stop_reason, stop_id, stop_string) = match reason {
            StopReason::Eog(id) => ("end_of_generation", Some(*id), None),
            StopReason::StopId(id) => ("stop_id", Some(*id), None),
            StopReason::StopString(text) => ("stop_string", None, Some(text.as_str())),
            StopReason::MaxTokens => ("max_tokens", None, None),
            StopReason::Cancelled => ("interrupted", None, None),
            StopReason::ContextFull => ("context_full", None, None),
        };
        Answer {
            model,
            prompt_ids,
            ids,
            text,
            stop_reason,
            stop_id,
            stop_string,
            seed: usage.seed,
            usage: Tokens {
                prompt_tokens: usage.prompt_tokens,
                reused_tokens: usage.reused_tokens,
                generated_tokens: usage.generated_tokens,
            },
            timings: Timings {
                prefill_seconds: usage.prefill.as_secs_f64(),
                decode_seconds: usage.decode.as_secs_f64(),
                prefill_tokens_per_second: usage.prefill_rate(),
                decode_tokens_per_second: usage.decode_rate(),
            },
        }
    }
}
