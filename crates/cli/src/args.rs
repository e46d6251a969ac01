//! Options that several commands share.

use std::fs::File;
use std::io::Read;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::Context;
use backend::KvType;
use backend_cpu::Isa;
use clap::ValueEnum;
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser};
use engine::template::{builtin, builtin_names};
use engine::{KvFormat, Model, Speculation};
use gguf::Gguf;
use grammar::Source;
use runner::placement::{Layers, Split, SplitMode};
use rustorch::devices::BackendName;

use crate::files;
use crate::output::Usage;
use crate::params::ParamArgs;
use crate::values::{Size, TemplateVariables, from_1_to, gpu_layers, n_ctx, unescape, up_to};

/// The beginning of the help of `--escape`.
pub(crate) const ESCAPES: &str = r#"Replace \n, \t, \r, \", \', \\ and \xHH"#;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// GGUF file or name: user/repo[:QUANT] on Hugging Face, qwen3:0.6b, one that `rustorch list` shows [default: the
    /// embedded demo model]
    #[arg(short, long, env)]
    pub(crate) model: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// How a model's file is found and read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct OpenArgs {
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
    /// Pre-tokenizer of a BPE tokenizer to use instead of the file's, such as qwen2 or llama-bpe
    #[arg(long, value_name = "NAME", env, hide_possible_values = true, hide_short_help = true)]
    #[arg(value_parser = PossibleValuesParser::new(tokenizer::pre_tokenizers()))]
    pub(crate) pre_tokenizer: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct NetworkArgs {
    /// Download a model that is not here without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Never use the network
    #[arg(long)]
    pub(crate) offline: bool,
}

impl ModelArgs {
    /// The model of this name, downloaded as `network` says.
    pub(crate) fn at(name: impl Into<PathBuf>, network: NetworkArgs) -> ModelArgs {
        ModelArgs { model: Some(name.into()), open: OpenArgs { network, ..OpenArgs::default() } }
    }

    /// Whether a model is named; else it is the embedded one.
    pub(crate) fn is_given(&self) -> bool {
        self.model.is_some() || self.open.hf_repo.is_some() || self.open.model_url.is_some()
    }
}

/// The id of [`PositionalModel`].
pub(crate) const POSITIONAL: &str = "named";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PositionalModel {
    /// The model, as -m MODEL
    #[arg(value_name = "MODEL", id = POSITIONAL)]
    pub(crate) name: Option<PathBuf>,
}

impl PositionalModel {
    /// Overrides the model of a variable or the configuration file.
    pub(crate) fn apply(self, args: &mut ModelArgs) {
        args.model = self.name.or(args.model.take());
    }
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    #[command(flatten)]
    pub(crate) context: ContextArgs,
    /// Print a table of every value of each step to stderr; RUSTORCH_DEBUG=1 implies -v
    #[arg(long, env, value_parser = FalseyValueParser::new())]
    pub(crate) debug: bool,
}

/// How a model that writes text is computed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WritingArgs {
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) speculation: SpeculationArgs,
}

pub(crate) const BATCH_SIZE: NonZero<usize> =
    NonZero::new(engine::DEFAULT_N_BATCH).expect("no step is empty");

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct BackendArgs {
    /// Backend: auto is a GPU or else the CPU, hybrid-f32 both without quantised activations, reference slow and
    /// exact
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env)]
    pub(crate) backend: BackendName,
    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
    #[command(flatten)]
    pub(crate) cpu: CpuArgs,
    /// Maximum number of prompt tokens per step
    #[arg(short, long, value_name = "N", default_value_t = BATCH_SIZE, env)]
    #[arg(aliases = ["ub", "ubatch-size"], value_parser = from_1_to::<65536>)]
    pub(crate) batch_size: NonZero<usize>,
    /// Whether kernels are timed.
    #[arg(skip)]
    pub(crate) is_timed: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GpuArgs {
    /// Layers on GPUs, the last ones with the output: a number, all, or auto for as many as fit in memory
    /// [short: -ngl]
    #[arg(long, aliases = ["ngl", "n-gpu-layers"], value_name = "N", default_value = "auto")]
    #[arg(env, value_parser = gpu_layers)]
    pub(crate) gpu_layers: Layers,
    /// Proportions in which GPUs share the layers, such as 3,1; 0 is none [default: GPUs are filled in order] [short: -ts]
    #[arg(long, alias = "ts", value_name = "N,...", env, allow_hyphen_values = true)]
    pub(crate) tensor_split: Option<Split>,
    /// How GPUs share a model: layer for whole layers each, tensor for an equal part of every layer, which NVIDIA cards
    /// of one host compute together (needs NCCL) [short: -sm]
    #[arg(long, alias = "sm", value_name = "MODE", default_value = "layer", env, value_parser = named(SplitMode::ALL, SplitMode::name))]
    pub(crate) split_mode: SplitMode,
    /// Memory limit per GPU, such as 2GiB; exceeding it is an error [default: the free memory]
    #[arg(long, value_name = "SIZE", env)]
    pub(crate) gpu_memory: Option<Size>,
}

