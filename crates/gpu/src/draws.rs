//! Draws of output rows, as words of the step inputs.
//!
//! Each output row has [`DRAW_WORDS`] words: `u` as f64 (low word first), top-k (0 for all), number of filters, offset of its
//! entries in the step inputs, number of biases, number of counts, whether there are penalties, the repeat, frequency and
//! presence penalty, 0, and kind and value of each filter. An entry has two words: a token, and its bias or its count. Biases
//! precede counts.

use backend::{Draw, Filter, Penalties, Step};

/// Words per output row, without entries.
pub(crate) const DRAW_WORDS: usize = 12 + 2 * Draw::MAX_FILTERS;

/// Entries that there is room for per output row, if all rows have draws; one row may always have as many as a draw can.
const ENTRIES_PER_ROW: usize = 128;

/// Words for the draws of any step of up to `outputs` output rows, unless these have unusually many biases or penalties.
pub(crate) fn room(outputs: usize) -> usize {
    outputs * DRAW_WORDS + 2 * Draw::MAX_ENTRIES.max(outputs * ENTRIES_PER_ROW)
}

/// Words of the draws of `step`.
pub(crate) fn words(step: &Step) -> usize {
    let entries: usize = step.outputs().filter_map(|(_, output)| output.draw()).map(Draw::entries).sum();
    step.outputs().len() * DRAW_WORDS + 2 * entries
}

/// Writes the draws of `step` to `words` from offset `at` on.
pub(crate) fn write(words: &mut [u32], at: usize, step: &Step) {
    let mut entries = at + step.outputs().len() * DRAW_WORDS;
    for (row, (_, output)) in step.outputs().enumerate() {
        let to = at + row * DRAW_WORDS;
        // A greedy token is the first of the candidates.
        let Some(Draw { u, biases, penalties, top_k, filters }) = output.draw() else {
            words[to..][..DRAW_WORDS].fill(0);
            words[to + 2] = 1;
            continue;
        };
        let is_penalised = u32::from(penalties.is_some());
        let neutral = Penalties { repeat: 1.0, frequency: 0.0, presence: 0.0, counts: Vec::new() };
        let Penalties { repeat, frequency, presence, counts } = penalties.as_ref().unwrap_or(&neutral);
        let [repeat, frequency, presence] = [repeat, frequency, presence].map(|penalty| penalty.to_bits());
        let (low, high) = (u.to_bits() as u32, (u.to_bits() >> 32) as u32);
        let [n_filters, first, n_biases, n_counts] =
            [filters.len(), entries, biases.len(), counts.len()].map(|n| n as u32);
        // No vocabulary has more tokens.
        let top_k = u32::try_from(*top_k).unwrap_or(0);
        let head = [low, high, top_k, n_filters, first, n_biases, n_counts, is_penalised];
        words[to..][..8].copy_from_slice(&head);
        words[to + 8..][..4].copy_from_slice(&[repeat, frequency, presence, 0]);
        for (words, filter) in words[to + 12..].as_chunks_mut::<2>().0.iter_mut().zip(&**filters) {
            *words = filter_words(*filter);
        }
        let biases = biases.iter().map(|&(id, bias)| [id, bias.to_bits()]);
        for entry in biases.chain(counts.iter().map(|&(id, count)| [id, count])) {
            words[entries..][..2].copy_from_slice(&entry);
            entries += 2;
        }
    }
}

/// Kind and value of a filter.
fn filter_words(filter: Filter) -> [u32; 2] {
    match filter {
        Filter::TopP(p) => [0, p.to_bits()],
        // A device subtracts it from the largest logit.
        Filter::MinP(p) => [1, p.ln().to_bits()],
        Filter::Temperature(temperature) => [2, temperature.to_bits()],
    }
}
