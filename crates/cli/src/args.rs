//! The flag table: every command and option, said once.
//!
//! An option with a variable `RUSTORCH_NAME` is a setting: the variable and the configuration file
//! ([`settings`]) give it a value where the command line does not. Names are those of llama.cpp where
//! it has the option.

use std::num::NonZero;
use std::path::PathBuf;

use backend_cpu::Isa;
use clap::builder::{FalseyValueParser, NonEmptyStringValueParser, RangedI64ValueParser};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use engine::KvFormat;

use crate::backends::WeightsArgs;
use crate::output::Usage;
use crate::placement::GpuArgs;
use crate::values::{Layers, LogitBias, TokenIds, factor, finite, from_1_to, penalty, probability, unescape};
use crate::{
    argv, bench, completions, devices, inspect, mistakes, perplexity, quantize, settings, synth, verify,
};

const ABOUT: &str = "Runs Llama and Qwen2 language models from GGUF files";

/// How the help of `--escape` begins.
const ESCAPES: &str = r#"Read \n, \t, \r, \", \', \\ and \xHH"#;

const EXAMPLES: &str = "\
Examples:
  rustorch
  rustorch chat -m model.gguf
  rustorch run -m model.gguf -p 'Why is the sky blue?' -n 200 --temp 0
  rustorch run -m model.gguf --raw -p 'Once upon a time'
  rustorch inspect model.gguf

Without a command, `run` is meant when there is a prompt, else `chat`. Without a model, the small
one in the program answers; a line on stderr says so.

Options that RUSTORCH_NAME variables set (RUSTORCH_MODEL, RUSTORCH_TOP_K, ...) can also stand in
~/.config/rustorch/config.toml by their long names (model = \"...\", top-k = 20). Flags win over
variables, variables over the file. A model named without a path is also looked for in
~/.rustorch/models/.";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "rustorch", version, about = ABOUT, after_help = EXAMPLES)]
#[command(propagate_version = true, args_override_self = true)]
#[command(override_usage = "rustorch [COMMAND] [OPTIONS]")]
pub(crate) struct Cli {
    /// Says on stderr what is being done and how long it took
    #[arg(short, long, global = true, env = "RUSTORCH_DEBUG", value_parser = FalseyValueParser::new())]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talks with the model, line by line; what runs without a command
    #[command(mut_args(in_a_chat))]
    Chat(ChatArgs),
    /// Continues a prompt; the text goes to stdout
    Run(RunArgs),
    /// Writes the logits after each token of a sequence
    Logits(LogitsArgs),
    /// Scores a text: perplexity, and divergence from a base's log-probabilities
    #[command(mut_args(perplexity::in_windows))]
    Perplexity(perplexity::Args),
    /// Writes a model in fewer bits, such as Q4_K_M
    Quantize(quantize::Args),
    /// Checks a model on this machine: file, tokenizer, kernels, backends, known answers
    Verify(verify::Args),
    /// Measures how fast a model runs here, and the part that is of what the machine could do
    Bench(bench::Args),
    /// Writes a model of random weights in a real model's shape, to measure with
    Synth(synth::Args),
    /// Records what a model computes, value by value
    Trace(TraceArgs),
    /// Finds the first value in which two runs part, and says why
    Compare(CompareArgs),
    /// Turns text into token ids
    Tokenize(TokenizeArgs),
    /// Turns token ids into text
    #[command(mut_args(from_ids))]
    Detokenize(TokenizeArgs),
    /// Shows what is in a GGUF file, the memory it needs, and what of it fits on a graphics processor
    Inspect(inspect::Args),
    /// Shows the backends, what processors and graphics processors can do, and the kernels chosen
    Devices(devices::Args),
    /// Prints a completion script for a shell
    Completions(completions::Args),
}

/// What options that `run` has as well say in the help of `chat`.
fn in_a_chat(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "system" => arg.help("System message, the first of the conversation [short: -sys]"),
        "raw" => arg.help("No chat template and no system message, only the text"),
        "escape" => arg.help(format!("{ESCAPES} in --system and in messages as characters")),
        _ => arg,
    }
}

