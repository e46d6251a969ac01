//! Routers and mixtures of experts: hand-computed answers, and random inputs compared with the reference backend.

use graph::{Activation, Gating, Glu, Hidden, Op, Router, ValueId, WeightId};
use quant::Format;

use super::Make;
use super::net::{Net, close, compare, normal, rows};
use super::random::{FLOAT, limit};

const SEED: u64 = 11;

/// The top two of logits 0, ln 3, ln 1, ln 9 give 3/12 and 9/12. Of equal logits the first are chosen.
pub fn route_is_the_softmax_of_the_top_logits(make: Make<'_>) {
    let mut net = Net::default();
    let [three, nine] = [3f32.ln(), 9f32.ln()];
    let logits = net.input("logits", 3, &[0.0, three, 0.0, nine, 1.0, 1.0, 1.0, 1.0, -9.0, -9.0, -9.0, -7.0]);
    let y = net.graph.route("y", logits, 2);
    let last = [1.0 / (1.0 + 2f32.exp()), 1.0 / (1.0 + (-2f32).exp())];
    let expected = [0.0, 0.25, 0.0, 0.75, 0.5, 0.5, 0.0, 0.0, last[0], 0.0, 0.0, last[1]];
    close(&net.run(y, make(), &[rows(3)]), &expected, 1e-6);
}

/// NaN logits of either sign and infinite ones are chosen, and all weights of such a row are NaN, so that no expert is
/// dropped silently. Other rows are not affected.
pub fn route_of_nan_or_infinity_is_nan(make: Make<'_>) {
    for invalid in [f32::NAN, -f32::NAN, f32::INFINITY] {
        let mut net = Net::default();
        let logits = net.input("logits", 2, &[1.0, 2.0, invalid, 3.0, 0.0, -1.0, 0.0, -1.0]);
        let y = net.graph.route("y", logits, 2);
        let found = net.run(y, make(), &[rows(2)]);
        assert!(found[2].is_nan() && found[3].is_nan(), "{invalid:?}: {found:?}");
        assert_eq!(found[..2], [0.0, 0.0]);
        close(&found[4..], &[0.5, 0.0, 0.5, 0.0], 1e-6);
    }
}

/// Experts of one column: expert `e` computes `2 * silu(x) * 10^e * x`. Row 1 uses experts 0 and 2 with weights 1/4 and
/// 3/4, row 2 expert 1 alone.
pub fn experts_are_weighted_by_routes(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 2, &[1.0, 2.0]);
    let routes = net.input("routes", 2, &[0.25, 0.0, 0.75, 0.0, 1.0, 0.0]);
    let bytes = |values: [f32; 3]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let mut weight = |name, values| net.weights(name, quant::Format::F32, [3, 1, 1], bytes(values));
    let weights =
        [weight("gate", [1.0, 1.0, 1.0]), weight("up", [1.0, 10.0, 100.0]), weight("down", [2.0, 2.0, 2.0])];
    let y = net.graph.experts("y", x, routes, weights, Activation::Silu);
    let (silu_1, silu_2) = (0.731_058_6, 1.761_594_2);
    let expected = [2.0 * silu_1 * (0.25 + 75.0), 2.0 * silu_2 * 20.0];
    close(&net.run(y, make(), &[rows(2)]), &expected, 1e-5);
}

/// The routing weights of rows of logits.
fn routed(make: Make<'_>, logits: &[&[f32]], bias: Option<&[f32]>, router: Router) -> Vec<f32> {
    let mut net = Net::default();
    let n = logits.len();
    let logits = net.input("logits", n, &logits.concat());
    let bias = bias.map(|bias| net.matrix("bias", 1, bias));
    let y = net.graph.op("y", Op::Route { logits, bias, router });
    net.run(y, make(), &[rows(n)])
}

