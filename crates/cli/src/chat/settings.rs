//! `/set`: changes the options of answers, with the names and rules of the command line.

use std::error::Error as _;

use clap::error::ContextKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use indexmap::IndexMap;

use crate::args::AnswerArgs;
use crate::output;
use crate::settings::is_called;

/// The options of answers, and their values by name as typed.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    given: IndexMap<String, Vec<String>>,
    pub(super) answers: AnswerArgs,
}

impl Settings {
    /// Sets an option, such as `temp 0.5`; returns its new value, or without words all values.
    pub(super) fn set(&mut self, words: &str) -> Result<String, String> {
        if words.is_empty() {
            let rows = self.given.iter().map(|(name, values)| (name.as_str(), shown(values)));
            return Ok(output::pairs(rows).trim_end().to_owned());
        }
        let (name, value) = words.split_once([' ', '=']).unwrap_or((words, ""));
        let (name, value) = (name.trim_start_matches('-').replace('_', "-"), value.trim());
        let parser = parser();
        let arg = parser.get_arguments().find(|arg| is_called(arg, &name));
        let arg = arg.ok_or_else(|| format!("there is no setting {name:?}; /set lists all"))?;
        let name = arg.get_long().unwrap_or_default();
        let values = match (arg.get_action(), value) {
            (ArgAction::SetTrue, "" | "on" | "true") => vec!["true".to_owned()],
            (ArgAction::SetTrue, "off" | "false") => vec!["false".to_owned()],
            (ArgAction::SetTrue, _) => return Err(format!("{name} is on or off, not {value:?}")),
            (ArgAction::Append, "") => Vec::new(),
            (_, "") => {
                return Err(format!("expected a value, as in /set {name} {}", self.given[name].join(" ")));
            }
            _ => vec![value.to_owned()],
        };
        let mut given = self.given.clone();
        given.insert(name.to_owned(), values);
        let words = parser.get_arguments().flat_map(|arg| {
            let (name, takes_values) = (arg.get_long().unwrap_or_default(), arg.get_action().takes_values());
            let values = given[name].iter().filter(move |value| takes_values || *value == "true");
            values.map(
                move |value| if takes_values { format!("--{name}={value}") } else { format!("--{name}") },
            )
        });
        let words: Vec<String> = words.collect();
        let matches = parser.clone().try_get_matches_from(words);
        let changed = matches.and_then(|matches| Settings::from_arg_matches(&matches));
        // The source says what was expected; the rest is about the command line.
        *self = changed.map_err(|error| {
            let why = match (error.source(), error.get(ContextKind::ValidValue)) {
                (Some(why), _) => format!(": {why}"),
                (None, Some(values)) => format!(", but {values}"),
                (None, None) => String::new(),
            };
            format!("{name} cannot be {value:?}{why}")
        })?;
        Ok(format!("{name}: {}", shown(&self.given[name])))
    }
}

fn parser() -> Command {
    let parser = AnswerArgs::augment_args(Command::new("").no_binary_name(true).disable_help_flag(true));
    parser.mut_args(|arg| arg.env(None))
}

