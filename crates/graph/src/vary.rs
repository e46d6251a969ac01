//! The parameters and choices of an operation that an implementation can get wrong. A diagnosis of a wrong result varies
//! these, besides the operands ([`Op::operands`]).

use crate::{Activation, Graph, Map, NormKind, Op, Pairing, Rope, Score};

impl Op {
    /// Calls `each` for every numeric parameter, with its name.
    pub fn numbers(&mut self, mut each: impl FnMut(&'static str, &mut f32)) {
        match self {
            Op::Norm { eps, .. } => each("eps", eps),
            Op::Rope { rope, .. } => {
                each("theta", &mut rope.theta);
                each("scale of positions", &mut rope.scale);
            }
            Op::Attention { score, .. } => {
                each("scale of scores", &mut score.scale);
                score.cap.iter_mut().for_each(|cap| each("cap of scores", cap));
            }
            Op::Map { map: Map::Scale(factor), .. } => each("factor", factor),
            Op::Map { map: Map::Softcap(cap), .. } => each("cap", cap),
            Op::Map { map: Map::Act(_), .. } => {}
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Experts { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => {}
        }
    }

    /// The operations that differ in one choice, such as the RoPE pairing or the activation. `graph` has the operands.
    pub fn variants(&self, graph: &Graph) -> Vec<Op> {
        match *self {
            Op::Rope { x, rope } => {
                let pairing = match rope.pairing {
                    Pairing::Interleaved => Pairing::Halves,
                    Pairing::Halves => Pairing::Interleaved,
                };
                // The factors, one per pair, do not fit other dimensions.
                let dims = if rope.dims == rope.head_dim { rope.dims / 4 * 2 } else { rope.head_dim };
                let ropes = [
                    Rope { pairing, ..rope },
                    Rope { dims, factors: None, long_factors: None, ..rope },
                    Rope { yarn: None, ..rope },
                    Rope { long_factors: None, ..rope },
                ];
                let others = ropes.into_iter().filter(|other| other.dims > 0 && *other != rope);
                others.map(|rope| Op::Rope { x, rope }).collect()
            }
            Op::Norm { x, kind, weight, eps } => {
                let kind = match kind {
                    NormKind::Rms => NormKind::Layer,
                    NormKind::Layer => NormKind::Rms,
                };
                vec![Op::Norm { x, kind, weight, eps }]
            }
            Op::Map { x, map: Map::Act(act) } => vec![Op::Map { x, map: Map::Act(other(act)) }],
            Op::Attention { q, kv, store, heads, score } => {
                let without = Score { cap: None, ..score };
                let others = [without].into_iter().filter(|other| *other != score);
                others.map(|score| Op::Attention { q, kv, store, heads, score }).collect()
            }
            Op::Gate { gate, up, act } => vec![Op::Gate { gate, up, act: other(act) }],
            Op::Experts { x, routes, gate, up, down, act } => {
                vec![Op::Experts { x, routes, gate, up, down, act: other(act) }]
            }
            Op::Route { logits, used } => {
                let experts = graph.value(logits).cols;
                let others = [used - 1, used + 1, experts].into_iter();
                let others = others.filter(|other| *other != used && (1..=experts).contains(other));
                others.map(|used| Op::Route { logits, used }).collect()
            }
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Map { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => Vec::new(),
        }
    }

    /// Whether a row's result depends on its position or on the rows before it.
    pub fn is_positional(&self) -> bool {
        match self {
            Op::Rope { .. } | Op::Attention { .. } => true,
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Norm { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Experts { .. }
            | Op::Map { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => false,
        }
    }
}

fn other(act: Activation) -> Activation {
    match act {
        Activation::Silu => Activation::GeluTanh,
        Activation::GeluTanh => Activation::Silu,
    }
}