/// Of four logits 0, ln 3, 0, ln 9, the softmax over all has weights of 1/14, 3/14, 1/14 and 9/14.
pub fn route_by_the_softmax_over_all(make: Make<'_>) {
    let logits: &[f32] = &[0.0, 3f32.ln(), 0.0, 9f32.ln()];
    let router = Router { gating: Gating::Softmax, ..Router::new(2) };
    let weights = [0.0, 3.0 / 14.0, 0.0, 9.0 / 14.0];
    close(
        &routed(make, &[logits, &[-90.0; 4]], None, router),
        &[&weights[..], &[0.25, 0.25, 0.0, 0.0]].concat(),
        1e-6,
    );
    let renormalised = Router { renormalises: true, scale: 2.0, ..router };
    close(&routed(make, &[logits], None, renormalised), &[0.0, 0.5, 0.0, 1.5], 1e-6);
}

/// Sigmoids 1/2, 3/4, 1/4, 9/10: a bias changes the choice, and not the weights. Of equal sums the first is chosen.
pub fn route_by_sigmoids_with_a_bias(make: Make<'_>) {
    let logits: &[f32] = &[0.0, 3f32.ln(), -3f32.ln(), 9f32.ln()];
    let router = Router { gating: Gating::Sigmoid, ..Router::new(2) };
    close(&routed(make, &[logits], None, router), &[0.0, 0.75, 0.0, 0.9], 1e-6);
    let bias = Some(&[0.5, 0.0, 1.0, -5.0][..]);
    close(&routed(make, &[logits], bias, router), &[0.5, 0.0, 0.25, 0.0], 1e-6);
    let renormalised = Router { renormalises: true, scale: 3.0, ..router };
    close(&routed(make, &[logits], bias, renormalised), &[2.0, 0.0, 1.0, 0.0], 1e-6);
    let equal: &[f32] = &[0.0; 4];
    close(&routed(make, &[equal], Some(&[0.0, 0.25, 0.25, 0.25]), router), &[0.0, 0.5, 0.5, 0.0], 1e-6);
    // A bias for the choice by logits: 0 + 2 and ln 3 + 1 are larger than ln 9.
    let chosen = Router::new(2);
    let bias = Some(&[2.3, 1.2, 0.0, 0.0][..]);
    close(&routed(make, &[logits], bias, chosen), &[0.25, 0.75, 0.0, 0.0], 1e-6);
}

/// The sigmoid of -20 is 2.06e-9; the sum of two is raised to 2^-14.
pub fn route_divides_by_at_least_a_small_number(make: Make<'_>) {
    let router = Router { gating: Gating::Sigmoid, renormalises: true, ..Router::new(2) };
    let found = routed(make, &[&[-20.0, -20.0, -30.0]], None, router);
    close(&found.iter().map(|y| y * 1e5).collect::<Vec<_>>(), &[3.376_994, 3.376_994, 0.0], 1e-5);
}

/// Three groups of two experts: the sums of their weights are 0.9 + 0.1, 0.5 + 0.75 and again 0.9 + 0.1. The best expert is
/// not in the best group. Of groups of three, the two largest count.
pub fn route_uses_the_best_groups(make: Make<'_>) {
    let [nine, three] = [9f32.ln(), 3f32.ln()];
    let logits: &[f32] = &[nine, -nine, 0.0, three, nine, -nine];
    let router = |used, groups| Router { gating: Gating::Sigmoid, groups: Some(groups), ..Router::new(used) };
    let found = |bias, router| routed(make, &[logits], bias, router);
    close(&found(None, router(2, [3, 1])), &[0.0, 0.0, 0.5, 0.75, 0.0, 0.0], 1e-6);
    // Of the equal sums of the first and the last group, the first is used; a small bias changes that.
    close(&found(None, router(1, [3, 2])), &[0.9, 0.0, 0.0, 0.0, 0.0, 0.0], 1e-6);
    let bias = Some(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.125][..]);
    close(&found(bias, router(3, [3, 2])), &[0.0, 0.0, 0.5, 0.75, 0.9, 0.0], 1e-6);
    // 0.9 + 0.5 and 0.9 + 0.75.
    close(&found(None, router(1, [2, 1])), &[0.0, 0.0, 0.0, 0.0, 0.9, 0.0], 1e-6);
    // Groups of one expert.
    close(&found(None, router(1, [6, 2])), &[0.9, 0.0, 0.0, 0.0, 0.0, 0.0], 1e-6);
}

