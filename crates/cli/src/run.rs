//! `rustorch run`: answers or continues one prompt.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use backend::host_memory;
use engine::template::Answer;
use engine::{Message, StopReason};
use rustorch::{Conversation, End, Input, Model, Request};
use serde_json::{Value, json};

use crate::args::{AnswerArgs, EngineArgs, ModelArgs, PositionalModel, Reasoning, TemplateArgs};
use crate::generate::{self, AnswerOut, Outcome};
use crate::grammar::GrammarArgs;
use crate::interrupt;
use crate::load::{self, Writing};
use crate::output::{self, INTERRUPTED, size};
use crate::params::ParamArgs;
use crate::speculation::SpeculationArgs;
use crate::values::TokenIds;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
If the model has a chat template, the prompt is a user's message; --raw uses it as it is.
On a terminal, control characters in the text are escaped; a pipe gets them as they are.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) positional: PositionalModel,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) template: TemplateArgs,
    /// Encode special tokens in a raw prompt
    #[arg(long, help_heading = "Prompt")]
    pub(crate) parse_special: bool,
    #[command(flatten)]
    pub(crate) answers: AnswerArgs,
    #[command(flatten)]
    pub(crate) grammar: GrammarArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
    /// Print one JSON object at the end instead of the text
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
#[group(required = true, multiple = false)]
pub(crate) struct SourceArgs {
    /// The prompt, as -p TEXT
    #[arg(value_name = "PROMPT")]
    pub(crate) text: Option<String>,
    /// The prompt
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    /// File with the prompt, without a final newline; - is stdin
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Token ids instead of text, such as 1,15043
    #[arg(long, value_name = "IDS")]
    pub(crate) tokens: Option<TokenIds>,
}

pub(crate) fn run(mut args: Args, verbose: bool) -> anyhow::Result<ExitCode> {
    args.positional.clone().apply(&mut args.model);
    args.template.read_escapes()?;
    let typed = args.source.prompt.as_ref().or(args.source.text.as_ref());
    let typed = typed.map(|text| args.template.read(text)).transpose()?;
    let file = args.source.file.as_deref().map(TextFile::open).transpose()?;
    let model = args.template.apply(load::model(&args.model)?)?;
    let format = args.grammar.source()?;
    let Args { engine, speculation, .. } = &args;
    let model = load::writing(model, Writing { engine, speculation, open: &args.model.open })?;
    let text = match (typed, file) {
        (None, Some(file)) => Some(file.prompt(&model)?),
        (typed, _) => typed,
    };
    // Text that a grammar accepts is for programs.
    let is_for_programs = format.is_some() && !io::stdout().is_terminal();
    let AnswerArgs { params: ParamArgs(params), reasoning } = &args.answers;
    let input = input(&model, &args, text);
    let request = Request { params: params.clone(), format, progress: true, ..Request::new(input) };
    let prepared = model.prepare(request)?;
    if prepared.merged_system() {
        generate::note_merged_system();
    }
    let prompt = prepared.prompt().to_vec();
    let stream = prepared.submit()?;

    interrupt::install()?;
    let mut out = AnswerOut::new(if is_for_programs { Reasoning::Hide } else { *reasoning });
    let mut answer = Answer::default();
    let stopper = stream.stopper();
    let outcome = generate::follow(stream.into_iter(), stopper, prompt.len(), &model, |part| {
        if !args.json {
            out.push(&part)?;
        }
        answer.push(part);
        Ok(())
    })?;
    out.end()?;
    let End { reason, usage, .. } = &outcome.end;
    if args.json {
        output::json(&in_json(model.file().file().file(), &prompt, &outcome, &answer))?;
    } else if let (StopReason::ContextFull, Some(n_ctx)) = (reason, model.n_ctx()) {
        output::note(format_args!("the context of {n_ctx} tokens is full; -c N makes it larger"));
    }
    if verbose {
        output::note(format_args!("{}", generate::summary(usage, reason)));
    }
    let interrupted = *reason == StopReason::Cancelled;
    Ok(if interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// The prompt: with a chat template, `text` is a user's message.
fn input(model: &Model, args: &Args, text: Option<String>) -> Input {
    let template = model.file().template();
    match (text, template) {
        (Some(text), Ok(_)) if !args.template.raw => {
            let system = args.template.system.clone().map(|system| Message::new("system", system));
            let messages = system.into_iter().chain([Message::new("user", text)]).collect();
            let variables = generate::variables(model, args.answers.reasoning, &args.template.choice);
            Conversation { variables, ..Conversation::new(messages) }.into()
        }
        (Some(text), template) => {
            if let (Err(why), false) = (template, args.template.raw) {
                output::note(format_args!("{why}: the prompt is used as it is"));
            }
            generate::say_system_is_unused(&args.template);
            Input::Text { text, parse_special: args.parse_special }
        }
        (None, _) => {
            generate::say_system_is_unused(&args.template);
            Input::Tokens(args.source.tokens.clone().map_or_else(Vec::new, |TokenIds(ids)| ids))
        }
    }
}

/// Memory that a tokenizer takes at most for a byte of text.
const BYTES_PER_TEXT_BYTE: u64 = 64;

/// A text to be read when the model is known, which limits its length.
pub(crate) struct TextFile<'a> {
    name: &'a Path,
    content: Box<dyn Read>,
}

impl TextFile<'_> {
    /// Opens a file, `-` for stdin.
    pub(crate) fn open(name: &Path) -> anyhow::Result<TextFile<'_>> {
        let content: Box<dyn Read> = match name == Path::new("-") {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(name).with_context(|| unreadable(name))?),
        };
        Ok(TextFile { name, content })
    }

    /// The text without a newline at its end. Reads no more than the context of `model` can hold.
    pub(crate) fn prompt(self, model: &Model) -> anyhow::Result<String> {
        let most = model.max_text_bytes().unwrap_or_default();
        // A newline at the end does not count.
        let text = without_newline(self.read(most.saturating_add("\r\n".len()))?);
        model.check_text(text.len())?;
        Ok(text)
    }

    /// The whole text, if the available memory can tokenize it.
    pub(crate) fn whole(self) -> anyhow::Result<String> {
        let limit = host_memory().free.map_or(usize::MAX, |free| (free / BYTES_PER_TEXT_BYTE) as usize);
        let name = self.name;
        let text = self.read(limit)?;
        if text.len() > limit {
            let limit = size(limit as u64);
            bail!(
                "{}: it has more than the {limit} that the available memory can tokenize",
                unreadable(name)
            );
        }
        Ok(text)
    }

    /// More than `most` bytes if the text has more.
    fn read(self, most: usize) -> anyhow::Result<String> {
        let mut text = Vec::new();
        // Enough for a character that `most` cuts.
        let read = self.content.take(most.saturating_add(4) as u64).read_to_end(&mut text);
        read.with_context(|| unreadable(self.name))?;
        if let Err(error) = str::from_utf8(&text)
            && error.error_len().is_none()
            && text.len() > most
        {
            text.truncate(error.valid_up_to());
        }
        String::from_utf8(text).with_context(|| unreadable(self.name))
    }
}

