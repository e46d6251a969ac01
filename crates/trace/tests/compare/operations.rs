//! Operations that Llama has not: windows, stores that are read by several, norms of heads, experts.
//!
//! Mistakes are planted by recording another graph on the same weights, whose values have the same names.

use backend_reference::Reference;
use gguf::{Metadata, Tensor};
use graph::{Activation, Builder, Graph, Mask, Pairing, Rope, Store, ValueId};
use quant::Format;
use trace::{First, Matrix, Verdict};

use crate::common::{Bench, TOKENS, cpu, only};

const HIDDEN: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD: usize = 32;
const FFN: usize = 96;
const EXPERTS: usize = 6;
const EXPERT_FFN: usize = 32;

/// What a model may get wrong.
#[derive(Clone, Copy)]
struct Model {
    mask: Mask,
    q_norm: bool,
    embedding_scale: f32,
    gate: Activation,
    expert_gate: Activation,
    used: usize,
}

/// The model as it should be.
const RIGHT: Model = Model {
    mask: Mask::Window(7),
    q_norm: true,
    embedding_scale: 8.0,
    gate: Activation::GeluTanh,
    expert_gate: Activation::Silu,
    used: 2,
};

impl Model {
    fn graph(&self) -> Graph {
        let mut g = Builder::new();
        let table = g.weight("table", 512, HIDDEN);
        let x = g.embed("embd", table);
        let x = g.scale("inp_scaled", x, self.embedding_scale);
        let store = Store { heads: KV_HEADS, k_dim: HEAD, v_dim: HEAD, mask: self.mask };
        let store = g.store(store);
        let norm = g.weight("attn_norm", 1, HIDDEN);
        let y = g.rms_norm("attn_norm", x, norm, 1e-5);
        let q = self.query(&mut g, 0, y);
        let [k, v] = ["k", "v"].map(|name| g.weight(name, KV_HEADS * HEAD, HIDDEN));
        let (k, v) = (g.linear(("Kcur", 0), y, k), g.linear(("Vcur", 0), y, v));
        let a = g.attention(("kqv_out", 0), q, Some([k, v]), store, HEADS, (HEAD as f32).powf(-0.5));
        let o = g.weight("o", HIDDEN, HEADS * HEAD);
        let a = g.linear(("attn_out", 0), a, o);
        let x = g.add(("ffn_inp", 0), a, x);
        let [gate, up] = ["gate", "up"].map(|name| g.weight(name, FFN, HIDDEN));
        let (gate, up) = (g.linear(("ffn_gate", 0), x, gate), g.linear(("ffn_up", 0), x, up));
        let h = g.gate(("ffn_geglu", 0), gate, up, self.gate);
        let down = g.weight("down", HIDDEN, FFN);
        let h = g.linear(("ffn_out", 0), h, down);
        let x = g.add(("l_out", 0), h, x);
        g.end_layer(x);

        // Reads the store of the layer before.
        let q = self.query(&mut g, 1, x);
        let a = g.attention(("kqv_out", 1), q, None, store, HEADS, (HEAD as f32).powf(-0.5));
        let o = g.weight("o1", HIDDEN, HEADS * HEAD);
        let a = g.linear(("attn_out", 1), a, o);
        let x = g.add(("ffn_inp", 1), a, x);
        let norm = g.weight("ffn_norm", 1, HIDDEN);
        let y = g.rms_norm("ffn_norm", x, norm, 1e-5);
        let router = g.weight("router", EXPERTS, HIDDEN);
        let logits = g.linear("ffn_moe_logits", y, router);
        let routes = g.route("ffn_moe_weights", logits, self.used);
        let [gates, ups] = ["gates", "ups"].map(|name| g.weights(name, [EXPERTS, EXPERT_FFN, HIDDEN]));
        let downs = g.weights("downs", [EXPERTS, HIDDEN, EXPERT_FFN]);
        let h = g.experts("ffn_moe_out", y, routes, [gates, ups, downs], self.expert_gate);
        let x = g.add(("l_out", 1), h, x);
        g.end_layer(x);
        let x = g.output_rows("l_out_outputs", x);
        let logits = g.linear("result_output", x, table);
        g.finish(logits)
    }

