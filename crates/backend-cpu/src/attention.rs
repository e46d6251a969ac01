//! Attention of one row and head over its sequence's keys and values.
//!
//! Positions are taken in chunks of 512, counted from position 0; each chunk has a softmax of its own,
//! and chunks are merged in order (Milakov and Gimelshein 2018; Dao et al. 2022). So a result does not
//! depend on how the prompt was split into steps, nor on who else is in the batch.

use backend::Span;

use crate::kernels::Attend;
use crate::kv::Rows;

/// Positions a chunk.
const CHUNK: usize = 512;

/// `out = sum_j softmax_j(scale * q . keys[j]) * values[j]` over the positions up to `position`.
pub(crate) fn attend<T>(
    out: &mut [f32],
    q: &[f32],
    (keys, values): (&Rows<T>, &Rows<T>),
    (span, position): (&Span, usize),
    kv_head: usize,
    scale: f32,
    kernels: Attend<T>,
) {
    let mut scores = [0.0f32; CHUNK];
    let mut chunk_mean = vec![0.0f32; out.len()];
    let (mut max, mut total) = (f32::NEG_INFINITY, 0.0f32);
    out.fill(0.0);
    for first in (0..=position).step_by(CHUNK) {
        let end = (position + 1).min(first + CHUNK);
        let scores = &mut scores[..end - first];
        let mut part = &mut *scores;
        for keys in keys.pages(span, kv_head, first, end) {
            let page;
            (page, part) = part.split_at_mut(keys.len() / q.len());
            (kernels.scores)(q, keys, scale, page);
        }
        let chunk_max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut chunk_total = 0.0;
        for score in &mut *scores {
            *score = (*score - chunk_max).exp();
            chunk_total += *score;
        }
        chunk_mean.fill(0.0);
        let mut part = &*scores;
        for values in values.pages(span, kv_head, first, end) {
            let page;
            (page, part) = part.split_at(values.len() / out.len());
            (kernels.mix)(page, values, &mut chunk_mean);
        }
        let new_max = max.max(chunk_max);
        let (old, new) = ((max - new_max).exp(), (chunk_max - new_max).exp());
        for (y, &mean) in out.iter_mut().zip(&chunk_mean) {
            *y = *y * old + mean * new;
        }
        total = total * old + chunk_total * new;
        max = new_max;
    }
    for y in out {
        *y /= total;
    }
}