/// What options that `tokenize` has as well say in the help of `detokenize`.
fn from_ids(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "text" => arg.value_name("IDS").help("The ids, such as 1,15043 [default: stdin]"),
        "parse_special" => arg.help("Write the text of special tokens, too"),
        "no_bos" => arg.help("Keep a BOS token at the start; --parse-special writes its text"),
        "jsonl" => arg.help("Read one array of ids a line from stdin and print one JSON string a line"),
        _ => arg,
    }
}

/// Which model.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// GGUF file, or the name of one in ~/.rustorch/models [default: the small model in the program]
    #[arg(short, long, value_name = "FILE", env = "RUSTORCH_MODEL")]
    pub(crate) model: Option<PathBuf>,
}

/// What the model runs on, and how much it may hold.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
    /// Print a table of every value of each step to stderr; RUSTORCH_DEBUG=1 does, and implies -v
    #[arg(long, env = "RUSTORCH_DEBUG", value_parser = FalseyValueParser::new())]
    pub(crate) debug: bool,
}

/// Tokens of a prompt that are computed at once, unless another number is given.
pub(crate) const BATCH_SIZE: NonZero<usize> =
    NonZero::new(engine::DEFAULT_N_BATCH).expect("no step is empty");

/// What computes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct BackendArgs {
    /// What computes: auto is a graphics processor or else the CPU, hybrid-f32 both without rounding activations to
    /// 8 bits, reference slow and exact
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env = "RUSTORCH_BACKEND")]
    pub(crate) backend: BackendName,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    /// Tokens of a prompt that are computed at once
    #[arg(short, long, value_name = "N", default_value_t = BATCH_SIZE, env = "RUSTORCH_BATCH_SIZE")]
    #[arg(value_parser = from_1_to::<65536>)]
    pub(crate) batch_size: NonZero<usize>,
}

/// How the CPU computes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct CpuArgs {
    /// Threads [default: as many as the system says are useful]
    #[arg(short, long, value_name = "N", env = "RUSTORCH_THREADS", value_parser = from_1_to::<1024>)]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Instruction set of the CPU's kernels [default: the best this processor has]
    #[arg(long, value_name = "NAME", env = "RUSTORCH_ISA", value_parser = isa, hide_short_help = true)]
    pub(crate) isa: Option<Isa>,
    #[command(flatten)]
    pub(crate) weights: WeightsArgs,
}

/// An instruction set that this processor has.
pub(crate) fn isa(name: &str) -> Result<Isa, String> {
    let here = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    here.clone().find(|isa| isa.name() == name).ok_or_else(|| {
        let why = if Isa::named(name).is_some() {
            "this processor does not have it"
        } else {
            "there is no such kernel set"
        };
        format!("{why}; there are {}", here.map(Isa::name).collect::<Vec<_>>().join(", "))
    })
}

/// How long a sequence may be, and how it is kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContextArgs {
    /// Tokens of context, prompt and answer together; 0 is what the model was trained on
    /// [default: that, but at most 4096]
    #[arg(short, long, value_name = "CTX", env = "RUSTORCH_CTX_SIZE")]
    pub(crate) ctx_size: Option<usize>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// How keys and values are kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CacheArgs {
    /// How the KV cache is stored: f16 takes half the memory; the reference backend always takes f32
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = CacheType::F16)]
    #[arg(env = "RUSTORCH_CACHE_TYPE")]
    pub(crate) cache_type: CacheType,
}

impl CacheArgs {
    /// The format they are kept in.
    pub(crate) fn format(&self) -> KvFormat {
        match self.cache_type {
            CacheType::F16 => KvFormat::F16,
            CacheType::F32 => KvFormat::F32,
        }
    }
}

/// The formats of the KV cache, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheType {
    F16,
    F32,
}

/// The backends, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    Auto,
    Cpu,
    Metal,
    Vulkan,
    HybridF32,
    Reference,
}

