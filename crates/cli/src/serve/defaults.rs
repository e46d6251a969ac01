//! What requests get that do not say otherwise.

use clap::ValueEnum;
use server::Defaults;

use crate::args::TemplateChoice;
use crate::sampling::SamplingArgs;
use crate::values::max_tokens;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct DefaultArgs {
    /// Maximum number of tokens of an answer, unless a request says otherwise; -1 is no limit
    #[arg(short = 'n', long, aliases = ["n-predict", "predict"], value_name = "N", default_value_t = -1)]
    #[arg(value_parser = max_tokens, env, help_heading = "Defaults of requests")]
    max_tokens: i64,
    /// Whether models reason, where the chat template can turn it off
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Reasoning::Auto, help_heading = "Defaults of requests")]
    reasoning: Reasoning,
    #[command(flatten)]
    sampling: SamplingArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reasoning {
    On,
    Off,
    Auto,
}

impl DefaultArgs {
    pub(super) fn read(&self, template: &TemplateChoice) -> Defaults {
        let mut variables = template.variables();
        if !matches!(self.reasoning, Reasoning::Auto) {
            server::reason(&mut variables, matches!(self.reasoning, Reasoning::On));
        }
        Defaults {
            sampling: self.sampling.sampling(),
            max_tokens: usize::try_from(self.max_tokens).ok(),
            variables,
        }
    }
}
