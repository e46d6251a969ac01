//! The tests of a run: prefill and decode at several depths.

use std::fmt;

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Prompt,
    Generation,
}

/// Computes `tokens` after `depth` tokens that are already in the cache, in each of `parallel` sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Test {
    pub(super) kind: Kind,
    pub(super) tokens: usize,
    pub(super) depth: usize,
    pub(super) parallel: usize,
}

impl Test {
    /// All combinations, at one depth after the other, prompts first; without tests of 0 tokens. Prompts are of one
    /// sequence.
    pub(super) fn all(
        prompt: &[usize],
        generation: &[usize],
        depth: &[usize],
        parallel: &[usize],
    ) -> Vec<Test> {
        let mut tests = Vec::new();
        for &depth in depth {
            for (kind, counts) in [(Kind::Prompt, prompt), (Kind::Generation, generation)] {
                let parallel = if kind == Kind::Prompt { &[1] } else { parallel };
                for &tokens in counts.iter().filter(|tokens| **tokens > 0) {
                    tests.extend(parallel.iter().map(|&parallel| Test { kind, tokens, depth, parallel }));
                }
            }
        }
        tests
    }
}

/// As llama-bench names it, such as `pp512` or `tg128 @ d4096`, and `8 x tg128` for 8 sequences.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Prompt => "pp",
            Kind::Generation => "tg",
        };
        if self.parallel > 1 {
            write!(f, "{} x ", self.parallel)?;
        }
        write!(f, "{kind}{}", self.tokens)?;
        if self.depth > 0 { write!(f, " @ d{}", self.depth) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_named_as_llama_bench_names_them() {
        let names = |p: &[usize], n: &[usize], d: &[usize]| {
            Test::all(p, n, d, &[1]).iter().map(Test::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&[512], &[128], &[0]), ["pp512", "tg128"]);
        assert_eq!(names(&[8, 16], &[0], &[0, 4]), ["pp8", "pp16", "pp8 @ d4", "pp16 @ d4"]);
        assert!(names(&[0], &[0], &[5]).is_empty());
        let parallel = Test::all(&[512], &[128], &[0, 4], &[1, 8]);
        let parallel = parallel.iter().map(Test::to_string).collect::<Vec<_>>();
        assert_eq!(parallel, ["pp512", "tg128", "8 x tg128", "pp512 @ d4", "tg128 @ d4", "8 x tg128 @ d4"]);
    }
}