/// How tokens are chosen.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// 0 takes the most probable token, more takes others more often [short: --temp]
    #[arg(long, alias = "temp", value_name = "T", default_value_t = 0.8, env = "RUSTORCH_TEMPERATURE")]
    #[arg(allow_negative_numbers = true, value_parser = finite)]
    pub(crate) temperature: f32,
    /// Keep the K most probable tokens; 0 keeps all
    #[arg(
        long,
        value_name = "K",
        default_value_t = 40,
        env = "RUSTORCH_TOP_K",
        allow_negative_numbers = true
    )]
    pub(crate) top_k: i64,
    /// Keep the most probable tokens up to probability P; 1 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.95, env = "RUSTORCH_TOP_P")]
    #[arg(allow_negative_numbers = true, value_parser = probability)]
    pub(crate) top_p: f32,
    /// Keep tokens at least P times as probable as the best; 0 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.05, env = "RUSTORCH_MIN_P")]
    #[arg(allow_negative_numbers = true, value_parser = probability)]
    pub(crate) min_p: f32,
    /// Keep the tokens nearest to the entropy up to probability P; 1 keeps all
    #[arg(long, alias = "typical", value_name = "P", default_value_t = 1.0, env = "RUSTORCH_TYPICAL_P")]
    #[arg(allow_negative_numbers = true, value_parser = probability)]
    pub(crate) typical_p: f32,
    /// Make tokens that were there before less probable; 1 is off
    #[arg(long, value_name = "X", default_value_t = 1.0, env = "RUSTORCH_REPEAT_PENALTY")]
    #[arg(allow_negative_numbers = true, value_parser = factor)]
    pub(crate) repeat_penalty: f32,
    /// The same, more for each time they were there; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, env = "RUSTORCH_FREQUENCY_PENALTY")]
    #[arg(allow_negative_numbers = true, value_parser = penalty)]
    pub(crate) frequency_penalty: f32,
    /// The same, once; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, env = "RUSTORCH_PRESENCE_PENALTY")]
    #[arg(allow_negative_numbers = true, value_parser = penalty)]
    pub(crate) presence_penalty: f32,
    /// How many of the last tokens the penalties look at; -1 is all, 0 none
    #[arg(long, value_name = "N", default_value_t = 64, env = "RUSTORCH_REPEAT_LAST_N")]
    #[arg(allow_negative_numbers = true, value_parser = RangedI64ValueParser::<i64>::new().range(-1..))]
    pub(crate) repeat_last_n: i64,
    /// Add to a token's logit, such as 15043+1 or 15043-inf; may be repeated
    #[arg(short = 'l', long, value_name = "ID+BIAS")]
    pub(crate) logit_bias: Vec<LogitBias>,
    /// Seed of the draws; -1 is a random one
    #[arg(short, long, value_name = "SEED", default_value_t = -1, env = "RUSTORCH_SEED")]
    #[arg(allow_negative_numbers = true)]
    #[arg(value_parser = RangedI64ValueParser::<i64>::new().range(-1..=i64::from(u32::MAX)))]
    pub(crate) seed: i64,
}

/// How answers come about; a chat can change it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) length: LengthArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

/// When an answer ends.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Length")]
pub(crate) struct LengthArgs {
    /// Tokens to generate, at most; -1 goes on until the model stops
    #[arg(short = 'n', long, aliases = ["n-predict", "predict"], value_name = "N", default_value_t = -1)]
    #[arg(allow_negative_numbers = true, value_parser = RangedI64ValueParser::<i64>::new().range(-1..))]
    #[arg(env = "RUSTORCH_MAX_TOKENS")]
    pub(crate) max_tokens: i64,
    /// Stop before this text; may be repeated
    #[arg(short = 'r', long, alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) stop: Vec<String>,
    /// Go on after the model's end-of-generation tokens
    #[arg(long)]
    pub(crate) ignore_eos: bool,
}

