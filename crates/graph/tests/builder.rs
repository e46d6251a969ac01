//! Tests of the builder: shapes, names, groups, and the checks of operands.

use std::panic::{AssertUnwindSafe, catch_unwind};

use graph::Mask::{Causal, Window};
use graph::{Activation, Builder, Graph, Mask, Pairing, Role, Rope, Rows, Store, ValueId};

const STORE: Store = Store { heads: 1, k_dim: 2, v_dim: 2, mask: Causal };

/// A graph with one attention layer, a vocabulary of 10 tokens and an embedding length of 4.
fn small() -> Graph {
    let mut g = Builder::new();
    let table = g.weight("token_embd.weight", 10, 4);
    let x = g.embed("embd", table);
    let wv = g.weight("blk.0.attn_v.weight", 2, 4);
    let wk = g.weight("blk.0.attn_k.weight", 2, 4);
    let bias = g.weight("blk.0.attn_v.bias", 1, 2);
    let (k, v) = (g.linear(("Kcur", 0), x, wk), g.linear(("Vcur_mm", 0), x, wv));
    let v = g.add_bias(("Vcur", 0), v, bias);
    let store = g.store(STORE);
    let a = g.attention(("kqv_out", 0), x, Some([k, v]), store, 2, 0.5);
    let y = g.add(("l_out", 0), a, x);
    g.end_layer(y);
    let y = g.output_rows("outputs", y);
    let logits = g.linear("result_output", y, table);
    g.finish(logits)
}

#[test]
fn values_have_shape_location_and_name() {
    let graph = small();
    let logits = graph.value(graph.output());
    assert_eq!((logits.rows, logits.cols), (Rows::Output, 10));
    let k = graph.find("Kcur-0").expect("it is there");
    assert_eq!((graph.value(k).rows, graph.value(k).cols), (Rows::Step, 2));
    assert!(graph.value(k).location.file().ends_with("builder.rs"));
    assert_eq!(graph.find("Kcur-1"), None);
    assert_eq!((graph.layers(), graph.stores().len()), (1, 1));
    // The embedding table is also the output matrix, and is one weight.
    assert_eq!(graph.weights().len(), 4);
}

#[test]
fn values_are_in_topological_order() {
    for (id, value) in small().values() {
        assert!(value.op.inputs().all(|input| input < id), "{}", value.name);
    }
}

/// Stores with the same mask share a block table whatever their shape.
#[test]
fn stores_are_grouped_by_mask() {
    let mut g = Builder::new();
    let table = g.weight("t", 3, 2);
    let x = g.embed("x", table);
    let mut y = x;
    for (il, mask) in [Window(4), Window(4), Causal, Window(4), Window(5)].into_iter().enumerate() {
        let store = g.store(Store { mask, ..STORE });
        y = g.attention(("kqv_out", il), y, Some([x, x]), store, 1, 1.0);
    }
    let y = g.output_rows("outputs", y);
    let graph = g.finish(y);
    let groups: Vec<_> = graph.stores().map(|(id, _)| graph.groups()[graph.store_group(id)].mask).collect();
    assert_eq!(groups, [Window(4), Window(4), Causal, Window(4), Window(5)]);
    assert_eq!(graph.groups().len(), 3);
    // With a window of 4: position 3 sees positions 0 to 3, position 4 sees 1 to 4.
    let window = graph.groups()[0];
    assert_eq!([0, 3, 4, 9].map(|position| window.mask.first_visible(position)), [0, 0, 1, 6]);
    assert_eq!(graph.groups()[1].mask.first_visible(9), 0);
}

/// By hand, in a sequence of 7 positions.
#[test]
fn masks_show_positions() {
    let seen = |mask: Mask| [0, 2, 3, 6].map(|position| mask.visible(position, 7));
    assert_eq!(seen(Causal), [0..1, 0..3, 0..4, 0..7]);
    assert_eq!(seen(Window(3)), [0..1, 0..3, 1..4, 4..7]);
    assert_eq!(seen(Mask::Chunk(3)), [0..1, 0..3, 3..4, 6..7]);
    assert_eq!(seen(Mask::Full), [0..7, 0..7, 0..7, 0..7]);
    // llama.cpp: half of an odd size is rounded down.
    assert_eq!(seen(Mask::Around(5)), [0..3, 0..5, 1..6, 4..7]);
    assert_eq!(seen(Mask::Around(1)), [0..1, 2..3, 3..4, 6..7]);
}

/// Row ranges of a fused tensor are separate weights.
#[test]
fn row_ranges_of_a_tensor_are_weights() {
    let mut g = Builder::new();
    let table = g.weight("t", 3, 2);
    let x = g.embed("x", table);
    let (q, k) = (g.weight_rows("qk", 6, 0..4, 2), g.weight_rows("qk", 6, 4..6, 2));
    assert_eq!(g.weight_rows("qk", 6, 0..4, 2), q);
    let (q, _) = (g.linear("q", x, q), g.linear("k", x, k));
    let q = g.output_rows("outputs", q);
    let graph = g.finish(q);
    let weights: Vec<_> = graph.weights().map(|(_, w)| (&*w.name, w.rows, w.tensor_shape())).collect();
    assert_eq!(weights, [("t", 3, vec![2, 3]), ("qk[0..4]", 4, vec![2, 6]), ("qk[4..6]", 2, vec![2, 6])]);
}

