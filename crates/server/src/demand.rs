//! What an answer must be: from the request of a client to the processor that sees to it.

use std::sync::Arc;

use chat::{Choice, Preamble, Prompt, Tool, Tools, ToolsError, Unenforced};
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
    pub(crate) prompt: Prompt,
    /// Those of the prompt.
    pub(crate) tools: Arc<Tools>,
    pub(crate) is_parallel: bool,
    /// Tools whose schemas are errors if they cannot be enforced.
    pub(crate) strict: Vec<String>,
}

/// Why calls cannot be constrained.
enum Failure {
    /// The format cannot see to what a strict tool asks for.
    Unenforced(Unenforced),
    /// There is too much of them.
    Tools(ToolsError),
    Grammar(grammar::Error),
}

impl From<grammar::Error> for Failure {
    fn from(error: grammar::Error) -> Failure {
        Failure::Grammar(error)
    }
}

impl Failure {
    fn refused(&self) -> ApiError {
        match self {
            Failure::Unenforced(error) => ApiError::invalid("tools", format!("`tools`: {error}")),
            Failure::Tools(error) => ApiError::invalid("tools", format!("`tools`: {error}")),
            Failure::Grammar(error) => refused("tools", error),
        }
    }
}

/// What the grammar leaves open of a tool that is `strict`.
pub(crate) fn unenforced<'a>(grammar: &'a chat::Grammar, strict: &[String]) -> Option<&'a Unenforced> {
    grammar.unenforced.iter().find(|open| strict.contains(&open.tool))
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
        let may_open = |tool: &Tool| !self.strict.contains(&tool.name);
        let failure = match self.with(&self.tools, compiler) {
            Err(failure) if self.tools.iter().any(may_open) => failure,
            done => return done.map_err(|failure| failure.refused()),
        };
        tracing::debug!("schemas of tools are not enforced: {}", failure.refused().message);
        let is_refused = |tool: &Tool| match &failure {
            // All of them together are too much.
            Failure::Tools(_)
            | Failure::Grammar(grammar::Error::TooLong { .. } | grammar::Error::Deadline { .. }) => true,
            Failure::Unenforced(_) => false,
            Failure::Grammar(_) => {
                compiler.compile(&Source::JsonSchema(tool.parameters.to_string())).is_err()
            }
        };
        let open = self.with(&self.tools.opened(|tool| may_open(tool) && is_refused(tool)), compiler);
        let open = open.or_else(|_| self.with(&self.tools.opened(may_open), compiler));
        open.map_err(|failure| failure.refused())
    }

    fn with(&self, tools: &Tools, compiler: &Compiler) -> Result<Box<dyn Processor>, Failure> {
        let grammar = self.prompt.grammar(tools, &Choice::Auto, self.is_parallel, None);
        let grammar = grammar.map_err(Failure::Tools)?;
        if let Some(open) = unenforced(&grammar, &self.strict) {
            return Err(Failure::Unenforced(open.clone()));
        }
        for open in &grammar.unenforced {
            tracing::debug!("schemas of tools are not enforced: {open}");
        }
        let chat::Grammar { triggers, lark, .. } = grammar;
        let grammar = compiler.compile(&Source::Lark(lark))?;
        let grammar = grammar.at_triggers(&triggers, &self.prompt.preamble(), !self.is_parallel)?;
        Ok(Box::new(grammar.constraint()))
    }
}
