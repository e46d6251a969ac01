//! A conversation, its model, and the commands.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use engine::{StopReason, Usage};
use rustorch::{Chat, Model};

use super::Args;
use super::command::{self, Command};
use crate::args::{ModelArgs, NetworkArgs, TemplateArgs, WritingArgs};
use crate::generate::{self, AnswerOut};
use crate::output::{self, Usage as Misuse, counted, note, printable};
use crate::{files, load, source};

pub(super) struct Session {
    model: Model,
    pub(super) chat: Chat,
    args: Args,
    verbose: bool,
    is_interactive: bool,
    last: Option<Usage>,
    /// Tokens generated in all answers.
    generated: usize,
}

impl Session {
    pub(super) fn new(args: Args, verbose: bool, is_interactive: bool) -> anyhow::Result<Session> {
        let model = args.template.choice.apply(load::model(&args.model)?)?;
        let model = load::writing(model, &args.writing, args.model.open.network)?;
        let mut chat = model.chat();
        chat.set_system(args.template.system.clone());
        if args.template.raw {
            chat.set_templated(false)?;
            generate::say_system_is_unused(&args.template);
        }
        say_if_raw(&model, &args.template);
        let mut session = Session { model, chat, args, verbose, is_interactive, last: None, generated: 0 };
        session.configure()?;
        Ok(session)
    }

    pub(super) fn greet(&self) {
        let file = printable(self.model.file().file().file(), "");
        note(format_args!("{file}, context of {} tokens. /help lists the commands.", self.n_ctx()));
    }

    /// Maximum bytes of a line: those of a message, a command and the newline.
    pub(super) fn longest_line(&self) -> usize {
        self.model.max_text_bytes().unwrap_or_default().saturating_add(4096)
    }

    fn n_ctx(&self) -> usize {
        self.model.n_ctx().unwrap_or_default()
    }

    fn read(&self, text: &str) -> anyhow::Result<String> {
        // Not an error of the command line.
        self.args.template.read(text).map_err(|Misuse(why)| anyhow::Error::msg(why))
    }

    pub(super) fn answer(&mut self, text: &str) -> anyhow::Result<StopReason> {
        let text = self.read(text)?;
        if self.args.context_shift {
            self.make_room(&text)?;
        }
        let answered = match self.say(&text) {
            Err(error) if self.is_interactive && is_full(&error) => {
                output::fail(&error);
                if !source::ask("Drop the oldest messages?", true)? || self.make_room(&text)? == 0 {
                    return Err(error);
                }
                self.say(&text)?
            }
            answered => answered?,
        };
        if self.is_interactive && !self.args.no_save {
            self.save_for_resume();
        }
        Ok(answered)
    }

    /// Answers the last message again. The answer before stays if that fails.
    pub(super) fn retry(&mut self) -> anyhow::Result<StopReason> {
        let before = self.chat.messages().to_vec();
        let Some(text) = self.chat.drop_last() else { anyhow::bail!("there is no message to answer again") };
        let messages = self.chat.messages().len();
        let answered = self.say(&text);
        if self.chat.messages().len() == messages {
            self.chat.set_messages(before);
        }
        answered
    }

    /// Drops the oldest messages until `text` and an answer fit. Returns their number.
    fn make_room(&mut self, text: &str) -> anyhow::Result<usize> {
        let most = self.args.settings.answers.params.0.max_tokens.unwrap_or(usize::MAX);
        let dropped = self.chat.make_room(text, (self.n_ctx() / 4).min(most))?;
        say_forgotten(dropped);
        Ok(dropped)
    }

    /// Continues the last conversation if that is requested.
    pub(super) fn resume(&mut self) -> anyhow::Result<()> {
        if !self.args.resume {
            return Ok(());
        }
        let Some(file) = last_chat().filter(|file| file.exists()) else {
            anyhow::bail!(
                "there is no conversation to resume: chats on a terminal are saved unless --no-save is given"
            )
        };
        self.chat.load(&file)?;
        note(format_args!("{} resumed", counted(self.chat.messages().len(), "message")));
        Ok(())
    }

