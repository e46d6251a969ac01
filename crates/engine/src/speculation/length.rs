//! How many tokens to draft for a request.

/// Tokens of the first draft.
const FIRST: usize = 4;

/// Steps without a draft after drafts that failed again and again.
const MAX_PAUSE: usize = 64;

/// Follows the number of drafted tokens that were accepted: it doubles when all were, and halves when none was. When no token of
/// the shortest draft is accepted, drafting pauses, each time for twice as long, so that a text without repetitions is hardly
/// slower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraftLength {
    next: usize,
    /// Steps until the next draft.
    pause: usize,
    /// The last pause, until a token is accepted.
    last_pause: usize,
}

impl Default for DraftLength {
    fn default() -> DraftLength {
        DraftLength { next: FIRST, pause: 0, last_pause: 0 }
    }
}

impl DraftLength {
    /// Tokens to draft for the next step, from `least` to `most`, or none. Call it once a step.
    pub(crate) fn next(&mut self, least: usize, most: usize) -> usize {
        if self.pause > 0 {
            self.pause -= 1;
            return 0;
        }
        self.next.max(least).min(most)
    }

    /// Of `drafted` tokens, `accepted` were.
    pub(crate) fn verified(&mut self, drafted: usize, accepted: usize) {
        if accepted > 0 {
            self.last_pause = 0;
        } else if drafted == 1 || self.next == 1 {
            self.last_pause = (2 * self.last_pause).clamp(1, MAX_PAUSE);
            self.pause = self.last_pause;
        }
        self.next = match accepted {
            0 => (drafted / 2).max(1),
            _ if accepted == drafted => 2 * drafted,
            _ => accepted + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_drafts_become_longer_and_bad_ones_shorter() {
        let mut length = DraftLength::default();
        assert_eq!(length.next(0, 16), 4);
        length.verified(4, 4);
        assert_eq!((length.next(0, 16), length.next(0, 5)), (8, 5));
        length.verified(8, 3);
        assert_eq!(length.next(0, 16), 4);
        length.verified(4, 0);
        assert_eq!((length.next(0, 16), length.next(3, 16), length.next(3, 2)), (2, 3, 2));
    }

    #[test]
    fn drafts_that_always_fail_become_rare() {
        let (mut length, mut drafted) = (DraftLength::default(), 0);
        for _ in 0..1000 {
            let next = length.next(0, 7);
            drafted += next;
            if next > 0 {
                length.verified(next, 0);
            }
        }
        assert_eq!(drafted, 4 + 2 + 7 + 14, "4, 2, and 1 after each pause of 1 to 64 steps, then once in 65");
        length = DraftLength { pause: 0, ..length };
        length.verified(1, 1);
        assert_eq!(length.next(0, 7), 2, "one success is enough to go on");
    }
}
