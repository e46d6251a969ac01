//! Quotas of keys: requests and tokens per minute, and requests at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{ApiError, Kind};

/// The quota of a key; an absent limit is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Requests per minute. A call for several answers is as many requests.
    pub requests: Option<u32>,
    /// Tokens per minute, of prompts and answers.
    pub tokens: Option<u32>,
    /// Requests that wait or run at once.
    pub concurrency: Option<usize>,
}

/// Measures what a key uses.
#[derive(Debug)]
pub(crate) struct Meter {
    requests: Option<Mutex<Bucket>>,
    tokens: Option<Mutex<Bucket>>,
    concurrency: usize,
    running: AtomicUsize,
}

/// Requests of a key that wait or run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) meter: Arc<Meter>,
    n: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.meter.running.fetch_sub(self.n, Ordering::Relaxed);
    }
}

/// A token bucket, <https://en.wikipedia.org/wiki/Token_bucket>: it fills up within a minute. Costs that are known afterwards
/// may overdraw it.
#[derive(Debug)]
struct Bucket {
    capacity: f64,
    level: f64,
    measured: Instant,
}

impl Bucket {
    fn new(per_minute: u32) -> Bucket {
        let capacity = f64::from(per_minute.max(1));
        Bucket { capacity, level: capacity, measured: Instant::now() }
    }

    fn fill(&mut self, now: Instant) {
        let filled = now.saturating_duration_since(self.measured).as_secs_f64() * self.capacity / 60.0;
        self.level = (self.level + filled).min(self.capacity);
        self.measured = now;
    }

    /// Time until the bucket has `n`; zero if it already does. A full bucket is always enough, even if `n` exceeds its capacity.
    fn wait(&mut self, n: f64, now: Instant) -> Duration {
        self.fill(now);
        let missing = (n.min(self.capacity) - self.level).max(0.0);
        Duration::from_secs_f64(missing * 60.0 / self.capacity)
    }

    fn charge(&mut self, n: f64, now: Instant) {
        self.fill(now);
        self.level -= n;
    }
}

impl Meter {
    pub(crate) fn new(quota: Quota) -> Meter {
        let bucket = |limit: Option<u32>| limit.map(|limit| Mutex::new(Bucket::new(limit)));
        Meter {
            requests: bucket(quota.requests),
            tokens: bucket(quota.tokens),
            concurrency: quota.concurrency.unwrap_or(usize::MAX),
            running: AtomicUsize::new(0),
        }
    }

    /// Admits `n` requests. Fails if the quota is used up.
    pub(crate) fn admit(self: &Arc<Meter>, n: usize) -> Result<Share, ApiError> {
        let now = Instant::now();
        if n > self.concurrency {
            let most = self.concurrency;
            let message =
                format!("{n} answers are asked for at once, but this key may have {most}; ask for fewer");
            return Err(ApiError::new(Kind::Invalid, message));
        }
        let before = self.running.fetch_add(n, Ordering::Relaxed);
        // Counts down if it is dropped on the way out.
        let share = Share { meter: self.clone(), n };
        if before + n > self.concurrency {
            let most = self.concurrency;
            let message =
                format!("{before} requests of this key wait or run, of at most {most}; wait for one to end");
            return Err(limited(message, Duration::from_secs(1)));
        }
        // It must not be overdrawn already; what an answer will take is not known.
        if let Some(tokens) = &self.tokens {
            let wait = tokens.lock().wait(1.0, now);
            if !wait.is_zero() {
                return Err(limited("this key has used up its tokens of the last minute", wait));
            }
        }
        if let Some(requests) = &self.requests {
            let (mut requests, cost) = (requests.lock(), n as f64);
            let wait = requests.wait(cost, now);
            if !wait.is_zero() {
                return Err(limited("this key has used up its requests of the last minute", wait));
            }
            requests.charge(cost, now);
        }
        Ok(share)
    }

    /// Counts tokens of a prompt or an answer.
    pub(crate) fn charge(&self, tokens: usize) {
        if let Some(bucket) = &self.tokens {
            bucket.lock().charge(tokens as f64, Instant::now());
        }
    }
}

fn limited(message: impl Into<String>, wait: Duration) -> ApiError {
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
    ApiError::new(Kind::Limited { seconds }, format!("{}; try again in {seconds} s", message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 60 per minute are one per second.
    #[test]
    fn a_bucket_fills_up_within_a_minute() {
        let mut bucket = Bucket::new(60);
        let begin = bucket.measured;
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        bucket.charge(60.0, at(0));
        assert_eq!(bucket.wait(1.0, at(0)), Duration::from_secs(1));
        assert_eq!(bucket.wait(5.0, at(2)), Duration::from_secs(3));
        bucket.charge(32.0, at(2));
        // It is overdrawn by 30.
        assert_eq!(bucket.wait(1.0, at(2)), Duration::from_secs(31));
        // More than fits is admitted by a full bucket, and never more than that is saved up.
        assert_eq!(bucket.wait(1000.0, at(92)), Duration::ZERO);
        bucket.charge(60.0, at(1000));
        assert_eq!(bucket.wait(1.0, at(1000)), Duration::from_secs(1));
    }

    #[test]
    fn what_can_never_be_admitted_is_no_matter_of_time() {
        let meter = Arc::new(Meter::new(Quota { concurrency: Some(2), ..Quota::default() }));
        assert!(matches!(meter.admit(3).expect_err("too many").kind, Kind::Invalid));
        meter.admit(2).expect("it is within the quota");
    }

    #[test]
    fn what_is_refused_costs_nothing() {
        let meter =
            Arc::new(Meter::new(Quota { requests: Some(3), concurrency: Some(2), ..Quota::default() }));
        let share = meter.admit(2).expect("it is within the quota");
        for _ in 0..9 {
            assert!(matches!(meter.admit(1).expect_err("too many").kind, Kind::Limited { .. }));
        }
        drop(share);
        meter.admit(1).expect("the third");
        assert!(matches!(meter.admit(1).expect_err("too many").kind, Kind::Limited { seconds: 1..=20 }));
    }
}
