{#- Products of up to `columns` rows of activations with one to three weights.

A group of `lanes` threads computes `outputs` neighbouring outputs: each thread takes every `lanes`-th chunk of
the inputs, loads it once for all outputs, and the sums are added at the end. Read for each output: its weights, once.

- `norm`: activations are multiplied by `g` and divided by their root mean square, whose sum runs beside the products.
- `glu`: of two weights, silu of the first one's outputs times the second one's.
- `rest`: numbers of `r` are added: a residual, or with a stride of 0 a bias. -#}
{%- from "formats.wgsl" import shared, chunk -%}
{%- from "parts.wgsl" import activations -%}
struct Params {
    w0: vec4<u32>,
    w1: vec4<u32>,
    w2: vec4<u32>,
    // Outputs of each weight.
    outputs: vec4<u32>,
    // Where the numbers of each begin in a row of `y`; the stride of a row.
    y: vec4<u32>,
    // Of `x` where it begins and its stride, in vectors, columns; where `step` says how many rows.
    x: vec4<u32>,
    // Of `r` where it begins and its stride; epsilon.
    r: vec4<u32>,
}

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
{%- set numbers = columns * (sums + (1 if norm else 0)) %}
const LANES = {{ lanes }}u;
const GROUPS = {{ threads // lanes }}u;
const THREADS = {{ threads }}u;

var<workgroup> partial: array<f32, {{ numbers * threads }}>;

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
{%- if subgroups %}
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) num_subgroups: u32,
{%- endif %}
) {
    let lane = thread % LANES;
    let rows = step[params.x.w];
    let first_row = id.z * {{ columns }}u;
    var group = (id.y * ids.x + id.x) * GROUPS + thread / LANES;
    {%- for part in parts %}
    {%- set p = loop.index0 %}
    {%- if not glu or p == 0 %}
    let groups{{ p }} = (params.outputs[{{ p }}] + {{ outputs - 1 }}u) / {{ outputs }}u;
    {%- endif %}
    {%- endfor %}
    {%- for c in range(columns) %}
    let row{{ c }} = min(first_row + {{ c }}u, max(rows, 1u) - 1u);
    {%- if norm %}
    var squares{{ c }} = 0.0;
    {%- endif %}
    {%- for o in range(sums) %}
    var sum{{ o }}_{{ c }} = 0.0;
    {%- endfor %}
    {%- endfor %}
    var part = 0u;
    var first = group * {{ outputs }}u;
    {%- if not glu %}
    {%- for p in range(parts | length - 1) %}
    if part == {{ p }}u && group >= groups{{ p }} {
        part = {{ p + 1 }}u;
        group -= groups{{ p }};
        first = group * {{ outputs }}u;
    }
    {%- endfor %}
    {%- endif %}
    let outputs = params.outputs[part];
    {%- for o in range(outputs) %}
    let output{{ o }} = min(first + {{ o }}u, outputs - 1u);
    {%- endfor %}
    {%- for part in (parts[:1] if glu else parts) %}
    {%- set p = loop.index0 %}
    {% if parts | length > 1 and not glu %}if part == {{ p }}u {% endif %}{
        for (var chunk = lane; chunk < params.w{{ p }}.x; chunk += LANES) {
            {%- for o in range(outputs) %}
            let weights{{ o }} = w{{ p }}_chunk(output{{ o }}, chunk);
            {%- if glu %}
            let weights{{ outputs + o }} = w1_chunk(output{{ o }}, chunk);
            {%- endif %}
            {%- endfor %}
            {%- if norm %}
            let scales = g_chunk(chunk);
            {%- endif %}
            {%- for c in range(columns) %}
            {
                {{ "var" if norm else "let" }} x = x_chunk(row{{ c }}, chunk);
                {%- if norm %}
                squares{{ c }} += dot_chunks(x, x);
                x = times(x, scales);
                {%- endif %}
                {%- for o in range(sums) %}
                sum{{ o }}_{{ c }} += dot_chunks(weights{{ o }}, x);
                {%- endfor %}
            }
            {%- endfor %}
        }
    }
    {%- endfor %}

    // Number `i` of all that are added: sums, then squares.
    {%- set place = namespace(i = 0) %}
    {%- for c in range(columns) %}
    {%- for o in range(sums) %}
    {%- if subgroups %}
    let total{{ place.i }} = subgroupAdd(sum{{ o }}_{{ c }});
    {%- else %}
    partial[{{ place.i }}u * THREADS + thread] = sum{{ o }}_{{ c }};
    {%- endif %}
    {%- set place.i = place.i + 1 %}
    {%- endfor %}
    {%- endfor %}
    {%- if norm %}
    {%- for c in range(columns) %}
    {%- if subgroups %}
    let total{{ place.i }} = subgroupAdd(squares{{ c }});
    {%- else %}
    partial[{{ place.i }}u * THREADS + thread] = squares{{ c }};
    {%- endif %}
    {%- set place.i = place.i + 1 %}
    {%- endfor %}
    {%- endif %}
    {%- if subgroups %}
    if subgroup_lane == 0u {
        {%- for i in range(numbers) %}
        partial[{{ i }}u * THREADS + subgroup] = total{{ i }};
        {%- endfor %}
    }
    workgroupBarrier();
    {%- else %}
    workgroupBarrier();
    for (var width = LANES / 2u; width > 0u; width /= 2u) {
        if lane < width {
            {%- for i in range(numbers) %}
            partial[{{ i }}u * THREADS + thread] += partial[{{ i }}u * THREADS + thread + width];
            {%- endfor %}
        }
        workgroupBarrier();
    }
    {%- endif %}

    for (var i = lane; i < {{ columns * outputs }}u; i += LANES) {
        let c = i / {{ outputs }}u;
        let o = i % {{ outputs }}u;
        let row = first_row + c;
        if row >= rows || first + o >= outputs {
            continue;
        }
        {%- set base = "0u" if subgroups else "thread - lane" %}
        let at = (c * {{ sums }}u + o) * THREADS + {{ base }};
        var number = partial[at];
        {%- if glu %}
        var number_up = partial[at + {{ outputs }}u * THREADS];
        {%- endif %}
        {%- if norm %}
        let squares_at = ({{ columns * sums }}u + c) * THREADS + {{ base }};
        var squares = partial[squares_at];
        {%- endif %}
        {%- if subgroups %}
        for (var s = 1u; s < num_subgroups; s++) {
            number += partial[at + s];
            {%- if glu %}
            number_up += partial[at + {{ outputs }}u * THREADS + s];
            {%- endif %}
            {%- if norm %}
            squares += partial[squares_at + s];
            {%- endif %}
        }
        {%- endif %}
        {%- if norm %}
        let scale = 1.0 / sqrt(squares / f32(params.x.z) + bitcast<f32>(params.r.z));
        number *= scale;
        {%- if glu %}
        number_up *= scale;
        {%- endif %}
        {%- endif %}
        {%- if glu %}
        number = number / (1.0 + exp(-number)) * number_up;
        {%- endif %}
        let col = params.y[part] + first + o;
        {%- if rest %}
        number += r[params.r.x + row * params.r.y + col - params.y.x];
        {%- endif %}
        y[row * params.y.w + col] = number;
    }
}
