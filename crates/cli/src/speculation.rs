//! Options of speculative decoding, by llama.cpp's names.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use engine::Speculation;

use crate::output::Usage;
use crate::values::{from_1_to, up_to};

/// Maximum number of drafted tokens by default.
const N_MAX: NonZero<usize> = NonZero::new(7).expect("not zero");

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
    #[arg(long, aliases = ["draft-max", "draft-n", "draft"], value_name = "N", default_value_t = N_MAX, env)]
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

/// Where drafts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drafts<'a> {
    Lookup,
    Model(&'a Path),
}

impl SpeculationArgs {
    /// How to speculate, if at all. Fails if options contradict each other.
    pub(crate) fn choice(&self) -> Result<Option<(Speculation, Drafts<'_>)>, Usage> {
        let (n_max, n_min) = (self.spec_draft_n_max.get(), self.spec_draft_n_min);
        let refuse = |why: &str| Err(Usage(why.to_owned()));
        let drafts = match (self.spec_type, self.model_draft.as_deref()) {
            (None, None) | (Some(SpecType::None), _) => return Ok(None),
            (Some(SpecType::NgramSimple), None) => Drafts::Lookup,
            (None | Some(SpecType::DraftSimple), Some(model)) => Drafts::Model(model),
            (Some(SpecType::DraftSimple), None) => {
                return refuse("--spec-type draft-simple needs a model: --model-draft MODEL");
            }
            (Some(SpecType::NgramSimple), Some(_)) => {
                return refuse("--spec-type ngram-simple uses no --model-draft; leave one of them out");
            }
        };
        if n_min > n_max {
            return refuse("--spec-draft-n-min must be at most --spec-draft-n-max");
        }
        Ok(Some((Speculation { n_max, n_min }, drafts)))
    }
}
