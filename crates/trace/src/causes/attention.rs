//! Mistakes of attention: scale, mask, heads, and rows of the cache.

use graph::{Op, StoreId};

use super::{Candidate, Diagnosis, Rank, words};
use crate::Matrix;
use crate::metrics::difference;

/// Pairs of cache rows that are tried in full.
const PAIRS: usize = 8;

/// Positions from which the search for a cache row is not made.
const MOST_ROWS: usize = 128;

/// Attention with everything that may be wrong about it.
struct Attention<'a> {
    q: &'a Matrix,
    k: &'a Matrix,
    v: &'a Matrix,
    heads: usize,
    kv_heads: usize,
    scale: f64,
    /// Whether a row sees a key.
    sees: &'a dyn Fn(usize, usize) -> bool,
    /// The key head of a query head, and its value head.
    key_head: &'a dyn Fn(usize) -> usize,
    value_head: &'a dyn Fn(usize) -> usize,
    /// What the cache holds at a position for a row: the row of K and of V that is there, or nothing.
    key_at: &'a dyn Fn(usize, usize) -> Option<usize>,
    value_at: &'a dyn Fn(usize, usize) -> Option<usize>,
    /// What becomes of a score; the identity as a rule.
    weigh: &'a dyn Fn(&mut [f64]),
}

impl Attention<'_> {
    fn k_dim(&self) -> usize {
        self.k.cols / self.kv_heads
    }

    fn v_dim(&self) -> usize {
        self.v.cols / self.kv_heads
    }

    /// The head that a column of the result belongs to.
    fn head_of(&self, col: usize) -> usize {
        col / self.v_dim()
    }

    /// Row `r` of head `h`.
    fn head(&self, r: usize, h: usize) -> Vec<f64> {
        let (k_dim, v_dim) = (self.k_dim(), self.v_dim());
        let q = &self.q.row(r)[h * k_dim..][..k_dim];
        let (key_head, value_head) = ((self.key_head)(h), (self.value_head)(h));
        let keys: Vec<usize> = (0..self.k.rows).filter(|&p| (self.sees)(r, p)).collect();
        let mut weights: Vec<f64> = keys
            .iter()
            .map(|&p| {
                (self.key_at)(r, p).map_or(0.0, |p| {
                    let key = &self.k.row(p)[key_head * k_dim..][..k_dim];
                    self.scale * q.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>()
                })
            })
            .collect();
        (self.weigh)(&mut weights);
        let mut mean = vec![0.0; v_dim];
        for (&p, weight) in keys.iter().zip(&weights) {
            if let Some(p) = (self.value_at)(r, p) {
                let values = &self.v.row(p)[value_head * v_dim..][..v_dim];
                mean.iter_mut().zip(values).for_each(|(mean, &v)| *mean += weight * f64::from(v));
            }
        }
        mean
    }

    /// All rows: `[rows, heads * v_dim]`.
    fn all(&self) -> Matrix {
        let rows = (0..self.q.rows).flat_map(|r| (0..self.heads).flat_map(move |h| self.head(r, h)));
        Matrix::new(self.heads * self.v_dim(), rows.map(|y| y as f32).collect())
    }
}

/// Turns scores into probabilities.
fn softmax(scores: &mut [f64]) {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|score| *score = (*score - max).exp());
    let total: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= total);
}

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>, store: StoreId, heads: usize, scale: f32) {
    let s = diagnosis.candidate;
    let graph::Store { heads: kv_heads, window, .. } = *s.oracle.graph().store(store);
    let [q, k, v] = &s.inputs[..] else { return };
    let share = heads / kv_heads;
    let group = move |h: usize| h / share;
    let sees = move |r: usize, p: usize| is_visible(window, r, p);
    let base = || Attention {
        q,
        k,
        v,
        heads,
        kv_heads,
        scale: f64::from(scale),
        sees: &sees,
        key_head: &group,
        value_head: &group,
        key_at: &|_, p| Some(p),
        value_at: &|_, p| Some(p),
        weigh: &softmax,
    };
    scores(diagnosis, &base);
    masks(diagnosis, &base, window);
    windows(diagnosis, &base, window);
    grouping(diagnosis, &base, share);
    layers(diagnosis, &base);
    cache(diagnosis, &base, window);
}

/// Whether row `r` sees position `p`: those up to its own, or the last `window` of these.
fn is_visible(window: Option<usize>, r: usize, p: usize) -> bool {
    p <= r && is_near(window, r, p)
}

/// Whether position `p` is not too far before row `r`.
fn is_near(window: Option<usize>, r: usize, p: usize) -> bool {
    window.is_none_or(|window| p + window > r)
}

type Base<'a, 'b> = &'b dyn Fn() -> Attention<'a>;

