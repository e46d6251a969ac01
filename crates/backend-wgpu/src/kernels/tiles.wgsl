{#- Products of many rows of activations with one to three weights, by the device's matrix units.

A workgroup computes `tile` rows and as many outputs (with `glu` half as many of both weights). 64 inputs at a time
go to workgroup memory as f16, while the next ones are on their way; a subgroup multiplies 32 outputs with `width`
rows in squares of `size`. Activations come from `f16_rows.wgsl` as f16 with a scale for each row; sums are f32.
Weights have to be numbers of f16, and their rows multiples of 64. Other options are those of `linear.wgsl`.

`vectors`: workgroup memory is read by vectors; Metal wants single numbers. -#}
{%- from "formats.wgsl" import shared, chunk, f16_shared, f16_chunk -%}
{%- from "parts.wgsl" import activation, products -%}
enable f16;
enable wgpu_cooperative_matrix;
{{ products() }}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
{%- for part in parts %}
@group(0) @binding({{ 5 + loop.index0 }}) var<storage, read> w{{ loop.index0 }}: array<vec4<u32>>;
{%- endfor %}
{%- if rest %}
@group(0) @binding({{ 5 + parts | length }}) var<storage, read> r: array<f32>;
{%- endif %}
{{ shared() }}
{{ f16_shared() }}
{%- if glu %}{{ activation(act) }}{% endif %}
{%- for part in parts %}{{ chunk("w" ~ loop.index0, part) }}{{ f16_chunk("w" ~ loop.index0, part) }}{% endfor %}

{%- set threads = 2 * tile %}
{%- set subgroups = threads // 32 %}
{%- set width = tile * tile // 32 // subgroups %}
{%- set across = tile // 32 %}
{%- set step = 1 if vectors else 4 %}
{%- set stride = 18 * step %}
{%- set square = size * size %}
{%- set high = 32 // size %}
{%- set wide = width // size %}
{%- set loads = 16 * tile // threads %}
{%- set number = "vec4<f16>" if vectors else "f16" %}

// [output or row][64 inputs and room against bank conflicts]
var<workgroup> ws: array<{{ number }}, {{ tile * stride }}>;
var<workgroup> xs: array<{{ number }}, {{ tile * stride }}>;
var<workgroup> results: array<f32, {{ subgroups * square }}>;

{%- macro put(array, at, value) %}
    {%- if vectors %}
            {{ array }}[{{ at }}] = {{ value }};
    {%- else %}
            {
                let four = {{ value }};
                let place = 4u * ({{ at }});
                {{ array }}[place] = four.x;
                {{ array }}[place + 1u] = four.y;
                {{ array }}[place + 2u] = four.z;
                {{ array }}[place + 3u] = four.w;
            }
    {%- endif %}
{%- endmacro %}

@compute @workgroup_size({{ threads }})
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let rows = step[params.x.w];
    let first_row = id.z * {{ tile }}u;
    var tile = id.y * ids.x + id.x;
    var part = 0u;
    {%- set of_tile = tile // 2 if glu else tile %}
    {%- if not glu %}
    {%- for p in range(parts | length - 1) %}
    let tiles{{ p }} = (params.outputs[{{ p }}] + {{ of_tile - 1 }}u) / {{ of_tile }}u;
    if part == {{ p }}u && tile >= tiles{{ p }} {
        part = {{ p + 1 }}u;
        tile -= tiles{{ p }};
    }
    {%- endfor %}
    {%- endif %}
    let first = tile * {{ of_tile }}u;
    let outputs = params.outputs[part];
    let chunks = params.w0.x;

    // What this thread brings: a chunk of one output, and vectors of rows.
    let own = thread / 2u;
    let own_chunk = thread % 2u;
    {%- if glu %}
    let own_output = min(first + own / 32u * 16u + own % 16u, outputs - 1u);
    let is_up = own % 32u >= 16u;
    {%- else %}
    let own_output = min(first + own, outputs - 1u);
    {%- endif %}
    let x_vector = thread % 16u;
    {%- for i in range(loads) %}
    let x_at{{ i }} = min(first_row + thread / 16u + {{ i * threads // 16 }}u, max(rows, 1u) - 1u) * params.x.y + x_vector;
    {%- endfor %}

    let up_down = subgroup % {{ across }}u * 32u;
    let left_right = subgroup / {{ across }}u * {{ width }}u;
    {%- for m in range(high) %}{% for n in range(wide) %}
    var sum{{ m }}_{{ n }} = coop_mat{{ size }}x{{ size }}<f32, C>();
    {%- endfor %}{% endfor %}
    for (var chunk = 0u; chunk < chunks; chunk += 2u) {
        {%- for j in range(8) %}
        var four{{ j }}: vec4<f16>;
        {%- endfor %}
        {%- for part in parts %}
        {%- set p = loop.index0 %}
        {% if glu %}if is_up == {{ "true" if p else "false" }} {% elif parts | length > 1 %}if part == {{ p }}u {% endif %}{
            let packed = w{{ p }}_load(own_output, chunk + own_chunk);
            {%- for j in range(8) %}
            four{{ j }} = w{{ p }}_f16_{{ j }}(packed);
            {%- endfor %}
        }
        {%- endfor %}
        {%- for i in range(loads) %}
        let x{{ i }} = x[x_at{{ i }} + 8u * chunk];
        {%- endfor %}
        workgroupBarrier();
        {%- for j in range(8) %}
        {{ put("ws", "own * 18u + 8u * own_chunk + " ~ j ~ "u", "four" ~ j) }}
        {%- endfor %}
        {%- for i in range(loads) %}
        {{ put("xs", "(thread / 16u + " ~ (i * threads // 16) ~ "u) * 18u + x_vector", "x" ~ i) }}
        {%- endfor %}
        workgroupBarrier();
        {%- for k in range(64 // size) %}
        {
            {%- set at = k * size * step // 4 %}
            {%- for m in range(high) %}
            let a{{ m }} = coopLoadT<coop_mat{{ size }}x{{ size }}<f16, A>>(&ws[(up_down + {{ m * size }}u) * {{ stride }}u + {{ at }}u], {{ stride }}u);
            {%- endfor %}
            {%- for n in range(wide) %}
            let b{{ n }} = coopLoad<coop_mat{{ size }}x{{ size }}<f16, B>>(&xs[(left_right + {{ n * size }}u) * {{ stride }}u + {{ at }}u], {{ stride }}u);
            {%- endfor %}
            {%- for m in range(high) %}{% for n in range(wide) %}
            sum{{ m }}_{{ n }} = coopMultiplyAdd(a{{ m }}, b{{ n }}, sum{{ m }}_{{ n }});
            {%- endfor %}{% endfor %}
        }
        {%- endfor %}
    }

    let base = subgroup * {{ square }}u;
    {%- for n in range(wide) %}
    {%- for m in range(high // 2 if glu else high) %}
    {
        {%- set each = square // 32 %}
        {%- if glu %}
        workgroupBarrier();
        coopStore(sum{{ m }}_{{ n }}, &results[base], {{ size }}u);
        workgroupBarrier();
        {%- for i in range(each) %}
        let gate{{ i }} = results[base + lane + {{ 32 * i }}u];
        {%- endfor %}
        {%- endif %}
        workgroupBarrier();
        coopStore(sum{{ m + (high // 2 if glu else 0) }}_{{ n }}, &results[base], {{ size }}u);
        workgroupBarrier();
        let output = first + up_down{{ " / 2u" if glu else "" }} + {{ m * size }}u + lane % {{ size }}u;
        {%- for i in range(each) %}
        {
            let row = first_row + left_right + {{ n * size }}u + (lane + {{ 32 * i }}u) / {{ size }}u;
            if row < rows && output < outputs {
                let scale = scales[row];
                var number = results[base + lane + {{ 32 * i }}u] * scale;
                {%- if glu %}
                let gate = gate{{ i }} * scale;
                number *= activation(gate);
                {%- endif %}
                let col = params.y[part] + output;
                {%- if rest %}
                number += r[params.r.x + row * params.r.y + col - params.y.x];
                {%- endif %}
                y[row * params.y.w + col] = number;
            }
        }
        {%- endfor %}
    }
    {%- endfor %}
    {%- endfor %}
}
