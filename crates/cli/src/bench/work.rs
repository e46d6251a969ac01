//! The multiply-adds and bytes of a test, and the speed that a machine allows at most.

use backend::KvFormat;
use backend_cpu::Ceilings;
use graph::{Graph, Mask, Rows};
use quant::Format;

use super::measure::{Kind, Test};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    linears: Vec<Linear>,
    attentions: Vec<Attention>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Attention {
    /// Multiply-adds of QK and PV per visible position.
    macs: f64,
    /// Bytes of K and V per position.
    bytes: f64,
    mask: Mask,
}

/// The matrix of a linear layer, or those of the experts that a row uses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linear {
    macs: f64,
    bytes: f64,
    /// Multiplies 8-bit integers, not f32.
    is_int8: bool,
    /// Is computed for every token, not only for output rows.
    every_token: bool,
}

impl Work {
    /// The work of `graph` with weights in the formats of `format_of`.
    pub(super) fn of(graph: &Graph, kv: KvFormat, format_of: impl Fn(&str) -> Option<Format>) -> Work {
        let mut work = Work { linears: Vec::new(), attentions: Vec::new() };
        for (id, value) in graph.values() {
            let cost = graph.cost(id);
            for (weight, matrices) in cost.matmuls {
                let weight = graph.weight(weight);
                let Some(format) = format_of(&weight.tensor) else { continue };
                let row_bytes = format.bytes_for(weight.cols as u64).unwrap_or_default();
                let rows = (matrices * weight.rows) as f64;
                work.linears.push(Linear {
                    macs: rows * weight.cols as f64,
                    bytes: rows * row_bytes as f64,
                    is_int8: !matches!(format, Format::F32 | Format::F16 | Format::BF16),
                    every_token: value.rows == Rows::Step,
                });
            }
            work.attentions.extend(cost.attention.map(|(store, macs)| {
                let store = graph.store(store);
                let bytes = store.heads * kv.row_bytes(store);
                Attention { macs: macs as f64, bytes: bytes as f64, mask: store.mask }
            }));
        }
        work
    }

    /// The tokens per second of `test` that `ceilings` allow, if they are known. Many sequences share the reading of weights,
    /// until multiply-adds take longer: no ceiling is given.
    pub(super) fn ceiling(&self, test: Test, ceilings: &Ceilings) -> Option<f64> {
        if test.parallel > 1 {
            return None;
        }
        let tokens = test.tokens as f64;
        let seconds = match test.kind {
            Kind::Prompt => self.prompt_seconds(test, ceilings)?,
            Kind::Generation => self.generation_bytes(test) / ceilings.read_bytes_per_second,
        };
        (seconds > 0.0).then(|| tokens / seconds)
    }

    /// The time of a prompt's multiply-adds. Only its last token is an output row.
    fn prompt_seconds(&self, test: Test, ceilings: &Ceilings) -> Option<f64> {
        let mut int8 = 0.0;
        let mut f32: f64 = self.attentions.iter().map(|layer| layer.macs * visible(test, layer.mask)).sum();
        for linear in &self.linears {
            let macs = linear.macs * if linear.every_token { test.tokens as f64 } else { 1.0 };
            *if linear.is_int8 { &mut int8 } else { &mut f32 } += macs;
        }
        let time = |macs: f64, rate: Option<f64>| if macs == 0.0 { Some(0.0) } else { Some(macs / rate?) };
        Some(time(int8, ceilings.int8_macs_per_second)? + time(f32, ceilings.f32_macs_per_second)?)
    }

    /// The bytes read to generate: for each token all weights except the embedding, and the visible keys and values.
    fn generation_bytes(&self, test: Test) -> f64 {
        let weights: f64 = self.linears.iter().map(|linear| linear.bytes).sum();
        let kv: f64 = self.attentions.iter().map(|layer| layer.bytes * visible(test, layer.mask)).sum();
        test.tokens as f64 * weights + kv
    }
}

/// The number of visible positions, summed over the tokens of a test.
fn visible(test: Test, mask: Mask) -> f64 {
    let positions = test.depth..test.depth + test.tokens;
    let seen = positions.clone().map(|position| mask.visible(position, positions.end).len());
    seen.map(|positions| positions as f64).sum()
}

#[cfg(test)]
mod tests {
    use graph::{Activation, Builder, Pairing, Rope, Store};

    use super::*;

    /// One layer, as `models` builds it: width 64, 4 heads of 16 over 2, feed-forward 96, 100 tokens.
    fn graph() -> Graph {
        with_mask(Mask::Causal)
    }

    fn with_mask(mask: Mask) -> Graph {
        let mut g = Builder::new();
        let rope = Rope::new(16, Pairing::Interleaved, 1e4);
        let table = g.weight("table", 100, 64);
        let x = g.embed("x", table);
        let [q, k, v] = [("q", 64), ("k", 32), ("v", 32)].map(|(name, rows)| {
            let weight = g.weight(format!("w{name}"), rows, 64);
            g.linear(name, x, weight)
        });
        let (q, k) = (g.rope("qr", q, &rope), g.rope("kr", k, &rope));
        let store = g.store(Store { heads: 2, k_dim: 16, v_dim: 16, mask });
        let a = g.attention("a", q, Some([k, v]), store, 4, 0.25);
        let a = g.output_rows("outputs", a);
        let down = g.weight("down", 64, 64);
        let y = g.linear("y", a, down);
        let out = g.weight("out", 100, 64);
        let logits = g.linear("logits", y, out);
        g.finish(logits)
    }

