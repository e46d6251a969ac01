//! `rustorch completions`: completion scripts for shells.
//!
//! Those of bash, zsh and fish run the hidden command `complete`, which knows the models on this machine and the
//! rules of [`argv`]. clap's own scripts for bash and zsh split names at colons, so these three are ours.

mod models;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::engine::{CompletionCandidate, complete};
use clap_complete::{Shell, generate};

use crate::{argv, output};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Put it where the shell looks for it:
  bash  mkdir -p ~/.local/share/bash-completion/completions
        rustorch completions bash > ~/.local/share/bash-completion/completions/rustorch
  zsh   rustorch completions zsh > ~/.zfunc/_rustorch, a folder in $fpath
  fish  rustorch completions fish > ~/.config/fish/completions/rustorch.fish
These three complete the names of models, too.")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args, mut command: Command) -> anyhow::Result<ExitCode> {
    let script = match args.shell {
        Shell::Bash => include_bytes!("rustorch.bash").to_vec(),
        Shell::Zsh => include_bytes!("rustorch.zsh").to_vec(),
        Shell::Fish => include_bytes!("rustorch.fish").to_vec(),
        shell => {
            let mut script = Vec::new();
            generate(shell, &mut command, "rustorch", &mut script);
            script
        }
    };
    output::write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// What the scripts ask.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// The command line up to the cursor; the last word is the one to complete
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Prints a candidate per line, with a tab and a description if it has one.
pub(crate) fn answer(args: CompleteArgs, command: Command) -> anyhow::Result<ExitCode> {
    let mut lines = Vec::new();
    for candidate in candidates(args.words, command)? {
        let Some(value) = candidate.get_value().to_str().filter(|value| !value.contains(char::is_control))
        else {
            continue;
        };
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = output::printable(help.lines().next().unwrap_or_default(), "");
        writeln!(lines, "{value}\t{help}")?;
    }
    output::write_all(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Commands that are meant where none is named, depending on the options.
const UNNAMED: [&str; 2] = ["chat", "run"];

/// Candidates for the last of `words`, the first of which is the program.
fn candidates(mut words: Vec<OsString>, command: Command) -> anyhow::Result<Vec<CompletionCandidate>> {
    let Some(current) = words.pop().filter(|_| !words.is_empty()) else { return Ok(Vec::new()) };
    let mut completed = models::completed(command.clone());
    let mut of = |mut words: Vec<OsString>| {
        words.push(current.clone());
        let last = words.len() - 1;
        let mut found = complete(&mut completed, words, last, Some(Path::new(".")))?;
        // All options after nothing typed would bury the rest.
        found.retain(|candidate| !current.is_empty() || !is_option(candidate.get_value()));
        Ok(found)
    };
    // A word is a command, an option's value or an argument: `argv` tells.
    let probe = OsStr::new("?");
    let mut rewritten = argv::rewrite(words.iter().cloned().chain([probe.to_owned()]), &command);
    if rewritten.get(1).is_none_or(|word| word != probe) {
        return if rewritten.pop().is_some_and(|word| word == probe) {
            of(rewritten)
        } else {
            Ok(Vec::new())
        };
    }
    let program = words.remove(0);
    let mut found = of(vec![program.clone()])?;
    if is_option(&current) {
        for name in UNNAMED {
            let named = [program.clone(), name.into()].into_iter().chain(words.iter().cloned());
            for candidate in of(named.collect())? {
                if !found.iter().any(|known| known.get_value() == candidate.get_value()) {
                    found.push(candidate);
                }
            }
        }
    }
    Ok(found)
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}
