//! The flags of a request's parameters, from the engine's table.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use engine::{Flag, Kind, Param, Params};
use serde_json::{Value as Json, json};

use crate::values::{logit_bias, unescape};

/// Parameters, as flags, variables and the configuration file give them.
#[derive(Clone, Debug)]
pub(crate) struct ParamArgs(pub(crate) Params);

fn flagged() -> impl Iterator<Item = (&'static Param, Flag)> {
    Params::TABLE.iter().filter_map(|param| Some((param, param.flag?)))
}

impl Args for ParamArgs {
    fn augment_args(command: Command) -> Command {
        command.args(flagged().map(|(param, flag)| arg(param, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        ParamArgs::augment_args(command)
    }
}

impl FromArgMatches for ParamArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ParamArgs, Error> {
        let mut params = Params::default();
        for (param, flag) in flagged() {
            let texts = || matches.get_many::<String>(param.name).into_iter().flatten();
            let values = || matches.get_many::<Json>(param.name).into_iter().flatten();
            let value = match param.kind {
                Kind::Bool => matches.get_flag(param.name).into(),
                Kind::Number { .. } | Kind::Integer { .. } => values().next().cloned().unwrap_or_default(),
                Kind::Tokens { .. } | Kind::Biases { .. } => values().cloned().collect(),
                Kind::Samplers { .. } => json!(texts().next()),
                Kind::Texts { .. } => texts().cloned().collect(),
                Kind::Breakers { .. } if texts().eq(["none"]) => json!([]),
                Kind::Breakers { .. } => texts().cloned().collect(),
            };
            let set = param.set(&mut params, &format!("--{}", flag.long), &value);
            set.map_err(|error| Error::raw(ErrorKind::ValueValidation, format!("{error}\n")))?;
        }
        Ok(ParamArgs(params))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = ParamArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(param: &'static Param, flag: Flag) -> Arg {
    // Also under the name that it has in requests.
    let name = Some(param.name.replace('_', "-")).filter(|name| name != flag.long);
    let arg = Arg::new(param.name).long(flag.long).short(flag.short).aliases(flag.aliases).aliases(name);
    let arg = arg.help_heading(flag.heading).help(help(param, flag));
    if param.kind == Kind::Bool {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(flag.value);
    let (default, name) = (param.get(&Params::default()), flag.long.to_uppercase().replace('-', "_"));
    match param.kind {
        Kind::Number { .. } | Kind::Integer { .. } => {
            let default = default.as_f64().unwrap_or_default().to_string();
            arg.value_parser(|text: &str| checked(param, number(text))).default_value(default).env(name)
        }
        Kind::Samplers { .. } => {
            let text = |text: &str| checked(param, text.into()).map(|_| text.to_owned());
            arg.value_parser(text).default_value(words(&default).join(";")).env(name)
        }
        Kind::Texts { .. } | Kind::Breakers { .. } => {
            let escaped = words(&default).into_iter().map(|word| word.replace('\n', "\\n"));
            let arg = arg.action(ArgAction::Append).allow_hyphen_values(true).default_values(escaped);
            arg.value_parser(|text: &str| checked_text(param, text))
        }
        Kind::Tokens { .. } => {
            let id = |text: &str| checked(param, json!([number(text)])).map(|_| number(text));
            arg.action(ArgAction::Append).value_parser(id)
        }
        Kind::Biases { .. } => {
            let bias = |text: &str| {
                let (id, bias) = logit_bias(text)?;
                let entry = json!([id, if bias == f32::NEG_INFINITY { json!(false) } else { json!(bias) }]);
                let set = checked(param, json!([entry]));
                set.map(|_| entry).map_err(|_| "expected a bias from -100 to 100".to_owned())
            };
            arg.action(ArgAction::Append).value_parser(bias)
        }
        Kind::Bool => arg,
    }
}

fn help(param: &Param, flag: Flag) -> String {
    let own = match param.kind {
        Kind::Texts { .. } | Kind::Tokens { .. } => "; may be repeated",
        Kind::Breakers { .. } => ", with escapes such as \\n; may be repeated; \"none\" is no text",
        Kind::Biases { .. } => ", such as 15043+1 or 15043-inf; may be repeated",
        _ => "",
    };
    // Names that llama.cpp has with one dash.
    let short = flag.aliases.iter().find(|alias| alias.len() < 5);
    let short = short.map_or(String::new(), |alias| format!(" [short: --{alias}]"));
    format!("{}{own}{short}", param.help)
}

fn words(list: &Json) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Json::as_str);
    texts.map(str::to_owned).collect()
}

/// The number that a text is, or the text.
fn number(text: &str) -> Json {
    let (text, integer) = (text.trim(), text.trim().parse::<i64>());
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    integer.ok().map(Json::from).or_else(|| number().map(Json::from)).unwrap_or_else(|| text.into())
}

/// Returns the value if it is valid for the parameter.
fn checked(param: &Param, value: Json) -> Result<Json, String> {
    let set = param.set(&mut Params::default(), param.name, &value);
    set.map(|()| value).map_err(|error| format!("expected {}", error.expected))
}

fn checked_text(param: &Param, text: &str) -> Result<String, String> {
    let text = if matches!(param.kind, Kind::Breakers { .. }) { unescape(text)? } else { text.to_owned() };
    if text.is_empty() {
        return Err("expected a text".to_owned());
    }
    checked(param, text.clone().into()).map(|_| text)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use engine::SamplerKind;

    use super::*;

    #[derive(clap::Parser)]
    struct All {
        #[command(flatten)]
        params: ParamArgs,
    }

    fn parsed(args: &[&str]) -> Params {
        All::try_parse_from(["x"].iter().chain(args)).expect("good flags").params.0
    }

    #[test]
    fn lists_are_repeated_flags() {
        assert_eq!(parsed(&[]), Params::default());
        let none = parsed(&["--dry-sequence-breaker", "none"]);
        assert!(none.dry_sequence_breakers.is_empty());
        let some = parsed(&["--dry-sequence-breaker", "a\\n", "--dry-sequence-breaker=b"]);
        assert_eq!(some.dry_sequence_breakers, ["a\n", "b"]);
        assert_eq!(parsed(&["-r", "a", "--stop", "-b"]).stop, ["a", "-b"]);
        assert_eq!(parsed(&["--stop-token-id=7", "--stop-token-ids=8"]).stop_token_ids, [7, 8]);
        let biased = parsed(&["-l", "7-inf", "--logit-bias", "8+1.5"]);
        assert_eq!(biased.logit_bias, [(7, -100.0), (8, 1.5)].map(engine::Bias::from));
        assert_eq!(parsed(&["--samplers", "kt"]).samplers, [SamplerKind::TopK, SamplerKind::Temperature]);
    }
}
