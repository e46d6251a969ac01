//! Outputs of a step.

use crate::{Error, MAX_CANDIDATES, Output, Step};

/// Handle of a submitted step.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "wait for the step to get its outputs"]
pub struct Ticket(usize);

/// The steps that a program got and that can be waited for: the last one, and up to `N - 1` that it follows.
#[derive(Debug)]
pub struct Pending<const N: usize = 1> {
    /// The last ticket, and the first one that is still valid.
    last: usize,
    first: usize,
    outputs: [Vec<Output>; N],
}

impl<const N: usize> Pending<N> {
    /// Records that `step` was submitted.
    pub fn begin(&mut self, step: &Step) -> Ticket {
        self.last += 1;
        let oldest = (self.last + 1).saturating_sub(N);
        self.first = if step.is_ahead() { self.first.max(oldest) } else { self.last };
        let outputs = &mut self.outputs[self.last % N];
        outputs.clear();
        outputs.extend(step.outputs().map(|(_, output)| output.clone()));
        Ticket(self.last)
    }

    /// The buffers of a step, of `N`.
    pub fn buffer(&self, ticket: &Ticket) -> usize {
        ticket.0 % N
    }

    /// The buffers of the next step.
    pub fn next_buffer(&self) -> usize {
        (self.last + 1) % N
    }

    /// The ticket's step's outputs, by output row. Fails if later steps have overwritten them.
    pub fn end(&self, ticket: Ticket) -> Result<&[Output], Error> {
        if ticket.0 >= self.first {
            return Ok(&self.outputs[ticket.0 % N]);
        }
        Err(Error::Step("another step was submitted before this one was waited for".into()))
    }
}

impl<const N: usize> Default for Pending<N> {
    fn default() -> Pending<N> {
        Pending { last: 0, first: 0, outputs: std::array::from_fn(|_| Vec::new()) }
    }
}

/// What a step returns, by output row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs<'a> {
    values: &'a [f32],
    cols: usize,
    hidden: (&'a [f32], usize),
    chosen: Vec<Chosen>,
}

/// What was chosen from the logits of an output row.
#[derive(Clone, Debug, PartialEq)]
enum Chosen {
    Token(Option<u32>),
    Candidates(Vec<(u32, f32)>),
    Top(Vec<(u32, f32)>),
}

