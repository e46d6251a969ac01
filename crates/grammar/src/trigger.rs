//! Where in a text a grammar begins.

use crate::Error;
use crate::vocabulary::Vocabulary;

/// What a grammar waits for ([`Grammar::after`](crate::Grammar::after)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A token, such as the one of `<tool_call>`.
    Token(u32),
    /// A text, be it one token or several. It may be the text of a special token.
    Text(String),
}

/// Finds a trigger in a text that arrives token by token.
#[derive(Debug)]
pub(crate) enum Automaton {
    Token(u32),
    Text(Text),
}

/// The automaton of Knuth, Morris and Pratt; a state is the number of bytes found.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    /// By state, the longest smaller one with the same end.
    fallback: Vec<usize>,
    /// By state, the tokens that run past the end of the text.
    overruns: Vec<Vec<u32>>,
}

impl Automaton {
    pub(crate) fn new(trigger: &Trigger, vocabulary: &Vocabulary) -> Result<Automaton, Error> {
        match trigger {
            Trigger::Token(id) if *id as usize >= vocabulary.len() => {
                Err(Error::Trigger("is a token outside the vocabulary; name one of its ids"))
            }
            Trigger::Token(id) => Ok(Automaton::Token(*id)),
            Trigger::Text(text) if text.is_empty() => Err(Error::Trigger("is empty; name a text")),
            Trigger::Text(text) => Ok(Automaton::Text(Text::new(text, vocabulary))),
        }
    }

    /// The state after `token`; `None` if it completes the trigger.
    pub(crate) fn advance(&self, state: usize, token: u32, vocabulary: &Vocabulary) -> Option<usize> {
        match self {
            Automaton::Token(id) => (token != *id).then_some(0),
            Automaton::Text(text) => {
                vocabulary.bytes(token).iter().try_fold(state, |state, &byte| text.next(state, byte))
            }
        }
    }

    /// Tokens that would complete the trigger and go on.
    pub(crate) fn overruns(&self, state: usize) -> &[u32] {
        match self {
            Automaton::Token(_) => &[],
            Automaton::Text(text) => text.overruns.get(state).map_or(&[], Vec::as_slice),
        }
    }
}

impl Text {
    fn new(text: &str, vocabulary: &Vocabulary) -> Text {
        let bytes = text.as_bytes().to_vec();
        let mut text = Text { fallback: vec![0; bytes.len()], overruns: Vec::new(), bytes };
        for state in 1..text.bytes.len() {
            let before = text.fallback[state - 1];
            // The bytes of the state, without its first one, as far as they are the beginning of the text.
            let next = if state == 1 { 0 } else { text.next(before, text.bytes[state - 1]).unwrap_or(0) };
            text.fallback[state] = next;
        }
        let last = text.bytes.last().copied();
        let ids = 0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
        let candidates: Vec<u32> = ids
            .filter(|&id| {
                let before_end = vocabulary.bytes(id).split_last().map_or(&[][..], |(_, bytes)| bytes);
                before_end.iter().any(|byte| Some(*byte) == last)
            })
            .collect();
        let overrun = |state: usize, id: u32| {
            let bytes = vocabulary.bytes(id);
            let before_end = &bytes[..bytes.len() - 1];
            before_end.iter().try_fold(state, |state, &byte| text.next(state, byte)).is_none()
        };
        let overruns = (0..text.bytes.len())
            .map(|state| candidates.iter().copied().filter(|&id| overrun(state, id)).collect());
        let overruns = overruns.collect();
        Text { overruns, ..text }
    }

    /// The state after `byte`; `None` at the end of the text.
    fn next(&self, mut state: usize, byte: u8) -> Option<usize> {
        while self.bytes[state] != byte {
            if state == 0 {
                return Some(0);
            }
            state = self.fallback[state];
        }
        Some(state + 1).filter(|&state| state < self.bytes.len())
    }
}