#[test]
fn weights_have_roles() {
    let graph = small();
    let roles: Vec<_> = graph.weights().map(|(_, w)| &*w.name).zip(graph.roles()).collect();
    let expected = [
        ("token_embd.weight", vec![Role::Table, Role::Matrix]),
        ("blk.0.attn_v.weight", vec![Role::Matrix]),
        ("blk.0.attn_k.weight", vec![Role::Matrix]),
        ("blk.0.attn_v.bias", vec![Role::Vector]),
    ];
    assert_eq!(roles, expected);
}

/// By hand: a row of four columns is multiplied with two of three experts, whose gate and up have 5 rows and down 4.
#[test]
fn costs_are_per_row() {
    let mut g = Builder::new();
    let table = g.weight("t", 3, 4);
    let x = g.embed("x", table);
    let router = g.weight("router", 3, 4);
    let logits = g.linear("logits", x, router);
    let routes = g.route("routes", logits, 2);
    let experts = [("gate", 5, 4), ("up", 5, 4), ("down", 4, 5)].map(|(n, r, c)| g.weights(n, [3, r, c]));
    let y = g.experts("y", x, routes, experts, Activation::Silu);
    let store = g.store(Store { heads: 2, k_dim: 2, v_dim: 2, mask: Causal });
    let z = g.attention("z", y, Some([y, y]), store, 2, 1.0);
    let z = g.output_rows("outputs", z);
    let graph = g.finish(z);
    assert_eq!(graph.cost(logits).matmuls, [(router, 1)]);
    assert_eq!(graph.cost(y).matmuls, experts.map(|weight| (weight, 2)));
    let attention = graph.find("z").expect("it is there");
    assert_eq!(graph.cost(attention).attention, Some((store, 8)));
    let printed = graph.to_string();
    assert!(printed.contains("routes = route(logits, 2 used)  // [rows, 3]"), "{printed}");
    assert!(printed.contains("y = experts(x, routes, gate, up, down, silu)  // [rows, 4]"), "{printed}");
}

#[test]
fn shape_mismatches_panic() {
    /// Asserts that `wrong`, given an input of four columns, panics with a message that contains `what`.
    fn refused(what: &str, wrong: impl FnOnce(&mut Builder, ValueId)) {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let mut g = Builder::new();
            let table = g.weight("table", 10, 4);
            let x = g.embed("x", table);
            wrong(&mut g, x);
        }))
        .expect_err(what);
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        assert!(message.contains(what), "`{message}` does not say `{what}`");
    }
    let rope = Rope::new(4, Pairing::Interleaved, 1e4);
    refused("columns of `w`", |g, x| {
        let w = g.weight("w", 4, 5);
        g.linear("y", x, w);
    });
    refused("a weight has one shape", |g, _| {
        g.weight("table", 4, 10);
    });
    refused("the name `x` is already used", |g, x| {
        g.add("x", x, x);
    });
    refused("`w`", |g, x| {
        let w = g.weight("w", 1, 5);
        g.rms_norm("y", x, w, 1e-5);
    });
    refused("input of add_bias and `b`", |g, x| {
        let b = g.weight("b", 1, 5);
        g.add_bias("y", x, b);
    });
    refused("are not heads of 3", |g, x| {
        g.rope("y", x, &Rope { head_dim: 3, dims: 2, ..rope });
    });
    refused("3 columns rotate", |g, x| {
        g.rope("y", x, &Rope { dims: 3, ..rope });
    });
    refused("3 heads share 2", |g, x| {
        let store = g.store(Store { heads: 2, ..STORE });
        g.attention("y", x, Some([x, x]), store, 3, 1.0);
    });
    refused("k and its store", |g, x| {
        let store = g.store(STORE);
        g.attention("y", x, Some([x, x]), store, 2, 1.0);
    });
    refused("a store is written before it is read", |g, x| {
        let store = g.store(STORE);
        g.attention("y", x, None, store, 2, 1.0);
    });
    refused("a store is written once", |g, x| {
        let store = g.store(Store { heads: 2, ..STORE });
        let y = g.attention("y", x, Some([x, x]), store, 2, 1.0);
        g.attention("z", y, Some([x, x]), store, 2, 1.0);
    });
    refused("`w` is several matrices", |g, x| {
        let w = g.weights("w", [2, 4, 4]);
        g.linear("y", x, w);
    });
    refused("4 of 3 experts", |g, x| {
        let w = g.weight("w", 3, 4);
        let y = g.linear("y", x, w);
        g.route("z", y, 4);
    });
    refused("routes and experts of `downs`", |g, x| {
        let [gate, up, down] = ["gates", "ups", "downs"].map(|name| g.weights(name, [2, 4, 4]));
        let routes = g.route("routes", x, 2);
        g.experts("y", x, routes, [gate, up, down], Activation::Silu);
    });
    refused("both sides of add", |g, x| {
        let y = g.output_rows("y", x);
        g.add("z", x, y);
    });
}

/// One line per value.
#[test]
fn prints_one_line_per_value() {
    let expected = "\
embd = embed(token_embd.weight)  // [rows, 4]
Kcur-0 = linear(embd, blk.0.attn_k.weight)  // [rows, 2]
Vcur_mm-0 = linear(embd, blk.0.attn_v.weight)  // [rows, 2]
Vcur-0 = add_bias(Vcur_mm-0, blk.0.attn_v.bias)  // [rows, 2]
kqv_out-0 = attention(embd, Kcur-0, Vcur-0, store 0, 2 heads, scale 0.5)  // [rows, 4]
l_out-0 = add(kqv_out-0, embd)  // [rows, 4]
outputs = output_rows(l_out-0)  // [outputs, 4]
result_output = linear(outputs, token_embd.weight)  // [outputs, 10]
";
    assert_eq!(small().to_string(), expected);
}