impl GpuArgs {
    /// The arguments for backend `name`; a backend without GPUs has no split.
    pub(crate) fn for_backend(&self, name: BackendName) -> GpuArgs {
        let mut args = self.clone();
        if name.is_host() {
            (args.tensor_split, args.split_mode) = (None, SplitMode::Layer);
        }
        args
    }
}

/// Parses one of `all` by its name.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find = move |typed: String| all.into_iter().find(|&one| name(one) == typed).ok_or("no such name");
    PossibleValuesParser::new(all.map(name)).try_map(find)
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct CpuArgs {
    /// CPU threads [default: the cores that are free at the start]
    #[arg(short, long, value_name = "N", env, value_parser = from_1_to::<1024>)]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Instruction set of the CPU kernels [default: the best available]
    #[arg(long, value_name = "NAME", env, value_parser = isa, hide_short_help = true)]
    pub(crate) isa: Option<Isa>,
    #[command(flatten)]
    pub(crate) weights: WeightsArgs,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WeightsArgs {
    /// Memory limit on the CPU besides the model file, such as 8GiB; exceeding it is an error [default: the
    /// available memory]
    #[arg(long, value_name = "SIZE", env)]
    pub(crate) memory: Option<Size>,
    /// Use weights from the file, which the system can evict and share, instead of copies packed for the CPU kernels: the same
    /// answers, slower
    #[arg(long, env, value_parser = FalseyValueParser::new())]
    pub(crate) no_repack: bool,
}

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

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ContextArgs {
    /// Context in tokens, prompt and answer together; 0 is the training context [default: that, up to 4096]
    #[arg(short, long, value_name = "CTX", env, value_parser = n_ctx)]
    pub(crate) ctx_size: Option<usize>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CacheArgs {
    /// Type of the KV cache; the reference backend always uses f32, CUDA has all but q4_0, Vulkan and Metal f16 and f32
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = named(KvType::ALL, KvType::name), env)]
    pub(crate) cache_type: KvType,
    /// Type of the K cache [default: that of --cache-type] [short: -ctk]
    #[arg(long, value_name = "TYPE", alias = "ctk", value_parser = named(KvType::ALL, KvType::name), env, hide_short_help = true)]
    pub(crate) cache_type_k: Option<KvType>,
    /// Type of the V cache [default: that of --cache-type] [short: -ctv]
    #[arg(long, value_name = "TYPE", alias = "ctv", value_parser = named(KvType::ALL, KvType::name), env, hide_short_help = true)]
    pub(crate) cache_type_v: Option<KvType>,
}

impl CacheArgs {
    pub(crate) fn format(&self) -> KvFormat {
        let [k, v] = [self.cache_type_k, self.cache_type_v].map(|own| own.unwrap_or(self.cache_type));
        KvFormat { k, v }
    }
}