/// If a logit is NaN of either sign or infinite, all weights of the row are NaN, whatever the router. So they are if no logit
/// is finite. Other rows are not affected.
pub fn every_router_reports_invalid_logits(make: Make<'_>) {
    let plain = Router { renormalises: true, ..Router::new(2) };
    let groups = Router { groups: Some([2, 1]), ..plain };
    let invalid = [f32::NAN, -f32::NAN, f32::INFINITY].map(|invalid| [1.0, 1.0, invalid, 1.0]);
    for gating in [Gating::ChosenSoftmax, Gating::Softmax, Gating::Sigmoid] {
        for router in [plain, groups] {
            for bias in [None, Some(&[0.0, -0.25, 0.0, 0.0][..])] {
                let router = Router { gating, ..router };
                for row in invalid.into_iter().chain([[f32::NEG_INFINITY; 4]]) {
                    let found = routed(make, &[&row, &[9.0, 9.0, -9.0, -9.0]], bias, router);
                    let count = |is: fn(&f32) -> bool| found[..4].iter().filter(|y| is(y)).count();
                    let counts = [count(|y| y.is_nan()), count(|&y| y == 0.0)];
                    assert_eq!(counts, [2, 2], "{router:?}, {row:?}: {found:?}");
                    close(&found[4..], &[0.5, 0.5, 0.0, 0.0], 1e-5);
                }
            }
        }
    }
}

/// Experts of one column with biases: expert `e` computes `2 (x + 1) (10^e x + 3 + e) + 5 + e`, with the identity as activation.
pub fn experts_add_biases(make: Make<'_>) {
    for network in [Network::Gated, Network::Fused] {
        for (weighs_inputs, expected) in [
            (
                false,
                [0.25 * (2.0 * 2.0 * 4.0 + 5.0) + 0.75 * (2.0 * 2.0 * 105.0 + 7.0), 2.0 * 3.0 * 24.0 + 6.0],
            ),
            // Inputs of 1/4 and 3/4.
            (true, [2.0 * 1.25 * 3.25 + 5.0 + 2.0 * 1.75 * 80.0 + 7.0, 2.0 * 3.0 * 24.0 + 6.0]),
        ] {
            let network = network(Activation::Identity.into());
            Mixture { network, has_biases: true, weighs_inputs, has_scales: false }
                .check_one_column(make, &expected);
        }
    }
}

/// Products have factors of 2, 4, 1/2 for gates, 1/2, 2, 1/4 for ups and 3, 1, 2 for downs. Biases are not multiplied.
pub fn experts_scale_products(make: Make<'_>) {
    let identity = Activation::Identity.into();
    for (network, has_biases, weighs_inputs, expected) in [
        (Network::Gated(identity), false, false, [0.25 * 6.0 + 0.75 * 50.0, 2.0 * 8.0 * 40.0]),
        (Network::Gated(identity), false, true, [6.0 * 0.0625 + 50.0 * 0.5625, 2.0 * 8.0 * 40.0]),
        (
            Network::Gated(identity),
            true,
            false,
            [0.25 * (6.0 * 3.0 * 3.5 + 5.0) + 0.75 * (4.0 * 1.5 * 30.0 + 7.0), 2.0 * 9.0 * 44.0 + 6.0],
        ),
        (
            Network::Plain(Activation::ReluSquared),
            true,
            false,
            [0.25 * (6.0 * 12.25 + 5.0) + 0.75 * (4.0 * 900.0 + 7.0), 2.0 * 44.0 * 44.0 + 6.0],
        ),
    ] {
        let mixture = Mixture { network, has_biases, weighs_inputs, has_scales: true };
        mixture.check_one_column(make, &expected);
    }
}

