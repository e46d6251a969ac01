//! Where a chat's lines come from: a line editor on a terminal, else stdin as it is.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Behavior, Cmd, Config, Editor, EventHandler, KeyCode, KeyEvent, Modifiers};

use crate::folders;

/// Lines of a chat.
pub(super) enum Input {
    Terminal { editor: Box<Editor<(), FileHistory>>, history: Option<PathBuf> },
    Pipe,
}

/// What was read.
pub(super) enum Line {
    Text(String),
    Interrupted,
    End,
}

impl Input {
    /// The line editor when stdin is a terminal.
    pub(super) fn open() -> anyhow::Result<Input> {
        if !io::stdin().is_terminal() {
            return Ok(Input::Pipe);
        }
        let config = Config::builder().auto_add_history(true).max_history_size(1000)?;
        // Prompts stay out of a stdout that is not a terminal.
        let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let mut editor = Editor::with_config(config.behavior(behavior).build())?;
        let alt_enter = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        editor.bind_sequence(alt_enter, EventHandler::Simple(Cmd::Newline));
        let history = folders::data().map(|folder| folder.join("chat_history"));
        if let Some(file) = &history
            && let Err(error) = editor.load_history(file)
        {
            tracing::debug!("no history from {}: {error}", file.display());
        }
        Ok(Input::Terminal { editor: Box::new(editor), history })
    }

    /// Whether somebody types.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self, Input::Terminal { .. })
    }

    pub(super) fn next(&mut self) -> anyhow::Result<Line> {
        match self {
            Input::Terminal { editor, .. } => match editor.readline("> ") {
                Ok(line) => Ok(Line::Text(line)),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                Err(error) => Err(error).context("cannot read from the terminal"),
            },
            Input::Pipe => {
                let mut line = Vec::new();
                if io::stdin().lock().read_until(b'\n', &mut line).context("cannot read stdin")? == 0 {
                    return Ok(Line::End);
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

    /// Keeps the history for the next time.
    pub(super) fn close(&mut self) {
        let Input::Terminal { editor, history: Some(file) } = self else { return };
        let saved = file.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(ReadlineError::from);
        if let Err(error) = saved.and_then(|()| editor.save_history(file)) {
            tracing::warn!("the history cannot be kept in {}: {error}", file.display());
        }
    }
}
