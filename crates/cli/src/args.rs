//! Options that several commands have, in groups.

use std::num::NonZero;
use std::path::PathBuf;

use anyhow::Context;
use backend_cpu::Isa;
use clap::ValueEnum;
use clap::builder::{FalseyValueParser, NonEmptyStringValueParser};
use engine::{KvFormat, Model};

use crate::output::Usage;
use crate::registry::BackendName;
use crate::sampling::SamplingArgs;
use crate::values::{GpuLayers, Size, from_1_to, max_tokens, n_ctx, unescape};

/// How the help of `--escape` begins.
pub(crate) const ESCAPES: &str = r#"Read \n, \t, \r, \", \', \\ and \xHH"#;

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
    #[arg(aliases = ["ub", "ubatch-size"], value_parser = from_1_to::<65536>)]
    pub(crate) batch_size: NonZero<usize>,
}

/// How much of a model a graphics processor takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct GpuArgs {
    /// Layers on graphics processors, the last ones and the output: a number, all, or auto for as many as
    /// their memory has room for [short: -ngl]
    #[arg(long, aliases = ["ngl", "n-gpu-layers"], value_name = "N", default_value = "auto")]
    #[arg(env = "RUSTORCH_GPU_LAYERS")]
    pub(crate) gpu_layers: GpuLayers,
    /// Memory of a graphics processor to use, at most, such as 2GiB: what would go beyond is an error [default:
    /// what is free]
    #[arg(long, value_name = "SIZE", env = "RUSTORCH_GPU_MEMORY")]
    pub(crate) gpu_memory: Option<Size>,
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

/// Where the CPU has weights, and the memory that it may take.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WeightsArgs {
    /// Memory that a model may take on the CPU, besides its file, such as 8GiB: a larger context, batch or model is
    /// refused [default: what is available]
    #[arg(long, value_name = "SIZE", env = "RUSTORCH_MEMORY")]
    pub(crate) memory: Option<Size>,
    /// Use weights where they lie in the file, without a copy packed for the CPU's kernels: for models that
    /// memory has room for once; answers are the same, and come more slowly
    #[arg(long, env = "RUSTORCH_NO_REPACK", value_parser = FalseyValueParser::new())]
    pub(crate) no_repack: bool,
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
    #[arg(short, long, value_name = "CTX", env = "RUSTORCH_CTX_SIZE", value_parser = n_ctx)]
    pub(crate) ctx_size: Option<usize>,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
}

/// How keys and values are kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CacheArgs {
    /// How the KV cache is stored: f16 takes half the memory; the reference backend always takes f32
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = CacheType::F16)]
    #[arg(aliases = ["cache-type-k", "cache-type-v", "ctk", "ctv"])]
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
    #[arg(value_parser = max_tokens, env = "RUSTORCH_MAX_TOKENS")]
    pub(crate) max_tokens: i64,
    /// Stop before this text; may be repeated
    #[arg(short = 'r', long, alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) stop: Vec<String>,
    /// Go on after the model's end-of-generation tokens
    #[arg(long)]
    pub(crate) ignore_eos: bool,
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
    #[arg(long, aliases = ["no-cnv", "no-conversation"])]
    #[arg(env = "RUSTORCH_RAW", value_parser = FalseyValueParser::new())]
    pub(crate) raw: bool,
    #[arg(short, long, help = format!("{ESCAPES} in -p and --system as characters"))]
    pub(crate) escape: bool,
    /// Chat template in place of the file's, as Jinja text
    #[arg(long, value_name = "JINJA", conflicts_with = "chat_template_file", hide_short_help = true)]
    chat_template: Option<String>,
    /// Chat template in place of the file's, read from this file
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    chat_template_file: Option<PathBuf>,
}

impl TemplateArgs {
    /// What `text`, which the user wrote, stands for.
    pub(crate) fn read(&self, text: &str) -> Result<String, Usage> {
        if self.escape { unescape(text).map_err(Usage) } else { Ok(text.to_owned()) }
    }

    /// `model` with the template that is asked for.
    pub(crate) fn apply(&self, model: Model) -> anyhow::Result<Model> {
        let source = match (&self.chat_template, &self.chat_template_file) {
            (None, None) => return Ok(model),
            (Some(text), _) if text.contains('{') => text.clone(),
            (Some(text), _) => {
                let why = "expected a template's Jinja text; --chat-template-file reads one from a file";
                return Err(Usage(format!("--chat-template {text:?}: {why}")).into());
            }
            (None, Some(file)) => std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the chat template {}", file.display()))?,
        };
        Ok(model.with_template(&source)?)
    }

    /// The same with the template of the model's file.
    pub(crate) fn of_the_file(&self) -> TemplateArgs {
        TemplateArgs { chat_template: None, chat_template_file: None, ..self.clone() }
    }

    /// Makes the system message what its text stands for. To be called once.
    pub(crate) fn read_escapes(&mut self) -> Result<(), Usage> {
        self.system = self.system.as_deref().map(|text| self.read(text)).transpose()?;
        Ok(())
    }
}
