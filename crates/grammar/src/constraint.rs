//! A grammar in a request.

use std::cell::RefCell;
use std::fmt;
use std::sync::mpsc::Receiver;

use engine::Processor;
use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use crate::grammar::{Grammar, plain};

/// Rules out the tokens that a [`Grammar`] forbids.
///
/// The first [`apply`](Processor::apply) is that of the first generated token. Once the grammar is complete and nothing may
/// follow, only tokens that end generation are left. While the model computes a step, another thread computes its mask.
pub struct Constraint {
    grammar: Grammar,
    /// Tokens of the text that the grammar has seen or that precede it.
    seen: Option<usize>,
    /// In a cell, because a copy needs the mask that is being computed.
    phase: RefCell<Phase>,
}

enum Phase {
    /// For the trigger, in a state of its automaton.
    Waiting(usize),
    Active(State),
    /// Another thread is computing the mask.
    Computing(Receiver<State>),
    /// No token is possible.
    Failed(String),
}

struct State {
    matcher: Box<Matcher>,
    /// If it is computed.
    mask: Option<Result<SimpleVob, String>>,
}

impl State {
    fn begin(matcher: Matcher) -> State {
        State { matcher: Box::new(matcher), mask: None }
    }

    /// The state after `token`, without its mask.
    fn after(mut self, token: u32) -> State {
        let consumed = self.matcher.consume_token(token);
        self.mask = consumed.err().map(|error| Err(plain(&error)));
        self
    }

    fn mask(&mut self) -> &Result<SimpleVob, String> {
        let matcher = &mut self.matcher;
        self.mask.get_or_insert_with(|| matcher.compute_mask_or_eos().map_err(|error| plain(&error)))
    }

    fn is_complete(&self) -> bool {
        self.matcher.is_stopped() && self.matcher.stop_reason().is_ok()
    }
}

impl Grammar {
    /// A processor for one request.
    pub fn constraint(&self) -> Constraint {
        let phase = match self.trigger {
            Some(_) => Phase::Waiting(0),
            None => Phase::Active(State::begin(self.matcher())),
        };
        Constraint { grammar: self.clone(), seen: None, phase: RefCell::new(phase) }
    }
}

impl Constraint {
    /// Takes note of a token of the text.
    fn advance(&mut self, token: u32) {
        self.settle();
        let phase = self.phase.get_mut();
        *phase = match std::mem::replace(phase, Phase::Waiting(0)) {
            Phase::Active(state) => Phase::Active(state.after(token)),
            Phase::Waiting(state) => {
                let Grammar { trigger, vocabulary, .. } = &self.grammar;
                match trigger.as_ref().and_then(|trigger| trigger.advance(state, token, vocabulary)) {
                    Some(state) => Phase::Waiting(state),
                    None => Phase::Active(State::begin(self.grammar.matcher())),
                }
            }
            other => other,
        };
        self.settle();
    }

    /// Waits for the mask that is being computed, and leaves a part that is complete.
    fn settle(&self) {
        let phase = &mut *self.phase.borrow_mut();
        if let Phase::Computing(result) = phase {
            *phase = match result.recv() {
                Ok(state) => Phase::Active(state),
                Err(_) => Phase::Failed("the thread that computes the grammar's masks has ended".to_owned()),
            };
        }
        if let Phase::Active(state) = phase
            && self.grammar.trigger.is_some()
            && state.is_complete()
        {
            *phase = Phase::Waiting(0);
        }
    }
}

impl Processor for Constraint {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        let seen = self.seen.replace(tokens.len()).unwrap_or(tokens.len());
        for &token in tokens.get(seen..).unwrap_or_default() {
            self.advance(token);
        }
        self.settle();
        let phase = self.phase.get_mut();
        if let Phase::Active(state) = phase {
            match state.mask() {
                Ok(mask) => return rule_out(logits, mask),
                Err(why) => *phase = Phase::Failed(why.clone()),
            }
        }
        match phase {
            Phase::Waiting(state) => {
                let trigger = self.grammar.trigger.as_ref();
                for &id in trigger.map_or(&[][..], |trigger| trigger.overruns(*state)) {
                    if let Some(logit) = logits.get_mut(id as usize) {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
            _ => logits.fill(f32::NEG_INFINITY),
        }
    }

    fn chosen(&mut self, token: u32) {
        let Some(seen) = &mut self.seen else { return };
        *seen += 1;
        let phase = self.phase.get_mut();
        match std::mem::replace(phase, Phase::Waiting(0)) {
            Phase::Active(state) => {
                let work = move || {
                    let mut state = state.after(token);
                    state.mask();
                    state
                };
                *phase = Phase::Computing(self.grammar.vocabulary.masks.run(work));
            }
            other => {
                *phase = other;
                self.advance(token);
            }
        }
    }

    fn failure(&self) -> Option<String> {
        match &*self.phase.borrow() {
            Phase::Failed(why) => Some(format!("the grammar cannot go on: {why}")),
            _ => None,
        }
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        self.settle();
        let phase = match &*self.phase.borrow() {
            Phase::Waiting(state) => Phase::Waiting(*state),
            Phase::Active(state) => Phase::Active(State {
                matcher: Box::new(state.matcher.deep_clone()),
                mask: state.mask.clone(),
            }),
            Phase::Failed(why) => Phase::Failed(why.clone()),
            // Not after it has settled.
            Phase::Computing(_) => Phase::Failed("its mask was not computed".to_owned()),
        };
        let Constraint { grammar, seen, .. } = self;
        Box::new(Constraint { grammar: grammar.clone(), seen: *seen, phase: RefCell::new(phase) })
    }
}

fn rule_out(logits: &mut [f32], mask: &SimpleVob) {
    for (bits, logits) in mask.as_slice().iter().zip(logits.chunks_mut(32)) {
        match *bits {
            0 => logits.fill(f32::NEG_INFINITY),
            u32::MAX => {}
            bits => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    // Without a branch, which the processor could not predict.
                    *logit = [f32::NEG_INFINITY, *logit][(bits >> bit & 1) as usize];
                }
            }
        }
    }
    // Logits without a token, which pad some models' output.
    if let Some(rest) = logits.get_mut(mask.len()..) {
        rest.fill(f32::NEG_INFINITY);
    }
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constraint")
            .field("grammar", &self.grammar)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}