/// Without a gate, expert `e` computes `2 max(10^e x, 0)^2`, with biases `2 max(10^e x + 3 + e, 0)^2 + 5 + e`.
pub fn experts_without_gates(make: Make<'_>) {
    let square = |x: f32| 2.0 * x * x;
    for (has_biases, weighs_inputs, expected) in [
        (false, false, [0.25 * square(1.0) + 0.75 * square(100.0), square(20.0)]),
        (false, true, [square(0.25) + square(75.0), square(20.0)]),
        (true, false, [0.25 * (square(4.0) + 5.0) + 0.75 * (square(105.0) + 7.0), square(24.0) + 6.0]),
        (true, true, [square(3.25) + 5.0 + square(80.0) + 7.0, square(24.0) + 6.0]),
    ] {
        let network = Network::Plain(Activation::ReluSquared);
        Mixture { network, has_biases, weighs_inputs, has_scales: false }.check_one_column(make, &expected);
    }
}

/// The same without biases, with a limit of 1.5: gates of 2 are 1.5, ups of 100 are 1.5, and 1 is added to ups.
pub fn experts_limit_gates_and_ups(make: Make<'_>) {
    let network = Network::Fused(Glu { act: Activation::Identity, limit: Some(1.5) });
    let expected = [0.25 * 2.0 * 2.0 + 0.75 * 2.0 * 2.5, 2.0 * 1.5 * 2.5];
    Mixture { network, has_biases: false, weighs_inputs: false, has_scales: false }
        .check_one_column(make, &expected);
}

/// The network of an expert.
#[derive(Clone, Copy, Debug)]
enum Network {
    Gated(Glu),
    /// Gate and up are one weight.
    Fused(Glu),
    /// No gate.
    Plain(Activation),
}

/// The options of a mixture of experts.
#[derive(Clone, Copy, Debug)]
struct Mixture {
    network: Network,
    has_biases: bool,
    weighs_inputs: bool,
    /// Products have factors.
    has_scales: bool,
}

impl Mixture {
    /// Three experts with gates of 1, ups of 1, 10 and 100 and downs of 2, for inputs of 1 and 2. Biases of gates are
    /// 1, those of expert `e` of ups `3 + e` and of downs `5 + e`. Row 1 uses experts 0 and 2 with weights 1/4 and 3/4, row 2
    /// expert 1 alone.
    fn check_one_column(self, make: Make<'_>, expected: &[f32]) {
        let mut net = Net::default();
        let x = net.input("x", 2, &[1.0, 2.0]);
        let routes = net.input("routes", 2, &[0.25, 0.0, 0.75, 0.0, 1.0, 0.0]);
        let y = self.op(&mut net, x, routes, &|net, name| {
            let values: &[f32] = match name {
                "gate" => &[1.0; 3],
                "up" => &[1.0, 10.0, 100.0],
                "gate_up" => &[1.0, 1.0, 1.0, 10.0, 1.0, 100.0],
                "down" => &[2.0; 3],
                "gate.scale" => return net.matrix(name, 1, &[2.0, 4.0, 0.5]),
                "up.scale" => return net.matrix(name, 1, &[0.5, 2.0, 0.25]),
                "down.scale" => return net.matrix(name, 1, &[3.0, 1.0, 2.0]),
                "gate.bias" => return net.matrix(name, 3, &[1.0; 3]),
                "up.bias" => return net.matrix(name, 3, &[3.0, 4.0, 5.0]),
                _ => return net.matrix(name, 3, &[5.0, 6.0, 7.0]),
            };
            let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            net.weights(name, Format::F32, [values.len(), 1, 1], bytes)
        });
        close(&net.run(y, make(), &[rows(2)]), expected, 1e-5);
    }

