{#- Products of up to `columns` rows of activations with one to three weights.

A group of `lanes` threads computes `outputs` neighbouring outputs: each thread takes every `lanes`-th chunk of the
inputs. Activations go through workgroup memory, since neighbours would load them 128 bytes apart; those of the next
round, and its weights, are on their way while a round is computed. Read for each output: its weights, once.

- `norm`: activations are multiplied by `g` and divided by their root mean square, whose sum runs beside the products.
- `glu`: of two weights, silu of the first one's outputs times the second one's.
- `rest`: numbers of `r` are added: a residual, or with a stride of 0 a bias.
- `subgroups`: a group is a subgroup, and adds as one; else in workgroup memory. -#}
{%- from "formats.wgsl" import shared, chunk -%}
{%- from "parts.wgsl" import activations, products -%}
{{ products() }}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
{%- for part in parts %}
@group(0) @binding({{ 4 + loop.index0 }}) var<storage, read> w{{ loop.index0 }}: array<vec4<u32>>;
{%- endfor %}
{%- if norm %}
@group(0) @binding({{ 4 + parts | length }}) var<storage, read> g: array<vec4<f32>>;
{%- endif %}
{%- if rest %}
@group(0) @binding({{ 4 + parts | length + (1 if norm else 0) }}) var<storage, read> r: array<f32>;
{%- endif %}
{{ shared() }}
{%- for part in parts %}{{ chunk("w" ~ loop.index0, part) }}{% endfor %}
{{ activations(ragged, norm) }}
{%- set sums = outputs * (2 if glu else 1) %}
{%- set of_row = lanes * 8 %}
{%- set loads = columns * of_row // threads %}
const LANES = {{ lanes }}u;
const GROUPS = {{ threads // lanes }}u;

// Of two rounds: row by row its chunks, of each eight times four numbers, and one more against bank conflicts.
var<workgroup> xs: array<vec4<f32>, {{ 2 * columns * lanes * 9 }}>;
{%- if not subgroups %}
var<workgroup> partial: array<f32, {{ columns * sums * threads }}>;
{%- endif %}
{%- if norm %}
var<workgroup> squares: array<f32, {{ threads // lanes if subgroups else columns * of_row }}>;
{%- endif %}

{#- This thread's numbers of the round from `base` on: zeros behind the last chunk. -#}
{%- macro fetch(base) %}
        {%- for i in range(loads) %}
        {
            let place = thread + {{ i * threads }}u;
            let chunk = {{ base }} + place % {{ of_row }}u / 8u;
            fetched{{ i }} = vec4<f32>(0.0);
            if chunk < chunks {
                {%- if columns > 1 %}
                let row = min(first_row + place / {{ of_row }}u, max(rows, 1u) - 1u);
                {%- else %}
                let row = first_row;
                {%- endif %}
                fetched{{ i }} = x_four(row, chunk, place % 8u);
                {%- if norm %}
                square{{ i }} += dot(fetched{{ i }}, fetched{{ i }});
                fetched{{ i }} *= g_four(chunk, place % 8u);
                {%- endif %}
            }
        }
        {%- endfor %}
{%- endmacro %}

{%- macro bring(half) %}
        {%- for i in range(loads) %}
        {
            let place = thread + {{ i * threads }}u;
            xs[{{ half }} + place / 8u * 9u + place % 8u] = fetched{{ i }};
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
    let chunks = params.w0.x;
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

    {%- if rest and subgroups %}
    // What is added comes from far, too.
    let rest = r[params.r.x + first_row * params.r.y + params.y[part] + min(first + lane, outputs - 1u) - params.y.x];
    {%- endif %}
    {%- for part in (parts[:1] if glu else parts) %}
    {%- set p = loop.index0 %}
    {% if parts | length > 1 and not glu %}if part == {{ p }}u {% endif %}{
        {%- for o in range(outputs) %}
        var weights{{ o }} = w{{ p }}_load(output{{ o }}, min(lane, chunks - 1u));
        {%- if glu %}
        var weights{{ outputs + o }} = w1_load(output{{ o }}, min(lane, chunks - 1u));
        {%- endif %}
        {%- endfor %}
        {{ fetch("0u") | indent(4) }}
        {{ bring("0u") | indent(4) }}
        var half = 0u;
        for (var base = 0u; base < chunks; base += LANES) {
            workgroupBarrier();
            let next = base + LANES;
            {%- for o in range(sums) %}
            let now{{ o }} = weights{{ o }};
            {%- endfor %}
            if next < chunks {
                {{ fetch("next") | indent(4) }}
                {%- for o in range(outputs) %}
                weights{{ o }} = w{{ p }}_load(output{{ o }}, min(next + lane, chunks - 1u));
                {%- if glu %}
                weights{{ outputs + o }} = w1_load(output{{ o }}, min(next + lane, chunks - 1u));
                {%- endif %}
                {%- endfor %}
            }
            if base + lane < chunks {
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
            {{ bring("half") | indent(4) }}
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
            let place = thread + {{ i * threads }}u;
            if place % {{ of_row }}u < width {
                squares[place] += squares[place + width];
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
        if {% if columns > 1 %}row >= rows || {% endif %}first + o >= outputs {
            continue;
        }
        {%- if subgroups %}
        var number = total0;
        {%- if glu %}
        var number_up = total{{ outputs }};
        {%- endif %}
        {%- for o in range(1, outputs) %}
        if o == {{ o }}u {
            number = total{{ o }};
            {%- if glu %}
            number_up = total{{ outputs + o }};
            {%- endif %}
        }
        {%- endfor %}
        {%- else %}
        let at = (c * {{ sums }}u + o) * {{ threads }}u + thread - lane;
        var number = partial[at];
        {%- if glu %}
        var number_up = partial[at + {{ outputs * threads }}u];
        {%- endif %}
        {%- endif %}
        {%- if norm %}
        {%- if subgroups %}
        let square = {% for i in range(threads // lanes) %}{{ " + " if i }}squares[{{ i }}]{% endfor %};
        {%- else %}
        let square = squares[c * {{ of_row }}u];
        {%- endif %}
        let scale = 1.0 / sqrt(square / f32(params.x.z) + bitcast<f32>(params.r.z));
        number *= scale;
        {%- if glu %}
        number_up *= scale;
        {%- endif %}
        {%- endif %}
        {%- if glu %}
        number = number / (1.0 + exp(-number)) * number_up;
        {%- endif %}
        let col = params.y[part] + first + o;
        {%- if rest and subgroups %}
        number += rest;
        {%- elif rest %}
        number += r[params.r.x + row * params.r.y + col - params.y.x];
        {%- endif %}
        y[row * params.y.w + col] = number;
    }
}
