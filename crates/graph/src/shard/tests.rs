//! The shards of small graphs, written out by hand.

use crate::*;

/// One layer as Llama's, with four heads of 4 columns that share two of keys and values, and a network of 24 hidden columns. With
/// biases of queries and of the attention output.
fn layer() -> Graph {
    let mut g = Builder::new();
    let table = g.weight("table", 7, 16);
    let x = g.embed("embd", table);
    let mut weight = |name: &str, rows, cols| g.weight(name, rows, cols);
    let [q, k, v, out] =
        [("q", 16, 16), ("k", 8, 16), ("v", 8, 16), ("out", 16, 16)].map(|(n, r, c)| weight(n, r, c));
    let [gate, up, down] =
        [("gate", 24, 16), ("up", 24, 16), ("down", 16, 24)].map(|(n, r, c)| weight(n, r, c));
    let [q_bias, out_bias, norm] = ["q.bias", "out.bias", "norm"].map(|name| weight(name, 1, 16));
    let h = g.rms_norm("attn_norm", x, norm, 1e-5);
    let q = g.linear("q_mm", h, q);
    let q = g.add_bias("q", q, q_bias);
    let q = g.rope("q_rope", q, &Rope::new(4, Pairing::Halves, 1e4));
    let (k, v) = (g.linear("k", h, k), g.linear("v", h, v));
    let store = g.store(Store { heads: 2, k_dim: 4, v_dim: 4, mask: Mask::Causal });
    let a = g.attention("a", q, Some([k, v]), store, 4, 0.5);
    let a = g.linear("out_mm", a, out);
    let a = g.add_bias("out", a, out_bias);
    let x = g.add("inp", a, x);
    let h = g.rms_norm("ffn_norm", x, norm, 1e-5);
    let (gate, up) = (g.linear("gate", h, gate), g.linear("up", h, up));
    let h = g.gate("glu", gate, up, Activation::Silu);
    let h = g.linear("down", h, down);
    let x = g.add("l_out", h, x);
    g.end_layer(x);
    let x = g.output_rows("outputs", x);
    let y = g.linear("logits", x, table);
    g.finish(y)
}

fn shard(graph: &Graph, rank: usize, ranks: usize, block: usize) -> Result<Graph, ShardError> {
    graph.shard(Rank { rank, ranks }, &|_| block)
}

/// Rank 1 of two, in blocks of 8: the second two heads, the last 16 of 24 hidden columns. Rank 0 adds biases and residuals.
#[test]
fn a_rank_has_heads_and_hidden_columns() {
    let second = shard(&layer(), 1, 2, 8).expect("it is split");
    let expected = "embd = embed(table)  // [rows, 16]
attn_norm = rms_norm(embd, norm, eps 1e-5)  // [rows, 16]
q_mm = linear(attn_norm, q[8..16, 0..16])  // [rows, 8]
q = add_bias(q_mm, q.bias[0..1, 8..16])  // [rows, 8]
q_rope = rope(q, Halves, 4 of 4, theta 10000)  // [rows, 8]
k = linear(attn_norm, k[4..8, 0..16])  // [rows, 4]
v = linear(attn_norm, v[4..8, 0..16])  // [rows, 4]
a = attention(q_rope, k, v, store 0, 2 heads, scale 0.5)  // [rows, 8]
out_mm.partial = linear(a, out[0..16, 8..16])  // [rows, 16]
inp = all_reduce(out_mm.partial)  // [rows, 16]
ffn_norm = rms_norm(inp, norm, eps 1e-5)  // [rows, 16]
gate = linear(ffn_norm, gate[8..24, 0..16])  // [rows, 16]
up = linear(ffn_norm, up[8..24, 0..16])  // [rows, 16]
glu = gate(gate, up, silu)  // [rows, 16]
down.partial = linear(glu, down[0..16, 8..24])  // [rows, 16]
l_out = all_reduce(down.partial)  // [rows, 16]
outputs = output_rows(l_out)  // [outputs, 16]
logits = linear(outputs, table)  // [outputs, 7]
";
    assert_eq!(second.to_string(), expected);
    let first = shard(&layer(), 0, 2, 8).expect("it is split").to_string();
    for line in [
        "out.partial = add_bias(out_mm.partial, out.bias)  // [rows, 16]",
        "inp.partial = add(out.partial, embd)  // [rows, 16]",
        "inp = all_reduce(inp.partial)  // [rows, 16]",
        "gate = linear(ffn_norm, gate[0..8, 0..16])  // [rows, 8]",
        "l_out.partial = add(down.partial, inp)  // [rows, 16]",
    ] {
        assert!(first.lines().any(|found| found == line), "{line}\nis missing in\n{first}");
    }
    assert_eq!(second.store(second.stores().next().expect("a store").0).heads, 1);
    assert_eq!((second.groups(), second.layers()), (layer().groups(), 1));
    assert_eq!(second.value(second.output()).name, "logits");
}