fn unreadable(name: &Path) -> String {
    match name == Path::new("-") {
        true => "cannot read the text from stdin".to_owned(),
        false => format!("cannot read the text {}", name.display()),
    }
}

pub(crate) fn without_newline(mut text: String) -> String {
    let end =
        text.strip_suffix('\n').map_or(text.len(), |text| text.strip_suffix('\r').unwrap_or(text).len());
    text.truncate(end);
    text
}

fn in_json(model: &str, prompt_ids: &[u32], outcome: &Outcome, answer: &Answer) -> Value {
    let Outcome { ids, text, end: End { reason, usage, .. } } = outcome;
    let (stop_reason, stop) = match reason {
        StopReason::Eog(id) => ("end_of_generation", Some(("stop_id", json!(id)))),
        StopReason::StopId(id) => ("stop_id", Some(("stop_id", json!(id)))),
        StopReason::StopString(text) => ("stop_string", Some(("stop_string", json!(text)))),
        StopReason::MaxTokens => ("max_tokens", None),
        StopReason::Cancelled => ("interrupted", None),
        StopReason::ContextFull => ("context_full", None),
    };
    let mut json = json!({
        "model": model,
        "prompt_ids": prompt_ids,
        "ids": ids,
        "text": text,
        "reasoning": answer.reasoning,
        "content": answer.content,
        "stop_reason": stop_reason,
        "seed": usage.seed,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "reused_tokens": usage.reused_tokens,
            "generated_tokens": usage.generated_tokens,
            "drafted_tokens": usage.drafts.drafted,
            "accepted_tokens": usage.drafts.accepted,
        },
        "timings": {
            "prefill_seconds": usage.prefill.as_secs_f64(),
            "decode_seconds": usage.decode.as_secs_f64(),
            "prefill_tokens_per_second": usage.prefill_rate(),
            "decode_tokens_per_second": usage.decode_rate(),
        },
    });
    if let Some((name, value)) = stop {
        json[name] = value;
    }
    json
}
