{#- Which experts a row uses and how much each counts, as a list for `linear.wgsl`: a workgroup a row. A row's list is how
many there are, then of each its number and the bits of how much it counts; those that count 0 are left out.

- `softmax`: of logits, the `used` largest, the lower index of equals first; how much they count is their softmax, which
  is written to `y`, with zeros for the others. NaN is the largest, whatever its sign; where the
  largest is NaN or infinite, all that are chosen count NaN.
- otherwise `x` says how much each expert counts, and those that count are listed as they come. -#}
struct Params {
    // Where rows begin and their stride, and the result's.
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
/// The largest of all, as an integer in the order of logits.
const NAN = 0xffffffffu;
{%- endif %}

// As integers in the order in which experts come.
var<workgroup> order: array<u32, {{ experts }}>;
{%- if softmax %}
// By rank.
var<workgroup> ranked: array<f32, {{ used }}>;
var<workgroup> experts: array<u32, {{ used }}>;
{%- endif %}
var<workgroup> counted: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    let list = id.z * (1u + 2u * USED);
    if thread == 0u {
        atomicStore(&counted, 0u);
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
            atomicAdd(&counted, 1u);
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
        // NaN and infinity by their bits: a device may compute as if there were neither.
        let bits = bitcast<u32>(ranked[0]);
        let is_broken = (bits & 0x7fffffffu) >= 0x7f800000u;
        let nan = bitcast<f32>(bits | 0x7fc00000u);
        let counts = select(exp(ranked[rank] - ranked[0]) / total, nan, is_broken);
        chosen[list + 1u + 2u * rank] = experts[rank];
        chosen[list + 2u + 2u * rank] = bitcast<u32>(counts);
        y[params.y.x + id.z * params.y.y + experts[rank]] = counts;
        if (bitcast<u32>(counts) & 0x7fffffffu) != 0u {
            // Ranks count less and less.
            atomicMax(&counted, rank + 1u);
        }
    }
    {%- endif %}
    workgroupBarrier();
    if thread == 0u {
        chosen[list] = atomicLoad(&counted);
    }
}
