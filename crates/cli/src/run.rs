//! `rustorch run`: answers or continues one prompt.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use engine::template::Answer;
use engine::{Message, StopReason};
use rustorch::{Conversation, End, Input, Model, PromptPiece, Request};
use serde_json::{Value, json};

use crate::args::{
    AnswerArgs, GrammarArgs, ModelArgs, PositionalModel, Reasoning, TemplateArgs, WritingArgs,
};
use crate::files::TextFile;
use crate::generate::{self, AnswerOut, Outcome};
use crate::output::{self, INTERRUPTED, Usage};
use crate::params::ParamArgs;
use crate::source::Word;
use crate::values::TokenIds;
use crate::{interrupt, load};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`rustorch run MODEL` alone chats on a terminal. A single text is a prompt for the default model. What
a pipe or a file on stdin holds follows the prompt, or is the prompt: cat FILE | rustorch run -p Summarise
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
#[group(multiple = false)]
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

impl SourceArgs {
    fn is_given(&self) -> bool {
        let SourceArgs { text, prompt, file, tokens } = self;
        text.is_some() || prompt.is_some() || file.is_some() || tokens.is_some()
    }
}

impl Args {
    /// Whether it is a chat: a model alone, on a terminal.
    pub(crate) fn is_chat(&self) -> bool {
        let is_model = |name: &PathBuf| Word::of(name) == Word::Model;
        let is_alone = !self.source.is_given() && self.positional.name.as_ref().is_none_or(is_model);
        is_alone && !self.json && !self.parse_special && io::stdin().is_terminal()
    }

    /// Takes a single word for the prompt if it names no model.
    fn sort_words(&mut self) -> Result<(), Usage> {
        let Some(name) = self.positional.name.take_if(|_| !self.source.is_given()) else { return Ok(()) };
        let word = name.to_string_lossy().into_owned();
        match Word::of(&name) {
            Word::Model => self.positional.name = Some(name),
            Word::Unclear if !self.model.is_given() => {
                return Err(Usage(format!(
                    "`{word}` may be a prompt or a model, but no model here has this name: `rustorch run -p '{word}'` \
                     asks the default model, `rustorch list` shows the models here, `rustorch show '{word}'` says more"
                )));
            }
            Word::Unclear | Word::Prompt => self.source.text = Some(word),
        }
        Ok(())
    }
}

/// What stdin has for the prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stdin {
    /// Nothing, such as `/dev/null`.
    Nothing,
    /// A pipe or a file.
    Text,
    /// Something that others may have left open, such as a socket.
    Other,
}

impl Stdin {
    fn from_process() -> Stdin {
        #[cfg(unix)]
        {
            use std::os::fd::AsFd;
            use std::os::unix::fs::FileTypeExt;
            let held = io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
            match held.and_then(|file| file.metadata()).map(|metadata| metadata.file_type()) {
                Ok(kind) if kind.is_fifo() || kind.is_file() => Stdin::Text,
                Ok(kind) if !kind.is_char_device() => Stdin::Other,
                _ => Stdin::Nothing,
            }
        }
        #[cfg(not(unix))]
        if io::stdin().is_terminal() { Stdin::Nothing } else { Stdin::Text }
    }
}

/// What stdin holds. Says so if it keeps one waiting: another program may have left it open.
fn read_stdin(model: &Model) -> anyhow::Result<String> {
    let (read, is_read) = mpsc::channel::<()>();
    thread::spawn(move || {
        if is_read.recv_timeout(Duration::from_secs(3)) == Err(mpsc::RecvTimeoutError::Timeout) {
            output::note(format_args!(
                "waiting for the end of stdin, which is part of the prompt; `< /dev/null` leaves it out"
            ));
        }
    });
    let text = TextFile::open(Path::new("-"))?.prompt(model);
    drop(read);
    text
}

pub(crate) fn run(mut args: Args, verbose: bool) -> anyhow::Result<ExitCode> {
    args.sort_words()?;
    args.positional.clone().apply(&mut args.model);
    args.template.read_escapes()?;
    let typed = args.source.prompt.as_ref().or(args.source.text.as_ref());
    let typed = typed.map(|text| args.template.read(text)).transpose()?;
    let file = args.source.file.as_deref().map(TextFile::open).transpose()?;
    let stdin = Stdin::from_process();
    if stdin == Stdin::Nothing && !args.source.is_given() {
        let model = args.model.model.as_ref().map_or(String::new(), |model| format!(" {}", model.display()));
        bail!(Usage(format!(
            "there is no prompt: give it in quotes or as -p TEXT, as -f FILE, or by a pipe (-f - is stdin); on a \
             terminal, `rustorch chat{model}` is a conversation"
        )));
    }
    let model = args.template.choice.apply(load::model(&args.model)?)?;
    let format = args.grammar.source()?;
    let model = load::writing(model, &args.writing, args.model.open.network)?;
    let text = match (typed, file) {
        (None, Some(file)) => Some(file.prompt(&model)?),
        (None, None) if args.source.tokens.is_none() => Some(read_stdin(&model)?),
        (Some(typed), _) if stdin == Stdin::Text => {
            let piped = read_stdin(&model)?;
            Some(if piped.is_empty() { typed } else { format!("{typed}\n\n{piped}") })
        }
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
