//! The number of prefill rows in a step while other requests decode.

use std::time::Duration;

use crate::scheduler::Active;

/// Minimum prefill rows of a step: fewer waste the time that reading the weights takes.
const MIN_ROWS: usize = 4;

/// Minimum prefill rows where only the target would allow fewer, so that prompts go on among many that decode.
const MIN_TARGET_ROWS: usize = 16;

/// Ratio of the time of a step with prefill rows to that of a step without, where no more prompts wait than requests decode.
/// Steps are up to a third longer than predicted on a machine that others use too, so that a client waits at most for four
/// times as long as without others' prompts.
const MAX_RATIO: f64 = 3.0;

/// The share of a new measurement in a mean.
const WEIGHT: f64 = 0.25;

/// Measures steps: their time without prefill rows, and the time of each prefill row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    decode: Option<Decode>,
    /// Mean seconds of a prefill row.
    row: Option<f64>,
    /// Whether the last step had decode rows only.
    has_only_decoded: bool,
}

/// Steps in which requests only decode.
#[derive(Clone, Copy, Debug)]
struct Decode {
    /// Mean seconds.
    seconds: f64,
    /// Rows of the last one.
    rows: usize,
}

impl Decode {
    /// Whether a step with this number of rows may take a very different time.
    fn is_unlike(&self, rows: usize) -> bool {
        rows > 2 * self.rows || 2 * rows < self.rows
    }
}

impl Pace {
    /// A step took `time`, with these numbers of decode and prefill rows.
    pub(crate) fn measured(&mut self, time: Duration, decode_rows: usize, prompt_rows: usize) {
        // A step that computes nothing only releases what has ended.
        if decode_rows + prompt_rows == 0 {
            return;
        }
        let seconds = time.as_secs_f64();
        self.has_only_decoded = prompt_rows == 0;
        if prompt_rows == 0 {
            let before = self.decode.filter(|before| !before.is_unlike(decode_rows));
            let seconds = mean(before.map(|before| before.seconds), seconds);
            self.decode = Some(Decode { seconds, rows: decode_rows });
        } else if prompt_rows >= MIN_ROWS {
            let decode = self.decode.filter(|_| decode_rows > 0).map_or(0.0, |decode| decode.seconds);
            let row = (seconds - decode).max(0.0) / prompt_rows as f64;
            self.row = Some(mean(self.row, row));
        }
    }

    /// Prefill rows of a step with a target time while other requests decode. The more prompts wait for each request that
    /// decodes, the more rows, up to the target: longer steps then cost fewer clients than they serve. None at most every other
    /// step, to measure what only decoding takes after the number of requests that decode has doubled or halved: where prompts
    /// always wait, it would else stay what it was with the first request.
    pub(crate) fn prompt_rows(&self, target: Duration, Active { decoding, prompts }: Active) -> usize {
        let (Some(decode), Some(row)) = (self.decode, self.row) else { return MIN_ROWS };
        if decoding > 0 && decode.is_unlike(decoding) && !self.has_only_decoded {
            return 0;
        }
        let decode = decode.seconds;
        // As a float it saturates.
        let rows = |seconds: f64| (seconds / row.max(1e-9)).max(0.0) as usize;
        let target_rows = rows(target.as_secs_f64() - decode).max(MIN_TARGET_ROWS);
        let ratio = MAX_RATIO * (prompts as f64 / decoding.max(1) as f64).max(1.0);
        target_rows.min(rows(decode * (ratio - 1.0))).max(MIN_ROWS)
    }
}

fn mean(before: Option<f64>, new: f64) -> f64 {
    before.map_or(new, |before| before + WEIGHT * (new - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(100);

    /// So many prompts wait while four requests decode.
    fn waiting(prompts: usize) -> Active {
        Active { decoding: 4, prompts }
    }

    fn pace(decode_ms: u64, step_ms: u64, rows: usize) -> Pace {
        let mut pace = Pace::default();
        pace.measured(Duration::from_millis(decode_ms), 4, 0);
        pace.measured(Duration::from_millis(step_ms), 4, rows);
        pace
    }

    #[test]
    fn the_target_holds() {
        // 30 ms for what decodes, 1 ms a row: 60 rows take as long as the ratio allows, 70 reach the target.
        assert_eq!(pace(30, 130, 100).prompt_rows(TARGET, waiting(1)), 60);
        assert_eq!(pace(30, 130, 100).prompt_rows(TARGET, waiting(8)), 70);
        // A step that decodes takes 10 ms: at most 20 ms more for prompts.
        assert_eq!(pace(10, 110, 100).prompt_rows(TARGET, waiting(4)), 20);
    }

    #[test]
    fn steps_are_longer_where_more_prompts_wait_than_requests_decode() {
        let rows = |prompts| pace(10, 110, 100).prompt_rows(TARGET, waiting(prompts));
        assert_eq!([rows(4), rows(8), rows(12), rows(1000)], [20, 50, 80, 90]);
    }

    #[test]
    fn decoding_is_measured_again_when_many_more_decode() {
        let many = Active { decoding: 64, prompts: 64 };
        let mut pace = pace(1, 5, 100);
        assert!(pace.prompt_rows(TARGET, waiting(1)) > 0);
        assert_eq!(pace.prompt_rows(TARGET, many), 0);
        pace.measured(Duration::from_millis(8), 64, 0);
        // 40 us a row, and twice 8 ms for rows.
        assert_eq!(pace.prompt_rows(TARGET, many), 400);
        assert!(pace.prompt_rows(TARGET, Active { decoding: 8, ..many }) > 0, "not twice in a row");
        pace.measured(Duration::from_millis(24), 64, 400);
        assert_eq!(pace.prompt_rows(TARGET, Active { decoding: 8, ..many }), 0);
    }

    #[test]
    fn steps_that_compute_nothing_measure_nothing() {
        let mut pace = pace(10, 20, 100);
        let rows = pace.prompt_rows(TARGET, waiting(1));
        pace.measured(Duration::from_micros(1), 0, 0);
        assert_eq!(pace.prompt_rows(TARGET, waiting(1)), rows);
        assert!(
            pace.prompt_rows(TARGET, Active { decoding: 0, prompts: 1 }) > 0,
            "there is nothing else to do"
        );
    }

    #[test]
    fn prompts_always_go_on() {
        assert_eq!(Pace::default().prompt_rows(TARGET, waiting(1)), MIN_ROWS);
        let rows = |decode_ms, step_ms| pace(decode_ms, step_ms, 100).prompt_rows(TARGET, waiting(1));
        assert_eq!(rows(200, 300), MIN_TARGET_ROWS, "the target is past");
        assert_eq!(rows(10, 1010), MIN_ROWS, "each row takes as long as a step");
        assert!(rows(20, 20) > 1_000_000, "rows that take no time");
    }

    #[test]
    fn the_pace_follows_the_machine() {
        let mut pace = pace(10, 110, 100);
        for _ in 0..30 {
            pace.measured(Duration::from_millis(20), 4, 0);
            pace.measured(Duration::from_millis(220), 4, 100);
        }
        assert!((18..=21).contains(&pace.prompt_rows(TARGET, waiting(1))), "{pace:?}");
    }
}
