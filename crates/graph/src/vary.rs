//! What an implementation can get wrong besides operands: a diagnosis of a wrong result varies these.

use crate::{
    Activation, Gating, Glu, Graph, Hidden, LinearHeads, Map, NormKind, Op, Pairing, Pool, Rope, Router,
    Score,
};

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
                score.alibi.iter_mut().for_each(|bias| each("largest bias of ALiBi", bias));
            }
            Op::LinearAttention { heads, .. } => each("scale", &mut heads.scale),
            Op::Gate { glu, .. } | Op::Experts { hidden: Hidden::Gated { glu, .. }, .. } => {
                glu.limit.iter_mut().for_each(|limit| each("limit", limit));
            }
            Op::Route { router, .. } => each("scale of routes", &mut router.scale),
            Op::ScaleByPosition { beta, offset, interval, .. } => {
                each("beta", beta);
                each("offset", offset);
                each("interval", interval);
            }
            Op::Map { map: Map::Scale(factor), .. } => each("factor", factor),
            Op::Map { map: Map::Softcap(cap), .. } => each("cap", cap),
            Op::Map { map: Map::Act(_), .. } => {}
            Op::Experts { hidden: Hidden::Plain { .. }, .. }
            | Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Conv { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::MulWeight { .. }
            | Op::HeadLinear { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::OutputRows { .. }
            | Op::Pool { .. }
            | Op::AllReduce { .. } => {}
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
            Op::Norm { x, kind, width, weight, eps } => {
                let kinds = NormKind::ALL.into_iter().filter(|other| *other != kind);
                kinds.map(|kind| Op::Norm { x, kind, width, weight, eps }).collect()
            }
            Op::Map { x, map: Map::Act(act) } => vec![Op::Map { x, map: Map::Act(other(act)) }],
            Op::Attention { q, kv, store, heads, score } => {
                let without = [
                    Score { cap: None, ..score },
                    Score { sinks: None, ..score },
                    Score { alibi: None, ..score },
                ];
                let others = without.into_iter().filter(|other| *other != score);
                others.map(|score| Op::Attention { q, kv, store, heads, score }).collect()
            }
            Op::Conv { x, weight, bias } => {
                bias.map(|_| Op::Conv { x, weight, bias: None }).into_iter().collect()
            }
            Op::LinearAttention { q, k, v, decay, beta, skip, heads } => {
                let with = |skip, heads| Op::LinearAttention { q, k, v, decay, beta, skip, heads };
                let tiled = (heads.k_heads > 1 && heads.k_heads < heads.heads)
                    .then(|| with(skip, LinearHeads { is_tiled: !heads.is_tiled, ..heads }));
                let delta = with(skip, LinearHeads { is_delta: !heads.is_delta, ..heads });
                tiled.into_iter().chain([delta]).chain(skip.map(|_| with(None, heads))).collect()
            }
            Op::Gate { gate, up, glu } => {
                other_glus(glu).into_iter().map(|glu| Op::Gate { gate, up, glu }).collect()
            }
            Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs } => {
                let with = |hidden, scale, bias, weighs_inputs| Op::Experts {
                    x,
                    routes,
                    hidden,
                    down,
                    scale,
                    bias,
                    weighs_inputs,
                };
                let mut others = vec![with(hidden, scale, bias, !weighs_inputs)];
                others.extend(
                    other_hiddens(hidden).into_iter().map(|hidden| with(hidden, scale, bias, weighs_inputs)),
                );
                let without = [
                    with(hidden.without_biases(), scale, None, weighs_inputs),
                    with(hidden.without_scales(), None, bias, weighs_inputs),
                ];
                others.extend(without.into_iter().filter(|other| other != self));
                others
            }
            Op::Route { logits, bias, router } => {
                let (experts, used) = (graph.value(logits).cols, router.used);
                let counts =
                    [used - 1, used + 1, experts].map(|used| Router { used, groups: None, ..router });
                let gatings = [Gating::ChosenSoftmax, Gating::Softmax, Gating::Sigmoid];
                let gatings = gatings.map(|gating| Router { gating, ..router });
                let flags = [
                    Router { renormalises: !router.renormalises, ..router },
                    Router { groups: None, ..router },
                ];
                let others = counts.into_iter().chain(gatings).chain(flags);
                let others = others.filter(|other| *other != router && (1..=experts).contains(&other.used));
                let without = bias.map(|_| Op::Route { logits, bias: None, router });
                others.map(|router| Op::Route { logits, bias, router }).chain(without).collect()
            }
            Op::Pool { x, pool } => {
                let pool = match pool {
                    Pool::Mean => Pool::First,
                    Pool::First => Pool::Mean,
                };
                vec![Op::Pool { x, pool }]
            }
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Map { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::MulWeight { .. }
            | Op::ScaleByPosition { .. }
            | Op::HeadLinear { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::OutputRows { .. }
            | Op::AllReduce { .. } => Vec::new(),
        }
    }
}

/// The activation that is confused with `act` most easily.
fn other(act: Activation) -> Activation {
    match act {
        Activation::Silu | Activation::GeluSigmoid => Activation::GeluTanh,
        Activation::GeluTanh | Activation::Sigmoid | Activation::Softplus | Activation::Relu => {
            Activation::Silu
        }
        Activation::ReluSquared => Activation::Relu,
        Activation::Identity => Activation::Sigmoid,
    }
}

fn other_glus(glu: Glu) -> Vec<Glu> {
    let others = [Glu { act: other(glu.act), ..glu }, Glu { limit: None, ..glu }];
    others.into_iter().filter(|other| *other != glu).collect()
}

fn other_hiddens(hidden: Hidden) -> Vec<Hidden> {
    match hidden {
        Hidden::Gated { weights, scales, biases, glu, is_fused } => other_glus(glu)
            .into_iter()
            .map(|glu| Hidden::Gated { weights, scales, biases, glu, is_fused })
            .collect(),
        Hidden::Plain { weight, scale, bias, act } => {
            vec![Hidden::Plain { weight, scale, bias, act: other(act) }]
        }
    }
}
