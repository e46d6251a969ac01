//! The parameters of a request, declared once: name, type, default, range, flag and a sentence each.
//!
//! Everything that names parameters derives from [`Params::TABLE`]: the program's flags, its configuration file and `/set`, the
//! fields of every protocol and their schemas. The methods of builders come from [`param_setters`](crate::param_setters).

#[cfg(test)]
mod tests;
mod value;

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value as Json};

pub use value::{Bias, Biased, Kind, ParamError};
use value::{Value, found};

/// The description of a parameter, from which parsers and schemas derive.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name in [`Params`], and as a field of a request.
    pub name: &'static str,
    /// Further names of the field. If a request has several, the last in this list counts.
    pub aliases: &'static [&'static str],
    /// A sentence without the final stop.
    pub help: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// How the program names it, if it does.
    pub flag: Option<Flag>,
    set: fn(&mut Params, &Json, &Kind) -> Result<(), String>,
    get: fn(&Params) -> Json,
}

/// A flag of the program.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The heading of its help.
    pub heading: &'static str,
    /// Its name without dashes, also that of the setting.
    pub long: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// Its letter.
    pub short: Option<char>,
    /// Further names.
    pub aliases: &'static [&'static str],
}

/// Defines [`Params`], its table and `param_setters`. A `$` is passed for the macro within the macro.
macro_rules! params {
    (
        ($d:tt)
        $( $(#[doc = $doc:literal])+ $plain:ident: $plain_type:ty = $plain_default:expr; )*
        table { $( #[doc = $help:literal] $name:ident: $type:ident $(<$item:ident>)? = $default:expr, $spec:expr; )+ }
    ) => {
        /// How the tokens of a request are chosen, and where its text ends. The defaults are llama.cpp's.
        ///
        /// ```
        /// use engine::Params;
        /// let params = Params { temperature: 0.7, seed: Some(42), ..Params::default() };
        /// # let _ = params;
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        pub struct Params {
            $( #[doc = $help] pub $name: $type $(<$item>)?, )+
            $( $(#[doc = $doc])+ pub $plain: $plain_type, )*
        }

        impl Default for Params {
            fn default() -> Params {
                Params { $( $name: $default, )+ $( $plain: $plain_default, )* }
            }
        }

        impl Params {
            /// All parameters that have one name everywhere.
            pub const TABLE: &'static [Param] = &[ $(
                Param {
                    name: stringify!($name),
                    help: $help.trim_ascii_start(),
                    set: |params, json, kind| Value::read(json, kind).map(|value| params.$name = value),
                    get: |params| Value::write(&params.$name),
                    ..$spec
                },
            )+ ];
        }

        /// Gives a builder a method per parameter: `param_setters!(Builder, path.to.params)`.
        #[macro_export]
        macro_rules! param_setters {
            ($d builder:ty, $d ( $d path:ident ).+) => {
                impl $d builder {
                    $( $crate::param_setter! { [$d ( $d path ).+] $help, $name: $type $(<$item>)? } )+
                }
            };
        }
    };
}

/// One method of [`param_setters`](crate::param_setters). Lists are set as a whole in [`Params`]; the caller that submits sets the number of answers.
#[doc(hidden)]
#[macro_export]
macro_rules! param_setter {
    ([$($path:ident).+] $help:literal, n: $type:ident) => {};
    ([$($path:ident).+] $help:literal, stop: Vec<String>) => {
        /// Ends the text before this string. May be called several times.
        pub fn stop(mut self, text: impl Into<String>) -> Self {
            self.$($path).+.stop.push(text.into());
            self
        }
    };
    ([$($path:ident).+] $help:literal, $name:ident: Vec<$item:ident>) => {};
    ([$($path:ident).+] $help:literal, $name:ident: Option<$item:ident>) => {
        #[doc = $help]
        pub fn $name(mut self, $name: $item) -> Self {
            self.$($path).+.$name = Some($name);
            self
        }
    };
    ([$($path:ident).+] $help:literal, $name:ident: $type:ident) => {
        #[doc = $help]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$($path).+.$name = $name;
            self
        }
    };
}

const LENGTH: &str = "Length";
const SAMPLING: &str = "Sampling";

params! { ($)
    /// Return the log-probability of each token, and of so many most likely tokens.
    logprobs: Option<usize> = None;
    /// [`logprobs`](Params::logprobs) are those by which a token is drawn, after processors, filters and temperature.
    draw_logprobs: bool = false;
    /// End the text with its first line after this time, counted from its first token.
    time_limit: Option<Duration> = None;

    table {
    /// Maximum number of tokens to generate; -1 is no limit
    max_tokens: Option<usize> = None, from(-1).flag(LENGTH, "max-tokens", "N").short('n').also(&["n-predict", "predict"])
        .aliases(&["max_completion_tokens", "max_output_tokens", "num_predict", "n_predict"]);
    /// Minimum number of tokens to generate, unless a grammar permits nothing but the end
    min_tokens: usize = 0, from(0).flag(LENGTH, "min-tokens", "N");
    /// Stop before this text
    stop: Vec<String> = Vec::new(), texts(16, 1024).flag(LENGTH, "stop", "TEXT").short('r').also(&["reverse-prompt"])
        .aliases(&["stop_sequences"]);
    /// Stop before this token
    stop_token_ids: Vec<u32> = Vec::new(), of(Kind::Tokens { most: 16 }).flag(LENGTH, "stop-token-id", "ID");
    /// Continue after end-of-generation tokens
    ignore_eos: bool = false, of(Kind::Bool).flag(LENGTH, "ignore-eos", "");
    /// Number of answers
    n: usize = 1, integer(1, 8).aliases(&["n_cmpl"]);
    /// 0 always takes the most probable token; higher is more random
    temperature: f32 = 0.8, number(0.0, 100.0).flag(SAMPLING, "temperature", "T").also(&["temp"]);
    /// Keep the K most probable tokens; 0 keeps all
    top_k: usize = 40, from(-1).flag(SAMPLING, "top-k", "K");
    /// Keep the most probable tokens up to probability P; 1 keeps all
    top_p: f32 = 0.95, number(0.0, 1.0).flag(SAMPLING, "top-p", "P");
    /// Keep tokens at least P times as probable as the best; 0 keeps all
    min_p: f32 = 0.05, number(0.0, 1.0).flag(SAMPLING, "min-p", "P");
    /// Keep the tokens nearest to the entropy up to probability P; 1 keeps all
    typical_p: f32 = 1.0, number(0.0, 1.0).flag(SAMPLING, "typical-p", "P").also(&["typical"]);
    /// Penalty for tokens that have occurred; 1 is off
    repeat_penalty: f32 = 1.0, number(0.01, 100.0).flag(SAMPLING, "repeat-penalty", "X").aliases(&["repetition_penalty"]);
    /// Penalty for each time that a token has occurred; 0 is off
    frequency_penalty: f32 = 0.0, number(-2.0, 2.0).flag(SAMPLING, "frequency-penalty", "X");
    /// Penalty for a token that has occurred at all; 0 is off
    presence_penalty: f32 = 0.0, number(-2.0, 2.0).flag(SAMPLING, "presence-penalty", "X");
    /// Number of last tokens that the penalties consider; -1 is all, 0 none
    repeat_last_n: Option<usize> = Some(64), from(-1).flag(SAMPLING, "repeat-last-n", "N");
    /// Add to a token's logit
    logit_bias: Vec<Bias> = Vec::new(), of(Kind::Biases { most: 1024, bytes: 64 })
        .flag(SAMPLING, "logit-bias", "ID+BIAS").short('l');
    /// Seed of the random numbers; -1 is random
    seed: Option<u32> = None, integer(i64::MIN, i64::MAX).flag(SAMPLING, "seed", "SEED").short('s');
    /// Keep tokens whose logit is at most N standard deviations below the largest; 0 or less keeps all
    top_n_sigma: f32 = -1.0, number(-1.0, 100.0).flag(SAMPLING, "top-nsigma", "N");
    /// Probability of excluding top choices (XTC); 0 is off
    xtc_probability: f32 = 0.0, number(0.0, 1.0).flag(SAMPLING, "xtc-probability", "P");
    /// Minimum probability of a top choice (XTC); above 0.5 is off
    xtc_threshold: f32 = 0.1, number(0.0, 1.0).flag(SAMPLING, "xtc-threshold", "P");
    /// Penalise tokens that extend a repeated sequence (DRY); 0 is off
    dry_multiplier: f32 = 0.0, number(0.0, 100.0).flag(SAMPLING, "dry-multiplier", "X");
    /// Growth of the DRY penalty per repeated token
    dry_base: f32 = 1.75, number(1.0, 100.0).flag(SAMPLING, "dry-base", "X");
    /// Repeated tokens without a DRY penalty
    dry_allowed_length: usize = 2, from(0).flag(SAMPLING, "dry-allowed-length", "N");
    /// Number of last tokens that DRY considers; -1 is all, 0 none
    dry_penalty_last_n: Option<usize> = None, from(-1).flag(SAMPLING, "dry-penalty-last-n", "N");
    /// Text that ends a repetition for DRY
    dry_sequence_breakers: Vec<String> = ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(),
        of(Kind::Breakers { most: 16, bytes: 40 }).flag(SAMPLING, "dry-sequence-breaker", "TEXT");
    /// Vary the temperature with the entropy, from T - R to T + R; 0 is off
    dynatemp_range: f32 = 0.0, number(0.0, 100.0).flag(SAMPLING, "dynatemp-range", "R");
    /// Exponent of the entropy for the range of the temperature
    dynatemp_exponent: f32 = 1.0, number(0.0, 100.0).flag(SAMPLING, "dynatemp-exp", "X");
    /// Mirostat 1 or 2, with the temperature and no other sampler; 0 is off
    mirostat: usize = 0, integer(0, 2).flag(SAMPLING, "mirostat", "N");
    /// Learning rate of Mirostat
    mirostat_eta: f32 = 0.1, number(0.0, 100.0).flag(SAMPLING, "mirostat-lr", "X");
    /// Target surprise of Mirostat, in bits
    mirostat_tau: f32 = 5.0, number(0.0, 100.0).flag(SAMPLING, "mirostat-ent", "BITS");
    /// Samplers in order, as names separated by ; or as letters such as kpt; others do not run
    samplers: Vec<SamplerKind> = SamplerKind::DEFAULT.to_vec(), of(Kind::Samplers { most: 32 })
        .flag(SAMPLING, "samplers", "NAMES").also(&["sampling-seq", "sampler-seq"]);
    }
}

/// Defines [`SamplerKind`]: llama.cpp's name and letter of each, and further names.
macro_rules! samplers {
    ($( $kind:ident $name:literal $letter:literal $aliases:tt )+) => {
        /// A sampler that [`Params::samplers`] can order, named after its parameters. `Penalties` are the repeat, frequency
        /// and presence penalties; `Temperature` can be dynamic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "see above")]
        pub enum SamplerKind {
            $( $kind, )+
        }

        impl SamplerKind {
            /// All of them, in llama.cpp's default order.
            pub const DEFAULT: &'static [SamplerKind] = &[ $( SamplerKind::$kind, )+ ];

            fn words(self) -> (&'static str, char, &'static [&'static str]) {
                match self {
                    $( SamplerKind::$kind => ($name, $letter, &$aliases), )+
                }
            }
        }
    };
}

samplers! {
    Penalties "penalties" 'e' []
    Dry "dry" 'd' []
    TopNSigma "top_n_sigma" 's' []
    TopK "top_k" 'k' []
    TypicalP "typ_p" 'y' ["typical_p", "typical", "typ"]
    TopP "top_p" 'p' ["nucleus"]
    MinP "min_p" 'm' []
    Xtc "xtc" 'x' []
    Temperature "temperature" 't' ["temp"]
}

impl SamplerKind {
    /// llama.cpp's name, such as `top_k`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// llama.cpp's letter, such as `k`.
    pub fn letter(self) -> char {
        self.words().1
    }

    /// The sampler of llama.cpp's letter. Fails if no sampler has this letter.
    pub fn from_letter(letter: char) -> Result<SamplerKind, UnknownSampler> {
        let found = SamplerKind::DEFAULT.iter().copied().find(|kind| kind.letter() == letter);
        found.ok_or_else(|| UnknownSampler(letter.into()))
    }

    /// All names and letters.
    fn names() -> String {
        let names = SamplerKind::DEFAULT.iter().map(|kind| format!("{} ({})", kind.name(), kind.letter()));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// There is no sampler of this name or letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sampler {:?}; there are {}", .0, SamplerKind::names())]
pub struct UnknownSampler(String);

impl FromStr for SamplerKind {
    type Err = UnknownSampler;

    fn from_str(text: &str) -> Result<SamplerKind, UnknownSampler> {
        let name = text.trim().replace('-', "_");
        let is_named = |kind: &SamplerKind| kind.name() == name || kind.words().2.contains(&&*name);
        let found = SamplerKind::DEFAULT.iter().copied().find(is_named);
        found.ok_or_else(|| UnknownSampler(text.to_owned()))
    }
}

const fn of(kind: Kind) -> Param {
    Param { name: "", aliases: &[], help: "", kind, flag: None, set: |_, _, _| Ok(()), get: |_| Json::Null }
}

const fn number(min: f64, max: f64) -> Param {
    of(Kind::Number { min, max })
}

const fn integer(min: i64, max: i64) -> Param {
    of(Kind::Integer { min, max })
}

const fn from(min: i64) -> Param {
    integer(min, i64::MAX)
}

const fn texts(most: usize, bytes: usize) -> Param {
    of(Kind::Texts { most, bytes })
}

impl Param {
    const fn aliases(self, aliases: &'static [&'static str]) -> Param {
        Param { aliases, ..self }
    }

    const fn flag(self, heading: &'static str, long: &'static str, value: &'static str) -> Param {
        Param { flag: Some(Flag { heading, long, value, short: None, aliases: &[] }), ..self }
    }

    const fn short(self, letter: char) -> Param {
        let Some(flag) = self.flag else { return self };
        Param { flag: Some(Flag { short: Some(letter), ..flag }), ..self }
    }

    const fn also(self, aliases: &'static [&'static str]) -> Param {
        let Some(flag) = self.flag else { return self };
        Param { flag: Some(Flag { aliases, ..flag }), ..self }
    }

    /// The parameter with this name or alias.
    pub fn find(name: &str) -> Option<&'static Param> {
        Params::TABLE.iter().find(|param| param.names().any(|own| own == name))
    }

    /// All names of the field, its own first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.aliases.iter().copied())
    }

    /// Its value in `params`.
    pub fn get(&self, params: &Params) -> Json {
        (self.get)(params)
    }

    /// Sets its value in `params`; null leaves it. An error names the parameter `name`.
    pub fn set(&self, params: &mut Params, name: &str, value: &Json) -> Result<(), ParamError> {
        if value.is_null() {
            return Ok(());
        }
        (self.set)(params, value, &self.kind).map_err(|found| ParamError {
            name: name.to_owned(),
            found,
            expected: self.kind.expected(),
        })
    }
}

impl Params {
    /// Always the most probable token.
    pub fn greedy() -> Params {
        Params { temperature: 0.0, ..Params::default() }
    }

    /// Sets the parameter with this name or alias; null leaves it as it is.
    pub fn set(&mut self, name: &str, value: &Json) -> Result<(), ParamError> {
        match Param::find(name) {
            Some(param) => param.set(self, name, value),
            None => Err(ParamError {
                name: name.to_owned(),
                found: found(value),
                expected: "nothing: there is no such parameter".to_owned(),
            }),
        }
    }

    /// Removes all parameters from `fields` and sets them; null is the same as absent. Other fields stay.
    pub fn take(&mut self, fields: &mut Map<String, Json>) -> Result<(), ParamError> {
        for param in Params::TABLE {
            for name in param.names() {
                if let Some(value) = fields.remove(name) {
                    param.set(self, name, &value)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that every parameter is in its range.
    pub fn check(&self) -> Result<(), ParamError> {
        let mut copy = Params::default();
        Params::TABLE.iter().try_for_each(|param| param.set(&mut copy, param.name, &param.get(self)))
    }
}