    /// The mixture, with weights and biases by name: `gate`, `up` or `gate_up`, `down`, and `gate.bias` and so on.
    fn op(
        self,
        net: &mut Net,
        x: ValueId,
        routes: ValueId,
        weight: &dyn Fn(&mut Net, &'static str) -> WeightId,
    ) -> ValueId {
        let Mixture { network, has_biases, weighs_inputs, has_scales } = self;
        let scale = |net: &mut Net, name| has_scales.then(|| weight(net, name));
        let gated = |net: &mut Net, weights, glu| Hidden::Gated {
            weights,
            scales: ["gate.scale", "up.scale"].map(|name| scale(net, name)),
            biases: has_biases.then(|| ["gate.bias", "up.bias"].map(|name| weight(net, name))),
            glu,
            is_fused: matches!(network, Network::Fused(_)),
        };
        let hidden = match network {
            Network::Gated(glu) => {
                let weights = ["gate", "up"].map(|name| weight(net, name));
                gated(net, weights, glu)
            }
            Network::Fused(glu) => {
                let weights = [weight(net, "gate_up"); 2];
                gated(net, weights, glu)
            }
            Network::Plain(act) => Hidden::Plain {
                weight: weight(net, "up"),
                scale: scale(net, "up.scale"),
                bias: has_biases.then(|| weight(net, "up.bias")),
                act,
            },
        };
        let (down, bias) = (weight(net, "down"), has_biases.then(|| weight(net, "down.bias")));
        let scale = scale(net, "down.scale");
        net.graph.op("y", Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs })
    }
}

/// Every option of routers for few and many experts.
pub fn routers_of_all_kinds(make: Make<'_>, oracle: Make<'_>) {
    for (experts, used, groups) in [
        (5, 2, None),
        (37, 37, None),
        (64, 6, Some([8, 3])),
        (160, 8, Some([2, 1])),
        (600, 10, None),
        (600, 20, Some([100, 17])),
    ] {
        for gating in [Gating::ChosenSoftmax, Gating::Softmax, Gating::Sigmoid] {
            for (has_bias, renormalises, scale) in [(false, false, 1.0), (true, true, 2.5)] {
                let router = Router { used, gating, renormalises, scale, groups };
                compare(
                    [oracle, make],
                    &[1, 64],
                    FLOAT,
                    format_args!("{experts} experts, {router:?}, bias: {has_bias}, seed {SEED}"),
                    |net| {
                        let logits = net.input("logits", 64, &normal(SEED, "logits", 64 * experts));
                        let values: Vec<f32> =
                            normal(SEED, "bias", experts).iter().map(|x| 0.1 * x).collect();
                        let bias = has_bias.then(|| net.matrix("bias", 1, &values));
                        net.graph.op("y", Op::Route { logits, bias, router })
                    },
                );
            }
        }
    }
}

/// Every format, in steps of one row and of many, whose rows choose different experts.
pub fn experts_in_every_format(make: Make<'_>, oracle: Make<'_>) {
    for format in Format::ALL {
        experts(make, oracle, format, [5, 256, 256], 2, Activation::Silu);
    }
}

/// Sizes that are not a multiple of a vector, one expert, all experts, another activation.
pub fn experts_of_odd_sizes(make: Make<'_>, oracle: Make<'_>) {
    for (format, sizes, used, act) in [
        (Format::F32, [1, 37, 43], 1, Activation::Silu),
        (Format::F32, [3, 19, 67], 3, Activation::GeluTanh),
        (Format::F16, [7, 43, 33], 1, Activation::GeluTanh),
        (Format::Q8_0, [33, 96, 32], 4, Activation::Silu),
    ] {
        experts(make, oracle, format, sizes, used, act);
    }
}

/// More chunks of columns than threads in a subgroup, and some more.
pub fn experts_with_many_columns(make: Make<'_>, oracle: Make<'_>) {
    experts(make, oracle, Format::Q8_0, [3, 1056, 1088], 2, Activation::Silu);
    experts(make, oracle, Format::Q8_0, [3, 1024, 1024], 2, Activation::Silu);
}

