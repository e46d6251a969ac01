//! Printing a graph, one value per line.

use std::fmt;

use crate::{Graph, Mask, Op, Operand, Rows};

impl fmt::Display for Graph {
    /// Such as `attn_norm-0 = rms_norm(embd, blk.0.attn_norm.weight, eps 1e-5)  // [rows, 256]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, value) in self.values() {
            let rows = match value.rows {
                Rows::Step => "rows",
                Rows::Output => "outputs",
            };
            let arguments = self.arguments(&value.op).join(", ");
            writeln!(f, "{} = {}({arguments})  // [{rows}, {}]", value.name, value.op.name(), value.cols)?;
        }
        Ok(())
    }
}

impl Graph {
    fn arguments(&self, op: &Op) -> Vec<String> {
        let (mut arguments, mut op) = (Vec::new(), *op);
        op.operands(|operand| {
            arguments.push(match operand {
                Operand::Value(id) => self.value(*id).name.clone(),
                Operand::Weight(id, _) => self.weight(*id).name.clone(),
                Operand::Store(id, _) => match self.store(*id).mask {
                    Mask::Causal => format!("store {}", id.index()),
                    mask => format!("store {} ({mask})", id.index()),
                },
            });
        });
        arguments.extend(op.parameters());
        arguments
    }
}
