//! The commands of a chat: lines that begin with a slash.

use clap::{Args, Command as Parser, FromArgMatches};

use crate::args::AnswerArgs;
use crate::output;
use crate::values::LogitBias;

/// What a line can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Exit,
    Clear,
    System,
    Toggle,
    Stats,
    Save,
    Load,
    Model,
    Backend,
    Set,
}

/// Whether a command takes words after its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Maybe,
    Something,
}

const TABLE: [(&str, &str, Takes, Command, &str); 11] = [
    ("/help", "", Takes::Nothing, Command::Help, "shows this"),
    ("/exit", "", Takes::Nothing, Command::Exit, "leaves, as Ctrl-D does; also /quit and /bye"),
    (
        "/clear",
        "",
        Takes::Nothing,
        Command::Clear,
        "forgets the conversation, but not the system message; also /reset",
    ),
    (
        "/system",
        "[TEXT]",
        Takes::Maybe,
        Command::System,
        "sets the system message; without a text there is none",
    ),
    ("/toggle", "", Takes::Nothing, Command::Toggle, "switches the chat template off and on"),
    (
        "/stats",
        "",
        Takes::Nothing,
        Command::Stats,
        "says what the last answer took and what the context holds",
    ),
    ("/save", "FILE", Takes::Something, Command::Save, "writes the conversation to a file"),
    ("/load", "FILE", Takes::Something, Command::Load, "goes on with a conversation that was saved"),
    ("/model", "FILE", Takes::Something, Command::Model, "goes on with another model"),
    ("/backend", "NAME", Takes::Something, Command::Backend, "goes on with another backend"),
    (
        "/set",
        "[NAME VALUE]",
        Takes::Maybe,
        Command::Set,
        "sets an option such as temp 0.5; alone, shows them",
    ),
];

/// Names that other programs have for a command, and ours.
const ALIASES: [(&str, &str); 3] = [("/quit", "/exit"), ("/bye", "/exit"), ("/reset", "/clear")];

impl Command {
    /// The command in `line` with the words after it; `None` for a message, such as one that begins
    /// with two slashes. The error says what is wrong with it.
    pub(super) fn parse(line: &str) -> Option<Result<(Command, &str), String>> {
        if !line.starts_with('/') || line.starts_with("//") {
            return None;
        }
        let (name, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, ours)| ours);
        let Some((_, words, takes, command, _)) = TABLE.iter().find(|row| row.0 == name) else {
            let name = output::abbreviated(name, 40);
            let hint = "/help shows the commands; a message may begin with //";
            return Some(Err(format!("unknown command {name}: {hint}")));
        };
        Some(match takes {
            Takes::Nothing if !rest.is_empty() => Err(format!("{name} takes nothing after it")),
            Takes::Something if rest.is_empty() => Err(format!("expected {name} {words}")),
            _ => Ok((*command, rest)),
        })
    }
}

/// All commands, one a line.
pub(super) fn help() -> String {
    let rows: Vec<(String, &str)> =
        TABLE.iter().map(|(name, words, _, _, help)| (format!("{name} {words}"), *help)).collect();
    let keys = "  Alt-Enter begins a new line; Ctrl-C stops an answer, twice it leaves.\n";
    output::pairs(rows.iter().map(|(usage, help)| (usage.as_str(), (*help).to_owned()))) + keys
}

/// Sets what `words` say, such as `temp 0.5`, with the names and rules of the command line; returns what
/// to show.
pub(super) fn set(answers: &mut AnswerArgs, words: &str) -> Result<String, String> {
    if words.is_empty() {
        return Ok(show(answers).trim_end().to_owned());
    }
    let (name, value) = words.split_once([' ', '=']).unwrap_or((words, ""));
    let name = name.trim_start_matches('-').replace('_', "-");
    let value = value.trim();
    let option = if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") };
    let parser =
        AnswerArgs::augment_args_for_update(Parser::new("").no_binary_name(true).disable_help_flag(true));
    let parser = parser.mut_args(|arg| arg.env(None).default_value(None));
    let matches = parser.try_get_matches_from([option]).and_then(|m| answers.update_from_arg_matches(&m));
    match matches {
        Ok(()) => Ok(format!("{name}: {}", if value.is_empty() { "on" } else { value })),
        Err(error) => {
            let message = error.to_string();
            Err(message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
        }
    }
}

/// What can be set and is, one a line.
fn show(answers: &AnswerArgs) -> String {
    let AnswerArgs { length, sampling } = answers;
    let biases = sampling.logit_bias.iter().map(|LogitBias(id, bias)| format!("{id}{bias:+}"));
    output::pairs([
        ("max-tokens", length.max_tokens.to_string()),
        ("stop", format!("{:?}", length.stop)),
        ("ignore-eos", length.ignore_eos.to_string()),
        ("temperature", sampling.temperature.to_string()),
        ("top-k", sampling.top_k.to_string()),
        ("top-p", sampling.top_p.to_string()),
        ("min-p", sampling.min_p.to_string()),
        ("typical-p", sampling.typical_p.to_string()),
        ("repeat-penalty", sampling.repeat_penalty.to_string()),
        ("frequency-penalty", sampling.frequency_penalty.to_string()),
        ("presence-penalty", sampling.presence_penalty.to_string()),
        ("repeat-last-n", sampling.repeat_last_n.to_string()),
        ("logit-bias", format!("[{}]", biases.collect::<Vec<_>>().join(", "))),
        ("seed", sampling.seed.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_of_commands_and_hide_none() {
        let is_command = |name: &str| TABLE.iter().any(|row| row.0 == name);
        for (alias, ours) in ALIASES {
            assert!(is_command(ours) && !is_command(alias), "{alias}");
        }
    }

    #[test]
    fn lines_are_messages_or_commands() {
        assert_eq!(Command::parse("hello /help"), None);
        assert_eq!(Command::parse("//help"), None);
        assert_eq!(Command::parse("/set  temp 0.5 "), Some(Ok((Command::Set, "temp 0.5"))));
        assert_eq!(Command::parse("/system"), Some(Ok((Command::System, ""))));
        assert_eq!(Command::parse("/save"), Some(Err("expected /save FILE".to_owned())));
        assert_eq!(Command::parse("/bye"), Some(Ok((Command::Exit, ""))));
        assert_eq!(Command::parse("/reset all"), Some(Err("/clear takes nothing after it".to_owned())));
        let unknown = Command::parse("/quack").and_then(Result::err).expect("an error");
        assert!(unknown.starts_with("unknown command /quack: /help"), "{unknown}");
    }

    #[test]
    fn set_changes_one_thing() {
        use clap::Parser as _;

        #[derive(clap::Parser)]
        struct All {
            #[command(flatten)]
            answers: AnswerArgs,
        }
        let All { mut answers } = All::parse_from(["x", "--top-k=7"]);
        set(&mut answers, "temp 0.5").expect("a good value");
        assert_eq!((answers.sampling.temperature, answers.sampling.top_k), (0.5, 7));
        set(&mut answers, "max_tokens=-1").expect("a good value");
        set(&mut answers, "stop User:").expect("a good value");
        assert_eq!(answers.length.stop, ["User:"]);
        let error = set(&mut answers, "temp hot").expect_err("no number");
        assert!(error.contains("'hot'"), "{error}");
        assert!(set(&mut answers, "heat 1").is_err());
        assert_eq!((answers.sampling.temperature, answers.sampling.top_k), (0.5, 7));
    }
}
