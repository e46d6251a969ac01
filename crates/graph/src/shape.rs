//! Shape inference and checks.

use crate::{Builder, Op, Role, Rope, Rows};

impl Op {
    /// Rows and columns of the result.
    ///
    /// # Panics
    /// If the shape of an operand does not match: a bug in the model code.
    #[track_caller]
    pub(crate) fn shape(&self, g: &Builder) -> (Rows, usize) {
        for (weight, role) in self.weights() {
            let weight = g.weight_of(weight);
            assert!(role == Role::Experts || weight.count == 1, "`{}` is several matrices", weight.name);
        }
        match *self {
            Op::Input { cols } => (Rows::Step, cols),
            Op::Embed { table } => (Rows::Step, g.weight_of(table).cols),
            Op::Linear { x, weight } => {
                let ((rows, cols), w) = (g.shape_of(x), g.weight_of(weight));
                assert_eq!(cols, w.cols, "input of linear and columns of `{}`", w.name);
                (rows, w.rows)
            }
            Op::Norm { x, kind: _, weight, eps: _ } => {
                let ((rows, cols), w) = (g.shape_of(x), g.weight_of(weight));
                assert!(w.rows == 1 && cols.is_multiple_of(w.cols), "input of a norm and `{}`", w.name);
                (rows, cols)
            }
            Op::Rope { x, rope: Rope { head_dim, dims, factors, long_factors, .. } } => {
                let (rows, cols) = g.shape_of(x);
                assert_eq!(rows, Rows::Step, "rope needs the positions of the step's rows");
                assert!(cols.is_multiple_of(head_dim), "{cols} columns are not heads of {head_dim}");
                assert!(dims.is_multiple_of(2) && dims <= head_dim, "{dims} columns rotate");
                for factors in factors.into_iter().chain(long_factors.map(|long| long.factors)) {
                    let w = g.weight_of(factors);
                    assert_eq!((1, dims / 2), (w.rows, w.cols), "pairs of rope and `{}`", w.name);
                }
                (rows, cols)
            }
            Op::Attention { q, kv, store, heads, score: _ } => {
                let (rows, cols) = g.shape_of(q);
                let s = g.store_of(store);
                assert!(heads.is_multiple_of(s.heads), "{heads} heads share {} key/value heads", s.heads);
                assert_eq!(cols, heads * s.k_dim, "columns of q and query heads of {}", s.k_dim);
                assert_eq!(rows, Rows::Step, "attention needs every row of the step");
                match kv {
                    Some([k, v]) => {
                        assert_eq!(g.shape_of(k), (rows, s.heads * s.k_dim), "k and its store");
                        assert_eq!(g.shape_of(v), (rows, s.heads * s.v_dim), "v and its store");
                        assert!(!g.is_written(store), "a store is written once");
                    }
                    None => assert!(g.is_written(store), "a store is written before it is read"),
                }
                (rows, heads * s.v_dim)
            }
            Op::Gate { gate, up, act: _ } => {
                assert_eq!(g.shape_of(gate), g.shape_of(up), "gate and up");
                g.shape_of(gate)
            }
            Op::Route { logits, used } => {
                let (rows, experts) = g.shape_of(logits);
                assert!((1..=experts).contains(&used), "{used} of {experts} experts");
                (rows, experts)
            }
            Op::Experts { x, routes, gate, up, down, act: _ } => {
                let ((rows, cols), routes) = (g.shape_of(x), g.shape_of(routes));
                let [gate, up, down] = [gate, up, down].map(|id| g.weight_of(id));
                assert_eq!(routes, (rows, gate.count), "routes and experts of `{}`", gate.name);
                let shape = |w: &crate::Weight| (w.count, w.rows, w.cols);
                assert_eq!(gate.cols, cols, "input of experts and columns of `{}`", gate.name);
                assert_eq!(shape(gate), shape(up), "gates and ups of experts");
                assert_eq!((gate.count, gate.rows), (down.count, down.cols), "`{}`", down.name);
                (rows, down.rows)
            }
            Op::Map { x, map: _ } => g.shape_of(x),
            Op::Add { a, b } => {
                assert_eq!(g.shape_of(a), g.shape_of(b), "both sides of add");
                g.shape_of(a)
            }
            Op::AddBias { x, weight } => {
                let ((rows, cols), w) = (g.shape_of(x), g.weight_of(weight));
                assert_eq!((1, cols), (w.rows, w.cols), "input of add_bias and `{}`", w.name);
                (rows, cols)
            }
            Op::OutputRows { x } => {
                let (rows, cols) = g.shape_of(x);
                assert_eq!(rows, Rows::Step, "output rows are gathered once");
                (Rows::Output, cols)
            }
        }
    }
}
