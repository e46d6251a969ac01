//! `rustorch run`: answers or continues one prompt.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use engine::template::Answer;
use engine::{Message, StopReason};
use rustorch::{Conversation, End, Input, Model, PromptPiece, Request};
use serde_json::{Value, json};

use crate::args::{
    AnswerArgs, GrammarArgs, ModelArgs, PositionalModel, Reasoning, TemplateArgs, WritingArgs,
};
use crate::files::TextFile;
use crate::generate::{self, AnswerOut, Outcome};
use crate::output::{self, INTERRUPTED};
use crate::params::ParamArgs;
use crate::values::TokenIds;
use crate::{interrupt, load};

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
    writing: WritingArgs,
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
    let model = args.template.choice.apply(load::model(&args.model)?)?;
    let format = args.grammar.source()?;
    let model = load::writing(model, &args.writing, args.model.open.network)?;
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
    let Some(text) = text else {
        generate::say_system_is_unused(&args.template);
        let tokens = args.source.tokens.clone();
        return tokens.map_or_else(Vec::new, |TokenIds(ids)| ids).into();
    };
    if args.template.raw || template.is_err() {
        if let (Err(why), false) = (template, args.template.raw) {
            output::note(format_args!("{why}: the prompt is used as it is"));
        }
        generate::say_system_is_unused(&args.template);
        return Input::Prompt(vec![PromptPiece::Text { text, parse_special: args.parse_special }]);
    }
    let system = args.template.system.clone().map(|system| Message::new("system", system));
    let messages = system.into_iter().chain([Message::new("user", text)]).collect();
    let variables = generate::variables(model, args.answers.reasoning, &args.template.choice);
    Conversation { variables, ..Conversation::new(messages) }.into()
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
