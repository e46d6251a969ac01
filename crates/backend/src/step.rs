//! The inputs of one step: everything that changes from step to step.

use std::ops::Range;

use crate::{Bucket, Error, PAGE};

/// The rows of one sequence in a step, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Positions of the sequence already in the store; the first row's position.
    pub past: usize,
    /// How many rows of the step are its.
    pub len: usize,
    /// The pages that hold its positions: position `p` lies in `pages[p / PAGE]`.
    pub pages: Vec<u32>,
}

impl Span {
    /// The positions of its rows.
    pub fn positions(&self) -> Range<usize> {
        self.past..self.past + self.len
    }

    /// Where `position` lies in the store: page, and place in the page.
    pub fn slot(&self, position: usize) -> (usize, usize) {
        (self.pages[position / PAGE] as usize, position % PAGE)
    }
}

/// One step: tokens of one or more sequences, and the rows whose logits are wanted.
///
/// Rows of a sequence lie together; a row's position follows from its span, so the two cannot
/// disagree. Checked when made.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    tokens: Vec<u32>,
    spans: Vec<Span>,
    wanted: Vec<u32>,
    input: Vec<f32>,
}

impl Step {
    /// A step of `tokens`, split into `spans` in order, with logits for the rows `wanted`.
    ///
    /// # Errors
    /// When the spans do not cover the tokens, lack pages, share a page they write to, or a wanted
    /// row does not exist or is out of order.
    pub fn new(tokens: Vec<u32>, spans: Vec<Span>, wanted: Vec<u32>) -> Result<Step, Error> {
        let rows = spans.iter().fold(0usize, |rows, span| rows.saturating_add(span.len));
        if rows != tokens.len() || rows == 0 {
            return Err(Error::Step(format!("{rows} rows in spans, {} tokens", tokens.len())));
        }
        let mut written = std::collections::HashSet::new();
        for (i, span) in spans.iter().enumerate() {
            if span.len == 0 {
                return Err(Error::Step(format!("span {i} is empty")));
            }
            let end = span.past + span.len;
            if span.pages.len() * PAGE < end {
                return Err(Error::Step(format!(
                    "span {i}: {} pages cannot hold {end} positions",
                    span.pages.len()
                )));
            }
            for &page in &span.pages[span.past / PAGE..end.div_ceil(PAGE)] {
                if !written.insert(page) {
                    return Err(Error::Step(format!("span {i}: page {page} is written twice")));
                }
            }
        }
        if !wanted.is_sorted_by(|a, b| a < b) || wanted.last().is_some_and(|&row| row as usize >= rows) {
            return Err(Error::Step(format!("wanted rows must rise and lie below {rows}")));
        }
        Ok(Step { tokens, spans, wanted, input: Vec::new() })
    }

    /// The same with the rows of the graph's [`graph::Op::Input`], `[rows, cols]`.
    pub fn with_input(self, input: Vec<f32>) -> Step {
        Step { input, ..self }
    }

    /// The tokens, one a row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The sequences' rows.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The rows whose logits are wanted, rising.
    pub fn wanted(&self) -> &[u32] {
        &self.wanted
    }

    /// What another part of the model has computed, `[rows, cols]`; nothing for a whole model.
    pub fn input(&self) -> &[f32] {
        &self.input
    }

    /// Each row's span and position.
    pub fn rows(&self) -> impl Iterator<Item = (&Span, usize)> {
        self.spans.iter().flat_map(|span| span.positions().map(move |position| (span, position)))
    }

    /// Checks the step against what it is to run on.
    ///
    /// # Errors
    /// When it has more rows than `bucket`, a token from `n_vocab` on, or a page from `pages` on.
    pub fn check(&self, bucket: Bucket, n_vocab: usize, pages: usize) -> Result<(), Error> {
        if self.tokens.len() > bucket.rows || self.wanted.len() > bucket.wanted {
            let (rows, wanted) = (self.tokens.len(), self.wanted.len());
            return Err(Error::Step(format!("{rows} rows, {wanted} wanted, but room for {bucket:?}")));
        }
        if let Some(token) = self.tokens.iter().find(|&&token| token as usize >= n_vocab) {
            return Err(Error::Step(format!("token {token} is outside the vocabulary of {n_vocab}")));
        }
        if let Some(page) = self.spans.iter().flat_map(|s| &s.pages).find(|&&page| page as usize >= pages) {
            return Err(Error::Step(format!("page {page} is outside the store of {pages}")));
        }
        Ok(())
    }
}
