{#- GEMV: up to `columns` activation rows with one to three weights.

A group of `lanes` threads computes `outputs` adjacent outputs; each thread takes every `lanes`-th chunk of the input.
Activations are staged in workgroup memory, because adjacent threads would load them 128 bytes apart. Weights and
activations of the next iteration are loaded while the current one is computed. Each weight is read once.

- `norm`: RMS norm with the weight `g`; the sum of squares is accumulated beside the dot products.
- `glu`: a gated linear unit of the first weight's outputs and the second's; otherwise, the outputs' activation `act`, if any.
- `addend`: adds `r`, a residual or, with stride 0, a bias.
- `subgroups`: a group is a subgroup and reduces with `subgroupAdd`; otherwise in workgroup memory.
- `experts`: a weight holds a matrix per expert, and a row uses those that `chosen` lists (`route.wgsl`), one row at a
  time. `in`: each workgroup takes one of the row's experts; its outputs, multiplied by the routing weight and padded
  with zeros to whole chunks, form a row of `y` per expert. `out`: reads these rows and sums over the experts.
- `weighs_inputs`: with `in`, the routing weight multiplies the input instead.
- `biases`: with `in`, of all experts' gates, then of all ups; with `out`, of all experts, weighted as their outputs.
- `scales`: with `in`, factors of each expert's gate, up and output follow the biases.
- `heads`: a weight holds a matrix per head, which multiplies the head's columns of `x`.
- `scalars`: heads do not start at a multiple of four columns. -#}
{%- from "formats.wgsl" import shared, chunk -%}
{%- from "common.wgsl" import activation, activations, expert_products, gated, matmul_params -%}
{{ matmul_params() }}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<{{ "f32" if scalars else "vec4<f32>" }}>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
{%- for part in parts %}
@group(0) @binding({{ 4 + loop.index0 }}) var<storage, read> w{{ loop.index0 }}: array<vec4<u32>>;
{%- endfor %}
{%- if norm %}
@group(0) @binding({{ 4 + parts | length }}) var<storage, read> g: array<vec4<f32>>;
{%- endif %}
{%- if addend %}
@group(0) @binding({{ 4 + parts | length + (1 if norm else 0) }}) var<storage, read> r: array<f32>;
{%- endif %}
{%- if experts %}
{%- set binding = 4 + parts | length + (1 if norm else 0) + (1 if addend else 0) %}
@group(0) @binding({{ binding }}) var<storage, read> chosen: array<u32>;
{%- if biases or scales %}
@group(0) @binding({{ binding + 1 }}) var<storage, read> biases: array<f32>;
{%- endif %}
{%- endif %}
{{ shared() }}
{%- for part in parts %}{{ chunk("w" ~ loop.index0, part) }}{% endfor %}
{{ activations(ragged, norm, heads, scalars) }}
{%- if glu %}{{ gated(act, limited) }}{% elif act %}{{ activation(act) }}{% endif %}
{%- if experts %}
{#- `params.w2`: maximum experts per row; padded rows of a matrix; first expert and number of experts in this shard. With
`in`, `params.outputs.zw`: matrices per expert of a weight, and which of them is the up projection; `params.r.y`: offset of
the biases of ups; `params.y.yz`: offset of the scales, and experts. With `heads`, `params.w2.x`: heads in this shard. -#}
/// Index within the shard of the row's expert `slot`; `params.w2.w` if it is in another shard.
fn expert_of(row: u32, slot: u32) -> u32 {
    let expert = chosen[row * (1u + 2u * params.w2.x) + 1u + 2u * slot];
    return min(expert - params.w2.z, params.w2.w);
}
{%- endif %}

{#- Loads a chunk of output `o` of weight `w`. -#}
{%- macro load(w, o, chunk, up="") -%}
    {%- if experts == "in" -%} {{ w }}_load((expert * params.outputs.z{{ up }}) * outputs + output{{ o }}, {{ chunk }})
    {%- elif heads -%} {{ w }}_load(head * outputs + output{{ o }}, {{ chunk }})
    {%- elif experts == "out" -%} {{ w }}_load(own_expert * outputs + output{{ o }}, own_chunk)
    {%- else -%} {{ w }}_load(output{{ o }}, {{ chunk }})
    {%- endif -%}
{%- endmacro %}
{#- Splits a chunk index into expert and chunk of that expert. -#}
{%- macro find_expert(chunk) %}
    {%- if experts == "out" %}
            found = expert_of(first_row, {{ chunk }} / of_expert);
            let own_expert = min(found, params.w2.w - 1u);
            let own_chunk = {{ chunk }} % of_expert;
    {%- endif %}
{%- endmacro %}
{%- set sums = outputs * (2 if glu else 1) %}
{%- set of_row = lanes * 8 %}
{%- set loads = columns * of_row // threads %}
const LANES = {{ lanes }}u;
const GROUPS = {{ threads // lanes }}u;

// Double buffer: for each row its chunks, eight vectors each, padded by one against bank conflicts.
var<workgroup> xs: array<vec4<f32>, {{ 2 * columns * lanes * 9 }}>;
{%- if not subgroups %}
var<workgroup> partial: array<f32, {{ columns * sums * threads }}>;
{%- endif %}
{%- if norm %}
var<workgroup> squares: array<f32, {{ threads // lanes if subgroups else columns * of_row }}>;
{%- endif %}

{#- Loads this thread's activations of the iteration at `base`; zeros past the last chunk. -#}
{%- macro fetch(base) %}
        {%- for i in range(loads) %}
        {
            let index = thread + {{ i * threads }}u;
            let chunk = {{ base }} + index % {{ of_row }}u / 8u;
            fetched{{ i }} = vec4<f32>(0.0);
            if chunk < chunks {
                {%- if columns > 1 %}
                let row = min(first_row + index / {{ of_row }}u, max(rows, 1u) - 1u);
                {%- else %}
                let row = first_row;
                {%- endif %}
                fetched{{ i }} = x_four(row, chunk, index % 8u);
                {%- if norm %}
                square{{ i }} += dot(fetched{{ i }}, fetched{{ i }});
                fetched{{ i }} *= g_four(chunk, index % 8u);
                {%- endif %}
            }
        }
        {%- endfor %}
{%- endmacro %}

{%- macro stage(half) %}
        {%- for i in range(loads) %}
        {
            let index = thread + {{ i * threads }}u;
            xs[{{ half }} + index / 8u * 9u + index % 8u] = fetched{{ i }};
        }
        {%- endfor %}
{%- endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    {%- if subgroups %}
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_id) own_group: u32,
    {%- endif %}
) {
    {%- if not subgroups %}
    let lane = thread % LANES;
    let own_group = thread / LANES;
    {%- endif %}
    let first_row = id.z * {{ columns }}u;
    {%- if columns > 1 %}
    let rows = step[params.x.w];
    {%- endif %}
    var tile = id.y * ids.x + id.x;
    var part = 0u;
    {%- if experts == "in" %}
    let slot = tile % params.w2.x;
    tile /= params.w2.x;
    if slot >= chosen[first_row * (1u + 2u * params.w2.x)] {
        return;
    }
    let expert = expert_of(first_row, slot);
    if expert >= params.w2.w {
        return;
    }
    let routing_weight = bitcast<f32>(chosen[first_row * (1u + 2u * params.w2.x) + 2u + 2u * slot]);
    {%- elif experts == "out" %}
    let of_expert = params.w0.x;
    var found = 0u;
    {%- elif heads %}
    let head = tile % params.w2.x;
    tile /= params.w2.x;
    head_at = head * {{ "params.x.z" if scalars else "(params.x.z / 4u)" }};
    {%- endif %}
    {%- if not glu %}
    {%- for p in range(parts | length - 1) %}
    let tiles{{ p }} = (params.outputs[{{ p }}] + GROUPS * {{ outputs }}u - 1u) / (GROUPS * {{ outputs }}u);
    if part == {{ p }}u && tile >= tiles{{ p }} {
        part = {{ p + 1 }}u;
        tile -= tiles{{ p }};
    }
    {%- endfor %}
    {%- endif %}
    let first = (tile * GROUPS + own_group) * {{ outputs }}u;
    let outputs = params.outputs[part];
    {%- if experts == "out" %}
    let chunks = chosen[first_row * (1u + 2u * params.w2.x)] * of_expert;
    {%- else %}
    let chunks = params.w0.x;
    {%- endif %}
    {%- for o in range(outputs) %}
    let output{{ o }} = min(first + {{ o }}u, outputs - 1u);
    {%- endfor %}
    {%- for i in range(loads) %}
    var fetched{{ i }}: vec4<f32>;
    {%- if norm %}
    var square{{ i }} = 0.0;
    {%- endif %}
    {%- endfor %}
    {%- for c in range(columns) %}{% for o in range(sums) %}
    var sum{{ o }}_{{ c }} = 0.0;
    {%- endfor %}{% endfor %}

    {%- if addend and subgroups %}
    // Loaded early to hide the latency.
    let addend = r[params.r.x + first_row * params.r.y + params.y[part] + min(first + lane, outputs - 1u) - params.y.x];
    {%- endif %}
    {%- for part in (parts[:1] if glu else parts) %}
    {%- set p = loop.index0 %}
    {% if parts | length > 1 and not glu %}if part == {{ p }}u {% endif %}{
        {%- set begin = "min(lane, max(chunks, 1u) - 1u)" if experts else "min(lane, chunks - 1u)" %}
        {{- find_expert(begin) }}
        {%- for o in range(outputs) %}
        var weights{{ o }} = {{ load("w" ~ p, o, begin) }};
        {%- if glu %}
        var weights{{ outputs + o }} = {{ load("w1", o, begin, " + params.outputs.w") }};
        {%- endif %}
        {%- endfor %}
        {{ fetch("0u") | indent(4) }}
        {{ stage("0u") | indent(4) }}
        var half = 0u;
        for (var base = 0u; base < chunks; base += LANES) {
            workgroupBarrier();
            let next = base + LANES;
            {%- for o in range(sums) %}
            let now{{ o }} = weights{{ o }};
            {%- endfor %}
            {%- if experts == "out" %}
            let is_here = found < params.w2.w;
            {%- endif %}
            if next < chunks {
                {{ fetch("next") | indent(4) }}
                {{- find_expert("min(next + lane, chunks - 1u)") }}
                {%- for o in range(outputs) %}
                weights{{ o }} = {{ load("w" ~ p, o, "min(next + lane, chunks - 1u)") }};
                {%- if glu %}
                weights{{ outputs + o }} = {{ load("w1", o, "min(next + lane, chunks - 1u)", " + params.outputs.w") }};
                {%- endif %}
                {%- endfor %}
            }
            if base + lane < chunks{{ " && is_here" if experts == "out" }} {
                {%- for c in range(columns) %}
                {
                    let at = half + ({{ c }}u * LANES + lane) * 9u;
                    {%- for j in range(8) %}
                    let x{{ j }} = xs[at + {{ j }}u];
                    {%- endfor %}
                    let low = (x0 + x1) + (x2 + x3);
                    let high = (x4 + x5) + (x6 + x7);
                    let sums = vec2<f32>((low.x + low.y) + (low.z + low.w), (high.x + high.y) + (high.z + high.w));
                    {%- for o in range(sums) %}
                    sum{{ o }}_{{ c }} += w{{ 1 if glu and o >= outputs else p }}_dot(now{{ o }}, x0, x1, x2, x3, x4, x5, x6, x7, sums);
                    {%- endfor %}
                }
                {%- endfor %}
            }
            half = {{ columns * lanes * 9 }}u - half;
            {{ stage("half") | indent(4) }}
        }
    }
    {%- endfor %}

    {%- if norm and subgroups %}
    let own_squares = subgroupAdd({% for i in range(loads) %}{{ " + " if i }}square{{ i }}{% endfor %});
    if lane == 0u {
        squares[own_group] = own_squares;
    }
    workgroupBarrier();
    {%- elif norm %}
    {%- for i in range(loads) %}
    squares[thread + {{ i * threads }}u] = square{{ i }};
    {%- endfor %}
    workgroupBarrier();
    for (var width = {{ of_row // 2 }}u; width > 0u; width /= 2u) {
        {%- for i in range(loads) %}
        {
            let index = thread + {{ i * threads }}u;
            if index % {{ of_row }}u < width {
                squares[index] += squares[index + width];
            }
        }
        {%- endfor %}
        workgroupBarrier();
    }
    {%- endif %}
    {%- if subgroups %}
    {%- for o in range(sums) %}
    let total{{ o }} = subgroupAdd(sum{{ o }}_0);
    {%- endfor %}
    {%- else %}
    {%- for c in range(columns) %}{% for o in range(sums) %}
    partial[{{ (c * sums + o) * threads }}u + thread] = sum{{ o }}_{{ c }};
    {%- endfor %}{% endfor %}
    workgroupBarrier();
    for (var width = LANES / 2u; width > 0u; width /= 2u) {
        if lane < width {
            {%- for i in range(columns * sums) %}
            partial[{{ i * threads }}u + thread] += partial[{{ i * threads }}u + thread + width];
            {%- endfor %}
        }
        workgroupBarrier();
    }
    {%- endif %}

    for (var i = lane; i < {{ columns * outputs }}u; i += LANES) {
        let c = i / {{ outputs }}u;
        let o = i % {{ outputs }}u;
        let row = first_row + c;
        if {% if columns > 1 %}row >= rows || {% endif %}first + o >= {{ "params.w2.y" if experts == "in" else "outputs" }} {
            continue;
        }
        {%- if subgroups %}
        var value = total0;
        {%- if glu %}
        var value_up = total{{ outputs }};
        {%- endif %}
        {%- for o in range(1, outputs) %}
        if o == {{ o }}u {
            value = total{{ o }};
            {%- if glu %}
            value_up = total{{ outputs + o }};
            {%- endif %}
        }
        {%- endfor %}
        {%- else %}
        let at = (c * {{ sums }}u + o) * {{ threads }}u + thread - lane;
        var value = partial[at];
        {%- if glu %}
        var value_up = partial[at + {{ outputs * threads }}u];
        {%- endif %}
        {%- endif %}
        {%- if norm %}
        {%- if subgroups %}
        let square = {% for i in range(threads // lanes) %}{{ " + " if i }}squares[{{ i }}]{% endfor %};
        {%- else %}
        let square = squares[c * {{ of_row }}u];
        {%- endif %}
        let scale = 1.0 / sqrt(square / f32(params.x.z) + bitcast<f32>(params.r.z));
        value *= scale;
        {%- if glu %}
        value_up *= scale;
        {%- endif %}
        {%- endif %}
        {%- if experts == "in" %}
        {{- expert_products(glu, weighs_inputs, scales, biases, "first + o") }}
        {%- endif %}
        {%- if glu %}
        value = glu(value, value_up, bitcast<f32>(params.r.w));
        {%- elif act %}
        value = activation(value);
        {%- endif %}
        {%- if scales %}
        value *= biases[scale_at + {{ 2 if glu else 1 }}u * params.y.z];
        {%- endif %}
        let col = params.y[part] + first + o{{ " + head * outputs" if heads }};
        {%- if addend and subgroups %}
        value += addend;
        {%- elif addend %}
        value += r[params.r.x + row * params.r.y + col - params.y.x];
        {%- endif %}
        {%- if experts == "in" %}
        y[(row * params.w2.x + slot) * params.y.w + col] = select(0.0, {{ "value" if weighs_inputs else "routing_weight * value" }}, first + o < outputs);
        {%- elif experts == "out" %}
        {%- if biases %}
        let list = first_row * (1u + 2u * params.w2.x);
        for (var slot = 0u; slot < chosen[list]; slot++) {
            let bias = biases[chosen[list + 1u + 2u * slot] * outputs + first + o];
            value += {{ "bias" if weighs_inputs else "bitcast<f32>(chosen[list + 2u + 2u * slot]) * bias" }};
        }
        {%- endif %}
        // Earlier launches have added the experts of other shards.
        if params.w1.x == 1u {
            value += y[row * params.y.w + col];
        }
        y[row * params.y.w + col] = value;
        {%- else %}
        y[row * params.y.w + col] = value;
        {%- endif %}
    }
}
