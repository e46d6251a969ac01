//! A graph as text, one line a value.

use std::fmt;

use crate::{Graph, Op, Rope, Rows};

impl fmt::Display for Graph {
    /// Such as `Qcur-0 = rope(Qcur_pre-0, theta 10000)  // [rows, 256]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, value) in self.values() {
            write!(f, "{} = ", value.name)?;
            self.fmt_op(&value.op, f)?;
            let rows = match value.rows {
                Rows::Step => "rows",
                Rows::Wanted => "wanted",
            };
            writeln!(f, "  // [{rows}, {}]", value.cols)?;
        }
        Ok(())
    }
}

impl Graph {
    fn fmt_op(&self, op: &Op, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |id| &self.value(id).name;
        let weight = |id| &self.weight(id).name;
        match op {
            Op::Input => write!(f, "input()"),
            Op::Embed { table } => write!(f, "embed({})", weight(*table)),
            Op::Linear { x, weight: w } => write!(f, "linear({}, {})", value(*x), weight(*w)),
            Op::RmsNorm { x, weight: w, eps } => {
                write!(f, "rms_norm({}, {}, eps {eps:e})", value(*x), weight(*w))
            }
            Op::Rope { x, rope } => {
                let Rope { head_dim, dims, pairing, theta, scale, factors } = rope;
                write!(f, "rope({}, {pairing:?}, {dims} of {head_dim}, theta {theta}", value(*x))?;
                if *scale != 1.0 {
                    write!(f, ", scale {scale}")?;
                }
                if let Some(factors) = factors {
                    write!(f, ", {}", weight(*factors))?;
                }
                write!(f, ")")
            }
            Op::Attention { q, k, v, layer, heads, kv_heads, scale } => write!(
                f,
                "attention({}, {}, {}, cache {layer}, {heads} heads, {kv_heads} kv heads, scale {scale})",
                value(*q),
                value(*k),
                value(*v),
            ),
            Op::SwiGlu { gate, up } => write!(f, "swiglu({}, {})", value(*gate), value(*up)),
            Op::Add { a, b } => write!(f, "add({}, {})", value(*a), value(*b)),
            Op::AddBias { x, weight: w } => write!(f, "add_bias({}, {})", value(*x), weight(*w)),
            Op::TakeRows { x } => write!(f, "take_rows({})", value(*x)),
        }
    }
}
