//! Text that is read once, while it is generated.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// Nothing yet: there must be more text.
    More,
    Broken,
}

#[derive(Debug)]
pub(crate) struct Input<'a> {
    text: &'a str,
    at: usize,
    pub(crate) more: bool,
}

impl<'a> Input<'a> {
    pub(crate) fn new(text: &'a str, more: bool) -> Input<'a> {
        Input { text, at: 0, more }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn since(&self, from: usize) -> &'a str {
        &self.text[from..self.at]
    }

    pub(crate) fn take(&mut self, bytes: usize) -> &'a str {
        let taken = &self.rest()[..bytes];
        self.at += bytes;
        taken
    }

    pub(crate) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    pub(crate) fn eat(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    /// Whether the rest is part of `mark`, so that it cannot be told.
    pub(crate) fn may_become(&self, mark: &str) -> bool {
        self.more && self.rest().len() < mark.len() && mark.starts_with(self.rest())
    }

    /// Reads up to `end`, which is read too but not returned. At most `limit` bytes.
    pub(crate) fn take_until(&mut self, end: &str, limit: usize) -> Result<&'a str, Step> {
        match self.rest().find(end) {
            Some(at) if at <= limit => {
                let taken = self.take(at);
                self.take(end.len());
                Ok(taken)
            }
            None if self.more && self.rest().len() <= limit + end.len() => Err(Step::More),
            _ => Err(Step::Broken),
        }
    }
}

/// Most white space before a mark that belongs to nothing, in bytes: until the mark comes, it is held back.
pub(crate) const MAX_SPACE: usize = 1 << 10;

/// Where the part of `text` begins that may be the beginning of one of `marks`.
pub(crate) fn undecided(text: &str, marks: &[&str]) -> usize {
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
    let from = text.ceil_char_boundary(text.len().saturating_sub(longest.saturating_sub(1)));
    let starts = text[from..].char_indices().map(|(at, _)| from + at);
    let mut starts = starts.filter(|&at| marks.iter().any(|mark| mark.starts_with(&text[at..])));
    starts.next().unwrap_or(text.len())
}
