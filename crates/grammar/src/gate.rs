//! The part of an answer that a grammar constrains: after reasoning, or after a trigger.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::template::{AnswerPart, Leads, Marks, Next as Found, OpeningPlace, Preamble};

use crate::vocabulary::Vocabulary;

/// The token or text that starts a grammar ([`Grammar::after`](crate::Grammar::after)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A token, such as the one of `<tool_call>`.
    Token(u32),
    /// A text, be it one token or several. It may be the text of a special token.
    Text(String),
}

/// White space and marks between reasoning and content, at most: without a bound, a model may write nothing else.
const MAX_SKIPPED: u8 = 8;

/// Finds where a grammar begins in a text that arrives token by token.
#[derive(Debug)]
pub(crate) struct Gate {
    marks: Marks,
    /// The token after which the grammar begins.
    token: Option<u32>,
    scope: Scope,
    preamble: Option<Preamble>,
    /// By place, the tokens that [`Gate::exceptions`] returns.
    exceptions: Mutex<HashMap<Position, Arc<[u32]>>>,
}

/// The gates of a vocabulary for the content of answers, by what may precede it.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<Vec<(Preamble, Arc<Gate>)>>);

impl Gates {
    /// Finds the content of answers with this preamble.
    pub(crate) fn content(&self, preamble: &Preamble) -> Arc<Gate> {
        let gates = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gate)) = gates.iter().find(|(other, _)| other == preamble) {
            return gate.clone();
        }
        let gate = Arc::new(Gate::content(preamble));
        gates.push((preamble.clone(), gate.clone()));
        gate
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Content,
    /// Text after a trigger, each time or only the first one.
    Triggered {
        once: bool,
    },
}

/// A place in the part of an answer that a grammar is not about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    part: AnswerPart,
    /// The last bytes, as far as they may become a mark.
    held: Vec<u8>,
    skipped: u8,
    /// Whether a grammar must not begin any more.
    is_spent: bool,
}

#[derive(Debug)]
pub(crate) enum Next {
    Free(Position),
    /// The grammar begins: the beginning with this number, and the last bytes of the token, which follow it.
    Begins(usize, Vec<u8>),
    /// The token runs past the place where a grammar must begin.
    Beyond,
}

enum Step {
    On,
    /// The grammar begins; what is held follows its beginning.
    Begins(usize),
    Beyond,
}

impl Gate {
    pub(crate) fn content(preamble: &Preamble) -> Gate {
        Gate::new(Marks::before_content(preamble), Scope::Content, Some(preamble.clone()))
    }

    /// For a grammar that begins with one of `triggers`: texts, and where they count.
    pub(crate) fn triggered<'a>(
        triggers: impl Iterator<Item = (&'a str, OpeningPlace)>,
        preamble: &Preamble,
        once: bool,
    ) -> Gate {
        let triggers = triggers.enumerate().map(|(number, (text, place))| (number, text, place));
        let marks = Marks::with_calls(preamble, triggers);
        Gate::new(marks, Scope::Triggered { once }, Some(preamble.clone()))
    }

    /// For a grammar that follows a token or a text.
    pub(crate) fn after(trigger: &Trigger) -> Gate {
        let (token, marks) = match trigger {
            Trigger::Token(id) => (Some(*id), Marks::default()),
            Trigger::Text(text) => {
                let opening = (0, text.as_str(), OpeningPlace::Content);
                (None, Marks::with_calls(&Preamble::default(), [opening]))
            }
        };
        Gate { token, ..Gate::new(marks, Scope::Triggered { once: false }, None) }
    }

    fn new(marks: Marks, scope: Scope, preamble: Option<Preamble>) -> Gate {
        Gate { marks, token: None, scope, preamble, exceptions: Mutex::default() }
    }

    pub(crate) fn is_triggered(&self) -> bool {
        matches!(self.scope, Scope::Triggered { .. })
    }