/// What `run` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With a chat template in the file, the prompt is one message of a user; --raw takes it as it is.
On a terminal, control characters of the text are shown escaped; a pipe gets them as they are.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) template: TemplateArgs,
    /// Turn the text of special tokens in a raw prompt into these tokens
    #[arg(long, help_heading = "Prompt")]
    pub(crate) parse_special: bool,
    #[command(flatten)]
    pub(crate) answers: AnswerArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Print one JSON object at the end instead of the text
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Where the prompt of `run` comes from: one of these.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
#[group(required = true, multiple = false)]
pub(crate) struct SourceArgs {
    /// The prompt
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    /// Read the prompt from a file, without a newline at its end; - is stdin
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Token ids in place of text, taken as they are, such as 1,15043
    #[arg(long, value_name = "IDS")]
    pub(crate) tokens: Option<TokenIds>,
}

/// What is made of the prompt's text.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
pub(crate) struct TemplateArgs {
    /// System message, put before the prompt by the template [short: -sys]
    #[arg(long, aliases = ["sys", "system-prompt"], value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(env = "RUSTORCH_SYSTEM")]
    pub(crate) system: Option<String>,
    /// No chat template and no system message, only the text; '' starts from BOS alone
    #[arg(long, env = "RUSTORCH_RAW", value_parser = FalseyValueParser::new())]
    pub(crate) raw: bool,
    #[arg(short, long, help = format!("{ESCAPES} in -p and --system as characters"))]
    pub(crate) escape: bool,
}

impl TemplateArgs {
    /// What `text`, which the user wrote, stands for.
    pub(crate) fn read(&self, text: &str) -> Result<String, Usage> {
        if self.escape { unescape(text).map_err(Usage) } else { Ok(text.to_owned()) }
    }

    /// Makes the system message what its text stands for. To be called once.
    pub(crate) fn read_escapes(&mut self) -> Result<(), Usage> {
        self.system = self.system.as_deref().map(|text| self.read(text)).transpose()?;
        Ok(())
    }
}

/// What `chat` is told.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Type /help for the commands of a chat. Without a terminal, each line of stdin is a message and only
answers go to stdout: printf '1\\n' | rustorch chat -m model.gguf
The first line that cannot be obeyed or answered ends such a chat with exit code 1.
On a terminal, control characters of the text are shown escaped; a pipe gets them as they are.")]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) template: TemplateArgs,
    #[command(flatten)]
    pub(crate) answers: AnswerArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// What `logits` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct LogitsArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Token ids, such as 1,15043
    #[arg(long, value_name = "IDS")]
    pub(crate) tokens: TokenIds,
    /// Only the logits after the last token
    #[arg(long)]
    pub(crate) last: bool,
    /// Write float32 [rows, n_vocab] as .npy, - is stdout [default: print the ten highest of the last row]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the ten highest of the last row as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
}

/// What `trace` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Values are named as llama.cpp names them: embd, attn_norm-0, Qcur_pre-0 (before RoPE), Qcur-0, ...,
result_norm, result_output. The model runs twice: result_output.tapped is the output of the run
whose values were recorded, result_output that of a run as everyone else gets it.
tools/oracle has programs that record the same from llama.cpp and transformers.")]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) sequence: SequenceArgs,
    /// Only values whose names match this regular expression, anywhere in the name
    #[arg(long, value_name = "REGEX", help_heading = "Values")]
    pub(crate) filter: Option<regex::Regex>,
    /// Only values of these decoder layers, such as 0-3 or 5
    #[arg(long, value_name = "LAYERS", help_heading = "Values")]
    pub(crate) layers: Option<Layers>,
    /// Write the values to a safetensors file, float32 [positions, columns] each
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object instead of the table; null stands for infinities and for what is not a number
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// What `compare` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A is the run under suspicion. Each side is a trace (of `rustorch trace` or of a program in
tools/oracle) or a backend that computes the model now: A from --a, B from --b. With one trace and
neither, B is the reference backend.

With a model, each operation of A is done again by the reference backend on the inputs that A had.
The first whose own error is beyond the limit of one operation is guilty; error that it was given
does not count. Without one, only accumulated error is known.

