//! Rows are computed at other positions, or from other rows than those before them.

use graph::{Mask, Store};

use super::Candidate;
use super::diagnosis::{Diagnosis, Rank};
use crate::oracle::Call;
use crate::{Error, Matrix};

/// The largest offset of positions and sizes of masks that is tried.
const FAR: usize = 8;

/// Positions up to which lost rows are tried.
const MOST_ROWS: usize = 512;

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let Some(&first) = s.region.rows.first() else { return };
    if let Some((store, _)) = s.call.op.store() {
        masks(diagnosis, *s.oracle.graph.store(store), first);
    }
    // Positions may begin again at the first wrong row, or at every so many rows.
    if first > 1 {
        for (again, place) in
            [(true, format!("in every step of {first}")), (false, format!("at row {first}"))]
        {
            let text = format!("positions begin at 0 again {place}: what was there before does not count");
            if let Ok(made) = restarted(s, first, again) {
                diagnosis.try_result("wrong-position", Rank::Known, text, &made);
            }
        }
    }
    // A mask is off by one; more is not worth its time.
    let far = if s.inputs.len() > 1 { 1 } else { FAR };
    for by in 1..=far.min(s.found.rows - 1) {
        for (is_ahead, sign, text) in [(true, '+', "large"), (false, '−', "small")] {
            let text = format!(
                "positions are too {text} by {by}: row r is computed as if at position r {sign} {by}"
            );
            if let Ok(made) = shifted(s, by, is_ahead) {
                diagnosis.try_result("wrong-position", Rank::Known, text, &made);
            }
        }
    }
    if let Some((store, _)) = s.call.op.store() {
        let store = *s.oracle.graph.store(store);
        heads(diagnosis, store);
        stored_rows(diagnosis, first);
    }
}

/// Each row at another position. Only the first input moves; the store does not.
fn shifted(s: &Candidate<'_>, by: usize, is_ahead: bool) -> Result<Matrix, Error> {
    let n = s.found.rows;
    // The row whose input is at a position, and the position of a row.
    let row_at = |p: usize| if is_ahead { p.saturating_sub(by) } else { (p + by).min(n - 1) };
    let position = |r: usize| if is_ahead { r + by } else { r.saturating_sub(by) };
    let positions = if is_ahead && s.inputs.len() == 1 { n + by } else { n };
    let rows: Vec<usize> = (0..positions).map(row_at).collect();
    let made = s.oracle.run(&s.call, &s.with_input(0, s.inputs[0].take_rows(&rows)))?;
    let mut moved = s.expected.clone();
    for r in (0..n).filter(|&r| position(r) < positions && row_at(position(r)) == r) {
        moved.data[r * moved.cols..][..moved.cols].copy_from_slice(made.row(position(r)));
    }
    Ok(moved)
}

/// Rows that do not see those before row `first`, or before every multiple of it.
fn restarted(s: &Candidate<'_>, first: usize, again: bool) -> Result<Matrix, Error> {
    let rows: Vec<usize> = (0..s.found.rows).collect();
    let (begin, rest) = rows.split_at(first);
    let mut data = Vec::with_capacity(s.found.data.len());
    for step in [begin].into_iter().chain(rest.chunks(if again { first } else { rest.len() })) {
        let inputs: Vec<Matrix> = s.inputs.iter().map(|x| x.take_rows(step)).collect();
        data.extend(s.oracle.run(&s.call, &inputs)?.data);
    }
    Ok(Matrix::new(s.found.cols, data))
}

/// Another mask, or another size of it. Without a size, the first wrong row shows how far rows see.
fn masks(diagnosis: &mut Diagnosis<'_>, store: Store, first: usize) {
    let s = diagnosis.candidate;
    let mut others = vec![(Rank::Known, Mask::Causal), (Rank::Known, Mask::Full)];
    match store.mask.size() {
        None => others.push((Rank::Estimated, Mask::Window(first.max(1)))),
        Some(own) => {
            let kinds = [Mask::Window(own), Mask::Chunk(own), Mask::Around(own)];
            others.extend(kinds.map(|mask| (Rank::Known, mask)));
            let near = (own.saturating_sub(FAR).max(1)..=own + FAR).filter_map(|n| store.mask.with_size(n));
            others.extend(near.map(|mask| (Rank::Estimated, mask)));
        }
    }
    for (rank, mask) in others.into_iter().filter(|(_, mask)| *mask != store.mask) {
        let call = Call { store: Some(Store { mask, ..store }), ..s.call.clone() };
        diagnosis.try_call("wrong-mask", rank, format!("rows see {mask}, not {}", store.mask), &call);
    }
}

/// Heads share those of the store in another order: neighbouring heads read neighbours of the store.
fn heads(diagnosis: &mut Diagnosis<'_>, store: Store) {
    let s = diagnosis.candidate;
    let Some(heads) = s.head_dim().map(|dim| s.found.cols / dim).filter(|&heads| heads > store.heads) else {
        return;
    };
    let share = heads / store.heads;
    // Head h reads head h / share of the store; moved to where h % heads is h / share, it reads the other.
    let place = |h: usize| h % store.heads * share + h / store.heads;
    let mut from = vec![0; heads];
    (0..heads).for_each(|h| from[place(h)] = h);
    let ordered = |x: &Matrix, from: &dyn Fn(usize) -> usize| {
        let dim = x.cols / heads;
        Matrix::from_fn(x.rows, x.cols, |r, c| x.at(r, from(c / dim) * dim + c % dim))
    };
    if let Ok(made) = s.oracle.run(&s.call, &s.with_input(0, ordered(&s.inputs[0], &|h| from[h]))) {
        let text = format!(
            "order of heads: head h reads stored head h % {}, not h / {share}; {share} heads share each",
            store.heads
        );
        diagnosis.try_result("head-order", Rank::Known, text, &ordered(&made, &place));
    }
}

/// Stored rows are in another place, lost or overwritten. The first wrong row is the first to read them.
fn stored_rows(diagnosis: &mut Diagnosis<'_>, first: usize) {
    let s = diagnosis.candidate;
    let (n, ids) = (s.found.rows, s.ids());
    let stored: Vec<usize> = (1..s.inputs.len()).collect();
    let each = stored.iter().map(|&slot| vec![slot]).filter(|_| stored.len() > 1);
    for slots in [stored.clone()].into_iter().chain(each) {
        let names: Vec<String> = slots.iter().map(|&slot| format!("`{}`", s.name(ids[slot]))).collect();
        let names = names.join(" and ");
        // `from` is the row that a position holds, if any.
        let mut with = |rank, text: String, from: &dyn Fn(usize) -> Option<usize>| {
            let mut inputs = s.inputs.clone();
            for &slot in &slots {
                let x = &s.inputs[slot];
                inputs[slot] = Matrix::from_fn(n, x.cols, |r, c| from(r).map_or(0.0, |r| x.at(r, c)));
            }
            diagnosis.try_inputs("stored-row", rank, text, &inputs);
        };
        with(Rank::Known, format!("{names} are stored one position too late"), &|p| p.checked_sub(1));
        let next = |p| Some(p + 1).filter(|&p| p < n);
        with(Rank::Known, format!("{names} are stored one position too early"), &next);
        if n > MOST_ROWS {
            continue;
        }
        let text = format!("{names} of position {first} are not stored: zeros are there");
        with(Rank::Estimated, text, &|p| Some(p).filter(|&p| p != first));
        for slot in 0..first {
            let text = format!("position {slot} holds {names} of position {first}: it was overwritten");
            with(Rank::Estimated, text, &|p| Some(if p == slot { first } else { p }));
        }
    }
}
