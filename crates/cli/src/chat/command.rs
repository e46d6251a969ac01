//! Chat commands: lines that begin with a slash.

use std::str::FromStr;

use crate::output;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Exit,
    Clear,
    Drop,
    Retry,
    System,
    Toggle,
    Reasoning,
    Stats,
    Save,
    Load,
    Model,
    Backend,
    Set,
}

/// Names, arguments (in brackets if they may be left out), and help.
const TABLE: [(&[&str], &str, Command, &str); 14] = [
    (&["/help", "/?"], "", Command::Help, "show this help"),
    (&["/exit", "/quit", "/bye"], "", Command::Exit, "leave, like Ctrl-D; also /quit and /bye"),
    (
        &["/clear", "/reset"],
        "",
        Command::Clear,
        "clear the conversation, but not the system message; also /reset",
    ),
    (
        &["/drop"],
        "[N]",
        Command::Drop,
        "drop the oldest message and its answer, or N of them, to free context",
    ),
    (&["/retry"], "", Command::Retry, "answer the last message again"),
    (&["/system"], "[TEXT]", Command::System, "show the system message, or set it; none removes it"),
    (&["/toggle"], "", Command::Toggle, "turn the chat template off or on"),
    (
        &["/reasoning", "/think"],
        "[MODE]",
        Command::Reasoning,
        "show, hide or turn off (off) the reasoning of the model",
    ),
    (&["/stats"], "", Command::Stats, "show statistics of the last answer and the context"),
    (&["/save"], "FILE", Command::Save, "write the conversation to a file"),
    (&["/load"], "FILE", Command::Load, "continue a saved conversation"),
    (&["/model"], "FILE", Command::Model, "continue with another model"),
    (&["/backend"], "NAME", Command::Backend, "continue on another backend"),
    (&["/set"], "[NAME VALUE]", Command::Set, "set an option, such as temp 0.5, or show all"),
];

impl Command {
    /// The command in `line` and its arguments; `None` for a message, such as one that begins with two slashes.
    pub(super) fn parse(line: &str) -> Option<Result<(Command, &str), String>> {
        if !line.starts_with('/') || line.starts_with("//") {
            return None;
        }
        let (name, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        let Some((_, arguments, command, _)) = TABLE.iter().find(|row| row.0.contains(&name)) else {
            let name = output::abbreviated(name, 40);
            let hint = "/help lists the commands; begin a message with // for a literal /";
            return Some(Err(format!("unknown command {name}: {hint}")));
        };
        Some(match *arguments {
            "" if !rest.is_empty() => Err(format!("{name} takes no arguments")),
            "" => Ok((*command, rest)),
            required if !required.starts_with('[') && rest.is_empty() => {
                Err(format!("expected {name} {required}"))
            }
            _ => Ok((*command, rest)),
        })
    }
}

/// The names of commands that begin with `typed`.
pub(super) fn beginning_with(typed: &str) -> Vec<&'static str> {
    TABLE.iter().flat_map(|row| row.0).copied().filter(|name| name.starts_with(typed)).collect()
}

/// Whether what follows `name` is the name of a file.
pub(super) fn takes_file(name: &str) -> bool {
    TABLE.iter().any(|row| row.0.contains(&name) && row.1 == "FILE")
}

/// The number of messages for `/drop`.
pub(super) fn to_drop(words: &str) -> Result<usize, String> {
    let number = if words.is_empty() { Ok(1) } else { usize::from_str(words) };
    number.map_err(|_| format!("expected /drop or /drop N with a number, not {words:?}"))
}

pub(super) fn help() -> String {
    let row = |(names, arguments, _, help): &(&[&str], &str, _, &str)| {
        [format!("{} {arguments}", names[0]).trim_end().to_owned(), (*help).to_owned()]
    };
    let keys = "  Alt-Enter starts a new line, Tab completes commands and files; Ctrl-C stops an answer, twice leaves.\n";
    output::columns(&TABLE.iter().map(row).collect::<Vec<_>>(), &[]) + keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        assert_eq!(Command::parse("hello /help"), None);
        assert_eq!(Command::parse("//help"), None);
        assert_eq!(Command::parse("/set  temp 0.5 "), Some(Ok((Command::Set, "temp 0.5"))));
        assert_eq!(Command::parse("/system"), Some(Ok((Command::System, ""))));
        assert_eq!(Command::parse("/save"), Some(Err("expected /save FILE".to_owned())));
        assert_eq!(Command::parse("/bye"), Some(Ok((Command::Exit, ""))));
        assert!(matches!(Command::parse("/reset all"), Some(Err(_))));
        let unknown = Command::parse("/quack").and_then(Result::err).expect("an error");
        assert!(unknown.contains("/quack"), "{unknown}");
        assert_eq!((to_drop(""), to_drop("3")), (Ok(1), Ok(3)));
        assert!(to_drop("some").is_err());
    }
}