    const CEILINGS: Ceilings = Ceilings {
        int8_macs_per_second: Some(1e6),
        f32_macs_per_second: Some(1e5),
        read_bytes_per_second: 1e4,
    };

    fn test(kind: Kind, tokens: usize, depth: usize) -> Test {
        Test { kind, tokens, depth, parallel: 1 }
    }

    #[track_caller]
    fn close(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-12), "{found:?}, {expected}");
    }

    /// By hand: each token 64*64 + 2*32*64 = 8192 integer multiply-adds, the last one 64*64 + 100*64 =
    /// 10496 more; each visible position 4 heads times 16 + 16 of f32.
    #[test]
    fn a_prompt_takes_its_multiply_adds() {
        let work = Work::of(&graph(), KvFormat::F16, |_| Some(Format::Q8_0));
        let seconds = (8192.0 * 3.0 + 10496.0) / 1e6 + 128.0 * 6.0 / 1e5;
        close(work.ceiling(test(Kind::Prompt, 3, 0), &CEILINGS), 3.0 / seconds);
        let seconds = (8192.0 * 3.0 + 10496.0) / 1e6 + 128.0 * (11.0 + 12.0 + 13.0) / 1e5;
        close(work.ceiling(test(Kind::Prompt, 3, 10), &CEILINGS), 3.0 / seconds);
        let floats = Work::of(&graph(), KvFormat::F16, |_| Some(Format::BF16));
        let seconds = (8192.0 * 3.0 + 10496.0 + 128.0 * 6.0) / 1e5;
        close(floats.ceiling(test(Kind::Prompt, 3, 0), &CEILINGS), 3.0 / seconds);
    }

    /// By hand: 64 values of Q8_0 take 68 bytes, and there are 64 + 32 + 32 + 64 + 100 rows; a position
    /// takes 2 heads times 16 + 16 values of 2 bytes.
    #[test]
    fn generation_takes_its_bytes() {
        let work = Work::of(&graph(), KvFormat::F16, |_| Some(Format::Q8_0));
        let weights = 292.0 * 68.0;
        let bytes = 2.0 * weights + 128.0 * (101.0 + 102.0);
        close(work.ceiling(test(Kind::Generation, 2, 100), &CEILINGS), 2.0 / (bytes / 1e4));
        let floats = Work::of(&graph(), KvFormat::F32, |_| Some(Format::F16));
        let bytes = 292.0 * 128.0 + 256.0;
        close(floats.ceiling(test(Kind::Generation, 1, 0), &CEILINGS), 1.0 / (bytes / 1e4));
    }

    /// By hand: a window of 11 lets the tokens at positions 10, 11 and 12 see 11 positions each.
    #[test]
    fn a_window_is_all_that_is_seen() {
        let work = Work::of(&with_mask(Mask::Window(11)), KvFormat::F16, |_| Some(Format::Q8_0));
        let seconds = (8192.0 * 3.0 + 10496.0) / 1e6 + 128.0 * (11.0 + 11.0 + 11.0) / 1e5;
        close(work.ceiling(test(Kind::Prompt, 3, 10), &CEILINGS), 3.0 / seconds);
        let bytes = 292.0 * 68.0 + 128.0 * 11.0;
        close(work.ceiling(test(Kind::Generation, 1, 50), &CEILINGS), 1.0 / (bytes / 1e4));
    }

    /// By hand: of 8 experts of 3 times 64 by 32 values a row uses 2; routing takes 64 by 8.
    #[test]
    fn experts_that_are_used_count() {
        let mut g = Builder::new();
        let table = g.weight("table", 100, 64);
        let x = g.embed("x", table);
        let router = g.weight("router", 8, 64);
        let logits = g.linear("logits", x, router);
        let routes = g.route("routes", logits, 2);
        let [gate, up] = ["gate", "up"].map(|name| g.weights(name, [8, 32, 64]));
        let down = g.weights("down", [8, 64, 32]);
        let y = g.experts("y", x, routes, [gate, up, down], Activation::Silu);
        let y = g.output_rows("outputs", y);
        let work = Work::of(&g.finish(y), KvFormat::F16, |_| Some(Format::F32));
        let macs = 3.0 * (64.0 * 8.0 + 2.0 * 3.0 * 64.0 * 32.0);
        close(work.ceiling(test(Kind::Prompt, 3, 0), &CEILINGS), 3.0 / (macs / 1e5));
        let bytes = 4.0 * (64.0 * 8.0 + 2.0 * 3.0 * 64.0 * 32.0);
        close(work.ceiling(test(Kind::Generation, 1, 0), &CEILINGS), 1.0 / (bytes / 1e4));
    }

    #[test]
    fn what_is_not_known_has_no_ceiling() {
        let unknown = Ceilings { int8_macs_per_second: None, f32_macs_per_second: None, ..CEILINGS };
        let work = Work::of(&graph(), KvFormat::F16, |_| Some(Format::Q8_0));
        assert_eq!(work.ceiling(test(Kind::Prompt, 3, 0), &unknown), None);
        assert!(work.ceiling(test(Kind::Generation, 3, 0), &unknown).is_some());
    }
}