fn scores(diagnosis: &mut Diagnosis<'_>, base: Base<'_, '_>) {
    let a = base();
    let d = a.k_dim() as f64;
    let scale = a.scale;
    for (wrong, text) in [
        (1.0, "scores are not scaled: 1/√d is missing"),
        (1.0 / d, "scores are scaled by 1/d, not by 1/√d"),
        (d.sqrt(), "scores are multiplied by √d, not divided"),
        (scale * scale, "scores are scaled twice"),
        (
            1.0 / (d * a.heads as f64).sqrt(),
            "scores are scaled by 1/√(heads * d): the width of the model, not of a head",
        ),
    ] {
        if (wrong / scale - 1.0).abs() > 1e-6 {
            let text = format!("softmax scale: {text}");
            diagnosis.try_out(
                "attention-scale",
                Rank::Known,
                text,
                &Attention { scale: wrong, ..base() }.all(),
            );
        }
    }
    let no_exp = |scores: &mut [f64]| {
        let total: f64 = scores.iter().sum();
        scores.iter_mut().for_each(|score| *score /= total);
    };
    diagnosis.try_out(
        "attention-softmax",
        Rank::Known,
        "scores are not exponentiated before they are normalised",
        &Attention { weigh: &no_exp, ..base() }.all(),
    );
    let not_normalised = |scores: &mut [f64]| {
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter_mut().for_each(|score| *score = (*score - max).exp());
    };
    diagnosis.try_out(
        "attention-softmax",
        Rank::Known,
        "probabilities are not divided by their sum",
        &Attention { weigh: &not_normalised, ..base() }.all(),
    );
    let (found, fit) = fitted_scale(diagnosis.candidate, base);
    if (found / scale - 1.0).abs() > 1e-3 {
        let text = format!(
            "softmax scale: scores are scaled by {}, not by {}",
            words::factor(found, 1e-3, &[d as usize]),
            words::factor(scale, 0.0, &[d as usize])
        );
        diagnosis.try_out("attention-scale", Rank::Estimated, text, &fit);
    }
}

/// The scale that explains most, by golden-section search over its logarithm in a few rows.
fn fitted_scale(s: &Candidate<'_>, base: Base<'_, '_>) -> (f64, Matrix) {
    let scale = base().scale;
    let rows: Vec<usize> = s.region.rows.iter().rev().take(3).copied().collect();
    let error = |log: f64| -> f64 {
        let a = Attention { scale: scale * log.exp2(), ..base() };
        let heads = a.heads.min(8);
        let square = |r: usize, h: usize| -> f64 {
            let made = a.head(r, h);
            let found = &s.found.row(r)[h * made.len()..][..made.len()];
            found.iter().zip(&made).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum()
        };
        rows.iter().map(|&r| (0..heads).map(|h| square(r, h)).sum::<f64>()).sum()
    };
    let coarse =
        (-32..=32).map(|i| f64::from(i) / 4.0).min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap_or(0.0);
    let (mut low, mut high) = (coarse - 0.25, coarse + 0.25);
    for _ in 0..30 {
        let (a, b) = (high - (high - low) * 0.618, low + (high - low) * 0.618);
        if error(a) < error(b) { high = b } else { low = a }
    }
    let found = scale * f64::midpoint(low, high).exp2();
    (found, Attention { scale: found, ..base() }.all())
}

fn masks(diagnosis: &mut Diagnosis<'_>, base: Base<'_, '_>, window: Option<usize>) {
    let (n, region) = (diagnosis.candidate.found.rows, &diagnosis.candidate.region.rows);
    let mut mask = |text: String, sees: &dyn Fn(usize, usize) -> bool| {
        let sees = |r, p| is_near(window, r, p) && sees(r, p);
        diagnosis.try_out("attention-mask", Rank::Known, text, &Attention { sees: &sees, ..base() }.all());
    };
    mask("causal mask off by one: a row does not see its own position".into(), &|r, p| {
        p < r || (r == 0 && p == 0)
    });
    mask("causal mask off by one: a row sees the position after it".into(), &|r, p| p <= r + 1);
    mask("there is no causal mask: rows see all positions of the prompt".into(), &|_, _| true);
    mask("the first position is not seen".into(), &|r, p| p <= r && (p > 0 || r == 0));
    mask("rows see their own position only".into(), &|r, p| p == r);
    mask("the causal mask is reversed: rows see their own and later positions".into(), &|r, p| p >= r);
    // The first row of the second step is the first that misses something.
    if let Some(&step) = region.first().filter(|&&first| first > 0) {
        mask(
            format!(
                "rows see only their own step of {step} positions: what the cache holds before it is not read"
            ),
            &|r, p| p <= r && p / step == r / step,
        );
        if n > 2 * step {
            mask(format!("rows from {step} on do not see what the cache holds from before"), &|r, p| {
                p <= r && (r < step || p >= step)
            });
        }
    }
    // The last row of a step sees what it ought to, even if it sees all of its step.
    if let Some(last) = (0..n).find(|r| !region.contains(r)).filter(|&last| last > 0) {
        let step = last + 1;
        mask(
            format!("rows see all positions of their step of {step}: no causal mask within a step"),
            &|r, p| p / step <= r / step,
        );
    }
}