    fn query(&self, g: &mut Builder, layer: usize, x: ValueId) -> ValueId {
        let w = g.weight(format!("q{layer}"), HEADS * HEAD, HIDDEN);
        let q = g.linear(("Qcur", layer), x, w);
        let norm = g.weight(format!("q_norm{layer}"), 1, HEAD);
        let q = match self.q_norm {
            true => g.rms_norm(("Qcur_normed", layer), q, norm, 1e-5),
            false => g.scale(("Qcur_normed", layer), q, 1.0),
        };
        let rope = Rope::new(HEAD, Pairing::Halves, 1e4);
        g.rope(("Qcur_pos", layer), q, &rope)
    }
}

/// Random weights for all that `graph` uses, matrices in `format`.
fn tensors(graph: &Graph, format: Format) -> Vec<Tensor> {
    let tensor = |(id, weight): (graph::WeightId, &graph::Weight)| {
        let is_vector = weight.rows == 1;
        let format = if is_vector { Format::F32 } else { format };
        let deviation = if weight.name == "table" { 0.25 } else { (weight.cols as f32).powf(-0.5) };
        let values = weight.count * weight.rows * weight.cols;
        let mut data = testkit::random_matrix(format, values, deviation, id.index() as u64);
        if is_vector {
            let of = |bytes: &[u8; 4]| (1.0 + f32::from_le_bytes(*bytes)).to_le_bytes();
            data = data.as_chunks().0.iter().flat_map(of).collect();
        }
        let shape = weight.tensor_shape();
        Tensor { name: weight.tensor.clone(), shape, format, data: data.into() }
    };
    graph.weights().map(tensor).collect()
}

fn bench(format: Format) -> Bench {
    bench_of(tensors(&RIGHT.graph(), format))
}

fn bench_of(tensors: Vec<Tensor>) -> Bench {
    let file = gguf::write(Vec::new(), &Metadata::default(), &tensors);
    Bench::of_graph(RIGHT.graph(), file.expect("a good file"))
}

/// What is found where the CPU computes `wrong`.
fn first(bench: &Bench, wrong: Model) -> First {
    let a = bench.record_as("wrong", &wrong.graph(), cpu(None), TOKENS);
    bench.compare(&a, &bench.reference()).first.expect("a mistake")
}

#[track_caller]
fn is(first: &First, name: &str, kind: &str, text: &str) {
    let cause = first.causes.first().unwrap_or_else(|| panic!("no cause for {}", first.name));
    assert_eq!((&*first.name, cause.kind, cause.likely), (name, kind, true), "{:?}", first.causes);
    assert!(cause.text.contains(text), "{text}: {:?}", first.causes);
}

#[test]
fn what_is_right_is_called_right() {
    for format in [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_0] {
        let bench = bench(format);
        for (name, backend) in [("cpu", cpu(None)), ("other", Box::new(Reference::new()))] {
            let report = bench.compare(&bench.record(name, backend, TOKENS), &bench.reference());
            assert!(report.alike, "{format}: {report}");
            assert!(report.values.iter().all(|value| value.verdict == Verdict::Right), "{format}: {report}");
        }
    }
}

/// Next to a large input with zero weights, the other inputs of its block are rounded away: that is no fault of
/// the experts, and what they make is wrong all the same if it is wrong beyond that.
#[test]
fn experts_may_round_their_inputs() {
    const LARGE: usize = 3;
    let mut tensors = tensors(&RIGHT.graph(), Format::Q8_0);
    for Tensor { name, data, .. } in &mut tensors {
        let mut bytes = data.to_vec();
        match &**name {
            "ffn_norm" => bytes[4 * LARGE..][..4].copy_from_slice(&200f32.to_le_bytes()),
            // The number of the first block of each row, behind its scale.
            "gates" | "ups" | "router" => {
                bytes.chunks_exact_mut(HIDDEN / 32 * 34).for_each(|row| row[2 + LARGE] = 0);
            }
            _ => {}
        }
        *data = bytes.into();
    }
    let bench = bench_of(tensors);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let report = bench.compare(&cpu, &reference);
    assert!(report.alike, "{report}");
    let value = report.values.iter().find(|value| value.name == "ffn_moe_out").expect("a value");
    assert!(value.own.is_some_and(|metrics| metrics.nmse > 5e-4), "it is rounded: {value:?}");
    let bad = bench.changed(&cpu, only("ffn_moe_out", |_, _, x| -x));
    assert_eq!(bench.compare(&bad, &reference).first.expect("a mistake").name, "ffn_moe_out");
}