/// What the token after an output row can be chosen from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the methods of `Outputs` with these names explain them")]
pub enum Answer<'a> {
    Token(u32),
    Candidates(&'a [(u32, f32)]),
    Logits(&'a [f32]),
}

impl<'a> Outputs<'a> {
    /// Device token id of a row without a possible token, and of a missing candidate.
    pub const NO_TOKEN: u32 = u32::MAX;

    /// The `outputs` that follow from the result `values`, `[rows, cols]`: the logits of all output rows, or, for a
    /// non-final pipeline stage, the hidden rows of the next stage.
    pub fn new(outputs: &[Output], values: &'a [f32], cols: usize) -> Outputs<'a> {
        let choose = |(output, logits): (&Output, &[f32])| match output {
            Output::Greedy => Chosen::Token(greedy_token(logits)),
            Output::Top(top) => {
                Chosen::Top(top_log_probabilities(logits, log_sum_exp(logits), *top as usize))
            }
            Output::None | Output::Draw(_) | Output::Candidates | Output::Logits | Output::Hidden => {
                Chosen::Token(None)
            }
        };
        let chosen = outputs.iter().zip(values.chunks_exact(cols.max(1))).map(choose).collect();
        Outputs { values, cols, hidden: (&[], 0), chosen }
    }

    /// The outputs of a step that returns only tokens chosen on the device: greedy ([`greedy_token`]) or drawn ([`crate::Draw`]).
    /// [`Outputs::NO_TOKEN`] marks a row without one.
    pub fn from_tokens(tokens: &[u32]) -> Outputs<'static> {
        let chosen = tokens.iter().map(|&token| Chosen::Token(token_from_device(token))).collect();
        Outputs { chosen, ..Outputs::default() }
    }

    /// The outputs of a step of greedy tokens and candidates alone, chosen on the device. `words` has for each row the ids
    /// of [`MAX_CANDIDATES`] candidates and then the bits of their logits. [`Outputs::NO_TOKEN`] marks those that are
    /// missing: a row may have fewer possible tokens, and has none if a logit is NaN or +∞.
    pub fn from_candidates(outputs: &[Output], words: &[u32]) -> Outputs<'static> {
        let choose = |(output, row): (&Output, &[u32])| {
            let (ids, logits) = row.split_at(MAX_CANDIDATES);
            if *output == Output::Greedy {
                return Chosen::Token(token_from_device(ids[0]));
            }
            let found = ids.iter().zip(logits).take_while(|(id, _)| **id != Outputs::NO_TOKEN);
            Chosen::Candidates(found.map(|(&id, &logit)| (id, f32::from_bits(logit))).collect())
        };
        let chosen = outputs.iter().zip(words.chunks_exact(2 * MAX_CANDIDATES)).map(choose);
        Outputs { chosen: chosen.collect(), ..Outputs::default() }
    }

    /// The same with the rows of the graph's first further result, `[rows, cols]`.
    pub fn with_hidden(self, values: &'a [f32], cols: usize) -> Outputs<'a> {
        Outputs { hidden: (values, cols), ..self }
    }

    /// The result, row-major; empty if only tokens or candidates were returned.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The token of output row `index`, or else its candidates, or else its logits.
    pub fn answer(&self, index: usize) -> Result<Answer<'_>, Error> {
        let token = self.token(index).map(Answer::Token);
        let or_candidates = token.or_else(|| self.candidates(index).map(Answer::Candidates));
        let or_logits = or_candidates.or_else(|| self.logits(index).map(Answer::Logits));
        or_logits.ok_or_else(|| Error::Step(format!("the backend returned nothing for output row {index}")))
    }

    /// The logits of output row `index`, one per token of the vocabulary.
    pub fn logits(&self, index: usize) -> Option<&'a [f32]> {
        self.values.get(index * self.cols..(index + 1) * self.cols).filter(|logits| !logits.is_empty())
    }

    /// The row of the graph's first further result for output row `index`.
    pub fn hidden(&self, index: usize) -> Option<&'a [f32]> {
        let (values, cols) = self.hidden;
        values.get(index * cols..(index + 1) * cols).filter(|row| !row.is_empty())
    }

    /// The greedy or drawn token of output row `index`, if requested and valid.
    pub fn token(&self, index: usize) -> Option<u32> {
        if let Chosen::Token(token) = self.chosen.get(index)? { *token } else { None }
    }

    /// The best candidates of output row `index` with their logits, best first, the lower id first among equals. Tokens whose
    /// logit is -∞ are left out, so that fewer than [`MAX_CANDIDATES`] are all that are possible. `None` if they were not
    /// requested or the backend returned logits, if a logit is NaN or +∞, or if no token is possible.
    pub fn candidates(&self, index: usize) -> Option<&[(u32, f32)]> {
        let Chosen::Candidates(found) = self.chosen.get(index)? else { return None };
        Some(&**found).filter(|found| !found.is_empty())
    }

    /// The [`top_log_probabilities`] of output row `index`, as many as requested.
    pub fn top(&self, index: usize) -> &[(u32, f32)] {
        if let Some(Chosen::Top(top)) = self.chosen.get(index) { top } else { &[] }
    }
}

fn token_from_device(token: u32) -> Option<u32> {
    (token != Outputs::NO_TOKEN).then_some(token)
}

/// The token with the largest logit, the lowest id among equals. `None` if any logit is NaN or +∞, which makes all of
/// them untrustworthy, or if all are -∞.
pub fn greedy_token(logits: &[f32]) -> Option<u32> {
    let is_invalid = logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY);
    if is_invalid { None } else { arg_max(logits) }
}

/// The index of the largest value, the lowest among equals; NaN and -∞ never win.
pub fn arg_max(logits: &[f32]) -> Option<u32> {
    let (mut best, mut max) = (None, f32::NEG_INFINITY);
    for (id, &logit) in logits.iter().enumerate() {
        if logit > max {
            (best, max) = (Some(id as u32), logit);
        }
    }
    best
}

/// `ln sum exp(logit)`, in f64.
pub fn log_sum_exp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    max + logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum::<f64>().ln()
}