    /// Saves the conversation for `--resume`, readable by the user alone. A failure is said once.
    fn save_for_resume(&mut self) {
        let Some(file) = last_chat() else { return };
        let saved = create_private(&file).and_then(|()| Ok(self.chat.save(&file)?));
        #[cfg(unix)]
        let saved = saved.and_then(|()| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            Ok(std::fs::set_permissions(&file, mode)?)
        });
        if let Err(error) = saved {
            tracing::warn!("the conversation is not saved in {}: {error:#}", file.display());
            self.args.no_save = true;
        }
    }

    fn say(&mut self, text: &str) -> anyhow::Result<StopReason> {
        let known = self.chat.merged_system();
        let mut out = AnswerOut::new(self.args.settings.answers.reasoning);
        let mut answer = self.chat.say(text);
        if answer.merged_system() && !known {
            generate::note_merged_system();
        }
        let (prompt_tokens, stopper) = (answer.prompt_tokens(), answer.stopper()?);
        let deltas = std::iter::from_fn(|| answer.next_delta());
        let outcome = generate::follow(deltas, stopper, prompt_tokens, &self.model, |part| out.push(&part))?;
        drop(answer);
        let (reason, usage) = (outcome.end.reason, outcome.end.usage);
        if out.end()? {
            output::write_all(b"\n")?;
        }
        self.generated += usage.generated_tokens;
        self.last = Some(usage);
        if self.verbose {
            note(format_args!("{}", generate::summary(&usage, &reason)));
        }
        match reason {
            StopReason::ContextFull if self.args.context_shift => note(format_args!(
                "the answer fills the context; the oldest messages are dropped before the next, -c N enlarges the \
                 context"
            )),
            StopReason::ContextFull => note(format_args!(
                "the context is full; /drop removes the oldest message, /clear all; --context-shift does so \
                 automatically, -c N enlarges the context"
            )),
            StopReason::Cancelled if self.is_interactive => {
                let begun =
                    if outcome.ids.is_empty() { " before the answer: the message is dropped" } else { "" };
                note(format_args!("stopped{begun}; press Ctrl-C again to leave"));
            }
            _ => {}
        }
        Ok(reason)
    }

    pub(super) fn obey(&mut self, command: Command, rest: &str) -> anyhow::Result<()> {
        match command {
            Command::Help => note(format_args!("{}", command::help().trim_end())),
            // They are no changes of a conversation.
            Command::Exit | Command::Retry => {}
            Command::Clear => {
                self.chat.clear();
                note(format_args!("the conversation is cleared"));
            }
            Command::Drop => {
                let number = command::to_drop(rest).map_err(anyhow::Error::msg)?;
                let forgotten = (0..number).take_while(|_| self.chat.drop_oldest()).count();
                anyhow::ensure!(forgotten > 0 || number == 0, "there is no message to drop");
                say_forgotten(forgotten);
            }
            Command::System => {
                if !rest.is_empty() {
                    let text = self.read(rest)?;
                    self.args.template.system = Some(text).filter(|text| text != "none");
                    self.chat.set_system(self.args.template.system.clone());
                }
                match &self.args.template.system {
                    Some(_) if !rest.is_empty() => note(format_args!("system message set")),
                    Some(text) => note(format_args!("{}", printable(text, "\n"))),
                    None => note(format_args!("no system message")),
                }
            }
            Command::Toggle => {
                let templated = !self.chat.is_templated();
                self.chat.set_templated(templated)?;
                self.args.template.raw = !templated;
                note(format_args!("chat template: {}", if templated { "on" } else { "off" }));
            }
            Command::Stats => note(format_args!("{}", self.stats()?.trim_end())),
            Command::Save => self.save(&files::expand(Path::new(rest)))?,
            Command::Load => {
                self.chat.load(files::expand(Path::new(rest)))?;
                note(format_args!("{} loaded", counted(self.chat.messages().len(), "message")));
            }
            Command::Model => {
                let model = ModelArgs::at(rest, NetworkArgs::default());
                let template = self.args.template.without_choice();
                self.go_on(reopen(&model, &template, &self.args.writing)?)?;
                (self.args.model, self.args.template) = (model, template);
                self.greet();
            }
            Command::Backend => {
                let mut writing = self.args.writing.clone();
                writing.engine.backend.backend = rest.parse()?;
                self.go_on(reopen(&self.args.model, &self.args.template, &writing)?)?;
                self.args.writing = writing;
                note(format_args!("running on backend {rest}"));
            }
            Command::Set => {
                let shown = self.args.settings.set(rest).map_err(anyhow::Error::msg)?;
                self.configure()?;
                note(format_args!("{shown}"));
            }
            Command::Reasoning => {
                if !rest.is_empty() {
                    self.args.settings.set(&format!("reasoning {rest}")).map_err(anyhow::Error::msg)?;
                    self.configure()?;
                }
                let mode = self.args.settings.answers.reasoning.to_possible_value();
                let mode = mode.as_ref().map_or("", |mode| mode.get_name());
                note(format_args!("reasoning: {mode}"));
            }
        }
        Ok(())
    }

    fn save(&self, file: &Path) -> anyhow::Result<()> {
        let shown = printable(&file.display().to_string(), "");
        if file.exists() {
            anyhow::ensure!(self.is_interactive, "{shown} exists already: name another file, or remove it");
            anyhow::ensure!(source::ask(&format!("Overwrite {shown}?"), false)?, "nothing is saved");
        }
        self.chat.save(file)?;
        note(format_args!("{} saved in {shown}", counted(self.chat.messages().len(), "message")));
        Ok(())
    }

    /// Applies the options of answers. A grammar applies to their content: a model that reasons may do so before.
    fn configure(&mut self) -> anyhow::Result<()> {
        let format = self.args.grammar.source()?;
        let answers = &self.args.settings.answers;
        let request = self.chat.request_mut();
        (request.params, request.format, request.progress) = (answers.params.0.clone(), format, true);
        *self.chat.variables_mut() =
            generate::variables(&self.model, answers.reasoning, &self.args.template.choice);
        Ok(())
    }

    /// Continues the conversation with `model`, or clears it if the model cannot.
    pub(super) fn go_on(&mut self, model: Model) -> anyhow::Result<()> {
        self.chat.move_to(&model);
        say_if_raw(&model, &self.args.template);
        let fits = self.chat.prompt().is_ok_and(|ids| ids.len() < model.n_ctx().unwrap_or_default());
        if !fits && self.chat.messages().iter().any(|message| message.role != "system") {
            self.chat.clear();
            note(format_args!(
                "the conversation does not suit the model's template or context: it is cleared"
            ));
        }
        (self.model, self.last) = (model, None);
        self.configure()
    }

    fn stats(&self) -> anyhow::Result<String> {
        let described = self.model.with_engine(|engine| {
            let runner = engine.runner();
            (runner.loaded().describe(), runner.memory())
        });
        let (device, memory) = described?;
        let held = [
            ("backend", format!("{} on {}", device.name, printable(&device.device, ""))),
            ("memory", load::in_words(&memory)),
        ];
        let Some(usage) = &self.last else { return Ok("no answer yet\n".to_owned() + &output::pairs(held)) };
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!(", {rate:.1} tokens/s"));
        let tokens = |number: usize| counted(number, "token");
        let used = usage.prompt_tokens + usage.generated_tokens;
        let said = [
            ("prefilled", tokens(usage.prefilled_tokens()) + &rate(usage.prefill_rate())),
            ("reused", tokens(usage.reused_tokens) + " from the KV cache"),
            ("generated", tokens(usage.generated_tokens) + &rate(usage.decode_rate())),
            ("generated in all", tokens(self.generated)),
            ("context used", format!("{used} of {}", tokens(self.n_ctx()))),
            ("seed", usage.seed.to_string()),
        ];
        Ok(output::pairs(said.into_iter().chain(held)))
    }
}

/// The file of the last conversation.
fn last_chat() -> Option<PathBuf> {
    Some(files::state_folder()?.join("last_chat.json"))
}

/// Creates the folder of `file` for the user alone; what is in it has the same owner.
fn create_private(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent() else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    Ok(builder.recursive(true).create(folder)?)
}

fn is_full(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(rustorch::Error::ConversationFull { .. }))
}

fn say_forgotten(messages: usize) {
    if messages > 0 {
        note(format_args!("dropped with the answers: the oldest {}", counted(messages, "message")));
    }
}

/// Loads another model, without introducing it.
fn reopen(args: &ModelArgs, template: &TemplateArgs, writing: &WritingArgs) -> anyhow::Result<Model> {
    let model = template.choice.apply(engine::Model::new(load::file(args)?)?)?;
    let mut writing = writing.clone();
    let backend = &mut writing.engine.backend;
    backend.gpu = backend.gpu.for_backend(backend.backend);
    load::writing(model, &writing, args.open.network)
}

/// Notes a missing template.
fn say_if_raw(model: &Model, args: &TemplateArgs) {
    if let (Err(why), false) = (model.file().template(), args.raw) {
        note(format_args!("{why}: messages are used as they are"));
        generate::say_system_is_unused(args);
    }
}