/// How far back rows see.
fn windows(diagnosis: &mut Diagnosis<'_>, base: Base<'_, '_>, window: Option<usize>) {
    let s = diagnosis.candidate;
    let mut seen = |rank, text: String, window: Option<usize>| {
        let sees = |r: usize, p: usize| is_visible(window, r, p);
        diagnosis.try_out("attention-window", rank, text, &Attention { sees: &sees, ..base() }.all());
    };
    let Some(window) = window else {
        // The first row that misses something tells how far rows see.
        if let Some(&first) = s.region.rows.first().filter(|&&first| first > 0) {
            let text = format!("rows see only the last {first} positions: a sliding window");
            seen(Rank::Estimated, text, Some(first));
        }
        return;
    };
    let of = |text: &str| format!("sliding window of {window}: {text}");
    seen(Rank::Known, of("rows see all positions up to their own, there is no window"), None);
    seen(Rank::Known, of("rows see one position more, off by one"), Some(window + 1));
    if window > 1 {
        seen(Rank::Known, of("rows see one position less, off by one"), Some(window - 1));
    }
    // The last wrong row tells windows apart, as it sees most.
    let Some(&last) = s.region.rows.last() else { return };
    let error = |window: usize| -> f64 {
        let sees = |r: usize, p: usize| is_visible(Some(window), r, p);
        let attention = Attention { sees: &sees, ..base() };
        let head = attention.head_of(s.region.cols.first().copied().unwrap_or(0));
        let made = attention.head(last, head);
        let found = &s.found.row(last)[head * made.len()..][..made.len()];
        found.iter().zip(&made).map(|(&a, &b)| difference(a, b as f32).powi(2)).sum()
    };
    let best = (1..=last + 1).min_by(|&a, &b| error(a).total_cmp(&error(b)));
    if let Some(best) = best.filter(|best| best.abs_diff(window) > 1) {
        seen(Rank::Estimated, of(&format!("rows see the last {best} positions")), Some(best));
    }
}

fn grouping(diagnosis: &mut Diagnosis<'_>, base: Base<'_, '_>, share: usize) {
    let kv_heads = base().kv_heads;
    if share == 1 {
        return;
    }
    let modulo = |h: usize| h % kv_heads;
    let of = |text: &str| format!("head grouping: {text} (there are {share} query heads to each)");
    let text = of("query head h reads key/value head h % kv_heads in place of h / group");
    diagnosis.try_out(
        "attention-heads",
        Rank::Known,
        text,
        &Attention { key_head: &modulo, value_head: &modulo, ..base() }.all(),
    );
    let text = of("query head h reads key head h % kv_heads; its value head is right");
    diagnosis.try_out("attention-heads", Rank::Known, text, &Attention { key_head: &modulo, ..base() }.all());
    let text = of("query head h reads value head h % kv_heads; its key head is right");
    diagnosis.try_out(
        "attention-heads",
        Rank::Known,
        text,
        &Attention { value_head: &modulo, ..base() }.all(),
    );
    for only in 0..kv_heads {
        let one = move |_| only;
        let text = of(&format!("every query head reads key/value head {only}"));
        diagnosis.try_out(
            "attention-heads",
            Rank::Known,
            text,
            &Attention { key_head: &one, value_head: &one, ..base() }.all(),
        );
    }
    let reversed = |h: usize| kv_heads - 1 - h / share;
    let text = of("key/value heads are in reverse order");
    diagnosis.try_out(
        "attention-heads",
        Rank::Known,
        text,
        &Attention { key_head: &reversed, value_head: &reversed, ..base() }.all(),
    );
}

/// What the cache may hold where it should hold position `slot`.
#[derive(Clone, Copy)]
struct Stale {
    slot: usize,
    /// The position whose row is there; none when it is zero.
    holds: Option<usize>,
    keys: bool,
    values: bool,
}

