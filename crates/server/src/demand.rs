//! What an answer must be: from the request of a client to the processor that sees to it.

use std::sync::Arc;

use chat::{Calls, Choice, Preamble, Prompt, ToolFormat, Tools};
use engine::Processor;
use grammar::Source;

use crate::error::{ApiError, Kind};
use crate::models::Served;

/// What an answer must be. To be compiled apart from the threads that render, as it may take seconds.
pub(crate) enum Demand {
    /// The whole answer but reasoning and what else precedes its content.
    Content { param: &'static str, source: Source, preamble: Option<Preamble> },
    /// Its tool calls.
    Calls(Box<ToolCalls>),
}

/// Calls that the model may write among other text.
pub(crate) struct ToolCalls {
    pub(crate) format: ToolFormat,
    pub(crate) prompt: Prompt,
    pub(crate) tools: Arc<Tools>,
    pub(crate) is_parallel: bool,
    /// Whether a tool demands that its schema is enforced.
    pub(crate) is_strict: bool,
}

impl Demand {
    /// Compiles it. May take seconds: not for the threads of the runtime.
    pub(crate) fn processor(self, served: &Served) -> Result<Box<dyn Processor>, ApiError> {
        match self {
            Demand::Content { param, source, preamble } => {
                let mut constraint = served.grammar(param, &source)?.constraint();
                if let Some(preamble) = preamble {
                    constraint.expect(&preamble);
                }
                Ok(Box::new(constraint))
            }
            Demand::Calls(calls) => calls.processor(served),
        }
    }
}

impl ToolCalls {
    /// A schema of a tool that cannot be enforced leaves its arguments open, unless the tool is strict.
    fn processor(self: Box<ToolCalls>, served: &Served) -> Result<Box<dyn Processor>, ApiError> {
        let refused = match self.with(&self.tools, served) {
            Err(error) if error.kind == Kind::Invalid && !self.is_strict => error,
            done => return done,
        };
        tracing::debug!("a schema of a tool is not enforced: {}", refused.message);
        let is_enforced = |schema: &serde_json::Value| {
            served.grammar("tools", &Source::JsonSchema(schema.to_string())).is_ok()
        };
        let open = self.with(&self.tools.opened(|tool| !is_enforced(&tool.parameters)), served);
        open.or_else(|_| self.with(&self.tools.opened(|_| true), served))
    }

    fn with(&self, tools: &Tools, served: &Served) -> Result<Box<dyn Processor>, ApiError> {
        let grammar = self.format.grammar(&self.prompt, tools, &Choice::Auto, self.is_parallel);
        let chat::Grammar { triggers, lark } =
            grammar.map_err(|error| ApiError::invalid("tools", error.to_string()))?;
        let grammar = served.grammar("tools", &Source::Lark(lark))?;
        let grammar = grammar.at_triggers(&triggers, &self.format.preamble(), !self.is_parallel);
        let grammar = grammar.map_err(|error| ApiError::invalid("tools", error.to_string()))?;
        Ok(Box::new(grammar.constraint()))
    }
}

/// How calls are passed on: as their arguments come where the model writes these as JSON.
pub(crate) fn passed_on(wanted: Calls, format: &ToolFormat) -> Calls {
    if format.writes_json() { wanted } else { Calls::Whole }
}
