{#- The experts of each row with their routing weights, as a list for `gemv.wgsl`; one workgroup per row. A list holds
a count, then for each expert its index and the bits of its weight. Experts of weight 0 are left out.

- `softmax`: `x` holds logits. Selects the `used` largest, the lower index first among equals. Their weights are the
  softmax over the selected logits, and are also written to `y`, with zeros for the other experts. NaN of either sign
  is the largest; if the largest logit is NaN or infinite, all weights are NaN.
- otherwise `x` holds routing weights, and those that are not 0 are listed in order. -#}
struct Params {
    // Offsets and strides of input and result.
    x: vec2<u32>,
    y: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> chosen: array<u32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
{%- if softmax %}
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
{%- endif %}

const THREADS = 64u;
const EXPERTS = {{ experts }}u;
const USED = {{ used }}u;
{%- if softmax %}
/// The order key of NaN.
const NAN = 0xffffffffu;
{%- endif %}

// With `softmax`, keys in the order of the logits; otherwise 1 for experts to list.
var<workgroup> order: array<u32, {{ experts }}>;
{%- if softmax %}
// By rank.
var<workgroup> ranked: array<f32, {{ used }}>;
var<workgroup> experts: array<u32, {{ used }}>;
{%- endif %}
var<workgroup> n_listed: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    let list = id.z * (1u + 2u * USED);
    if thread == 0u {
        atomicStore(&n_listed, 0u);
    }
    for (var i = thread; i < EXPERTS; i += THREADS) {
        {%- if softmax %}
        let bits = bitcast<u32>(x[at + i]);
        let rising = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
        order[i] = select(rising, NAN, (bits & 0x7fffffffu) > 0x7f800000u);
        {%- else %}
        order[i] = select(0u, 1u, (bitcast<u32>(x[at + i]) & 0x7fffffffu) != 0u);
        {%- endif %}
    }
    workgroupBarrier();
    for (var i = thread; i < EXPERTS; i += THREADS) {
        let own = order[i];
        var rank = 0u;
        for (var j = 0u; j < EXPERTS; j++) {
            {%- if softmax %}
            rank += select(0u, 1u, order[j] > own || order[j] == own && j < i);
            {%- else %}
            rank += select(0u, order[j], j < i);
            {%- endif %}
        }
        {%- if softmax %}
        if rank < USED {
            ranked[rank] = x[at + i];
            experts[rank] = i;
        } else {
            y[params.y.x + id.z * params.y.y + i] = 0.0;
        }
        {%- else %}
        if own == 1u {
            chosen[list + 1u + 2u * rank] = i;
            chosen[list + 2u + 2u * rank] = bitcast<u32>(x[at + i]);
            atomicAdd(&n_listed, 1u);
        }
        {%- endif %}
    }
    {%- if softmax %}
    workgroupBarrier();
    var total = 0.0;
    for (var rank = 0u; rank < USED; rank++) {
        total += exp(ranked[rank] - ranked[0]);
    }
    for (var rank = thread; rank < USED; rank += THREADS) {
        // Tested by bits: a device may assume that NaN and infinity do not occur.
        let bits = bitcast<u32>(ranked[0]);
        let is_broken = (bits & 0x7fffffffu) >= 0x7f800000u;
        let nan = bitcast<f32>(bits | 0x7fc00000u);
        let weight = select(exp(ranked[rank] - ranked[0]) / total, nan, is_broken);
        chosen[list + 1u + 2u * rank] = experts[rank];
        chosen[list + 2u + 2u * rank] = bitcast<u32>(weight);
        y[params.y.x + id.z * params.y.y + experts[rank]] = weight;
        if (bitcast<u32>(weight) & 0x7fffffffu) != 0u {
            // Weights decrease with rank.
            atomicMax(&n_listed, rank + 1u);
        }
    }
    {%- endif %}
    workgroupBarrier();
    if thread == 0u {
        chosen[list] = atomicLoad(&n_listed);
    }
}
