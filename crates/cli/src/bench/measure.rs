//! Times requests to the engine, with scheduling and sampling, and the memory of the process.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::bail;
use backend::KV_BLOCK;
use engine::{Engine, Event, Request, StopReason};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::interrupt;

pub(super) struct Stopwatch<'a> {
    pub(super) engine: Engine,
    /// Chooses the first token of each request. Consecutive requests differ in it, so that they share only the tokens of the
    /// depth.
    pub(super) turn: usize,
    /// Minimum duration of untimed runs.
    pub(super) warm_up: Duration,
    pub(super) bar: &'a ProgressBar,
}

impl Stopwatch<'_> {
    /// Tokens per second of `test`, `repetitions` times, after an untimed run. The tokens of the depth are computed once.
    /// `None` after Ctrl-C.
    pub(super) fn samples(&mut self, test: Test, repetitions: usize) -> anyhow::Result<Option<Vec<f64>>> {
        // Touches all buffers.
        let warm_up = if test.kind == Kind::Generation { Test { tokens: 1, ..test } } else { test };
        let start = Instant::now();
        if self.seconds(warm_up)?.is_none() {
            return Ok(None);
        }
        while start.elapsed() < self.warm_up {
            if self.seconds(test)?.is_none() {
                return Ok(None);
            }
        }
        self.bar.inc(1);
        // Drops those of the warm-up.
        self.engine.runner().timings();
        let mut samples = Vec::new();
        for _ in 0..repetitions {
            let Some(seconds) = self.seconds(test)? else { return Ok(None) };
            samples.push((test.tokens * test.parallel) as f64 / seconds);
            self.bar.inc(1);
        }
        Ok(Some(samples))
    }

    fn seconds(&mut self, test: Test) -> anyhow::Result<Option<f64>> {
        let n_vocab = self.engine.model().tokenizer().vocab_size();
        let token = |number: usize| u32::try_from(number % n_vocab.max(1)).unwrap_or(0);
        // The tokens of the depth.
        let before: Vec<u32> = (0..test.depth).map(|i| token(104_729 * i)).collect();
        // The last block of the depth is not cached if the test before has continued it.
        if test.depth > 0 && self.requests(vec![before.clone()], 1)?.is_none() {
            return Ok(None);
        }
        let (more, new) = match test.kind {
            Kind::Prompt => (test.tokens, 1),
            // The single token of the prompt is computed like those that follow.
            Kind::Generation => (1, test.tokens),
        };
        let prompts = (0..test.parallel).map(|_| {
            self.turn += 1;
            let own = (0..more).map(|i| token(self.turn + 7919 * i));
            before.iter().copied().chain(own).collect()
        });
        let prompts = prompts.collect();
        let start = Instant::now();
        let reused = self.requests(prompts, new)?;
        let seconds = start.elapsed().as_secs_f64();
        // Several sequences share only whole blocks.
        let shared = if test.parallel == 1 { test.depth } else { test.depth / KV_BLOCK * KV_BLOCK };
        match reused {
            Some(reused) if reused < shared || (test.parallel == 1 && reused != test.depth) => {
                bail!("{reused} tokens were in the cache, expected {shared}")
            }
            reused => Ok(reused.map(|_| seconds)),
        }
    }

    /// Generates `new` tokens after each prompt, side by side. Returns how many tokens of each prompt were in the cache at
    /// least; `None` after Ctrl-C.
    fn requests(&mut self, prompts: Vec<Vec<u32>>, new: usize) -> anyhow::Result<Option<usize>> {
        let mut ids = Vec::new();
        for prompt in prompts {
            let request = Request::new(prompt).temperature(0.0).ignore_eos(true).max_tokens(new);
            ids.push(self.engine.submit(request)?);
        }
        let (mut left, mut reused) = (ids.len(), Some(usize::MAX));
        while left > 0 {
            if interrupt::is_to_stop() {
                ids.drain(..).for_each(|id| self.engine.cancel(id));
            }
            for event in self.engine.step()? {
                match event {
                    Event::Token { .. } => continue,
                    Event::Failed { error, .. } => bail!(error),
                    Event::Done { reason: StopReason::Cancelled, .. } => reused = None,
                    Event::Done { usage, .. } if usage.generated_tokens == new => {
                        reused = reused.map(|least| least.min(usage.reused_tokens));
                    }
                    Event::Done { reason, .. } => bail!("a request ended too early, by {reason}"),
                }
                left -= 1;
            }
        }
        Ok(reused)
    }
}

// Memory of this process on Linux (proc(5)); other systems do not report it.

/// Bytes in the line `name` of `/proc/self/status`: `VmHWM` is the peak of resident memory since [`restart_peak`], `RssAnon` resident
/// memory that is not of a file.
pub(super) fn memory(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Resets the peak; false if the system cannot.
pub(super) fn restart_peak() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

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
