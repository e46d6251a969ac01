//! A grammar in a request.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use engine::Processor;
use engine::template::Preamble;
use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use crate::gate::{Gate, Next, Position};
use crate::grammar::{Grammar, plain};

/// Rules out the tokens that a [`Grammar`] forbids.
///
/// The first [`apply`](Processor::apply) is that of the first generated token. Once the grammar is complete and nothing may
/// follow, only tokens that end generation are left. While the model computes a step, another thread computes its mask.
pub struct Constraint {
    grammar: Grammar,
    gate: Option<Arc<Gate>>,
    /// Tokens of the text that the grammar has seen or that precede it.
    seen: Option<usize>,
    /// In a cell, because a copy needs the mask that is being computed.
    phase: RefCell<Phase>,
}

enum Phase {
    New,
    /// Not about the grammar.
    Free(Position),
    /// Reasoning or a header may still begin, or what the grammar permits; no state where it does not permit what has begun.
    Before(Position, Option<State>),
    Active(State),
    Computing(Receiver<State>),
    Failed(String),
}

#[derive(Clone)]
struct State {
    matcher: Box<Copied>,
    mask: Option<Result<SimpleVob, String>>,
}

/// A matcher whose copies share nothing.
struct Copied(Matcher);

impl Clone for Copied {
    fn clone(&self) -> Copied {
        Copied(self.0.deep_clone())
    }
}

impl State {
    fn begin(matcher: Matcher) -> State {
        State { matcher: Box::new(Copied(matcher)), mask: None }
    }

    /// The state after `token`, without its mask.
    fn after(mut self, token: u32) -> State {
        let consumed = self.matcher.0.consume_token(token);
        self.mask = consumed.err().map(|error| Err(plain(&error)));
        self
    }

    fn mask(&mut self) -> &Result<SimpleVob, String> {
        let matcher = &mut self.matcher.0;
        self.mask.get_or_insert_with(|| matcher.compute_mask_or_eos().map_err(|error| plain(&error)))
    }

    fn permits(&mut self, token: u32) -> bool {
        self.mask().as_ref().is_ok_and(|mask| (token as usize) < mask.len() && mask.is_allowed(token))
    }

    fn is_complete(&self) -> bool {
        self.matcher.0.is_stopped() && self.matcher.0.stop_reason().is_ok()
    }
}

impl Grammar {
    /// A processor for one request.
    pub fn constraint(&self) -> Constraint {
        Constraint {
            grammar: self.clone(),
            gate: self.gate.clone(),
            seen: None,
            phase: RefCell::new(Phase::New),
        }
    }
}

impl Constraint {
    fn at(&self, gate: &Gate, place: Position) -> Phase {
        if gate.may_begin(&place) {
            Phase::Before(place, Some(State::begin(self.grammar.matcher())))
        } else {
            Phase::Free(place)
        }
    }

    fn begin(&mut self, prompt: &[u32]) {
        let phase = match &self.gate {
            Some(gate) => self.at(gate, gate.begin(prompt, &self.grammar.vocabulary)),
            None => Phase::Active(State::begin(self.grammar.matcher())),
        };
        *self.phase.get_mut() = phase;
    }

    fn advance(&mut self, token: u32) {
        self.settle();
        let phase = std::mem::replace(self.phase.get_mut(), Phase::New);
        let phase = self.after(phase, token);
        *self.phase.get_mut() = phase;
        self.settle();
    }

    fn after(&self, phase: Phase, token: u32) -> Phase {
        let vocabulary = &self.grammar.vocabulary;
        match (phase, &self.gate) {
            (Phase::Active(mut state), gate) => match self.leaves(&mut state, token) {
                Some(place) => self.after(Phase::Free(place), token),
                None => {
                    let state = state.after(token);
                    match gate.as_ref().filter(|gate| gate.is_triggered() && state.is_complete()) {
                        Some(gate) => Phase::Free(gate.after_grammar()),
                        None => Phase::Active(state),
                    }
                }
            },
            (Phase::Free(place), Some(gate)) => match gate.next(&place, token, vocabulary) {
                Next::Free(place) => self.at(gate, place),
                Next::Begins(start, rest) => match self.grammar.matcher_after(start, &rest) {
                    Some(matcher) => Phase::Active(State::begin(matcher)),
                    None => Phase::Failed("a token runs past the beginning of the grammar".to_owned()),
                },
                Next::Beyond => Phase::Failed("a token runs past the beginning of the grammar".to_owned()),
            },
            (Phase::Before(place, mut state), Some(gate)) => {
                let next = gate.next(&place, token, vocabulary);
                let is_permitted = state.as_mut().is_some_and(|state| state.permits(token));
                let state = state.filter(|_| is_permitted);
                match next {
                    Next::Free(place) if !gate.may_begin(&place) || place.is_decided() => {
                        self.at(gate, place)
                    }
                    Next::Free(place) => Phase::Before(place, state.map(|state| state.after(token))),
                    _ => state.map_or_else(
                        || Phase::Failed("a mark that has begun does not go on".to_owned()),
                        |state| Phase::Active(state.after(token)),
                    ),
                }
            }
            (other, _) => other,
        }
    }

    /// The place after the grammar, if `token` is none of it: other text may follow where a triggered grammar may end.
    fn leaves(&self, state: &mut State, token: u32) -> Option<Position> {
        let gate = self.gate.as_ref().filter(|gate| gate.is_triggered())?;
        (self.may_end(state) && !state.permits(token)).then(|| gate.after_grammar())
    }

    fn may_end(&self, state: &mut State) -> bool {
        self.grammar.vocabulary.ends().iter().any(|end| state.permits(*end))
    }

