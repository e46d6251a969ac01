//! Input of a chat: a line editor on a terminal, else plain stdin.

use std::fs::{self, File};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::builder::styling::Style;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Behavior, Cmd, CompletionType, Config, Context as Before, Editor, EventHandler, Helper, KeyCode,
    KeyEvent, Modifiers,
};

use super::command;
use crate::files;
use crate::interrupt::{self, Guard};
use crate::output::GREEN;

pub(super) enum Input {
    Terminal(Box<Prompt>),
    Pipe,
}

pub(super) enum Line {
    Text(String),
    Interrupted,
    End,
}

/// A line editor; concurrent chats share its history file.
pub(super) struct Prompt {
    editor: Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
    /// Between lines, keys are stored for the next line.
    quiet: Option<Guard>,
}

impl Input {
    pub(super) fn open() -> anyhow::Result<Input> {
        Ok(if io::stdin().is_terminal() { Input::Terminal(Box::new(Prompt::new()?)) } else { Input::Pipe })
    }

    pub(super) fn is_interactive(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }

    /// The next line; from a pipe, up to `most` bytes.
    pub(super) fn next(&mut self, most: usize) -> anyhow::Result<Line> {
        match self {
            Input::Terminal(prompt) => prompt.next(),
            Input::Pipe => {
                let mut line = Vec::new();
                let mut stdin = io::stdin().lock().take(most.saturating_add(1) as u64);
                if stdin.read_until(b'\n', &mut line).context("cannot read stdin")? == 0 {
                    return Ok(Line::End);
                }
                if line.len() > most {
                    bail!("it has more than {most} bytes, which exceeds the context; -c N enlarges it");
                }
                let line = String::from_utf8(line).map_err(|error| {
                    let good = error.utf8_error().valid_up_to();
                    anyhow::anyhow!("it is not UTF-8 from byte {} on", good + 1)
                })?;
                let line = line.strip_suffix('\n').unwrap_or(&line);
                Ok(Line::Text(line.strip_suffix('\r').unwrap_or(line).to_owned()))
            }
        }
    }
}

fn has_colours() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never && io::stdout().is_terminal()
}

impl Prompt {
    fn new() -> anyhow::Result<Prompt> {
        let config = Config::builder().auto_add_history(true).max_history_size(1000)?;
        // The prompt must not go to a stdout that is not a terminal.
        let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = config.behavior(behavior).completion_type(CompletionType::List).build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Completion(FilenameCompleter::new())));
        let alt_enter = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        editor.bind_sequence(alt_enter, EventHandler::Simple(Cmd::Newline));
        let history = files::data_folder().map(|folder| folder.join("chat_history"));
        let mut prompt = Prompt { editor, history, quiet: Some(interrupt::quiet()) };
        prompt.keep(|editor, file| {
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
            // Otherwise the editor's first write could replace the file of another chat.
            drop(File::create_new(file));
            editor.load_history(file)
        });
        Ok(prompt)
    }

    fn next(&mut self) -> anyhow::Result<Line> {
        self.quiet = None;
        let colour = if has_colours() { GREEN } else { Style::new() };
        let read = self.editor.readline(&("> ", format!("{colour}> ")));
        anstream::print!("{colour:#}");
        let _ = io::stdout().flush();
        self.quiet = Some(interrupt::quiet());
        match read {
            Ok(line) => {
                self.keep(|editor, file| editor.append_history(file));
                Ok(Line::Text(line))
            }
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(error) => Err(error).context("cannot read from the terminal"),
        }
    }

    /// Accesses the history file; after the first failure it is no longer used.
    fn keep(
        &mut self,
        with: impl FnOnce(&mut Editor<Completion, FileHistory>, &PathBuf) -> Result<(), ReadlineError>,
    ) {
        let Some(file) = self.history.take() else { return };
        match with(&mut self.editor, &file) {
            Ok(()) => self.history = Some(file),
            Err(error) => tracing::warn!("the history is not saved in {}: {error}", file.display()),
        }
    }
}

/// Completes the names of commands, and of files after commands that take one.
struct Completion(FilenameCompleter);

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, before: &Before<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..at];
        match typed.split_once(' ') {
            Some((name, _)) if command::takes_file(name) => self.0.complete(line, at, before),
            None if typed.starts_with('/') => {
                let pair = |name: &str| Pair { display: name.to_owned(), replacement: format!("{name} ") };
                Ok((0, command::beginning_with(typed).into_iter().map(pair).collect()))
            }
            _ => Ok((at, Vec::new())),
        }
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