#[test]
fn masks_are_measured() {
    let bench = bench(Format::F32);
    let with = |mask| first(&bench, Model { mask, ..RIGHT });
    let wider = with(Mask::Window(8));
    is(&wider, "kqv_out-0", "wrong-mask", "a window of 8, not a window of 7");
    assert_eq!(wider.position, 7);
    is(&with(Mask::Window(6)), "kqv_out-0", "wrong-mask", "a window of 6, not a window of 7");
    is(&with(Mask::Causal), "kqv_out-0", "wrong-mask", "up to their own, not a window of 7");
    is(&with(Mask::Window(12)), "kqv_out-0", "wrong-mask", "a window of 12");
    is(&with(Mask::Window(3)), "kqv_out-0", "wrong-mask", "a window of 3");
    is(&with(Mask::Chunk(7)), "kqv_out-0", "wrong-mask", "chunks of 7, not a window of 7");
    is(&with(Mask::Full), "kqv_out-0", "wrong-mask", "all positions, not a window of 7");
    is(&with(Mask::Around(7)), "kqv_out-0", "wrong-mask", "3 positions on both sides, not a window of 7");
}

/// Attention over a store that another has written reads what that one wrote.
#[test]
fn a_store_that_is_read_again_is_replayed() {
    let bench = bench(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let values = Matrix::new(KV_HEADS * HEAD, cpu.read("Vcur-0").expect("a value"));
    let own = |name: &str, x: Matrix| {
        // Each head takes its own position's values, as if all rows saw only themselves.
        let of = |r: usize, c: usize| values.at(r, c / HEAD / (HEADS / KV_HEADS) * HEAD + c % HEAD);
        Some(if name == "kqv_out-1" { Matrix::from_fn(x.rows, x.cols, of) } else { x })
    };
    let first = bench.compare(&bench.changed(&cpu, own), &reference).first.expect("a mistake");
    is(&first, "kqv_out-1", "wrong-mask", "a window of 1");
}

#[test]
fn norms_of_heads_are_norms() {
    let bench = bench(Format::F32);
    is(&first(&bench, Model { q_norm: false, ..RIGHT }), "Qcur_normed-0", "unchanged", "`Qcur-0`");
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let one = |name: &str, x: Matrix| {
        let of = |r: usize, c: usize| if c / HEAD == 2 { -x.at(r, c) } else { x.at(r, c) };
        Some(if name == "Qcur_normed-1" { Matrix::from_fn(x.rows, x.cols, of) } else { x })
    };
    let first = bench.compare(&bench.changed(&cpu, one), &reference).first.expect("a mistake");
    assert_eq!((&*first.name, &*first.place), ("Qcur_normed-1", "head 2"));
}

#[test]
fn gates_go_through_their_function() {
    let bench = bench(Format::Q8_0);
    let silu = Model { gate: Activation::Silu, ..RIGHT };
    is(&first(&bench, silu), "ffn_geglu-0", "wrong-choice", "silu, not gelu_tanh");
    let gelu = Model { expert_gate: Activation::GeluTanh, ..RIGHT };
    is(&first(&bench, gelu), "ffn_moe_out", "wrong-choice", "gelu_tanh, not silu");
}

#[test]
fn factors_are_reported() {
    let bench = bench(Format::F32);
    let with = |embedding_scale| first(&bench, Model { embedding_scale, ..RIGHT });
    is(&with(1.0), "inp_scaled", "unchanged", "`embd`");
    is(&with(64.0), "inp_scaled", "wrong-number", "factor is 64, not 8: it counts twice");
}

#[test]
fn experts_are_counted() {
    let bench = bench(Format::F32);
    let with = |used| first(&bench, Model { used, ..RIGHT });
    is(&with(3), "ffn_moe_weights", "wrong-choice", "3 used, not 2 used");
    is(&with(1), "ffn_moe_weights", "wrong-choice", "1 used, not 2 used");
    is(&with(EXPERTS), "ffn_moe_weights", "wrong-choice", "6 used, not 2 used");
}

/// The experts computed by hand, from the weights as they are in the file.
struct ByHand {
    x: Matrix,
    routes: Matrix,
    weights: Vec<Vec<f32>>,
}

impl ByHand {
    fn of(bench: &Bench, trace: &trace::Trace) -> ByHand {
        let tensors = tensors(&bench.graph, Format::F32);
        let values = |name: &str| {
            let tensor = tensors.iter().find(|tensor| tensor.name == name).expect("a tensor");
            tensor.data.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
        };
        let [x, routes] = [("ffn_norm", HIDDEN), ("ffn_moe_weights", EXPERTS)]
            .map(|(name, cols)| Matrix::new(cols, trace.read(name).expect("a value")));
        ByHand { x, routes, weights: ["gates", "ups", "downs"].map(values).into() }
    }

    /// What expert `e` makes of row `r`, multiplied with `before`.
    fn one(&self, r: usize, e: usize, before: f32) -> Vec<f64> {
        let dot = |w: &[f32], x: &[f64]| w.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum::<f64>();
        let x: Vec<f64> = self.x.row(r).iter().map(|&x| f64::from(x * before)).collect();
        let row = |which: usize, o: usize, rows: usize, cols: usize| {
            &self.weights[which][(e * rows + o) * cols..][..cols]
        };
        let hidden = |o: usize| {
            let [gate, up] = [0, 1].map(|which| dot(row(which, o, EXPERT_FFN, HIDDEN), &x));
            gate / (1.0 + (-gate).exp()) * up
        };
        let hidden: Vec<f64> = (0..EXPERT_FFN).map(hidden).collect();
        (0..HIDDEN).map(|o| dot(row(2, o, HIDDEN, EXPERT_FFN), &hidden)).collect()
    }

    /// The sum of what `of` makes of each row and each expert that it chose, with its weight.
    fn all(&self, of: impl Fn(&ByHand, usize, usize, f32) -> Vec<f64>) -> Matrix {
        let row = |r: usize| {
            let mut sum = vec![0.0; HIDDEN];
            for e in (0..EXPERTS).filter(|&e| self.routes.at(r, e) != 0.0) {
                let made = of(self, r, e, self.routes.at(r, e));
                sum.iter_mut().zip(made).for_each(|(sum, y)| *sum += y);
            }
            sum.into_iter().map(|y| y as f32)
        };
        Matrix::new(HIDDEN, (0..self.x.rows).flat_map(row).collect())
    }
}

#[test]
fn experts_are_computed_one_by_one() {
    let bench = bench(Format::F32);
    let (cpu, reference) = (bench.cpu(), bench.reference());
    let by_hand = ByHand::of(&bench, &cpu);
    let times = |y: Vec<f64>, p: f32| y.into_iter().map(|y| y * f64::from(p)).collect::<Vec<_>>();
    let report = |made: Matrix| {
        let bad = bench.changed(&cpu, |name, x| Some(if name == "ffn_moe_out" { made.clone() } else { x }));
        bench.compare(&bad, &reference)
    };
    let right = report(by_hand.all(|by_hand, r, e, p| times(by_hand.one(r, e, 1.0), p)));
    assert!(right.alike, "{right}");
    let first = |made| report(made).first.expect("a mistake");
    let next = first(by_hand.all(|by_hand, r, e, p| times(by_hand.one(r, (e + 1) % EXPERTS, 1.0), p)));
    is(&next, "ffn_moe_out", "input-shift", "`ffn_moe_weights` is read one column too early");
    // An expert with unrelated elements.
    let noise = |i: usize| f64::from((i as f32 * 12.9898).sin() * 437.585).fract();
    let odd = first(by_hand.all(|by_hand, r, e, p| {
        let y = times(by_hand.one(r, e, 1.0), p);
        y.into_iter().enumerate().map(|(c, y)| if e == 2 { noise(r * HIDDEN + c) } else { y }).collect()
    }));
    assert!(odd.causes.iter().all(|cause| !cause.likely), "{:?}", odd.causes);
}