    /// Where an answer to `prompt` begins.
    pub(crate) fn begin(&self, prompt: &[u32], vocabulary: &Vocabulary) -> Position {
        let Some(preamble) = &self.preamble else { return Position::new(AnswerPart::Content) };
        let start = |may_reason| Position::new(AnswerPart::Start { may_reason, is_first: true });
        let Some(reasoning) = preamble.reasoning else { return start(false) };
        if ends_with(prompt, reasoning.open, vocabulary) {
            return Position::new(AnswerPart::REASONING);
        }
        // Reasoning that is over is not begun again before an answer of which every word counts.
        let is_over = ends_with(prompt, reasoning.close, vocabulary);
        start(!is_over || self.is_triggered())
    }

    pub(crate) fn after_grammar(&self) -> Position {
        let part = match &self.preamble {
            Some(_) => AnswerPart::Start { may_reason: true, is_first: false },
            None => AnswerPart::Content,
        };
        Position { is_spent: self.scope == Scope::Triggered { once: true }, ..Position::new(part) }
    }

    pub(crate) fn next(&self, place: &Position, token: u32, vocabulary: &Vocabulary) -> Next {
        if self.token == Some(token) {
            return Next::Begins(0, Vec::new());
        }
        let mut place = place.clone();
        let bytes = vocabulary.bytes(token);
        for (number, byte) in bytes.iter().enumerate() {
            place.held.push(*byte);
            match self.settle(&mut place) {
                Step::On => {}
                Step::Begins(start) if !place.is_spent => {
                    return Next::Begins(start, [&place.held, &bytes[number + 1..]].concat());
                }
                Step::Begins(_) | Step::Beyond => return Next::Beyond,
            }
        }
        Next::Free(place)
    }

    /// Decides what is held, as far as it can be.
    fn settle(&self, place: &mut Position) -> Step {
        while !place.held.is_empty() {
            match self.marks.next(place.part, &place.held, true, true) {
                Found::Undecided => return Step::On,
                Found::Mark(length, leads) => {
                    place.held.drain(..length);
                    match leads {
                        Leads::Reasoning => place.part = AnswerPart::REASONING,
                        Leads::Start => {
                            let is_first = !matches!(
                                place.part,
                                AnswerPart::Content | AnswerPart::Start { is_first: false, .. }
                            );
                            place.part = AnswerPart::Start { may_reason: self.is_triggered(), is_first };
                        }
                        Leads::Calls(start) => return Step::Begins(start),
                    }
                }
                Found::Text => {
                    let first = place.held.remove(0);
                    let space = first.is_ascii_whitespace();
                    place.part = place.part.after_text(char::from(first));
                    match place.part {
                        AnswerPart::Start { .. } if self.is_triggered() && !space => {
                            place.part = AnswerPart::Content
                        }
                        // Content has begun, which the grammar constrains.
                        AnswerPart::Start { may_reason, .. }
                            if !self.is_triggered() && (may_reason || !space) =>
                        {
                            return Step::Beyond;
                        }
                        _ => {}
                    }
                }
            }
            if self.may_begin(place) {
                place.skipped += 1;
                if place.skipped > MAX_SKIPPED {
                    return Step::Beyond;
                }
            }
        }
        Step::On
    }

    /// Tokens that differ from the others at this place: those that may precede content where it may begin, or must not follow.
    /// `may_follow` says whether bytes may follow a beginning of the grammar.
    pub(crate) fn exceptions(
        &self,
        place: &Position,
        vocabulary: &Vocabulary,
        may_follow: impl Fn(usize, &[u8]) -> bool,
    ) -> Arc<[u32]> {
        if let Some(found) = self.lock().get(place) {
            return found.clone();
        }
        let ids = 0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
        let found: Arc<[u32]> = if self.may_begin(place) {
            ids.filter(|id| self.may_precede(place, *id, vocabulary)).collect()
        } else {
            let completions = Completions::new(&self.marks, place, self.is_triggered());
            let must_not_follow = |id: &u32| {
                // An answer that ends within reasoning would lack what the grammar demands.
                let ends = !self.is_triggered() && vocabulary.ends().contains(id);
                ends || completions.may_begin(vocabulary.bytes(*id))
                    && match self.next(place, *id, vocabulary) {
                        Next::Free(_) => false,
                        Next::Begins(start, rest) => !rest.is_empty() && !may_follow(start, &rest),
                        Next::Beyond => true,
                    }
            };
            ids.filter(must_not_follow).collect()
        };
        self.lock().insert(place.clone(), found.clone());
        found
    }