/// Every option of experts, in F32 and with blocks, whose routes are scaled by expert.
pub fn experts_with_all_options(make: Make<'_>, oracle: Make<'_>) {
    use Network::{Fused, Gated, Plain};
    let limited = Glu { act: Activation::GeluSigmoid, limit: Some(1.0) };
    for (format, sizes, used) in [(Format::F32, [6, 37, 43], 2), (Format::Q8_0, [9, 96, 64], 4)] {
        for (network, has_biases, weighs_inputs) in [
            (Fused(Activation::Silu.into()), false, false),
            (Gated(limited), true, false),
            (Fused(limited), true, true),
            (Gated(Activation::GeluTanh.into()), false, true),
            (Plain(Activation::ReluSquared), false, false),
            (Plain(Activation::GeluTanh), true, false),
            (Plain(Activation::Silu), true, true),
        ] {
            for has_scales in [false, true] {
                let mixture = Mixture { network, has_biases, weighs_inputs, has_scales };
                mix(make, oracle, format, sizes, used, mixture, true);
            }
        }
    }
}

/// `count` experts for rows of `cols` columns, with `inner` hidden columns.
fn experts(
    make: Make<'_>,
    oracle: Make<'_>,
    format: Format,
    sizes: [usize; 3],
    used: usize,
    act: Activation,
) {
    for network in [Network::Gated(act.into()), Network::Plain(act)] {
        let mixture = Mixture { network, has_biases: false, weighs_inputs: false, has_scales: false };
        mix(make, oracle, format, sizes, used, mixture, false);
    }
}

fn mix(
    make: Make<'_>,
    oracle: Make<'_>,
    format: Format,
    [count, cols, inner]: [usize; 3],
    used: usize,
    mixture: Mixture,
    scales_routes: bool,
) {
    // Three matmuls, two of which are multiplied element-wise.
    let limit = limit(format) * if format.block_len() > 1 { 4.0 } else { 10.0 };
    compare(
        [oracle, make],
        &[1, 2, 7, 9, 64],
        limit,
        format_args!(
            "{format}, seed {SEED}, {cols} columns, {used} of {count} experts of {inner}, {mixture:?}"
        ),
        |net| {
            let x = net.input("x", 64, &normal(SEED, "x", 64 * cols));
            let logits = net.input("logits", 64, &normal(SEED, "logits", 64 * count));
            let mut routes = net.graph.route("routes", logits, used);
            if scales_routes {
                let scales = net.matrix("scales", 1, &normal(SEED, "scales", count));
                routes = net.graph.mul_weight("scaled routes", routes, scales);
            }
            // With a norm before and a residual after it, which backends may fuse.
            let scale = net.matrix("norm.weight", 1, &normal(SEED, "norm.weight", cols));
            let (x, residual) =
                if scales_routes { (net.graph.rms_norm("norm", x, scale, 1e-5), x) } else { (x, x) };
            let mut y = mixture.op(net, x, routes, &|net, name| {
                let (count, rows, cols) = match name {
                    "gate" | "up" => (count, inner, cols),
                    "gate_up" => (2 * count, inner, cols),
                    "down" => (count, cols, inner),
                    "gate.scale" | "up.scale" | "down.scale" => {
                        return net.matrix(name, 1, &normal(SEED, name, count));
                    }
                    "down.bias" => return net.matrix(name, count, &normal(SEED, name, count * cols)),
                    _ => return net.matrix(name, count, &normal(SEED, name, count * inner)),
                };
                let deviation = 1.0 / (cols as f32).sqrt();
                let bytes = crate::random_matrix(
                    format,
                    count * rows * cols,
                    deviation,
                    SEED + (rows + name.len()) as u64,
                );
                net.weights(name, format, [count, rows, cols], bytes)
            });
            if scales_routes {
                y = net.graph.add("sum", y, residual);
            }
            y
        },
    );
}