/// The options that a chat can change.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) params: ParamArgs,
    /// Reasoning of the model: shown dimmed, hidden, or turned off where the chat template can
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Reasoning::Show, env)]
    #[arg(help_heading = "Prompt")]
    pub(crate) reasoning: Reasoning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reasoning {
    Show,
    Hide,
    Off,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
pub(crate) struct TemplateChoice {
    /// Chat template to use instead of the model's: a file, a name such as chatml, llama3 or gemma, one of the model's
    /// own such as tool_use, or Jinja text
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "chat_template_file", hide_short_help = true)]
    chat_template: Option<String>,
    /// File with a chat template to use instead of the model's
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    chat_template_file: Option<PathBuf>,
    /// Variables for the chat template, a JSON object such as '{"enable_thinking": false}'
    #[arg(long, value_name = "JSON", env, hide_short_help = true)]
    pub(crate) chat_template_kwargs: Option<TemplateVariables>,
}

impl TemplateChoice {
    /// `model` with this template.
    pub(crate) fn apply(&self, model: Model) -> anyhow::Result<Model> {
        match self.source(model.file())? {
            Some(source) => Ok(model.with_template(&source)?),
            None => Ok(model),
        }
    }

    /// The Jinja source of the requested template; `None` for that of `file`.
    pub(crate) fn source(&self, file: &Gguf) -> anyhow::Result<Option<String>> {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read the chat template {}", path.display()))?;
            anyhow::Ok(Some(files::without_mark(text)))
        };
        let text = match (&self.chat_template, &self.chat_template_file) {
            (None, None) => return Ok(None),
            (None, Some(file)) => return read(file),
            (Some(text), _) => text,
        };
        if text.contains('{') {
            return Ok(Some(text.clone()));
        }
        if let Some(source) = builtin(text) {
            return Ok(Some(source));
        }
        if let Some(source) = file.metadata().str(&format!("tokenizer.chat_template.{text}"))? {
            return Ok(Some(source.to_owned()));
        }
        if Path::new(text).exists() {
            return read(Path::new(text));
        }
        let names = builtin_names().collect::<Vec<_>>().join(", ");
        let why = format!("expected a file, a template's Jinja text or a name: {names}");
        Err(Usage(format!("--chat-template {text:?}: {why}")).into())
    }

    pub(crate) fn variables(&self) -> serde_json::Map<String, serde_json::Value> {
        self.chat_template_kwargs.clone().map(|TemplateVariables(values)| values).unwrap_or_default()
    }
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
pub(crate) struct TemplateArgs {
    /// System message for the chat template [short: -sys]
    #[arg(long, aliases = ["sys", "system-prompt"], value_name = "TEXT", allow_hyphen_values = true, env)]
    pub(crate) system: Option<String>,
    /// Use the text without chat template and system message; '' is BOS alone
    #[arg(long, aliases = ["no-cnv", "no-conversation"], env, value_parser = FalseyValueParser::new())]
    pub(crate) raw: bool,
    #[arg(short, long, help = format!("{ESCAPES} in -p and --system"))]
    pub(crate) escape: bool,
    #[command(flatten)]
    pub(crate) choice: TemplateChoice,
}

impl TemplateArgs {
    /// Replaces escapes in `text`, if requested.
    pub(crate) fn read(&self, text: &str) -> Result<String, Usage> {
        if self.escape { unescape(text).map_err(Usage) } else { Ok(text.to_owned()) }
    }

    /// The same with the template of the model's file.
    pub(crate) fn without_choice(&self) -> TemplateArgs {
        let choice = TemplateChoice { chat_template: None, chat_template_file: None, ..self.choice.clone() };
        TemplateArgs { choice, ..self.clone() }
    }

    /// Replaces escapes in the system message. Must be called once.
    pub(crate) fn read_escapes(&mut self) -> Result<(), Usage> {
        self.system = self.system.as_deref().map(|text| self.read(text)).transpose()?;
        Ok(())
    }
}

/// More bytes than any grammar may have.
const MAX_GRAMMAR: u64 = 1 << 20;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Grammar")]
#[group(multiple = false)]
pub(crate) struct GrammarArgs {
    /// The answer is JSON that satisfies this schema: JSON text, or a file [short: -jf]
    #[arg(short, long, aliases = ["json-schema-file", "jf"], value_name = "SCHEMA")]
    pub(crate) json_schema: Option<String>,
    /// The answer is what this grammar accepts: GBNF text of llama.cpp
    #[arg(long, value_name = "GBNF")]
    pub(crate) grammar: Option<String>,
    /// File with a grammar: GBNF, or Lark if it ends in .lark
    #[arg(long, value_name = "FILE")]
    pub(crate) grammar_file: Option<PathBuf>,
}

