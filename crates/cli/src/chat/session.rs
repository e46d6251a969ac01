//! A conversation and what it runs on: messages and commands.

use std::path::Path;

use clap::ValueEnum;
use engine::{Chat, Engine, Event, LogitRows, Model, StopReason, Usage};

use super::args::Args;
use super::command::{self, Command};
use crate::args::{EngineArgs, ModelArgs, TemplateArgs};
use crate::output::{self, TextOut, Usage as Misuse, counted, note, printable};
use crate::registry::BackendName;
use crate::{folders, generate, load};

/// A conversation and what it runs on.
pub(super) struct Session {
    engine: Engine,
    pub(super) chat: Chat,
    args: Args,
    verbose: bool,
    /// Whether somebody types.
    is_interactive: bool,
    /// What the last answer took.
    last: Option<Usage>,
    /// Tokens generated in all answers.
    generated: usize,
}

impl Session {
    pub(super) fn new(args: Args, verbose: bool, is_interactive: bool) -> anyhow::Result<Session> {
        let model = args.template.apply(load::model(&args.model)?)?;
        let mut engine = load::on_backend(model, &args.engine, LogitRows::Last)?;
        let chat = new_chat(&mut engine, &args)?;
        Ok(Session { engine, chat, args, verbose, is_interactive, last: None, generated: 0 })
    }

    pub(super) fn greet(&self) {
        let file = printable(self.engine.model().file().file(), "");
        note(format_args!(
            "{file}, context of {} tokens. /help shows the commands.",
            self.engine.limits().n_ctx
        ));
    }

    /// Bytes of a line, at most: of a message that can fit, with room for a command and the newline.
    pub(super) fn longest_line(&self) -> usize {
        self.engine.max_text_bytes().saturating_add(4096)
    }

    /// What a message or a system message stands for.
    fn read(&self, text: &str) -> anyhow::Result<String> {
        // The command line is not at fault.
        self.args.template.read(text).map_err(|Misuse(why)| anyhow::Error::msg(why))
    }

    pub(super) fn answer(&mut self, text: &str) -> anyhow::Result<StopReason> {
        let text = self.read(text)?;
        if self.args.context_shift {
            // Room for an answer of some length.
            let free = (self.engine.limits().n_ctx / 4).min(self.chat.max_tokens.unwrap_or(usize::MAX));
            let forgotten = self.chat.make_room(&self.engine, &text, free)?;
            say_forgotten(forgotten);
        }
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
        if outcome.text.is_empty() { out.push("\n") } else { out.end_line() }?;
        drop(out);
        self.generated += outcome.usage.generated_tokens;
        self.last = Some(outcome.usage);
        if self.verbose {
            note(format_args!("{}", generate::summary(&outcome.usage, &outcome.reason)));
        }
        match outcome.reason {
            StopReason::ContextFull => note(format_args!(
                "the context is full; /drop forgets the oldest message, /clear all of them; starting with \
                 --context-shift does so by itself, with -c N makes it larger"
            )),
            StopReason::Cancelled if self.is_interactive => {
                let begun =
                    if outcome.ids.is_empty() { " before the answer: the message is forgotten" } else { "" };
                note(format_args!("stopped{begun}; Ctrl-C again leaves"));
            }
            _ => {}
        }
        Ok(outcome.reason)
    }

    pub(super) fn obey(&mut self, command: Command, rest: &str) -> anyhow::Result<()> {
        match command {
            Command::Help => note(format_args!("{}", command::help().trim_end())),
            Command::Exit => {}
            Command::Clear => {
                self.chat.clear(&mut self.engine);
                note(format_args!("the conversation begins anew"));
            }
            Command::Drop => {
                let number = command::to_drop(rest).map_err(anyhow::Error::msg)?;
                let forgotten = (0..number).take_while(|_| self.chat.drop_oldest()).count();
                anyhow::ensure!(forgotten > 0 || number == 0, "there is no message to forget");
                say_forgotten(forgotten);
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
            Command::Save => self.chat.save(folders::expand(Path::new(rest)))?,
            Command::Load => {
                self.chat.load(folders::expand(Path::new(rest)))?;
                note(format_args!("{} loaded", counted(self.chat.messages().len(), "message")));
            }
            Command::Model => {
                let model = ModelArgs { model: Some(rest.into()) };
                let template = self.args.template.of_the_file();
                self.go_on(reopen(&model, &template, &self.args.engine)?)?;
                (self.args.model, self.args.template) = (model, template);
                self.greet();
            }
            Command::Backend => {
                let backend = BackendName::from_str(rest, true).map_err(|_| {
                    let names: Vec<&str> = BackendName::all().collect();
                    anyhow::anyhow!("no backend `{rest}`; there are {}", names.join(", "))
                })?;
                let mut args = self.args.engine.clone();
                args.backend.backend = backend;
                self.go_on(reopen(&self.args.model, &self.args.template, &args)?)?;
                self.args.engine = args;
                note(format_args!("running on backend {rest}"));
            }
            Command::Set => {
                let shown = self.args.settings.set(rest).map_err(anyhow::Error::msg)?;
                generate::configure(&mut self.chat, &self.args.settings.answers);
                note(format_args!("{shown}"));
            }
        }
        Ok(())
    }

    /// Goes on with the conversation on `engine`, or begins anew where its model cannot take it.
    pub(super) fn go_on(&mut self, mut engine: Engine) -> anyhow::Result<()> {
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

fn say_forgotten(messages: usize) {
    if messages > 0 {
        note(format_args!("forgotten with their answers: the oldest {}", counted(messages, "message")));
    }
}

/// A model for a chat that has begun, which needs no introduction.
fn reopen(model: &ModelArgs, template: &TemplateArgs, args: &EngineArgs) -> anyhow::Result<Engine> {
    load::on_backend(template.apply(Model::new(load::file(model)?)?)?, args, LogitRows::Last)
}

/// An empty conversation as the command line wants it. Says when there is no template for it.
fn new_chat(engine: &mut Engine, args: &Args) -> anyhow::Result<Chat> {
    let mut chat = Chat::new(engine);
    generate::configure(&mut chat, &args.settings.answers);
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