fn shown(values: &[String]) -> String {
    match values {
        [] => "none".to_owned(),
        [value] if value == "true" => "on".to_owned(),
        [value] if value == "false" => "off".to_owned(),
        values => values.join(" "),
    }
}

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        AnswerArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        AnswerArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Settings, Error> {
        let values = |arg: &Arg| {
            let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
            let name = arg.get_long().unwrap_or_default().to_owned();
            (name, raw.map(|value| value.to_string_lossy().into_owned()).collect())
        };
        let given = parser().get_arguments().map(values).collect();
        Ok(Settings { given, answers: AnswerArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Settings::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use engine::{Flag, Kind, Param, Params};
    use serde_json::json;

    use super::*;
    use crate::command::{self, Cli};

    #[derive(clap::Parser)]
    struct All {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn one_thing_is_set_and_cleared() {
        let All { mut settings } = All::parse_from(["x", "--top-k=7", "-r", "a", "-r", "b", "-l", "7-inf"]);
        settings.set("temp 0.5").expect("a good value");
        assert_eq!((settings.answers.params.0.temperature, settings.answers.params.0.top_k), (0.5, 7));
        settings.set("max_tokens=-1").expect("a good value");
        assert_eq!(settings.answers.params.0.stop, ["a", "b"]);
        settings.set("stop User:").expect("a good value");
        assert_eq!(settings.answers.params.0.stop, ["User:"]);
        settings.set("stop").expect("nothing is needed");
        settings.set("logit-bias").expect("nothing is needed");
        assert!(settings.answers.params.0.stop.is_empty() && settings.answers.params.0.logit_bias.is_empty());
        for (flag, on) in [("ignore-eos", true), ("ignore-eos off", false)] {
            settings.set(flag).expect("a good value");
            assert_eq!(settings.answers.params.0.ignore_eos, on);
        }
        for wrong in ["temp hot", "temp", "heat 1", "ignore-eos 7", "logit-bias 5"] {
            let error = settings.set(wrong).expect_err("wrong");
            assert!(!error.contains("--") && !error.contains("argument"), "{error}");
        }
        assert_eq!((settings.answers.params.0.temperature, settings.answers.params.0.top_k), (0.5, 7));
        let shown = settings.set("").expect("all");
        assert!(shown.contains("top-k") && shown.lines().any(|line| line.ends_with("none")), "{shown}");
    }

    /// What a flag, the configuration file and `/set` make of the text; nothing where a list is no setting.
    fn doors(param: &Param, flag: Flag, text: &str) -> Vec<Option<Params>> {
        let by_flag = match param.kind {
            Kind::Bool => All::try_parse_from(
                ["x".to_owned()].into_iter().chain((text == "true").then(|| format!("--{}", flag.long))),
            ),
            _ => All::try_parse_from(["x", &format!("--{}={text}", flag.long)]),
        };
        let mut settings = All::parse_from(["x"]).settings;
        let set = settings.set(&format!("{} {text}", param.name));
        let mut found = vec![
            by_flag.ok().map(|all| all.settings.answers.params.0),
            set.ok().map(|_| settings.answers.params.0),
        ];
        let quoted =
            if matches!(param.kind, Kind::Samplers { .. }) { format!("{text:?}") } else { text.to_owned() };
        let file = format!("{} = {quoted}", flag.long.replace('-', "_"));
        if matches!(param.kind, Kind::Number { .. } | Kind::Integer { .. } | Kind::Samplers { .. }) {
            let read = crate::settings::read(&command::all(), "c.toml", file.as_bytes());
            found.push(read.ok().map(|config| {
                assert_eq!(config.unknown, [""; 0]);
                let matches = config.apply(command::all()).get_matches_from(["rustorch", "chat"]);
                match Cli::from_arg_matches(&matches).expect("good values").command {
                    command::Command::Chat(args) => args.settings.answers.params.0,
                    _ => unreachable!("it is a chat"),
                }
            }));
        }
        found
    }

    #[test]
    fn flags_the_file_and_set_are_those_of_the_table() {
        let mut tried = 0;
        for param in Params::TABLE {
            let Some(flag) = param.flag else { continue };
            let (min, max) = param.kind.bounds();
            let (good, wrong): (Vec<String>, Vec<String>) = match param.kind {
                Kind::Number { .. } | Kind::Integer { .. } => (
                    [min, max]
                        .into_iter()
                        .flatten()
                        .map(|bound| bound.to_string())
                        .chain(["1".to_owned()])
                        .collect(),
                    [min.map(|min| min - 1.0), max.map(|max| max + 1.0)]
                        .into_iter()
                        .flatten()
                        .map(|bound| bound.to_string())
                        .collect(),
                ),
                Kind::Bool => (vec!["true".into(), "false".into()], Vec::new()),
                Kind::Texts { bytes, .. } | Kind::Breakers { bytes, .. } => {
                    (vec!["User:".into()], vec!["x".repeat(bytes + 1)])
                }
                Kind::Tokens { .. } => (vec!["7".into()], vec!["-1".into(), "x".into()]),
                Kind::Samplers { .. } => (vec!["kt".into(), "top_k;temp".into()], vec!["magic".into()]),
                Kind::Biases { .. } => {
                    (vec!["7+1.5".into(), "7-100".into()], vec!["7+101".into(), "x".into()])
                }
            };
            for text in good {
                let value = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
                let value = match param.kind {
                    Kind::Tokens { .. } => json!([value]),
                    Kind::Biases { .. } => json!([[7, text[1..].parse::<f32>().expect("a number")]]),
                    _ => value,
                };
                let mut expected = Params::default();
                expected.set(param.name, &value).expect(param.name);
                for found in doors(param, flag, &text) {
                    assert_eq!(found.as_ref(), Some(&expected), "{} {text}", param.name);
                    tried += 1;
                }
            }
            for text in wrong {
                for found in doors(param, flag, &text) {
                    assert_eq!(found, None, "{} {text}", param.name);
                    tried += 1;
                }
            }
        }
        assert!(tried > 200, "{tried}");
    }
}