/// The `top` most likely tokens with their natural log-probabilities, in descending order, lower ids first among equals.
/// Impossible tokens are left out; the result is empty if a logit is NaN or +∞. `total` is the [`log_sum_exp`] of
/// `logits`.
pub fn top_log_probabilities(logits: &[f32], total: f64, top: usize) -> Vec<(u32, f32)> {
    if top == 0 || !total.is_finite() {
        return Vec::new();
    }
    let logit = |id: u32| logits[id as usize];
    let mut ids: Vec<u32> = (0..logits.len() as u32).filter(|&id| logit(id) > f32::NEG_INFINITY).collect();
    let order = |a: &u32, b: &u32| logit(*b).total_cmp(&logit(*a)).then(a.cmp(b));
    if top < ids.len() {
        ids.select_nth_unstable_by(top, order);
        ids.truncate(top);
    }
    ids.sort_unstable_by(order);
    ids.into_iter().map(|id| (id, (f64::from(logit(id)) - total) as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Row, Sequence};

    /// softmax(0, ln 2, ln 5) is 1/8, 2/8, 5/8.
    #[test]
    fn rows_get_the_requested_outputs() {
        let rows = [Output::Top(2), Output::Top(9), Output::Greedy];
        let logits = [0.0, 2f32.ln(), 5f32.ln(), 7.0, 7.0, f32::NEG_INFINITY, 0.0, 1.0, 1.0];
        let outputs = Outputs::new(&rows, &logits, 3);
        assert_eq!((outputs.token(0), outputs.token(2), outputs.token(3)), (None, Some(1), None));
        let close = |found: &[(u32, f32)], expected: &[(u32, f32)]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (&(id, found), &(expected_id, expected)) in found.iter().zip(expected) {
                let is_close = found == expected || (found - expected).abs() < 1e-6;
                assert!(id == expected_id && is_close, "{id}: {found}, expected {expected_id}: {expected}");
            }
        };
        close(outputs.top(0), &[(2, (5f32 / 8.0).ln()), (1, 0.25f32.ln())]);
        close(outputs.top(1), &[(0, 0.5f32.ln()), (1, 0.5f32.ln())]);
        assert_eq!(outputs.logits(1), Some(&logits[3..6]));
        assert_eq!((outputs.logits(3), outputs.top(2)), (None, &[][..]));
        for broken in [f32::NAN, -f32::NAN, f32::INFINITY] {
            let logits = [0.0, broken];
            assert_eq!(top_log_probabilities(&logits, log_sum_exp(&logits), 2), []);
        }
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        assert_eq!(arg_max(&[1.0, f32::NAN, 3.0, 3.0]), Some(2));
        assert_eq!(arg_max(&[f32::NAN, f32::NEG_INFINITY]), None);
        assert_eq!(greedy_token(&[f32::NEG_INFINITY, -0.0, 0.0]), Some(1));
        for broken in [f32::NAN, f32::INFINITY] {
            assert_eq!(greedy_token(&[1.0, broken]), None);
        }
        assert_eq!(greedy_token(&[f32::NEG_INFINITY; 2]), None);
    }

    #[test]
    fn rows_get_the_candidates_that_they_request() {
        let mut words = [Outputs::NO_TOKEN; 3 * 2 * MAX_CANDIDATES];
        for row in [0, 1] {
            words[2 * MAX_CANDIDATES * row..][..2].copy_from_slice(&[9, 4]);
            let logits = [2.5f32, -0.0].map(f32::to_bits);
            words[2 * MAX_CANDIDATES * row + MAX_CANDIDATES..][..2].copy_from_slice(&logits);
        }
        let rows = [Output::Candidates, Output::Greedy, Output::Candidates];
        let outputs = Outputs::from_candidates(&rows, &words);
        assert_eq!((outputs.candidates(0), outputs.token(0)), (Some(&[(9, 2.5), (4, 0.0)][..]), None));
        assert_eq!((outputs.candidates(1), outputs.token(1)), (None, Some(9)));
        assert_eq!((outputs.candidates(2), outputs.candidates(3)), (None, None));
        assert!(outputs.values().is_empty() && outputs.logits(0).is_none());
    }

    fn step(input: Input, output: Output) -> Step {
        Step::new(vec![Row { input, output }], vec![Sequence::uniform(0, 1, 0, [])]).expect("a good step")
    }

    #[test]
    fn a_ticket_belongs_to_one_step() {
        let mut pending = Pending::<1>::default();
        let first = pending.begin(&step(Input::Token(0), Output::Logits));
        let second = pending.begin(&step(Input::Token(0), Output::Greedy));
        assert!(pending.end(first).is_err());
        assert_eq!(pending.end(second), Ok(&[Output::Greedy][..]));
    }

    #[test]
    fn a_step_and_the_one_that_follows_it_are_both_waited_for() {
        let mut pending = Pending::<2>::default();
        let first = pending.begin(&step(Input::Token(0), Output::Greedy));
        let place = pending.next_buffer();
        let second = pending.begin(&step(Input::Ahead(0), Output::Candidates));
        assert!(pending.buffer(&first) != place && pending.buffer(&second) == place);
        assert_eq!(pending.end(first), Ok(&[Output::Greedy][..]));
        let third = pending.begin(&step(Input::Ahead(0), Output::Logits));
        let fourth = pending.begin(&step(Input::Ahead(0), Output::Greedy));
        assert!(pending.end(second).is_err(), "its buffers are used again");
        assert_eq!(pending.end(third), Ok(&[Output::Logits][..]));
        let fifth = pending.begin(&step(Input::Token(0), Output::Logits));
        assert!(pending.end(fourth).is_err(), "the step after it does not follow it");
        assert_eq!(pending.end(fifth), Ok(&[Output::Logits][..]));
    }
}
