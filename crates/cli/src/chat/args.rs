//! The options of `chat`.

use clap::Arg;
use clap::builder::FalseyValueParser;

use super::settings::Settings;
use crate::args::{ESCAPES, EngineArgs, ModelArgs, PositionalModel, TemplateArgs};
use crate::grammar::GrammarArgs;
use crate::speculation::SpeculationArgs;

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Type /help for the commands of a chat. Without a terminal, each line of stdin is a message and only
answers go to stdout: printf '1\\n' | rustorch chat -m model.gguf
The first line that fails ends such a chat with exit code 1.
On a terminal, control characters in the text are escaped; a pipe gets them as they are.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) positional: PositionalModel,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// The first message
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Prompt")]
    pub(super) prompt: Option<String>,
    #[command(flatten)]
    pub(super) template: TemplateArgs,
    /// Exit after the first answer [short: -st]
    #[arg(long, alias = "st", help_heading = "Prompt")]
    pub(super) single_turn: bool,
    /// Drop the oldest messages and their answers when the context is full; the system message stays
    #[arg(long, help_heading = "Prompt", env, value_parser = FalseyValueParser::new())]
    pub(super) context_shift: bool,
    #[command(flatten)]
    pub(super) settings: Settings,
    #[command(flatten)]
    pub(super) grammar: GrammarArgs,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) speculation: SpeculationArgs,
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
