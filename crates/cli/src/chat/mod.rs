//! `rustorch chat`: a conversation on a terminal or through a pipe.

mod command;
mod input;
mod session;
mod settings;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Context;
use clap::Arg;
use clap::builder::FalseyValueParser;
use engine::StopReason;

use crate::args::{ESCAPES, GrammarArgs, ModelArgs, PositionalModel, TemplateArgs, WritingArgs};
use crate::interrupt;
use crate::output::{self, INTERRUPTED, note};
use command::Command;
use input::{Input, Line};
use session::Session;
use settings::Settings;

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Type /help for the commands of a chat. Without a terminal, each line of stdin is a message and only
answers go to stdout: printf '1\\n' | rustorch chat -m model.gguf
The first line that fails ends such a chat with exit code 1.
On a terminal, control characters in the text are escaped; a pipe gets them as they are.")]
pub(crate) struct Args {
    #[command(flatten)]
    positional: PositionalModel,
    #[command(flatten)]
    model: ModelArgs,
    /// The first message
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Prompt")]
    prompt: Option<String>,
    #[command(flatten)]
    template: TemplateArgs,
    /// Exit after the first answer [short: -st]
    #[arg(long, alias = "st", help_heading = "Prompt")]
    single_turn: bool,
    /// Drop the oldest messages and their answers when the context is full; the system message stays
    #[arg(long, help_heading = "Prompt", env, value_parser = FalseyValueParser::new())]
    context_shift: bool,
    /// Continue the last conversation that a terminal had
    #[arg(long, help_heading = "Prompt")]
    resume: bool,
    /// Do not save the conversation of a terminal for --resume
    #[arg(long, help_heading = "Prompt", env, value_parser = FalseyValueParser::new())]
    no_save: bool,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    grammar: GrammarArgs,
    #[command(flatten)]
    writing: WritingArgs,
}

/// The help of options that `run` has as well.
pub(crate) fn in_a_chat(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "system" => arg.help("System message, the first of the conversation [short: -sys]"),
        "raw" => arg.help("Use the text without chat template and system message"),
        "escape" => arg.help(format!("{ESCAPES} in --system and in messages")),
        _ => arg,
    }
}

pub(crate) fn run(mut args: Args, verbose: bool) -> anyhow::Result<ExitCode> {
    args.positional.clone().apply(&mut args.model);
    args.template.read_escapes()?;
    interrupt::install()?;
    let mut input = Input::open()?;
    let (first, is_single_turn) = (args.prompt.take(), args.single_turn);
    let mut session = Session::new(args, verbose, input.is_interactive())?;
    if input.is_interactive() {
        session.greet();
    }
    session.resume()?;
    if let Some(text) = first {
        let reason = session.answer(&text)?;
        if reason == StopReason::Cancelled && !input.is_interactive() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        if is_single_turn {
            return Ok(ExitCode::SUCCESS);
        }
    }
    talk(&mut session, &mut input, is_single_turn)
}

/// Reads messages and commands until the end of input, `/exit`, or the first answer of a single turn.
fn talk(session: &mut Session, input: &mut Input, is_single_turn: bool) -> anyhow::Result<ExitCode> {
    let (mut interrupted, mut number) = (false, 0_u64);
    loop {
        number += 1;
        let place = || format!("line {number} of stdin, which ends the chat");
        let line = match input.next(session.longest_line()).with_context(place)? {
            Line::Text(line) => line,
            Line::End => return Ok(ExitCode::SUCCESS),
            Line::Interrupted if interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            Line::Interrupted => {
                note(format_args!("press Ctrl-C again or Ctrl-D to leave"));
                interrupted = true;
                continue;
            }
        };
        let done = match Command::parse(&line) {
            None if line.trim().is_empty() => Ok(None),
            None => session.answer(line.strip_prefix('/').unwrap_or(&line)).map(Some),
            Some(Ok((Command::Exit, _))) => return Ok(ExitCode::SUCCESS),
            Some(Ok((Command::Retry, _))) => session.retry().map(Some),
            Some(Ok((command, rest))) => session.obey(command, rest).map(|()| None),
            Some(Err(why)) => Err(anyhow::Error::msg(why)),
        };
        let answered = match done {
            Err(error) if input.is_interactive() => {
                output::fail(&error);
                None
            }
            done => done.with_context(place)?,
        };
        interrupted = answered == Some(StopReason::Cancelled);
        if interrupted && !input.is_interactive() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        if answered.is_some() && is_single_turn {
            return Ok(ExitCode::SUCCESS);
        }
    }
}
