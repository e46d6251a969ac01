//! What `chat` takes from the command line.

use clap::Arg;
use clap::builder::FalseyValueParser;

use super::settings::Settings;
use crate::args::{ESCAPES, EngineArgs, ModelArgs, TemplateArgs};

/// What `chat` is told.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Type /help for the commands of a chat. Without a terminal, each line of stdin is a message and only
answers go to stdout: printf '1\\n' | rustorch chat -m model.gguf
The first line that cannot be obeyed or answered ends such a chat with exit code 1.
On a terminal, control characters of the text are shown escaped; a pipe gets them as they are.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// The first message; others can follow its answer
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Prompt")]
    pub(super) prompt: Option<String>,
    #[command(flatten)]
    pub(super) template: TemplateArgs,
    /// Leave after the first answer [short: -st]
    #[arg(long, alias = "st", help_heading = "Prompt")]
    pub(super) single_turn: bool,
    /// Forget the oldest messages and their answers when the context has no room; the system message stays
    #[arg(long, help_heading = "Prompt")]
    #[arg(env = "RUSTORCH_CONTEXT_SHIFT", value_parser = FalseyValueParser::new())]
    pub(super) context_shift: bool,
    #[command(flatten)]
    pub(super) settings: Settings,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
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
