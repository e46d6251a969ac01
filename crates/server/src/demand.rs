//! What an answer must be: from the request of a client to the processor that sees to it.

use std::sync::Arc;

use chat::{Calls, Choice, Preamble, Prompt, Tool, ToolFormat, Tools};
use engine::Processor;
use grammar::{Compiler, Source};

use crate::error::ApiError;
use crate::models::{Served, refused};

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
    /// Whether schemas that cannot be enforced are errors.
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
    fn processor(&self, served: &Served) -> Result<Box<dyn Processor>, ApiError> {
        let compiler = served.compiler("tools")?;
        let error = match self.with(&self.tools, compiler) {
            Err(error) if !self.is_strict => error,
            done => return done.map_err(|error| refused("tools", &error)),
        };
        tracing::debug!("schemas of tools are not enforced: {error}");
        let is_refused = |tool: &Tool| match &error {
            // All of them together are too much.
            grammar::Error::TooLong { .. } | grammar::Error::Deadline { .. } => true,
            _ => compiler.compile(&Source::JsonSchema(tool.parameters.to_string())).is_err(),
        };
        let open = self.with(&self.tools.opened(is_refused), compiler);
        let open = open.or_else(|_| self.with(&self.tools.opened(|_| true), compiler));
        open.map_err(|error| refused("tools", &error))
    }

    fn with(&self, tools: &Tools, compiler: &Compiler) -> Result<Box<dyn Processor>, grammar::Error> {
        let grammar = self.format.grammar(&self.prompt, tools, &Choice::Auto, self.is_parallel);
        // Without tools there is no demand.
        let chat::Grammar { triggers, lark } = grammar.unwrap_or_default();
        let grammar = compiler.compile(&Source::Lark(lark))?;
        let grammar = grammar.at_triggers(&triggers, &self.format.preamble(), !self.is_parallel)?;
        Ok(Box::new(grammar.constraint()))
    }
}

/// How calls are passed on: as their arguments come where the model writes these as JSON.
pub(crate) fn passed_on(wanted: Calls, format: &ToolFormat) -> Calls {
    if format.writes_json() { wanted } else { Calls::Whole }
}