    /// Waits for the mask that is being computed.
    fn settle(&self) {
        let phase = &mut *self.phase.borrow_mut();
        if let Phase::Computing(result) = phase {
            *phase = match result.recv() {
                Ok(state) => Phase::Active(state),
                Err(_) => Phase::Failed("the thread that computes the grammar's masks has ended".to_owned()),
            };
        }
        if let (Phase::Active(state), Some(gate)) = (&*phase, &self.gate)
            && gate.is_triggered()
            && state.is_complete()
        {
            *phase = Phase::Free(gate.after_grammar());
        }
    }
}

impl Processor for Constraint {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        let seen = self.seen.replace(tokens.len()).unwrap_or(tokens.len());
        if matches!(self.phase.get_mut(), Phase::New) {
            self.begin(tokens);
        }
        for &token in tokens.get(seen..).unwrap_or_default() {
            self.advance(token);
        }
        self.settle();
        let mut phase = std::mem::replace(self.phase.get_mut(), Phase::New);
        if let Err(why) = self.restrict(&mut phase, logits) {
            logits.fill(f32::NEG_INFINITY);
            phase = Phase::Failed(why);
        }
        *self.phase.get_mut() = phase;
    }

    fn chosen(&mut self, token: u32) {
        let Some(seen) = &mut self.seen else { return };
        *seen += 1;
        let mut phase = std::mem::replace(self.phase.get_mut(), Phase::New);
        let goes_on = match &mut phase {
            Phase::Active(state) => self.leaves(state, token).is_none(),
            _ => false,
        };
        let phase = match phase {
            Phase::Active(state) if goes_on => {
                let work = move || {
                    let mut state = state.after(token);
                    // Its error is that of the next `apply`.
                    let _ = state.mask();
                    state
                };
                Phase::Computing(self.grammar.vocabulary.masks.run(work))
            }
            other => self.after(other, token),
        };
        *self.phase.get_mut() = phase;
    }

    fn expect(&mut self, preamble: &Preamble) {
        if self.gate.is_none() && preamble.reasoning.is_some() {
            self.gate = Some(self.grammar.gates.content(preamble));
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
            Phase::New => Phase::New,
            Phase::Free(place) => Phase::Free(place.clone()),
            Phase::Before(place, state) => Phase::Before(place.clone(), state.clone()),
            Phase::Active(state) => Phase::Active(state.clone()),
            Phase::Failed(why) => Phase::Failed(why.clone()),
            // Not after it has settled.
            Phase::Computing(_) => Phase::Failed("its mask was not computed".to_owned()),
        };
        let Constraint { grammar, gate, seen, .. } = self;
        Box::new(Constraint {
            grammar: grammar.clone(),
            gate: gate.clone(),
            seen: *seen,
            phase: RefCell::new(phase),
        })
    }
}

impl Constraint {
    /// Rules out what must not follow. Fails with the reason if nothing may.
    fn restrict(&self, phase: &mut Phase, logits: &mut [f32]) -> Result<(), String> {
        let may_follow = |start: usize, rest: &[u8]| self.grammar.matcher_after(start, rest).is_some();
        let exceptions = |place: &Position| {
            self.gate.as_ref().map(|gate| gate.exceptions(place, &self.grammar.vocabulary, may_follow))
        };
        match phase {
            Phase::Active(state) => {
                let rest = match &self.gate {
                    Some(gate) if gate.is_triggered() && self.may_end(state) => {
                        exceptions(&gate.after_grammar())
                    }
                    _ => None,
                };
                match (state.mask(), rest) {
                    (Err(why), _) => return Err(why.clone()),
                    (Ok(mask), None) => rule_out(logits, mask),
                    // The grammar goes on, or other text follows it.
                    (Ok(mask), Some(ruled_out)) => {
                        let is_other = |id: &&u32| !mask.is_allowed(**id);
                        remove(logits, ruled_out.iter().filter(is_other));
                    }
                }
            }
            Phase::Free(place) => {
                let ruled_out = exceptions(place);
                remove(logits, ruled_out.iter().flat_map(|ids| ids.iter()));
            }
            Phase::Before(place, state) => {
                let preceding = exceptions(place).unwrap_or_default();
                let kept: Vec<(usize, f32)> = preceding
                    .iter()
                    .filter_map(|&id| Some((id as usize, *logits.get(id as usize)?)))
                    .collect();
                match state.as_mut().map(State::mask) {
                    Some(Ok(mask)) => rule_out(logits, mask),
                    Some(Err(why)) => return Err(why.clone()),
                    None => logits.fill(f32::NEG_INFINITY),
                }
                for (id, logit) in kept {
                    logits[id] = logit;
                }
            }
            Phase::Failed(_) | Phase::New | Phase::Computing(_) => logits.fill(f32::NEG_INFINITY),
        }
        Ok(())
    }
}

fn remove<'a>(logits: &mut [f32], ids: impl Iterator<Item = &'a u32>) {
    for &id in ids {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The bits of a word, the lowest first: from a table, because SSE2 cannot shift each lane by a number of its own.
const BITS: [u32; 32] = {
    let mut bits = [0; 32];
    let mut at = 0;
    while at < bits.len() {
        bits[at] = 1 << at;
        at += 1;
    }
    bits
};

fn rule_out(logits: &mut [f32], mask: &SimpleVob) {
    for (bits, logits) in mask.as_slice().iter().zip(logits.chunks_mut(32)) {
        match *bits {
            0 => logits.fill(f32::NEG_INFINITY),
            u32::MAX => {}
            bits => {
                // Without a branch, which the processor could not predict, and several at a time.
                for (bit, logit) in BITS.iter().zip(logits) {
                    *logit = if bits & bit == 0 { f32::NEG_INFINITY } else { *logit };
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
