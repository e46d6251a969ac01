//! `rustorch chat`: a conversation on a terminal, or line by line through a pipe.

mod command;
mod input;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Arg, ValueEnum};
use engine::{Chat, Engine, Event, LogitRows, Model, StopReason, Usage};

use crate::args::{AnswerArgs, ESCAPES, EngineArgs, ModelArgs, TemplateArgs};
use crate::output::{self, INTERRUPTED, TextOut, Usage as Misuse, counted, note, printable};
use crate::registry::BackendName;
use crate::{generate, interrupt, load};
use command::Command;
use input::{Input, Line};

/// What `chat` is told.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Type /help for the commands of a chat. Without a terminal, each line of stdin is a message and only
answers go to stdout: printf '1\\n' | rustorch chat -m model.gguf
The first line that cannot be obeyed or answered ends such a chat with exit code 1.
On a terminal, control characters of the text are shown escaped; a pipe gets them as they are.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    template: TemplateArgs,
    #[command(flatten)]
    answers: AnswerArgs,
    #[command(flatten)]
    engine: EngineArgs,
}

/// What options that `run` has as well say in the help of `chat`.
pub(crate) fn in_a_chat(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "system" => arg.help("System message, the first of the conversation [short: -sys]"),
        "raw" => arg.help("No chat template and no system message, only the text"),
        "escape" => arg.help(format!("{ESCAPES} in --system and in messages as characters")),
        _ => arg,
    }
}

pub(crate) fn run(mut args: Args, verbose: bool) -> anyhow::Result<ExitCode> {
    args.template.read_escapes()?;
    interrupt::install()?;
    let mut session = Session::new(args, verbose)?;
    let mut input = Input::open()?;
    if input.is_interactive() {
        session.greet();
    }
    session.talk(&mut input)
}

/// A conversation and what it runs on.
struct Session {
    engine: Engine,
    chat: Chat,
    args: Args,
    verbose: bool,
    /// What the last answer took.
    last: Option<Usage>,
    /// Tokens generated in all answers.
    generated: usize,
}

impl Session {
    fn new(args: Args, verbose: bool) -> anyhow::Result<Session> {
        let mut engine = load::engine(&args.model, &args.engine, LogitRows::Last)?;
        let chat = new_chat(&mut engine, &args)?;
        Ok(Session { engine, chat, args, verbose, last: None, generated: 0 })
    }

    fn greet(&self) {
        let file = printable(self.engine.model().file().file(), "");
        note(format_args!(
            "{file}, context of {} tokens. /help shows the commands.",
            self.engine.limits().n_ctx
        ));
    }