Exit status: 0 nothing is wrong, 1 something is, 2 it could not be found out.")]
pub(crate) struct CompareArgs {
    /// Traces: A, then B
    #[arg(value_name = "TRACE", num_args = 0..=2)]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Record A now, on this backend
    #[arg(long, value_enum, value_name = "BACKEND", help_heading = "Sides")]
    pub(crate) a: Option<BackendName>,
    /// Record B now, on this backend
    #[arg(long, value_enum, value_name = "BACKEND", help_heading = "Sides")]
    pub(crate) b: Option<BackendName>,
    /// Token ids, such as 1,15043, when neither side is a trace
    #[arg(long, value_name = "IDS", help_heading = "Sides", conflicts_with = "prompt")]
    pub(crate) tokens: Option<TokenIds>,
    /// Text in their place, taken as it is without a chat template
    #[arg(short, long, value_name = "TEXT", help_heading = "Sides", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    /// Tokens that are computed at once where a side is computed now
    #[arg(short, long, value_name = "N", default_value_t = BATCH_SIZE, env = "RUSTORCH_BATCH_SIZE")]
    #[arg(value_parser = from_1_to::<65536>)]
    pub(crate) batch_size: NonZero<usize>,
    /// Write a page with a chart and the table; it needs nothing from outside
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Print one JSON object; null stands for infinities and for what is not a number
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// A sequence of tokens: one of these.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
#[group(required = true, multiple = false)]
pub(crate) struct SequenceArgs {
    /// Token ids, such as 1,15043
    #[arg(long, value_name = "IDS")]
    pub(crate) tokens: Option<TokenIds>,
    /// Text, taken as it is without a chat template, after BOS where the file says so
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
}

/// What `tokenize` and `detokenize` are told.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The text [default: stdin]
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
    /// Take special tokens for what they are, not for text
    #[arg(long)]
    pub(crate) parse_special: bool,
    /// No BOS token before the text
    #[arg(long)]
    pub(crate) no_bos: bool,
    /// Read one JSON string a line from stdin and print one array of ids a line
    #[arg(long, conflicts_with_all = ["text", "json", "ids"])]
    pub(crate) jsonl: bool,
    /// Print one JSON object with ids and pieces
    #[arg(long, conflicts_with = "ids")]
    pub(crate) json: bool,
    /// Print only the ids, as one array
    #[arg(long)]
    pub(crate) ids: bool,
}

/// Reads command line, variables and configuration file. Asking for help ends the program here, whatever
/// is in the file, and so does a wrong command line.
pub(crate) fn parse() -> anyhow::Result<Cli> {
    let (command, fault) = match settings::apply(Cli::command()) {
        Ok(command) => (command, None),
        Err(fault) => (Cli::command(), Some(fault)),
    };
    let mut command = tend_env(command);
    let args = argv::rewrite(std::env::args_os(), &command);
    let matches = command.try_get_matches_from_mut(&args);
    let parsed = matches.and_then(|matches| {
        bench::check(&matches)?;
        Cli::from_arg_matches(&matches)
    });
    let parsed = parsed.map_err(|error| mistakes::explain(error, &command, &args));
    match (parsed, fault) {
        (Err(help), _) if help.exit_code() == 0 => help.exit(),
        (_, Some(fault)) => Err(fault),
        (parsed, None) => parsed.or_else(|error| error.exit()),
    }
}

/// An empty variable counts as unset. The rule of their names is said once in the help of the program,
/// not at each option.
fn tend_env(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    command
        .mut_args(|arg| if is_empty(&arg) { arg.env(None) } else { arg.hide_env(true) })
        .mut_subcommands(tend_env)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn variables_are_named_as_the_options() {
        for command in Cli::command().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| arg.get_env().is_some()) {
                let long = arg.get_long().unwrap_or_default().to_uppercase().replace('-', "_");
                let expected = format!("RUSTORCH_{long}");
                assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(&*expected));
            }
        }
    }
}
