//! What requests get that do not say otherwise.

use clap::{Arg, ValueEnum};
use server::Defaults;

use crate::args::TemplateChoice;
use crate::params::ParamArgs;

/// The headings of options that requests can override.
pub(crate) fn in_requests(arg: Arg) -> Arg {
    if arg.get_help_heading() == Some("Length") { arg.help_heading(HEADING) } else { arg }
}

const HEADING: &str = "Defaults of requests";

#[derive(Clone, Debug, clap::Args)]
pub(super) struct DefaultArgs {
    /// Whether models reason, where the chat template can turn it off
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Reasoning::Auto, help_heading = HEADING)]
    reasoning: Reasoning,
    #[command(flatten)]
    params: ParamArgs,
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
            variables.extend(engine::template::reasoning_switch(matches!(self.reasoning, Reasoning::On)));
        }
        Defaults { params: self.params.0.clone(), variables }
    }
}
