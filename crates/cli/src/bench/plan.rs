//! The tests of a run: prompts and generation, at depths.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The largest number of tokens.
const MOST: usize = 1 << 20;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Tokens of a prompt, many at once.
    Prompt,
    /// Tokens one after the other.
    Generation,
}

/// So many tokens after so many others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) kind: Kind,
    pub(super) tokens: usize,
    pub(super) depth: usize,
}

impl Test {
    /// All tests of the numbers given: depth after depth, prompts first. A test of 0 tokens is none.
    pub(super) fn all(prompt: &Counts, generation: &Counts, depth: &Counts) -> Vec<Test> {
        let of = |kind, counts: &Counts, depth| {
            let counts = counts.0.clone().into_iter().filter(|&tokens| tokens > 0);
            counts.map(move |tokens| Test { kind, tokens, depth })
        };
        let at = |&depth| of(Kind::Prompt, prompt, depth).chain(of(Kind::Generation, generation, depth));
        depth.0.iter().flat_map(at).collect()
    }
}

/// As llama-bench names it, such as `pp512` or `tg128 @ d4096`.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Prompt => "pp",
            Kind::Generation => "tg",
        };
        write!(f, "{kind}{}", self.tokens)?;
        if self.depth > 0 { write!(f, " @ d{}", self.depth) } else { Ok(()) }
    }
}

/// Numbers of tokens, such as `512` or `0,4096`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts(pub(super) Vec<usize>);

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Counts, String> {
        list(text, 0, MOST).map(Counts)
    }
}

/// Numbers of threads, such as `1,2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Threads(pub(super) Vec<usize>);

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Threads, String> {
        list(text, 1, 1024).map(Threads)
    }
}

fn list(text: &str, least: usize, most: usize) -> Result<Vec<usize>, String> {
    let number = |text: &str| text.trim().parse().ok().filter(|number| (least..=most).contains(number));
    let numbers: Option<Vec<usize>> = text.split(',').map(number).collect();
    numbers.ok_or_else(|| format!("expected numbers from {least} to {most} with commas between"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_between() {
        assert_eq!("512".parse(), Ok(Counts(vec![512])));
        assert_eq!("0, 4096".parse(), Ok(Counts(vec![0, 4096])));
        for wrong in ["", ",", "1,", "-1", "a", "1048577", "1 2"] {
            assert!(wrong.parse::<Counts>().is_err(), "{wrong}");
        }
        assert_eq!("1,2".parse(), Ok(Threads(vec![1, 2])));
        for wrong in ["0", "1025", ""] {
            assert!(wrong.parse::<Threads>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn tests_are_named_as_llama_bench_names_them() {
        let counts = |text: &str| text.parse().expect("numbers");
        let names = |p, n, d| {
            let all = Test::all(&counts(p), &counts(n), &counts(d));
            all.iter().map(Test::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("512", "128", "0"), ["pp512", "tg128"]);
        assert_eq!(names("8,16", "0", "0,4"), ["pp8", "pp16", "pp8 @ d4", "pp16 @ d4"]);
        assert!(names("0", "0", "5").is_empty());
    }
}
