//! What the engine's thread watches of a request, if it is asked to: how far its prompt is, and how long its answer takes.

use std::time::{Duration, Instant};

/// How far a prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Tokens of the prompt.
    pub(crate) total: usize,
    /// Those that were in the cache.
    pub(crate) cached: usize,
    /// Those that are computed, or were in the cache.
    pub(crate) processed: usize,
    /// Since the first of them was computed.
    pub(crate) time: Duration,
}

/// Watches a prompt.
#[derive(Debug)]
pub(crate) struct Watch {
    total: usize,
    /// What was told last, and since when the prompt is computed.
    told: Option<(usize, Instant)>,
}

impl Watch {
    pub(crate) fn new(total: usize) -> Watch {
        Watch { total, told: None }
    }

    /// What is new after a step, of which `reused` tokens were in the cache, and `processed` are now. The first news is what was
    /// in the cache.
    pub(crate) fn news(&mut self, reused: usize, processed: usize) -> impl Iterator<Item = Progress> + use<> {
        let Watch { total, told } = self;
        let (total, processed) = (*total, processed.min(*total));
        let progress = |processed, time| Progress { total, cached: reused, processed, time };
        let first = match told {
            None if processed > 0 => {
                *told = Some((reused, Instant::now()));
                Some(progress(reused, Duration::ZERO))
            }
            _ => None,
        };
        let next = told.as_mut().filter(|(last, _)| processed > *last).map(|(last, begin)| {
            *last = processed;
            progress(processed, begin.elapsed())
        });
        first.into_iter().chain(next)
    }
}

/// Ends an answer that takes too long, once it has a whole line.
#[derive(Debug)]
pub(crate) struct Deadline {
    time: Duration,
    first_token: Option<Instant>,
    has_line: bool,
    /// Whether it has ended the answer.
    pub(crate) is_over: bool,
}

impl Deadline {
    pub(crate) fn new(time: Duration) -> Deadline {
        Deadline { time, first_token: None, has_line: false, is_over: false }
    }

    /// Whether the answer ends with this text of a token.
    pub(crate) fn ends(&mut self, text: &str) -> bool {
        self.has_line |= text.contains('\n');
        let begin = *self.first_token.get_or_insert_with(Instant::now);
        self.is_over |= self.has_line && begin.elapsed() > self.time;
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_begins_with_the_cache_and_ends_with_the_prompt() {
        let told = |watch: &mut Watch, reused, processed| -> Vec<(usize, usize)> {
            watch.news(reused, processed).map(|news| (news.cached, news.processed)).collect()
        };
        let mut watch = Watch::new(100);
        assert_eq!(told(&mut watch, 0, 0), []);
        assert_eq!(told(&mut watch, 16, 48), [(16, 16), (16, 48)]);
        assert_eq!(told(&mut watch, 16, 48), []);
        assert_eq!(told(&mut watch, 16, 103), [(16, 100)]);
        assert_eq!(told(&mut watch, 16, 104), []);
        assert_eq!(told(&mut Watch::new(8), 0, usize::MAX), [(0, 0), (0, 8)]);
    }

    #[test]
    fn an_answer_ends_after_its_time_and_a_line() {
        let mut deadline = Deadline::new(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        assert!(!deadline.ends("no line"));
        std::thread::sleep(Duration::from_millis(1));
        assert!(!deadline.ends(" yet"));
        assert!(deadline.ends("\n") && deadline.is_over);
        assert!(!Deadline::new(Duration::from_secs(3600)).ends("\n"));
    }
}
