//! A compiled grammar.

use std::fmt;
use std::sync::Arc;

use engine::template::{OpeningPlace, Preamble, Segment, Trigger as CallTrigger};
use llguidance::Matcher;

use crate::gate::{Gate, Gates, Trigger};
use crate::vocabulary::Vocabulary;
use crate::{Error, Source};

/// Longest message of llguidance that is passed on, in characters: some repeat the grammar.
const MAX_MESSAGE: usize = 1000;

/// A compiled grammar. Copies are cheap.
#[derive(Clone)]
pub struct Grammar {
    pub(crate) vocabulary: Arc<Vocabulary>,
    /// At its beginning. Requests use copies that share nothing: a fault of one does not reach the others.
    start: Arc<Matcher>,
    /// The tokens of the triggers that begin it.
    triggers: Arc<[Vec<u32>]>,
    /// If it is not about the whole text.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) gates: Arc<Gates>,
}

impl Grammar {
    /// Compiles `source`, on this thread, which needs a large stack, and however long it takes.
    pub(crate) fn new(
        vocabulary: Arc<Vocabulary>,
        gates: Arc<Gates>,
        source: &Source,
    ) -> Result<Grammar, Error> {
        let grammar = source.grammar(&vocabulary)?;
        let refused = |error: &dyn fmt::Display| source.refused(&plain(error));
        let parser = vocabulary.factory().create_parser(grammar).map_err(|error| refused(&error))?;
        let mut start = Matcher::new(Ok(parser));
        // A grammar that no text satisfies shows with the first mask.
        start.compute_mask_or_eos().map_err(|error| refused(&error))?;
        Ok(Grammar { vocabulary, start: Arc::new(start), triggers: Arc::new([]), gate: None, gates })
    }

    /// The same grammar for a part of the text: everything is allowed until `trigger` occurs in the generated text; what
    /// follows obeys the grammar, also what follows the trigger in its last token. Where the grammar may end, everything is allowed
    /// again until the next trigger. Fails if the trigger is empty or not in the vocabulary.
    pub fn after(self, trigger: &Trigger) -> Result<Grammar, Error> {
        match trigger {
            Trigger::Token(id) if *id as usize >= self.vocabulary.len() => {
                Err(Error::Trigger("is a token outside the vocabulary; name one of its ids"))
            }
            Trigger::Text(text) if text.is_empty() => Err(Error::Trigger("is empty; name a text")),
            _ => Ok(Grammar { gate: Some(Arc::new(Gate::after(trigger))), ..self }),
        }
    }

    /// The same grammar for tool calls in an answer: everything is allowed until one of the `triggers` occurs where it counts;
    /// what was generated since the trigger's first byte, and what follows, obeys the grammar. Where it may end, everything is
    /// allowed until the next trigger; with `once`, there must not be one. Fails if a trigger does not begin the grammar.
    pub fn at_triggers(
        self,
        triggers: &[CallTrigger],
        preamble: &Preamble,
        once: bool,
    ) -> Result<Grammar, Error> {
        let no_beginning = Error::Trigger("does not begin the grammar; let the grammar begin with it");
        let mut start = self.matcher();
        let mut tokens = Vec::new();
        for trigger in triggers {
            let mut ids = Vec::new();
            for segment in &trigger.segments {
                match segment {
                    Segment::Token { id, .. } => ids.push(*id),
                    Segment::Text(text) => {
                        ids.extend(
                            self.vocabulary.tokenize(text.as_bytes()).ok_or_else(|| no_beginning.clone())?,
                        );
                    }
                }
            }
            start.consume_tokens(&ids).map_err(|_| no_beginning.clone())?;
            start.rollback(ids.len()).map_err(|_| no_beginning.clone())?;
            tokens.push(ids);
        }
        let texts: Vec<(String, OpeningPlace)> =
            triggers.iter().map(|trigger| (trigger.text(), trigger.place)).collect();
        let texts = texts.iter().map(|(text, place)| (text.as_str(), *place));
        let gate = Gate::triggered(texts, preamble, once);
        Ok(Grammar { triggers: tokens.into(), gate: Some(Arc::new(gate)), ..self })
    }

    pub(crate) fn matcher(&self) -> Matcher {
        self.start.deep_clone()
    }

    /// After its trigger `number`, and `rest` after that; `None` if `rest` may not follow.
    pub(crate) fn matcher_after(&self, number: usize, rest: &[u8]) -> Option<Matcher> {
        let mut ids = self.triggers.get(number).cloned().unwrap_or_default();
        ids.extend(self.vocabulary.tokenize(rest)?);
        let mut start = self.matcher();
        start.consume_tokens(&ids).ok()?;
        Some(start)
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").field("gate", &self.gate).finish_non_exhaustive()
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
        text if text.contains("grammar.symbols.len() <") => {
            "it has more than 65,000 symbols; make it smaller".to_owned()
        }
        text => match text.char_indices().nth(MAX_MESSAGE) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        },
    }
}