/// Keys and values of another layer.
fn layers(diagnosis: &mut Diagnosis<'_>, base: Base<'_, '_>) {
    let s = diagnosis.candidate;
    let graph = s.oracle.graph();
    for (id, value) in graph.values().filter(|(id, _)| *id != s.id) {
        let Op::Attention { kv: Some([k, v]), .. } = value.op else { continue };
        let [Some(keys), Some(values)] = [k, v].map(|id| (s.recorded)(id)) else { continue };
        let same = |a: &Matrix, b: &Matrix| (a.rows, a.cols) == (b.rows, b.cols);
        // What comes later is not in the cache yet.
        if id > s.id || !same(&keys, base().k) || !same(&values, base().v) {
            continue;
        }
        let text = format!(
            "the cache is that of another layer: it holds `{}` and `{}`, the keys and values of `{}`",
            s.name(k),
            s.name(v),
            value.name
        );
        let made = Attention { k: &keys, v: &values, ..base() }.all();
        diagnosis.try_out("cache-layer", Rank::Known, text, &made);
    }
}

fn cache(diagnosis: &mut Diagnosis<'_>, base: Base<'_, '_>, window: Option<usize>) {
    let s = diagnosis.candidate;
    let (v, n) = (base().v, s.found.rows);
    let k = base().k;
    if k.cols == v.cols {
        diagnosis.try_out(
            "attention-kv",
            Rank::Known,
            "keys and values are exchanged in the cache",
            &Attention { k: v, v: k, ..base() }.all(),
        );
        diagnosis.try_out(
            "attention-kv",
            Rank::Known,
            "the cache holds keys where values belong",
            &Attention { v: k, ..base() }.all(),
        );
    }
    let shifted = |_: usize, p: usize| p.checked_sub(1);
    diagnosis.try_out(
        "cache-row",
        Rank::Known,
        "K and V are written one position too late in the cache",
        &Attention { key_at: &shifted, value_at: &shifted, ..base() }.all(),
    );
    let ahead = |_: usize, p: usize| if p + 1 < n { Some(p + 1) } else { None };
    diagnosis.try_out(
        "cache-row",
        Rank::Known,
        "K and V are read one position too far in the cache",
        &Attention { key_at: &ahead, value_at: &ahead, ..base() }.all(),
    );
    let Some(&first) = s.region.rows.first().filter(|_| n <= MOST_ROWS) else { return };
    // A wrong row of the cache is first seen by the row that reads it; the row tells which it is.
    let head = base().head_of(s.region.cols.first().copied().unwrap_or(0));
    let made_of = |stale: Stale, r: usize| {
        let at = move |on: bool| {
            move |_: usize, p: usize| if on && p == stale.slot { stale.holds } else { Some(p) }
        };
        Attention { key_at: &at(stale.keys), value_at: &at(stale.values), ..base() }.head(r, head)
    };
    let mut found: Vec<(f64, Stale)> = Vec::new();
    // Wrong rows after the first tell slots apart that the first cannot.
    let rows: Vec<usize> = s.region.rows.iter().copied().take(2).collect();
    for slot in 0..=first {
        for holds in (0..n).map(Some).chain([None]).filter(|&holds| holds != Some(slot)) {
            for (keys, values) in [(true, true), (true, false), (false, true)] {
                let stale = Stale { slot, holds, keys, values };
                let error = |r: usize| -> f64 {
                    let made = made_of(stale, r);
                    let place = &s.found.row(r)[head * made.len()..][..made.len()];
                    place.iter().zip(&made).map(|(&a, &b)| difference(a, b as f32).powi(2)).sum()
                };
                found.push((rows.iter().map(|&r| error(r)).sum(), stale));
            }
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    for &(_, stale) in found.iter().take(PAIRS) {
        let Stale { slot, holds, keys, values } = stale;
        let at =
            |on: bool| move |r: usize, p: usize| if on && r >= first && p == slot { holds } else { Some(p) };
        let what = match (keys, values) {
            (true, true) => "K and V",
            (true, false) => "K",
            _ => "V",
        };
        let text = match holds {
            Some(holds) => format!(
                "the cache's row of position {slot} holds {what} of position {holds}: it was overwritten, or is written to the wrong place"
            ),
            None => format!(
                "the cache has zeros for {what} of position {slot}: it was not written, or overwritten by a row \
                 whose own place stayed empty"
            ),
        };
        let made = Attention { key_at: &at(keys), value_at: &at(values), ..base() }.all();
        diagnosis.try_out("cache-row", Rank::Estimated, text, &made);
    }
    // A key that is not seen at all.
    for slot in 0..=first {
        let sees = |r: usize, p: usize| is_visible(window, r, p) && (p != slot || r < first);
        let made = Attention { sees: &sees, ..base() }.head(first, head);
        let place = &s.found.row(first)[head * made.len()..][..made.len()];
        let error: f64 = place.iter().zip(&made).map(|(&a, &b)| difference(a, b as f32).powi(2)).sum();
        if found.first().is_none_or(|(best, _)| error <= *best * 1.5) {
            let text = format!("position {slot} is not seen by the rows from {first} on");
            diagnosis.try_out(
                "attention-mask",
                Rank::Estimated,
                text,
                &Attention { sees: &sees, ..base() }.all(),
            );
        }
    }
}
