{#- The experts of each row with their routing weights, as a list for `gemv.wgsl`; one workgroup per row. A list holds
a count, then for each expert its index and the bits of its weight. Experts of weight 0 are left out.

- `gating`: `x` holds logits. Selects the `used` experts with the largest weights, the lower index first among equals,
  and writes their weights to `y`, with zeros for the other experts. The weights are `chosen_softmax`, the softmax over
  the selected logits; `softmax`, over all logits; or `sigmoid`. NaN of either sign is the largest; if the largest logit
  is NaN or infinite, all weights are NaN. Without biases the order of the weights is that of the logits.
- `biased`: `bias` is added to the weights for the selection only.
- `groups`: experts are selected among the `used_groups` groups whose two largest weights, biases included, have the
  largest sum.
- `renormalises`: the weights are divided by their sum, at least 2^-14.
- without `gating`, `x` holds routing weights, and those that are not 0 are listed in order. -#}
struct Params {
    // Offsets and strides of input and result.
    x: vec2<u32>,
    y: vec2<u32>,
    // Factor of the weights.
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
{%- if gating %}
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
{%- endif %}
{%- if biased %}
@group(0) @binding(5) var<storage, read> bias: array<f32>;
{%- endif %}

const THREADS = 64u;
const EXPERTS = {{ experts }}u;
const USED = {{ used }}u;

{%- if not gating %}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    let list = id.z * (1u + 2u * USED);
    for (var i = thread; i <= EXPERTS; i += THREADS) {
        var rank = 0u;
        for (var j = 0u; j < i; j++) {
            rank += select(0u, 1u, is_nonzero(x[at + j]));
        }
        if i == EXPERTS {
            chosen[list] = rank;
        } else if is_nonzero(x[at + i]) {
            chosen[list + 1u + 2u * rank] = i;
            chosen[list + 2u + 2u * rank] = bitcast<u32>(x[at + i]);
        }
    }
}
{%- else %}
/// The order keys of NaN, positive and negative infinity. No number has the key 0.
const NAN = 0xffffffffu;
const INFINITY = 0xff800000u;
const NEGATIVE_INFINITY = 0x007fffffu;

// By expert: the key of what the selection is made by; 0 if its group is not used.
var<workgroup> order: array<u32, {{ experts }}>;
// By rank.
var<workgroup> experts: array<u32, {{ used }}>;
var<workgroup> weights: array<f32, {{ used }}>;
var<workgroup> largest: atomic<u32>;
{%- if gating == "softmax" %}
var<workgroup> partial: array<f32, 64>;
{%- endif %}
{%- if groups %}
var<workgroup> groups: array<u32, {{ groups }}>;
{%- endif %}

/// An integer in the order of the numbers. NaN of either sign is the largest, tested by bits: a device may assume that
/// NaN and infinity do not occur.
fn key_of(value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    let rising = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
    return select(rising, NAN, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn number_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

/// The weight of a logit, or its exponential relative to the logit `top`.
fn weight_of(logit: f32, top: f32) -> f32 {
    {%- if gating == "sigmoid" %}
    return 1.0 / (1.0 + exp(-logit));
    {%- else %}
    return exp(logit - top);
    {%- endif %}
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    let y_at = params.y.x + id.z * params.y.y;
    let list = id.z * (1u + 2u * USED);
    if thread == 0u {
        atomicStore(&largest, 0u);
    }
    workgroupBarrier();
    for (var i = thread; i < EXPERTS; i += THREADS) {
        atomicMax(&largest, key_of(x[at + i]));
    }
    workgroupBarrier();
    let key = atomicLoad(&largest);
    let is_broken = key == NAN || key == INFINITY || key == NEGATIVE_INFINITY;
    var top = number_of(key);
    {%- if gating == "softmax" %}
    var own = 0.0;
    for (var i = thread; i < EXPERTS; i += THREADS) {
        own += weight_of(x[at + i], top);
    }
    partial[thread] = own;
    workgroupBarrier();
    var total = 0.0;
    for (var i = 0u; i < THREADS; i++) {
        total += partial[i];
    }
    {%- else %}
    var total = 1.0;
    {%- endif %}
    for (var i = thread; i < EXPERTS; i += THREADS) {
        let logit = x[at + i];
        {%- set is_logit = gating == "chosen_softmax" or not biased and not groups %}
        let weight = {{ "logit" if is_logit else "weight_of(logit, top) / total" }};
        order[i] = select(key_of(weight{{ " + bias[i]" if biased }}), NAN, key_of(logit) == NAN);
    }
    workgroupBarrier();
    {%- if groups %}
    for (var group = thread; group < {{ groups }}u; group += THREADS) {
        var first = 0u;
        var second = 0u;
        for (var i = group * {{ experts // groups }}u; i < (group + 1u) * {{ experts // groups }}u; i++) {
            second = max(second, min(first, order[i]));
            first = max(first, order[i]);
        }
        {%- if experts == groups %}
        groups[group] = first;
        {%- else %}
        groups[group] = select(key_of(number_of(first) + number_of(second)), NAN, first == NAN);
        {%- endif %}
    }
    workgroupBarrier();
    for (var group = thread; group < {{ groups }}u; group += THREADS) {
        var rank = 0u;
        for (var other = 0u; other < {{ groups }}u; other++) {
            rank += select(0u, 1u, groups[other] > groups[group] || groups[other] == groups[group] && other < group);
        }
        if rank >= {{ used_groups }}u {
            for (var i = group * {{ experts // groups }}u; i < (group + 1u) * {{ experts // groups }}u; i++) {
                order[i] = 0u;
            }
        }
    }
    workgroupBarrier();
    {%- endif %}
    for (var i = thread; i < EXPERTS; i += THREADS) {
        let own_key = order[i];
        var rank = 0u;
        for (var j = 0u; j < EXPERTS; j++) {
            rank += select(0u, 1u, order[j] > own_key || order[j] == own_key && j < i);
        }
        if rank < USED {
            experts[rank] = i;
            {%- if gating == "chosen_softmax" %}
            weights[rank] = x[at + i];
            {%- else %}
            weights[rank] = weight_of(x[at + i], top);
            {%- endif %}
        } else {
            y[y_at + i] = 0.0;
        }
    }
    workgroupBarrier();
    {%- if gating == "chosen_softmax" %}
    top = weights[0];
    for (var rank = 1u; rank < USED; rank++) {
        top = max(top, weights[rank]);
    }
    total = 0.0;
    for (var rank = 0u; rank < USED; rank++) {
        total += weight_of(weights[rank], top);
    }
    {%- endif %}
    {%- if renormalises and gating != "chosen_softmax" %}
    var sum = 0.0;
    for (var rank = 0u; rank < USED; rank++) {
        sum += weights[rank];
    }
    total *= max(sum / total, 0.00006103515625);
    {%- endif %}
    let nan = bitcast<f32>(key | 0x7fc00000u);
    workgroupBarrier();
    for (var rank = thread; rank < USED; rank += THREADS) {
        {%- if gating == "chosen_softmax" %}
        let share = weight_of(weights[rank], top) / total;
        {%- else %}
        let share = weights[rank] / total;
        {%- endif %}
        let weight = select(params.scale * share, nan, is_broken);
        weights[rank] = weight;
        y[y_at + experts[rank]] = weight;
    }
    workgroupBarrier();
    for (var rank = thread; rank <= USED; rank += THREADS) {
        var place = 0u;
        for (var other = 0u; other < rank; other++) {
            place += select(0u, 1u, is_nonzero(weights[other]));
        }
        if rank == USED {
            chosen[list] = place;
        } else if is_nonzero(weights[rank]) {
            chosen[list + 1u + 2u * place] = experts[rank];
            chosen[list + 2u + 2u * place] = bitcast<u32>(weights[rank]);
        }
    }
}
{%- endif %}

fn is_nonzero(value: f32) -> bool {
    return (bitcast<u32>(value) & 0x7fffffffu) != 0u;
}
