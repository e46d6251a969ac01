//! Stop conditions, and text held back until they are decided.

use std::mem::replace;

use crate::sampling::Processor;

/// Why a request ended: an end-of-generation token of the model, a token or string of [`Params`](crate::Params), `max_tokens` or `time_limit`,
/// [`Engine::cancel`](crate::Engine::cancel) or a full context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub enum StopReason {
    Eog(u32),
    StopId(u32),
    StopString(String),
    MaxTokens,
    Cancelled,
    ContextFull,
}

impl StopReason {
    /// Whether the model might have gone on: no token of it ended the answer.
    pub fn is_cut(&self) -> bool {
        !matches!(self, StopReason::Eog(_) | StopReason::StopId(_))
    }
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StopReason::Eog(id) => write!(f, "end-of-generation token {id}"),
            StopReason::StopId(id) => write!(f, "stop token {id}"),
            StopReason::StopString(text) => write!(f, "stop string {text:?}"),
            StopReason::MaxTokens => f.write_str("token limit"),
            StopReason::Cancelled => f.write_str("cancelled"),
            StopReason::ContextFull => f.write_str("context full"),
        }
    }
}

/// Rules out `ends` before position `until`, unless no other token is possible.
#[derive(Clone, Debug)]
pub(crate) struct NoEndBefore {
    until: usize,
    ends: Vec<u32>,
}

impl NoEndBefore {
    pub(crate) fn new(until: usize, mut ends: Vec<u32>) -> NoEndBefore {
        ends.sort_unstable();
        ends.dedup();
        NoEndBefore { until, ends }
    }
}

impl Processor for NoEndBefore {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        if tokens.len() >= self.until {
            return;
        }
        let mut ruled_out = Vec::with_capacity(self.ends.len());
        for &id in &self.ends {
            if let Some(logit) = logits.get_mut(id as usize) {
                ruled_out.push((id, replace(logit, f32::NEG_INFINITY)));
            }
        }
        if logits.iter().all(|&logit| logit == f32::NEG_INFINITY) {
            ruled_out.into_iter().for_each(|(id, logit)| logits[id as usize] = logit);
        }
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

/// Searches streamed text for stop strings, holding back text that may be the start of one.
///
/// The first string to be completed ends the text, the longest if several are. The result does not depend on how the
/// text is cut into pieces.
#[derive(Clone, Debug)]
pub(crate) struct StopStrings {
    strings: Vec<String>,
    held: String,
}

impl StopStrings {
    /// A search for `strings`, none of them empty.
    pub(crate) fn new(strings: Vec<String>) -> StopStrings {
        StopStrings { strings, held: String::new() }
    }

    /// Appends `text`; returns the text to print, and the stop string found.
    pub(crate) fn push(&mut self, text: &str) -> (String, Option<String>) {
        if self.strings.is_empty() {
            return (text.to_owned(), None);
        }
        let mut printable = String::new();
        for char in text.chars() {
            self.held.push(char);
            let complete = self.strings.iter().filter(|string| self.held.ends_with(&***string));
            if let Some(string) = complete.max_by_key(|string| string.len()) {
                let before = self.held.len() - string.len();
                printable.push_str(&self.held[..before]);
                self.held.clear();
                return (printable, Some(string.clone()));
            }
            let undecided =
                self.strings.iter().map(|string| prefix_len(string, &self.held)).max().unwrap_or(0);
            printable.extend(self.held.drain(..self.held.len() - undecided));
        }
        (printable, None)
    }

    /// Returns the text held back, at the end of the stream.
    pub(crate) fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Length in bytes of the longest proper prefix of `string` that `text` ends with.
fn prefix_len(string: &str, text: &str) -> usize {
    let lengths = string.char_indices().map(|(at, _)| at).rev();
    lengths.filter(|&len| len <= text.len()).find(|&len| text.ends_with(&string[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text printed for each piece, and the stop string found.
    fn run(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let mut stop = StopStrings::new(strings.iter().map(|s| s.to_string()).collect());
        let mut printed = Vec::new();
        for piece in pieces {
            let (text, ended) = stop.push(piece);
            printed.push(text);
            if ended.is_some() {
                assert_eq!(stop.flush(), "");
                return (printed, ended);
            }
        }
        printed.push(stop.flush());
        (printed, None)
    }

    #[test]
    fn text_that_may_begin_a_stop_string_is_held_back() {
        assert_eq!(run(&["User:"], &["Hi U", "ser", "s are"]).0, ["Hi ", "", "Users are", ""]);
        assert_eq!(run(&["User:"], &["Hi Us", "er", ": no"]).0, ["Hi ", "", ""]);
        assert_eq!(run(&["User:"], &["Hi Us"]).0, ["Hi ", "Us"], "released at the end");
        assert_eq!(run(&[], &["a", "b"]).0, ["a", "b", ""]);
    }

    #[test]
    fn a_beginning_may_overlap_itself() {
        assert_eq!(
            run(&["aab"], &["a", "a", "a", "b"]),
            (["", "", "a", ""].map(String::from).to_vec(), Some("aab".into()))
        );
        assert_eq!(run(&["héé!"], &["hé", "hé", "é", "!x"]).0.concat(), "hé");
    }

    #[test]
    fn the_first_complete_string_wins_and_of_two_the_longer() {
        assert_eq!(run(&["bc", "abcd"], &["xabcd"]), (vec!["xa".into()], Some("bc".into())));
        assert_eq!(run(&["c", "abc"], &["xabc"]), (vec!["x".into()], Some("abc".into())));
    }

    /// For every cut of a text into pieces, the result is that of a search in the whole text.
    #[test]
    fn pieces_make_no_difference() {
        let sets: [&[&str]; 4] = [&["ab"], &["aba", "bb"], &["aab", "b"], &["abab", "ba"]];
        for strings in sets {
            for bits in 0..256u32 {
                let text: String = (0..8).map(|i| if bits >> i & 1 == 0 { 'a' } else { 'b' }).collect();
                let whole = (1..=8)
                    .find_map(|end| {
                        let ended =
                            strings.iter().filter(|s| text[..end].ends_with(**s)).max_by_key(|s| s.len())?;
                        Some((text[..end - ended.len()].to_string(), Some(ended.to_string())))
                    })
                    .unwrap_or((text.clone(), None));
                for cuts in 0..128u32 {
                    let mut pieces = vec![String::new()];
                    for (i, char) in text.chars().enumerate() {
                        if let Some(last) = pieces.last_mut() {
                            last.push(char);
                        }
                        if cuts >> i & 1 == 1 {
                            pieces.push(String::new());
                        }
                    }
                    let pieces: Vec<&str> = pieces.iter().map(|piece| &**piece).collect();
                    let (printed, ended) = run(strings, &pieces);
                    assert_eq!((printed.concat(), ended), whole, "{strings:?} in {pieces:?}");
                }
            }
        }
    }
}
