//! Shape inference and checks.

use crate::{Builder, LinearHeads, Op, Role, Rope, Router, Rows, WeightId};

impl Op {
    /// Rows and columns of the result. Panics if the shape of an operand does not match: a bug in the model code.
    #[track_caller]
    pub(crate) fn shape(&self, g: &Builder) -> (Rows, usize) {
        for (weight, role) in self.weights() {
            let weight = g.declared(weight);
            assert!(role == Role::Experts || weight.count == 1, "`{}` is several matrices", weight.name);
        }
        match *self {
            Op::Input { cols } => (Rows::Step, cols),
            Op::Embed { table, index: _ } => (Rows::Step, g.declared(table).cols),
            Op::Linear { x, weight } => {
                let ((rows, cols), w) = (g.shape_at(x), g.declared(weight));
                assert_eq!(cols, w.cols, "input of linear and columns of `{}`", w.name);
                (rows, w.rows)
            }
            Op::Norm { x, kind: _, width, weight, eps: _ } => {
                let (rows, cols) = g.shape_at(x);
                let name = weight.map_or("no weight", |weight| &g.declared(weight).name);
                assert!(
                    width > 0 && cols.is_multiple_of(width),
                    "{cols} columns, groups of {width}, `{name}`"
                );
                if let Some(w) = weight.map(|weight| g.declared(weight)) {
                    assert!([width, cols].contains(&(w.rows * w.cols)), "input of a norm and `{name}`");
                }
                (rows, cols)
            }
            Op::Rope { x, rope: Rope { head_dim, dims, factors, long_factors, .. } } => {
                let (rows, cols) = g.shape_at(x);
                assert_eq!(rows, Rows::Step, "rope needs the positions of the step's rows");
                assert!(cols.is_multiple_of(head_dim), "{cols} columns are not heads of {head_dim}");
                assert!(dims.is_multiple_of(2) && dims <= head_dim, "{dims} columns rotate");
                for factors in [factors, long_factors.map(|long| long.factors)] {
                    check_vector(g, factors, dims / 2, "pairs of rope");
                }
                (rows, cols)
            }
            Op::Attention { q, kv, store, heads, score } => {
                let (rows, cols) = g.shape_at(q);
                let (s, _) = &g.stores[store.index()];
                assert!(heads.is_multiple_of(s.heads), "{heads} heads share {} key/value heads", s.heads);
                assert_eq!(cols, heads * s.k_dim, "columns of q and query heads of {}", s.k_dim);
                assert_eq!(rows, Rows::Step, "attention needs every row of the step");
                match kv {
                    Some([k, v]) => {
                        assert_eq!(g.shape_at(k), (rows, s.heads * s.k_dim), "k and its store");
                        assert_eq!(g.shape_at(v), (rows, s.heads * s.v_dim), "v and its store");
                        assert!(!g.is_written(store), "a store is written once");
                    }
                    None => assert!(g.is_written(store), "a store is written before it is read"),
                }
                assert!(score.cap.is_none() || score.alibi.is_none(), "a cap of scores with ALiBi");
                check_vector(g, score.sinks, heads, "heads");
                (rows, heads * s.v_dim)
            }
            Op::Conv { x, weight, bias } => {
                let ((rows, cols), w) = (g.shape_at(x), g.declared(weight));
                assert_eq!(rows, Rows::Step, "a convolution needs every row of the step");
                assert!(w.rows == cols && w.cols > 0, "input of conv and `{}`", w.name);
                check_vector(g, bias, cols, "input of conv");
                (rows, cols)
            }
            Op::LinearAttention { q, k, v, decay, beta, skip, heads: LinearHeads { heads, k_heads, .. } } => {
                let (rows, cols) = g.shape_at(v);
                assert_eq!(rows, Rows::Step, "linear attention needs every row of the step");
                let [q, k, decay, beta] = [q, k, decay, beta].map(|x| g.shape_at(x));
                assert_eq!((q, decay), (k, beta), "q, k, decay and beta of linear attention");
                assert_eq!(decay, (rows, heads), "decay and {heads} heads");
                assert!(
                    k_heads > 0 && heads.is_multiple_of(k_heads),
                    "{heads} heads share {k_heads} key heads"
                );
                let fits = k.0 == rows && k.1.is_multiple_of(k_heads) && cols.is_multiple_of(heads);
                assert!(fits, "{heads} heads of {cols}, {k_heads} key heads of {}", k.1);
                if let Some(w) = skip.map(|skip| g.declared(skip)) {
                    assert_eq!(heads, w.rows * w.cols, "heads and `{}`", w.name);
                }
                (rows, cols)
            }
            Op::Gate { gate, up, glu: _ } => {
                let (gate, (rows, cols)) = (g.shape_at(gate), g.shape_at(up));
                assert!(gate == (rows, cols) || gate == (rows, 1), "gate {gate:?} and up {:?}", (rows, cols));
                (rows, cols)
            }
            Op::Route { logits, bias, router: Router { used, groups, .. } } => {
                let (rows, experts) = g.shape_at(logits);
                assert!((1..=experts).contains(&used), "{used} of {experts} experts");
                check_vector(g, bias, experts, "experts");
                if let Some([groups, chosen]) = groups {
                    let fits = (1..=groups).contains(&chosen) && experts.is_multiple_of(groups);
                    assert!(
                        fits && used <= experts / groups * chosen,
                        "{chosen} of {groups} groups of experts"
                    );
                }
                (rows, experts)
            }
            Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs: _ } => {
                let ((rows, cols), routes, down) = (g.shape_at(x), g.shape_at(routes), g.declared(down));
                assert_eq!(routes, (rows, down.count), "routes and experts of `{}`", down.name);
                let matrices = hidden.matrices_per_expert() * down.count;
                for w in hidden.weights().iter().map(|&id| g.declared(id)) {
                    assert_eq!(cols, w.cols, "input of experts and columns of `{}`", w.name);
                    assert_eq!((matrices, down.cols), (w.count, w.rows), "`{}` and `{}`", down.name, w.name);
                }
                for scale in hidden.scales().iter().chain([&scale]) {
                    check_vector(g, *scale, down.count, "experts");
                }
                let biases = hidden.biases().iter().map(|&id| (id, down.cols));
                for (bias, cols) in biases.chain(bias.map(|id| (id, down.rows))) {
                    let w = g.declared(bias);
                    assert_eq!((down.count, cols), (w.rows, w.cols), "`{}` and `{}`", down.name, w.name);
                }
                (rows, down.rows)
            }
            Op::Map { x, map: _ } | Op::AllReduce { x } => g.shape_at(x),
            Op::Add { a, b } => {
                assert_eq!(g.shape_at(a), g.shape_at(b), "both sides of add");
                g.shape_at(a)
            }
            Op::AddBias { x, weight } => {
                check_vector(g, Some(weight), g.shape_at(x).1, "input of add_bias");
                g.shape_at(x)
            }
            Op::MulWeight { x, weight } => {
                let ((rows, cols), w) = (g.shape_at(x), g.declared(weight));
                let fits = cols.is_multiple_of(w.rows * w.cols);
                assert!(fits, "input of mul_weight and `{}`", w.name);
                (rows, cols)
            }
            Op::ScaleByPosition { x, interval, .. } => {
                let (rows, cols) = g.shape_at(x);
                assert_eq!(rows, Rows::Step, "scaling needs the positions of the step's rows");
                assert!(interval >= 1.0, "an interval of {interval} positions");
                (rows, cols)
            }
            Op::HeadLinear { x, weight } => {
                let ((rows, cols), w) = (g.shape_at(x), g.declared(weight));
                assert_eq!(cols, w.count * w.cols, "input of head_linear and `{}`", w.name);
                (rows, w.count * w.rows)
            }
            Op::Slice { x, heads, start, len } => {
                let (rows, cols) = g.shape_at(x);
                let fits = heads > 0 && cols.is_multiple_of(heads) && len > 0 && start + len <= cols / heads;
                assert!(fits, "columns {start}..{} of {heads} heads of {cols}", start + len);
                (rows, heads * len)
            }
            Op::Join { a, b, heads, b_heads } => {
                let ((rows, a), (b_rows, b)) = (g.shape_at(a), g.shape_at(b));
                assert_eq!(rows, b_rows, "both sides of join");
                assert!(a.is_multiple_of(heads) && b.is_multiple_of(b_heads), "{heads} heads of {a} and {b}");
                assert!(b_heads == heads || b_heads == 1, "{b_heads} heads beside {heads}");
                (rows, a + b / b_heads * heads)
            }
            Op::OutputRows { x } | Op::Pool { x, .. } => {
                let (rows, cols) = g.shape_at(x);
                assert_eq!(rows, Rows::Step, "output rows are gathered once");
                (Rows::Output, cols)
            }
        }
    }
}

/// Asserts that a weight, if there is one, is a vector of `cols` numbers.
#[track_caller]
fn check_vector(g: &Builder, weight: Option<WeightId>, cols: usize, what: &str) {
    if let Some(w) = weight.map(|weight| g.declared(weight)) {
        assert_eq!((1, cols), (w.rows, w.cols), "{what} and `{}`", w.name);
    }
}