    /// Reads messages and commands until somebody leaves.
    fn talk(&mut self, input: &mut Input) -> anyhow::Result<ExitCode> {
        let (mut interrupted, mut number) = (false, 0_u64);
        loop {
            number += 1;
            let place = || format!("line {number} of stdin, where the chat ends");
            // A message of as many bytes as can fit, and room for a command and the newline.
            let most = self.engine.max_text_bytes().saturating_add(4096);
            let line = match input.next(most).with_context(place)? {
                Line::Text(line) => line,
                Line::End => return Ok(ExitCode::SUCCESS),
                Line::Interrupted if interrupted => return Ok(ExitCode::from(INTERRUPTED)),
                Line::Interrupted => {
                    note(format_args!("Ctrl-C again leaves; so does Ctrl-D"));
                    interrupted = true;
                    continue;
                }
            };
            interrupted = false;
            let done = match Command::parse(&line) {
                None if line.trim().is_empty() => Ok(()),
                None => self.answer(line.strip_prefix('/').unwrap_or(&line), input).map(|reason| {
                    interrupted = reason == StopReason::Cancelled;
                }),
                Some(Ok((Command::Exit, _))) => return Ok(ExitCode::SUCCESS),
                Some(command) => {
                    command.map_err(anyhow::Error::msg).and_then(|(command, rest)| self.obey(command, rest))
                }
            };
            match done {
                Err(error) if input.is_interactive() => drop(output::fail(&error)),
                other => other.with_context(place)?,
            }
            if interrupted && !input.is_interactive() {
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }

    /// What a message or a system message stands for.
    fn read(&self, text: &str) -> anyhow::Result<String> {
        // The command line is not at fault.
        self.args.template.read(text).map_err(|Misuse(why)| anyhow::Error::msg(why))
    }

    fn answer(&mut self, text: &str, input: &Input) -> anyhow::Result<StopReason> {
        let text = self.read(text)?;
        let known = self.chat.merged_system();
        let id = self.chat.say(&mut self.engine, text)?;
        if self.chat.merged_system() && !known {
            generate::note_merged_system();
        }
        let prompt_tokens = self.chat.prompt(self.engine.model())?.len();
        let mut out = TextOut::new();
        let chat = &mut self.chat;
        let outcome = generate::follow(&mut self.engine, id, prompt_tokens, |event| {
            chat.on_event(event);
            match event {
                Event::Token { text, .. } => out.push(text),
                _ => Ok(()),
            }
        });
        if outcome.is_err() {
            chat.step_failed();
        }
        let outcome = outcome?;
        if outcome.text.is_empty() {
            out.push("\n")?
        } else {
            out.end_line()?
        }
        drop(out);
        self.generated += outcome.usage.generated_tokens;
        self.last = Some(outcome.usage);
        if self.verbose {
            note(format_args!("{}", generate::summary(&outcome.usage, &outcome.reason)));
        }
        match outcome.reason {
            StopReason::ContextFull => note(format_args!(
                "the context is full; /clear begins anew, starting with -c N makes it larger"
            )),
            StopReason::Cancelled if input.is_interactive() => {
                note(format_args!("stopped; Ctrl-C again leaves"))
            }
            _ => {}
        }
        Ok(outcome.reason)
    }

    fn obey(&mut self, command: Command, rest: &str) -> anyhow::Result<()> {
        match command {
            Command::Help => note(format_args!("{}", command::help().trim_end())),
            Command::Exit => {}
            Command::Clear => {
                self.chat.clear(&mut self.engine);
                note(format_args!("the conversation begins anew"));
            }
            Command::System => {
                let text = self.read(rest)?;
                self.args.template.system = Some(text).filter(|text| !text.is_empty());
                self.chat.set_system(self.args.template.system.clone());
                note(format_args!(
                    "{}",
                    if rest.is_empty() { "no system message" } else { "system message set" }
                ));
            }
            Command::Toggle => {
                let templated = !self.chat.is_templated();
                self.chat.set_templated(self.engine.model(), templated)?;
                self.args.template.raw = !templated;
                note(format_args!("chat template: {}", if templated { "on" } else { "off" }));
            }
            Command::Stats => note(format_args!("{}", self.stats().trim_end())),
            Command::Save => self.chat.save(rest)?,
            Command::Load => {
                self.chat.load(rest)?;
                note(format_args!("{} loaded", counted(self.chat.messages().len(), "message")));
            }
            Command::Model => {
                let model = ModelArgs { model: Some(rest.into()) };
                let engine = reopen(&model, &self.args.engine)?;
                self.go_on(engine)?;
                self.args.model = model;
                self.greet();
            }
            Command::Backend => {
                let backend = BackendName::from_str(rest, true).map_err(|_| {
                    let names: Vec<&str> = BackendName::all().collect();
                    anyhow::anyhow!("no backend `{rest}`; there are {}", names.join(", "))
                })?;
                let mut args = self.args.engine.clone();
                args.backend.backend = backend;
                let engine = reopen(&self.args.model, &args)?;
                self.go_on(engine)?;
                self.args.engine = args;
                note(format_args!("running on backend {rest}"));
            }
            Command::Set => {
                let mut answers = self.args.answers.clone();
                let shown = command::set(&mut answers, rest).map_err(anyhow::Error::msg)?;
                generate::configure(&mut self.chat, &answers);
                self.args.answers = answers;
                note(format_args!("{shown}"));
            }
        }
        Ok(())
    }

    /// Goes on with the conversation on `engine`, or begins anew where its model cannot take it.
    fn go_on(&mut self, mut engine: Engine) -> anyhow::Result<()> {
        self.chat.move_to(&mut engine)?;
        say_if_raw(&engine, &self.args.template);
        let prompt = self.chat.prompt(engine.model());
        let fits = prompt.is_ok_and(|ids| ids.len() < engine.limits().n_ctx);
        if !fits && self.chat.messages().iter().any(|message| message.role != "system") {
            self.chat.clear(&mut engine);
            note(format_args!(
                "the model's template or context does not take this conversation: it begins anew"
            ));
        }
        (self.engine, self.last) = (engine, None);
        Ok(())
    }

    fn stats(&self) -> String {
        let runner = self.engine.runner();
        let device = runner.loaded().describe();
        let held = [
            ("backend", format!("{} on {}", device.name, printable(&device.device, ""))),
            ("memory", load::in_words(&runner.memory())),
        ];
        let Some(usage) = &self.last else { return "no answer yet\n".to_owned() + &output::pairs(held) };
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!(", {rate:.1} tokens/s"));
        let tokens = |number: usize| counted(number, "token");
        let used = usage.prompt_tokens + usage.generated_tokens;
        let said = [
            ("prefilled", tokens(usage.prefilled_tokens()) + &rate(usage.prefill_rate())),
            ("reused", tokens(usage.reused_tokens) + " of the conversation's cache"),
            ("generated", tokens(usage.generated_tokens) + &rate(usage.decode_rate())),
            ("in all answers", tokens(self.generated)),
            ("context used", format!("{used} of {}", tokens(self.engine.limits().n_ctx))),
            ("seed", usage.seed.to_string()),
        ];
        output::pairs(said.into_iter().chain(held))
    }
}

/// A model for a chat that has begun, which needs no introduction.
fn reopen(model: &ModelArgs, args: &EngineArgs) -> anyhow::Result<Engine> {
    load::on_backend(Model::new(load::file(model)?)?, args, LogitRows::Last)
}

/// An empty conversation as the command line wants it. Says when there is no template for it.
fn new_chat(engine: &mut Engine, args: &Args) -> anyhow::Result<Chat> {
    let mut chat = Chat::new(engine);
    generate::configure(&mut chat, &args.answers);
    chat.set_system(args.template.system.clone());
    if args.template.raw {
        chat.set_templated(engine.model(), false)?;
        generate::say_system_is_unused(&args.template);
    }
    say_if_raw(engine, &args.template);
    Ok(chat)
}

/// Says when there is no template for messages that ought to go through one.
fn say_if_raw(engine: &Engine, args: &TemplateArgs) {
    if let (Err(why), false) = (engine.model().template(), args.raw) {
        note(format_args!("{why}: messages are taken as they are"));
        generate::say_system_is_unused(args);
    }
}