impl GrammarArgs {
    /// The language of answers, if one is requested.
    pub(crate) fn source(&self) -> anyhow::Result<Option<Source>> {
        let read = |file: &Path| {
            let mut text = String::new();
            let opened =
                File::open(file).and_then(|opened| opened.take(MAX_GRAMMAR).read_to_string(&mut text));
            opened.with_context(|| format!("cannot read the grammar {}", file.display()))?;
            anyhow::Ok(files::without_mark(text))
        };
        // Text that is not JSON is refused when it is compiled.
        let schema =
            |text: String| serde_json::from_str(&text).map_or(Source::JsonSchema(text), Source::from_schema);
        Ok(Some(match (&self.json_schema, &self.grammar, &self.grammar_file) {
            // An object, or the schema of any value.
            (Some(text), ..) if text.trim_start().starts_with('{') || text.trim() == "true" => {
                schema(text.clone())
            }
            (Some(file), ..) => schema(read(Path::new(file)).with_context(|| {
                format!("--json-schema: {file:?} is not a JSON object, so it must name a file with one")
            })?),
            (_, Some(grammar), _) => Source::Gbnf(grammar.clone()),
            (.., Some(file)) if file.extension().is_some_and(|extension| extension == "lark") => {
                Source::Lark(read(file)?)
            }
            (.., Some(file)) => Source::Gbnf(read(file)?),
            (None, None, None) => return Ok(None),
        }))
    }
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Speculation")]
pub(crate) struct SpeculationArgs {
    /// Draft tokens and compute several at once; answers stay the same [default: draft-simple with --model-draft, else none]
    #[arg(long, value_name = "TYPE", value_enum, env)]
    spec_type: Option<SpecType>,
    /// Smaller model with the same vocabulary, which drafts: a file or a name, as for -m [short: -md]
    #[arg(long, aliases = ["md", "spec-draft-model"], value_name = "MODEL", env)]
    pub(crate) model_draft: Option<PathBuf>,
    /// Maximum number of drafted tokens in a step, of all requests together; fewer while few are right
    #[arg(long, aliases = ["draft-max", "draft-n", "draft"], value_name = "N", default_value = "7", env)]
    #[arg(value_parser = from_1_to::<31>, hide_short_help = true)]
    spec_draft_n_max: NonZero<usize>,
    /// Minimum number of tokens of a draft; a shorter one is not used
    #[arg(long, aliases = ["draft-min", "draft-n-min"], value_name = "N", default_value_t = 0, env)]
    #[arg(value_parser = up_to::<31>, hide_short_help = true)]
    spec_draft_n_min: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SpecType {
    /// One token a step.
    None,
    /// What followed the last tokens where they occurred before: for answers that quote their prompt, such as code.
    NgramSimple,
    /// What the model of --model-draft would write.
    DraftSimple,
}

impl SpeculationArgs {
    /// How to speculate, if at all, and the model that drafts. Without one, drafts are what followed the last tokens before.
    /// Fails if options contradict each other.
    pub(crate) fn choice(&self) -> Result<Option<(Speculation, Option<&Path>)>, Usage> {
        let (n_max, n_min, model) =
            (self.spec_draft_n_max.get(), self.spec_draft_n_min, self.model_draft.as_deref());
        let refuse = |why: &str| Err(Usage(why.to_owned()));
        match (self.spec_type, model) {
            (None, None) | (Some(SpecType::None), _) => Ok(None),
            (Some(SpecType::DraftSimple), None) => {
                refuse("--spec-type draft-simple needs a model: --model-draft MODEL")
            }
            (Some(SpecType::NgramSimple), Some(_)) => {
                refuse("--spec-type ngram-simple uses no --model-draft; leave one of them out")
            }
            _ if n_min > n_max => refuse("--spec-draft-n-min must be at most --spec-draft-n-max"),
            _ => Ok(Some((Speculation { n_max, n_min }, model))),
        }
    }
}
