//! When a request ends, and which text may be printed before that is known.

/// What ends a request, besides its `max_tokens` and the context's end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// Tokens that end it, besides the model's own end-of-generation tokens. They are not printed.
    pub ids: Vec<u32>,
    /// Texts that end it. They are not printed, and nothing after them.
    pub strings: Vec<String>,
    /// Never sample the model's end-of-generation tokens.
    pub ignore_eog: bool,
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model ended it with this end-of-generation token.
    Eog(u32),
    /// One of [`Stop::ids`] came.
    StopId(u32),
    /// One of [`Stop::strings`] came.
    StopString(String),
    /// As many tokens as asked for were generated.
    MaxTokens,
    /// [`Engine::cancel`](crate::Engine::cancel) was called.
    Cancelled,
    /// Prompt and generated tokens fill the context.
    ContextFull,
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

/// Looks for stop strings in text that arrives piece by piece. Text that may begin one is held back.
///
/// The first string to be complete ends the text; of two complete at once, the longer. How the text
/// is cut into pieces makes no difference.
#[derive(Clone, Debug)]
pub(crate) struct StopStrings {
    strings: Vec<String>,
    held: String,
}

impl StopStrings {
    /// Looks for `strings`, none of them empty.
    pub(crate) fn new(strings: Vec<String>) -> StopStrings {
        StopStrings { strings, held: String::new() }
    }

    /// Takes `text`; returns what may be printed now, and the stop string that ended it.
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
            let kept = self.strings.iter().map(|string| beginning(string, &self.held)).max().unwrap_or(0);
            printable.extend(self.held.drain(..self.held.len() - kept));
        }
        (printable, None)
    }

    /// What was held back, when nothing comes any more.
    pub(crate) fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes of the longest beginning of `string`, not all of it, that `text` ends with.
fn beginning(string: &str, text: &str) -> usize {
    let lengths = string.char_indices().map(|(at, _)| at).rev();
    lengths.filter(|&len| len <= text.len()).find(|&len| text.ends_with(&string[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed of `pieces`, piece by piece, and the string that ended them.
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

    /// Against a search in the whole text, for every cut of it into pieces.
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