/// The parts of all ranks are each row and column of a split weight, once.
#[test]
fn shares_make_up_the_weights() {
    for (ranks, block) in [(2, 1), (2, 4), (2, 8)] {
        let mut covered = std::collections::HashMap::<String, usize>::new();
        for rank in 0..ranks {
            let part = shard(&layer(), rank, ranks, block).expect("it is split");
            for (_, weight) in part.weights() {
                let (name, values) = match &weight.share {
                    Some(share) => {
                        assert_eq!(share.cols.start % block, 0, "{}", weight.name);
                        assert_eq!([share.rows.len(), share.cols.len()], [weight.rows, weight.cols]);
                        (share.whole.name.clone(), weight.rows * weight.cols)
                    }
                    None => (weight.name.clone(), 0),
                };
                *covered.entry(name).or_default() += values;
            }
        }
        for (_, weight) in layer().weights() {
            let is_split = !["table", "norm", "out.bias"].contains(&&*weight.name);
            let expected = if is_split { weight.rows * weight.cols } else { 0 };
            assert_eq!(covered[&weight.name], expected, "{}", weight.name);
        }
    }
}

#[test]
fn one_rank_has_the_whole_graph() {
    assert_eq!(shard(&layer(), 0, 1, 8).expect("nothing is split").to_string(), layer().to_string());
}

/// A network of fewer blocks than ranks is computed by each.
#[test]
fn small_networks_are_not_split() {
    let part = shard(&layer(), 1, 2, 24);
    let why = part.expect_err("half of the heads are no block").why;
    assert!(why.contains("8 columns of heads") && why.contains("blocks of 24"), "{why}");
    let part =
        layer().shard(Rank { rank: 1, ranks: 2 }, &|weight| if weight.name == "down" { 24 } else { 1 });
    let text = part.expect("attention is split").to_string();
    assert!(text.contains("down = linear(glu, down)") && text.contains("l_out = add(down, inp)"), "{text}");
}

#[test]
fn heads_must_divide() {
    let error = shard(&layer(), 0, 4, 1).expect_err("two heads");
    assert_eq!(
        error.to_string(),
        "`a` cannot be split over several ranks: 2 key and value heads over 4 ranks"
    );
}

/// Values that attention makes and that are not multiplied by a matrix have no columns to share.
#[test]
fn other_readers_of_attention_are_refused() {
    let mut g = Builder::new();
    let (table, w) = (g.weight("table", 7, 8), g.weight("w", 8, 8));
    let x = g.embed("embd", table);
    let q = g.linear("q", x, w);
    let store = g.store(Store { heads: 2, k_dim: 4, v_dim: 4, mask: Mask::Causal });
    let a = g.attention("a", q, Some([q, q]), store, 2, 0.5);
    let y = g.output_rows("y", a);
    let error = shard(&g.finish(y), 0, 2, 1).expect_err("no matrix");
    assert_eq!((&*error.value, error.why.contains("heads are read together")), ("a", true));
}

