//! `rustorch completions`: completion scripts for shells.
//!
//! Those of bash, zsh and fish run the hidden command `complete`, which knows the models on this machine and the
//! rules of [`argv`]. clap's own scripts for bash and zsh split names at colons, so these three are ours.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;

use clap::Command;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};
use clap_complete::{Shell, generate};
use hub::Settings;

use crate::args::POSITIONAL;
use crate::argv;
use crate::output::{self, size};
use crate::source::{name, stores};

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

pub(crate) fn run(args: Args, mut command: Command) -> anyhow::Result<()> {
    let script = match args.shell {
        Shell::Bash => include_bytes!("completions/rustorch.bash").to_vec(),
        Shell::Zsh => include_bytes!("completions/rustorch.zsh").to_vec(),
        Shell::Fish => include_bytes!("completions/rustorch.fish").to_vec(),
        shell => {
            let mut script = Vec::new();
            generate(shell, &mut command, "rustorch", &mut script);
            script
        }
    };
    Ok(output::write_all(&script)?)
}

/// The question of the scripts.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArgs {
    /// The command line up to the cursor; the last word is the one to complete
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Prints a candidate per line, with a tab and a description if it has one.
pub(crate) fn answer(args: CompleteArgs, command: Command) -> anyhow::Result<()> {
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
    Ok(output::write_all(&lines)?)
}

/// Commands that are meant where none is named, depending on the options.
const UNNAMED: [&str; 2] = ["chat", "run"];

/// Candidates for the last of `words`, the first of which is the program.
fn candidates(mut words: Vec<OsString>, command: Command) -> anyhow::Result<Vec<CompletionCandidate>> {
    let Some(current) = words.pop().filter(|_| !words.is_empty()) else { return Ok(Vec::new()) };
    let mut completed = with_models(command.clone());
    let mut of = |mut words: Vec<OsString>| {
        words.push(current.clone());
        let last = words.len() - 1;
        let mut found = complete(&mut completed, words, last, Some(Path::new(".")))?;
        // All options after nothing typed would bury the rest.
        found.retain(|candidate| !current.is_empty() || !is_option(candidate.get_value()));
        Ok(found)
    };
    // A word is a command, an option's value or an argument: `argv` tells.
    let probe = OsStr::new("word-at-cursor");
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

/// Which names of models an argument takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// All, and files.
    Any,
    Here,
    /// Downloadable models.
    Short,
}

/// `command` with names of models as candidates, and with hidden names of options, which clap's engine does not know.
fn with_models(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        command.mut_args(|arg| {
            let hidden = arg.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned);
            let hidden: Vec<String> = hidden.collect();
            let arg = arg.visible_aliases(hidden);
            let names = match (&*name, arg.get_id().as_str()) {
                (_, "model" | POSITIONAL) | ("show", "name") => Names::Any,
                ("rm" | "where", "name") => Names::Here,
                ("pull", "name") => Names::Short,
                _ => return arg,
            };
            arg.add(ArgValueCompleter::new(move |typed: &OsStr| models(names, typed)))
        })
    })
}

/// Models on this machine, then short names. What cannot be read is left out.
fn models(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let held = Settings::from_env().map_err(Into::into).and_then(|settings| stores::all(&settings));
    let held = held.unwrap_or_default();
    let is_here = |name: &str| held.iter().any(|held| held.name == name);
    let here = held.iter().filter(|_| names != Names::Short);
    let here = here.map(|held| (held.name.clone(), format!("{}, {}", size(held.bytes), held.origin.label())));
    let short = name::short_names().map(|(name, target)| (name.to_owned(), target.to_string()));
    let short = short.filter(|(_, target)| names != Names::Here || is_here(target));
    let known = here.chain(short).filter(|(name, _)| name.starts_with(&*text));
    let mut found: Vec<_> =
        known.map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into()))).collect();
    if names == Names::Any {
        let is_model = |path: &Path| path.extension().is_some_and(|extension| extension == "gguf");
        found.extend(PathCompleter::any().filter(is_model).complete(typed));
    }
    found
}