    /// Whether content may begin here of which the grammar is about.
    pub(crate) fn may_begin(&self, place: &Position) -> bool {
        !self.is_triggered() && matches!(place.part, AnswerPart::Start { .. })
    }

    /// Whether a token may belong to what precedes content.
    fn may_precede(&self, place: &Position, id: u32, vocabulary: &Vocabulary) -> bool {
        let Some(first) = vocabulary.bytes(id).first() else { return false };
        let held = &*place.held;
        let goes_on = |(mark, is_all, _): (&[u8], bool, Leads)| {
            mark.starts_with(held) && mark.get(held.len()) == Some(first) || !is_all && held.starts_with(mark)
        };
        (first.is_ascii_whitespace() || self.marks.iter().any(goes_on))
            && !vocabulary.ends().contains(&id)
            && matches!(self.next(place, id, vocabulary), Next::Free(_))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Position, Arc<[u32]>>> {
        self.exceptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a token may complete a mark before a grammar: decides quickly for most tokens.
struct Completions<'a> {
    /// What is left of marks that have begun.
    rests: Vec<&'a [u8]>,
    firsts: [bool; 256],
    /// Bytes of the shortest mark.
    shortest: usize,
    /// Whether each token may, as a mark is complete but for the question whether it becomes a longer one.
    is_any: bool,
}

impl<'a> Completions<'a> {
    fn new(marks: &'a Marks, place: &Position, is_triggered: bool) -> Completions<'a> {
        let mut all =
            Completions { rests: Vec::new(), firsts: [false; 256], shortest: usize::MAX, is_any: false };
        let is_meant = |leads| match leads {
            Leads::Calls(_) => true,
            Leads::Start => !is_triggered,
            Leads::Reasoning => false,
        };
        for (mark, is_all, _) in marks.iter().filter(|(_, _, leads)| is_meant(*leads)) {
            all.shortest = all.shortest.min(mark.len());
            for from in 0..place.held.len() {
                let begun = &place.held[from..];
                all.is_any |= begun.starts_with(mark) && (is_all || is_meant(Leads::Start));
                if let Some([first, rest @ ..]) = mark.strip_prefix(begun) {
                    all.firsts[usize::from(*first)] = true;
                    all.rests.push(&mark[mark.len() - rest.len() - 1..]);
                }
            }
        }
        all
    }

    fn may_begin(&self, bytes: &[u8]) -> bool {
        let goes_on = || self.rests.iter().any(|rest| bytes.starts_with(rest));
        self.is_any
            || bytes.len() >= self.shortest
            || bytes.first().is_some_and(|first| self.firsts[usize::from(*first)]) && goes_on()
    }
}

impl Position {
    pub(crate) fn is_decided(&self) -> bool {
        self.held.is_empty()
    }

    fn new(part: AnswerPart) -> Position {
        Position { part, held: Vec::new(), skipped: 0, is_spent: false }
    }
}

/// Whether the text of `prompt` ends with `mark` and white space.
fn ends_with(prompt: &[u32], mark: &str, vocabulary: &Vocabulary) -> bool {
    let mut end = Vec::new();
    for &id in prompt.iter().rev() {
        end.splice(..0, vocabulary.bytes(id).iter().copied());
        if end.trim_ascii_end().len() >= mark.len() {
            break;
        }
    }
    end.trim_ascii_end().ends_with(mark.as_bytes())
}
