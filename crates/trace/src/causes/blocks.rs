//! Mistakes of dequantisation: fields of a block misread, groups mixed up.
//!
//! Each mistake is made on the weight's blocks, either on their bytes before they are read properly, or on
//! their groups after; the product with the recorded input is held against what was recorded.

mod mistakes;
mod places;

use backend::Weight;
use graph::WeightId;
use quant::{
    BlockIQ4_NL, BlockIQ4_XS, BlockQ2_K, BlockQ3_K, BlockQ4_0, BlockQ4_1, BlockQ4_K, BlockQ5_0, BlockQ5_1,
    BlockQ5_K, BlockQ6_K, BlockQ8_0, F16Le, Format, Groups,
};
use zerocopy::FromBytes;

use mistakes::{Misread, Mistake, fields, mistakes};

use super::close::Close;
use super::{Diagnosis, Rank};
use crate::Matrix;

/// The part of the error that may be left in the columns looked at for a mistake to be tried in full.
const PROMISING: f64 = 0.5;

/// 32 values of a block: `scale * q + offset`, scale and offset for each half.
#[derive(Clone, Copy)]
struct Group {
    scale: [f32; 2],
    offset: [f32; 2],
    quants: [i8; 32],
}

/// The groups of each block of `bytes`.
fn groups(format: Format, bytes: &[u8]) -> Vec<Vec<Group>> {
    fn of<B: Groups<G>, const G: usize>(bytes: &[u8]) -> Vec<Vec<Group>> {
        let blocks = <[B]>::ref_from_bytes(bytes).unwrap_or_default();
        let block = |block: &B| {
            let ((scales, offsets), quants) = (block.factors(F16Le::to_f32), block.quants());
            let group = |g: usize| Group { scale: scales[g], offset: offsets[g], quants: quants[g] };
            (0..G).map(group).collect()
        };
        blocks.iter().map(block).collect()
    }
    match format {
        Format::F32 | Format::F16 | Format::BF16 => Vec::new(),
        Format::Q4_0 => of::<BlockQ4_0, 1>(bytes),
        Format::Q4_1 => of::<BlockQ4_1, 1>(bytes),
        Format::Q5_0 => of::<BlockQ5_0, 1>(bytes),
        Format::Q5_1 => of::<BlockQ5_1, 1>(bytes),
        Format::Q8_0 => of::<BlockQ8_0, 1>(bytes),
        Format::Q2_K => of::<BlockQ2_K, 8>(bytes),
        Format::Q3_K => of::<BlockQ3_K, 8>(bytes),
        Format::Q4_K => of::<BlockQ4_K, 8>(bytes),
        Format::Q5_K => of::<BlockQ5_K, 8>(bytes),
        Format::Q6_K => of::<BlockQ6_K, 8>(bytes),
        Format::IQ4_NL => of::<BlockIQ4_NL, 1>(bytes),
        Format::IQ4_XS => of::<BlockIQ4_XS, 8>(bytes),
    }
}

/// The values of whole blocks, misread.
fn misread(mistake: &Mistake, format: Format, bytes: &[u8], out: &mut Vec<f32>) {
    match &mistake.misread {
        Misread::Bytes(change) => {
            let mut changed = bytes.to_vec();
            changed.chunks_exact_mut(format.block_bytes()).for_each(change);
            let at = out.len();
            out.resize(at + bytes.len() / format.block_bytes() * format.block_len(), 0.0);
            format.dequantize(&changed, &mut out[at..]);
        }
        Misread::Groups(change) => {
            for block in groups(format, bytes) {
                for g in change(&block) {
                    out.extend((0..32).map(|i| g.scale[i / 16] * f32::from(g.quants[i]) + g.offset[i / 16]));
                }
            }
        }
    }
}

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>, close: &Close, own: WeightId, weight: &Weight) {
    let s = diagnosis.candidate;
    let name = &s.oracle.graph().weight(own).name;
    let (x, format) = (&s.inputs[0], weight.format);
    if fields(format).is_empty() || close.cols.len() < 2 {
        return;
    }
    let total: f64 = close.errors.iter().flatten().map(|e| e * e).sum();
    let mut promising: Vec<(f64, Mistake)> = Vec::new();
    for mistake in mistakes(format) {
        let mut misread_rows = Vec::with_capacity(close.cols.len() * weight.cols);
        close.cols.iter().for_each(|&c| misread(&mistake, format, weight.row(c), &mut misread_rows));
        let rows = Matrix::new(weight.cols, misread_rows);
        if rows.data == close.weights.data {
            continue;
        }
        let Ok(made) = s.run(&s.call.with_weight(own, rows.weight())) else { continue };
        let square =
            |r: usize, o: usize| (f64::from(s.found.at(r, close.cols[o])) - f64::from(made.at(r, o))).powi(2);
        let left: f64 = (0..x.rows).map(|r| (0..close.cols.len()).map(|o| square(r, o)).sum::<f64>()).sum();
        if left < PROMISING * total {
            promising.push((left, mistake));
        }
    }
    if promising.is_empty()
        && s.region.rows.len() >= places::ENOUGH
        && let Some(text) = places::described(x, close, weight, name)
    {
        diagnosis.note("block-positions", text);
    }
    promising.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, mistake) in promising.into_iter().take(4) {
        let mut made = s.expected.clone();
        let mut row = Vec::with_capacity(weight.cols);
        let mut products: Vec<Vec<f32>> = Vec::with_capacity(weight.rows);
        for o in 0..weight.rows {
            row.clear();
            misread(&mistake, format, weight.row(o), &mut row);
            let product = |r: usize| {
                x.row(r).iter().zip(&row).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>() as f32
            };
            products.push((0..x.rows).map(product).collect());
        }
        for (o, column) in products.iter().enumerate() {
            column.iter().enumerate().for_each(|(r, &y)| made.data[r * made.cols + o] = y);
        }
        let text = format!("dequantisation of {format} in `{name}`: {}", mistake.text);
        diagnosis.try_out("dequantisation", Rank::Known, text, &made);
    }
}
