//! What the builder makes, and what it does not let pass.

use std::panic::{AssertUnwindSafe, catch_unwind};

use graph::{Builder, Graph, Op, Pairing, Rope, Rows, ValueId};

/// One attention layer over a vocabulary of 10 and 4 columns.
fn small() -> Graph {
    let mut g = Builder::new();
    let table = g.weight("token_embd.weight", 10, 4);
    let x = g.embed("embd", table);
    let wv = g.weight("blk.0.attn_v.weight", 2, 4);
    let wk = g.weight("blk.0.attn_k.weight", 2, 4);
    let bias = g.weight("blk.0.attn_v.bias", 1, 2);
    let (k, v) = (g.linear(("Kcur", 0), x, wk), g.linear(("Vcur_mm", 0), x, wv));
    let v = g.add_bias(("Vcur", 0), v, bias);
    let a = g.attention(("kqv_out", 0), [x, k, v], 2, 1, 0.5);
    let y = g.add(("l_out", 0), a, x);
    let y = g.take_rows("wanted", y);
    let logits = g.linear("result_output", y, table);
    g.finish(logits)
}

#[test]
fn values_know_their_shape_place_and_line() {
    let graph = small();
    let logits = graph.value(graph.output());
    assert_eq!((logits.rows, logits.cols), (Rows::Wanted, 10));
    let k = graph.find("Kcur-0").expect("it is there");
    assert_eq!((graph.value(k).rows, graph.value(k).cols), (Rows::Step, 2));
    assert!(graph.value(k).location.file().ends_with("builder.rs"));
    assert_eq!(graph.find("Kcur-1"), None);
    assert_eq!(graph.layers(), 1);
    // The embedding serves twice and is one weight.
    assert_eq!(graph.weights().len(), 4);
}

#[test]
fn every_value_uses_only_values_before_it() {
    for (id, value) in small().values() {
        assert!(value.op.inputs().all(|input| input < id), "{}", value.name);
    }
}

#[test]
fn layers_are_counted_by_the_builder() {
    let mut g = Builder::new();
    let table = g.weight("t", 3, 2);
    let x = g.embed("x", table);
    let mut y = x;
    for il in 0..3 {
        y = g.attention(("kqv_out", il), [y, x, x], 1, 1, 1.0);
    }
    let y = g.take_rows("wanted", y);
    let graph = g.finish(y);
    let layers: Vec<_> = graph
        .values()
        .filter_map(|(_, value)| match value.op {
            Op::Attention { layer, .. } => Some(layer),
            _ => None,
        })
        .collect();
    assert_eq!(layers, [0, 1, 2]);
}

#[test]
fn shapes_that_do_not_fit_are_the_models_fault() {
    /// Whether `wrong`, given four columns of input, panics with a message that says `what`.
    fn refused(what: &str, wrong: impl FnOnce(&mut Builder, ValueId)) {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let mut g = Builder::new();
            let table = g.weight("table", 10, 4);
            let x = g.embed("x", table);
            wrong(&mut g, x);
        }))
        .expect_err(what);
        let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        assert!(message.contains(what), "`{message}` does not say `{what}`");
    }
    let rope =
        Rope { head_dim: 4, dims: 4, pairing: Pairing::Interleaved, theta: 1e4, scale: 1.0, factors: None };
    refused("columns of `w`", |g, x| {
        let w = g.weight("w", 4, 5);
        g.linear("y", x, w);
    });
    refused("a weight has one shape", |g, _| {
        g.weight("table", 4, 10);
    });
    refused("the name `x` is taken", |g, x| {
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
        g.rope("y", x, &Rope { head_dim: 3, dims: 2, ..rope.clone() });
    });
    refused("3 columns rotate", |g, x| {
        g.rope("y", x, &Rope { dims: 3, ..rope.clone() });
    });
    refused("3 heads share 2", |g, x| {
        g.attention("y", [x, x, x], 3, 2, 1.0);
    });
    refused("both sides of add", |g, x| {
        let y = g.take_rows("y", x);
        g.add("z", x, y);
    });
}

/// One line a value, as a paper would have it.
#[test]
fn prints_one_line_a_value() {
    let expected = "\
embd = embed(token_embd.weight)  // [rows, 4]
Kcur-0 = linear(embd, blk.0.attn_k.weight)  // [rows, 2]
Vcur_mm-0 = linear(embd, blk.0.attn_v.weight)  // [rows, 2]
Vcur-0 = add_bias(Vcur_mm-0, blk.0.attn_v.bias)  // [rows, 2]
kqv_out-0 = attention(embd, Kcur-0, Vcur-0, cache 0, 2 heads, 1 kv heads, scale 0.5)  // [rows, 4]
l_out-0 = add(kqv_out-0, embd)  // [rows, 4]
wanted = take_rows(l_out-0)  // [wanted, 4]
result_output = linear(wanted, token_embd.weight)  // [wanted, 10]
";
    assert_eq!(small().to_string(), expected);
}
