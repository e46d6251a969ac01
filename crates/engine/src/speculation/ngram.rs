//! Drafts from the request's own tokens (Saxena 2023, "Prompt lookup decoding").

use super::{DraftQuery, Drafter};

/// Fewest equal tokens: shorter ones occur by chance.
const MIN_EQUAL: usize = 3;

/// Equal tokens beyond which more tell little.
const MAX_EQUAL: usize = 12;

/// Looks for the last tokens of a request among its earlier ones, and drafts what followed there.
#[derive(Debug)]
pub(crate) struct NgramLookup;

impl Drafter for NgramLookup {
    fn draft(&mut self, queries: &[DraftQuery<'_>], _prompt_rows: usize) -> Vec<Vec<u32>> {
        queries.iter().map(|query| look_up(query.tokens, query.most)).collect()
    }
}

/// Up to `most` tokens that followed the longest earlier occurrence of the last tokens; of equally long ones, the latest.
fn look_up(tokens: &[u32], most: usize) -> Vec<u32> {
    let Some((&last, before)) = tokens.split_last() else { return Vec::new() };
    let (mut longest, mut follows) = (MIN_EQUAL - 1, tokens.len());
    for end in (1..=before.len()).rev() {
        if before[end - 1] != last {
            continue;
        }
        let pairs = before[..end].iter().rev().zip(tokens.iter().rev()).take(MAX_EQUAL);
        let equal = pairs.take_while(|(a, b)| a == b).count();
        if equal > longest {
            (longest, follows) = (equal, end);
        }
        if equal == MAX_EQUAL {
            break;
        }
    }
    // What repeats itself goes on to.
    tokens[follows..].iter().cycle().take(most).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::look_up;

    #[test]
    fn what_followed_before_follows_again() {
        assert_eq!(look_up(&[1, 2, 3, 4, 5, 6, 1, 2, 3], 2), [4, 5]);
        assert!(look_up(&[1, 2, 3, 4, 5, 9, 2, 3], 5).is_empty(), "two equal tokens are too few");
        assert!(look_up(&[1, 2, 3, 4], 5).is_empty());
        assert!(look_up(&[], 5).is_empty());
    }

    #[test]
    fn the_longest_occurrence_counts_and_of_two_the_latest() {
        assert_eq!(look_up(&[9, 1, 2, 3, 40, 8, 1, 2, 3, 50, 9, 1, 2, 3], 1), [40]);
        assert_eq!(look_up(&[1, 2, 3, 40, 1, 2, 3, 50, 1, 2, 3], 1), [50]);
    }

    #[test]
    fn a_loop_goes_on() {
        assert_eq!(look_up(&[5, 6, 5, 6, 5, 6], 5), [5, 6, 5, 6, 5]);
        assert_eq!(look_up(&[7, 7, 7, 7], 3), [7, 7, 7]);
    }
}
