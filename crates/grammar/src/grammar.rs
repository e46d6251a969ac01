//! A compiled grammar.

use std::fmt;
use std::sync::Arc;

use llguidance::Matcher;

use crate::trigger::{Automaton, Trigger};
use crate::vocabulary::Vocabulary;
use crate::{Error, Source};

/// A compiled grammar. Copies are cheap.
#[derive(Clone)]
pub struct Grammar {
    pub(crate) vocabulary: Arc<Vocabulary>,
    /// At the beginning of a text. Requests use copies that share nothing: a fault of one does not reach the others.
    start: Arc<Matcher>,
    pub(crate) trigger: Option<Arc<Automaton>>,
}

impl Grammar {
    /// Compiles `source`, on this thread, which needs a large stack, and however long it takes.
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, source: &Source) -> Result<Grammar, Error> {
        let grammar = source.grammar(&vocabulary)?;
        let refused = |error: &dyn fmt::Display| source.refused(&plain(error));
        let parser = vocabulary.factory().create_parser(grammar).map_err(|error| refused(&error))?;
        let mut start = Matcher::new(Ok(parser));
        // What no text satisfies shows with the first mask.
        start.compute_mask_or_eos().map_err(|error| refused(&error))?;
        Ok(Grammar { vocabulary, start: Arc::new(start), trigger: None })
    }

    /// The same grammar for a part of the text: everything is allowed until `trigger` occurs in the generated text; what
    /// follows obeys the grammar. When the grammar is complete, everything is allowed again until the next trigger.
    ///
    /// Tokens that would run past the end of a trigger are ruled out, so that the grammar begins with a token.
    ///
    /// # Errors
    /// If the trigger is empty or not in the vocabulary.
    pub fn after(self, trigger: &Trigger) -> Result<Grammar, Error> {
        let automaton = Automaton::new(trigger, &self.vocabulary)?;
        Ok(Grammar { trigger: Some(Arc::new(automaton)), ..self })
    }

    pub(crate) fn matcher(&self) -> Matcher {
        self.start.deep_clone()
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").field("trigger", &self.trigger).finish_non_exhaustive()
    }
}

/// An error of llguidance without its marks and stack traces, and without names of definitions that only llguidance sees.
pub(crate) fn plain(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let end = ["<non-verbose/>", "<backtrace>", "<state>", "\n  while processing"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min();
    match text[..end.unwrap_or(text.len())].trim() {
        "NoExtensionBias" => "no token of the vocabulary fits".to_owned(),
        text => text.to_owned(),
    }
}
