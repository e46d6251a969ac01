//! Mistakes of looking up embeddings.

use graph::WeightId;

use super::{Diagnosis, Rank, general, linear};
use crate::Matrix;
use crate::oracle::Call;

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>, own: WeightId) {
    let s = diagnosis.candidate;
    let Ok(table) = s.oracle.weight(own) else { return };
    let tokens = &s.call.tokens;
    let n_vocab = table.rows as u32;
    let other_tokens = |change: &dyn Fn(usize) -> u32| {
        let tokens = (0..tokens.len()).map(change).collect();
        s.run(&Call { tokens, ..s.call.clone() })
    };
    let n = tokens.len();
    diagnosis.try_run(
        "embed-row",
        Rank::Known,
        "rows of the table are counted from 1: each token has the row before its own",
        other_tokens(&|i| tokens[i].saturating_sub(1)),
    );
    diagnosis.try_run(
        "embed-row",
        Rank::Known,
        "each token has the row after its own in the table",
        other_tokens(&|i| (tokens[i] + 1).min(n_vocab - 1)),
    );
    diagnosis.try_run(
        "embed-position",
        Rank::Known,
        "each position has the token before it",
        other_tokens(&|i| tokens[i.saturating_sub(1)]),
    );
    diagnosis.try_run(
        "embed-position",
        Rank::Known,
        "each position has the token after it",
        other_tokens(&|i| tokens[(i + 1).min(n - 1)]),
    );
    let text = "the table is read transposed: number h of token v is taken from h * vocab + v in place of v * hidden + h";
    let rows = tokens.iter().map(|&v| v as usize).filter(|&v| v < table.rows);
    let rows = rows.flat_map(|v| linear::transposed(&table, v..v + 1).data);
    let made = Matrix::new(table.cols, rows.collect());
    if made.rows == s.found.rows {
        diagnosis.try_out("transposed", Rank::Known, text, &made);
    }
    general::other_weights(diagnosis, own, "table");
}
