//! Options that say where a model is from.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error};

/// Whether to download.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct NetworkArgs {
    /// Download a model that is not here without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Never use the network
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Those of llama.cpp keep their names.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct DownloadArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// Repository on Hugging Face, user/repo[:QUANT], downloaded if it is not here [short: -hf]
    #[arg(long, aliases = ["hf", "hfr"], value_name = "REPO", hide_short_help = true)]
    pub(crate) hf_repo: Option<String>,
    /// File in that repository [short: -hff]
    #[arg(long, alias = "hff", value_name = "FILE", requires = "hf_repo", hide_short_help = true)]
    pub(crate) hf_file: Option<String>,
    /// Address of a GGUF file, downloaded if it is not here [short: -mu]
    #[arg(long, alias = "mu", value_name = "URL", hide_short_help = true)]
    pub(crate) model_url: Option<String>,
}

/// The id of the model as the first argument, as of `run` and `chat`.
pub(crate) const POSITIONAL: &str = "named";

/// Refuses two models on the command line; one there overrides that of a variable or the configuration file.
pub(crate) fn check(matches: &ArgMatches, command: &Command) -> Result<(), Error> {
    let Some((name, given)) = matches.subcommand() else { return Ok(()) };
    let is_known = |id: &str| given.try_contains_id(id).is_ok();
    let is_typed = |id: &&&str| is_known(id) && given.value_source(id) == Some(ValueSource::CommandLine);
    let typed: Vec<&str> = ["model", "hf_repo", "model_url"].iter().filter(is_typed).copied().collect();
    let error = |kind| {
        let own = command.find_subcommand(name).unwrap_or(command);
        Error::new(kind).with_cmd(own)
    };
    if let (false, true) = (typed.is_empty(), is_known(POSITIONAL))
        && let Some(word) = given.get_one::<PathBuf>(POSITIONAL)
    {
        let mut error = error(ErrorKind::UnknownArgument);
        error.insert(ContextKind::InvalidArg, ContextValue::String(word.display().to_string()));
        return Err(error);
    }
    if let [first, second, ..] = typed[..] {
        let mut error = error(ErrorKind::ArgumentConflict);
        let spelt = |id: &str| ContextValue::String(format!("--{}", id.replace('_', "-")));
        error.insert(ContextKind::InvalidArg, spelt(first));
        error.insert(ContextKind::PriorArg, spelt(second));
        return Err(error);
    }
    Ok(())
}