/// Recurrent operations, and graphs that are shards.
#[test]
fn recurrent_and_sharded_graphs_are_refused() {
    let mut g = Builder::new();
    let (table, w) = (g.weight("table", 7, 8), g.weight("w", 8, 4));
    let x = g.embed("embd", table);
    let x = g.conv("conv", x, w, None);
    let y = g.output_rows("y", x);
    assert_eq!(shard(&g.finish(y), 0, 2, 1).expect_err("a state").why, "it is recurrent");
    let mut g = Builder::new();
    let table = g.weight("table", 7, 8);
    let x = g.embed("embd", table);
    let x = g.all_reduce("sum", x);
    let y = g.output_rows("y", x);
    assert_eq!(shard(&g.finish(y), 0, 2, 1).expect_err("a shard").why, "the graph is sharded already");
}

/// Each expert has some hidden columns. The bias of the result and what is added to it are in one rank's summand, and the network
/// beside the experts is part of the same sum, as its gate of one column allows.
#[test]
fn experts_and_the_network_beside_them_are_summed_once() {
    let mut g = Builder::new();
    let table = g.weight("table", 7, 8);
    let x = g.embed("embd", table);
    let [router, one] = [("router", 3), ("one", 1)].map(|(name, rows)| g.weight(name, rows, 8));
    let [gate, up] = ["gate", "up"].map(|name| g.weights(name, [3, 12, 8]));
    let [gate_bias, up_bias] = ["gate.bias", "up.bias"].map(|name| g.weight(name, 3, 12));
    let (down, bias) = (g.weights("down", [3, 8, 12]), g.weight("down.bias", 3, 8));
    let logits = g.linear("router_logits", x, router);
    let routes = g.route("routes", logits, 2);
    let hidden = Hidden::Gated {
        weights: [gate, up],
        scales: [None; 2],
        biases: Some([gate_bias, up_bias]),
        glu: Activation::Silu.into(),
        is_fused: false,
    };
    let mixed = g.op(
        "mixed",
        Op::Experts { x, routes, hidden, down, scale: None, bias: Some(bias), weighs_inputs: false },
    );
    let [shared_up, shared_down] =
        [("shared_up", 4, 8), ("shared_down", 8, 4)].map(|(n, r, c)| g.weight(n, r, c));
    let h = g.linear("shared_h", x, shared_up);
    let h = g.act("shared_act", h, Activation::Relu);
    let shared = g.linear("shared", h, shared_down);
    let factor = g.linear("factor", x, one);
    let shared = g.gate("shared_gated", factor, shared, Activation::Sigmoid);
    let y = g.add("ffn_out", mixed, shared);
    let y = g.add("l_out", y, x);
    let y = g.output_rows("y", y);
    let graph = g.finish(y);
    for rank in 0..2 {
        let part = shard(&graph, rank, 2, 2).expect("it is split");
        let sums: Vec<_> =
            part.values().filter(|(_, value)| matches!(value.op, Op::AllReduce { .. })).collect();
        assert_eq!(sums.len(), 1, "{part}");
        assert_eq!(sums[0].1.name, "l_out");
        let experts = part.value(part.find("mixed.partial").expect("a summand"));
        let Op::Experts { hidden, down, bias, .. } = experts.op else { panic!("{part}") };
        let shape = |id| (part.weight(id).count, part.weight(id).rows, part.weight(id).cols);
        assert!(hidden.weights().iter().all(|&id| shape(id) == (3, 6, 8)), "{part}");
        assert!(hidden.biases().iter().all(|&id| shape(id) == (1, 3, 6)), "{part}");
        assert_eq!((shape(down), bias.is_some()), ((3, 8, 6), rank == 0));
        assert_eq!(part.find("factor").map(|id| part.value(id).cols), Some(1), "every rank has it");
    }
}
