{#- GEMM of activation rows with one to three weights, in f32 without cooperative matrices.

A workgroup computes 32 rows and 64 outputs (with `glu`, 32, from both weights). Both operands are staged in workgroup memory as f32, one chunk at a time;
a thread accumulates 4 rows and 4 outputs. Weights are read once per 32 rows. Options and bindings are those of
`gemv.wgsl`, except that with `experts` the rows of an expert are a tile of `groups.wgsl`. `in` writes, and `out` reads and
writes, a row per row and expert. -#}
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
{%- set binding = 4 + parts | length + (1 if norm else 0) %}
@group(0) @binding({{ binding }}) var<storage, read> groups: array<u32>;
{%- if biases or scales %}
@group(0) @binding({{ binding + 1 }}) var<storage, read> biases: array<f32>;
{%- endif %}
{%- endif %}
{{ shared() }}
{%- for part in parts %}{{ chunk("w" ~ loop.index0, part) }}{% endfor %}
{{ activations(ragged, norm, heads, scalars) }}
{%- if glu %}{{ gated(act, limited) }}{% elif act %}{{ activation(act) }}{% endif %}
{%- set gates = 2 if glu else 1 %}

// [column of the chunk][row or output]
var<workgroup> xs: array<vec4<f32>, 256>;
{%- for gate in range(gates) %}
var<workgroup> ws{{ gate }}: array<vec4<f32>, {{ 512 if not glu else 256 }}>;
{%- endfor %}
{%- if norm %}
var<workgroup> squares: array<f32, 32>;
{%- endif %}

{%- set width = 64 if not glu else 32 %}
@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    {%- if experts %}
    if id.z >= groups[0] {
        return;
    }
    let expert = groups[1u + 3u * id.z] - params.w2.z;
    if expert >= params.w2.w {
        return;
    }
    // Of the tile's rows: the number, and the offset of the first.
    let rows = groups[3u + 3u * id.z];
    let rows_at = params.r.x + 2u * groups[2u + 3u * id.z];
    let first_row = 0u;
    {%- else %}
    let rows = step[params.x.w];
    let first_row = id.z * 32u;
    {%- endif %}
    var tile = id.y * ids.x + id.x;
    var part = 0u;
    {%- if not glu %}
    {%- for p in range(parts | length - 1) %}
    let tiles{{ p }} = (params.outputs[{{ p }}] + {{ width - 1 }}u) / {{ width }}u;
    if part == {{ p }}u && tile >= tiles{{ p }} {
        part = {{ p + 1 }}u;
        tile -= tiles{{ p }};
    }
    {%- endfor %}
    {%- endif %}
    {%- if heads %}
    let head = tile % params.w2.x;
    tile /= params.w2.x;
    head_at = head * {{ "params.x.z" if scalars else "(params.x.z / 4u)" }};
    {%- endif %}
    let first = tile * {{ width }}u;
    let outputs = params.outputs[part];

    // Each thread has 4 rows and 4 outputs; with `glu`, 2 outputs of each weight.
    let row4 = thread % 8u;
    let out4 = thread / 8u;
    {%- for gate in range(gates) %}
    {%- for i in range(4) %}
    var sum{{ gate }}_{{ i }} = vec{{ 4 if not glu else 2 }}<f32>(0.0);
    {%- endfor %}
    {%- endfor %}
    {%- if norm %}
    var square = 0.0;
    {%- endif %}
    for (var chunk = 0u; chunk < params.w0.x; chunk++) {
        if thread < 64u {
            {%- for j in range(8) %}
            var four{{ j }}: vec4<f32>;
            {%- endfor %}
            {%- if glu %}
            let at = min(first + thread % 32u, outputs - 1u);
            let is_up = thread >= 32u;
            {%- else %}
            let at = min(first + thread, outputs - 1u);
            {%- endif %}
            {%- for part in parts %}
            {%- set p = loop.index0 %}
            {% if glu %}if is_up == {{ "true" if p else "false" }} {% elif parts | length > 1 %}if part == {{ p }}u {% endif %}{
                {%- if experts == "in" %}
                let packed = w{{ p }}_load((expert * params.outputs.z{{ " + params.outputs.w" if p }}) * outputs + at, chunk);
                {%- elif experts %}
                let packed = w{{ p }}_load(expert * outputs + at, chunk);
                {%- elif heads %}
                let packed = w{{ p }}_load(head * outputs + at, chunk);
                {%- else %}
                let packed = w{{ p }}_load(at, chunk);
                {%- endif %}
                {%- for j in range(8) %}
                four{{ j }} = w{{ p }}_value{{ j }}(packed);
                {%- endfor %}
            }
            {%- endfor %}
            {%- for j in range(8) %}
            {%- for i in range(4) %}
            {%- if glu %}
            if is_up {
                ws1[{{ (4 * j + i) * 8 }}u + thread % 32u / 4u][thread % 4u] = four{{ j }}[{{ i }}];
            } else {
                ws0[{{ (4 * j + i) * 8 }}u + thread / 4u][thread % 4u] = four{{ j }}[{{ i }}];
            }
            {%- else %}
            ws0[{{ (4 * j + i) * 16 }}u + thread / 4u][thread % 4u] = four{{ j }}[{{ i }}];
            {%- endif %}
            {%- endfor %}
            {%- endfor %}
        } else if thread < 96u {
            let x_row = thread - 64u;
            {%- if experts %}
            let row = groups[rows_at + 2u * min(x_row, rows - 1u)]{{ " / params.w2.x" if experts == "in" }};
            {%- else %}
            let row = min(first_row + x_row, max(rows, 1u) - 1u);
            {%- endif %}
            {%- for j in range(8) %}
            {
                let x_values = x_four(row, chunk, {{ j }}u);
                {%- if norm %}
                square += dot(x_values, x_values);
                let scaled = x_values * g_four(chunk, {{ j }}u);
                {%- else %}
                let scaled = x_values;
                {%- endif %}
                {%- for i in range(4) %}
                xs[{{ (4 * j + i) * 8 }}u + x_row / 4u][x_row % 4u] = scaled[{{ i }}];
                {%- endfor %}
            }
            {%- endfor %}
        }
        workgroupBarrier();
        for (var k = 0u; k < 32u; k++) {
            let a = xs[k * 8u + row4];
            {%- for gate in range(gates) %}
            {%- if glu %}
            let w{{ gate }}_four = ws{{ gate }}[k * 8u + out4 / 2u];
            let b{{ gate }} = select(w{{ gate }}_four.xy, w{{ gate }}_four.zw, out4 % 2u == 1u);
            {%- else %}
            let b{{ gate }} = ws{{ gate }}[k * 16u + out4];
            {%- endif %}
            {%- for i in range(4) %}
            sum{{ gate }}_{{ i }} += a[{{ i }}] * b{{ gate }};
            {%- endfor %}
            {%- endfor %}
        }
        workgroupBarrier();
    }
    {%- if norm %}
    if thread >= 64u && thread < 96u {
        squares[thread - 64u] = 1.0 / sqrt(square / f32(params.x.z) + bitcast<f32>(params.r.z));
    }
    workgroupBarrier();
    {%- endif %}
    {%- set own = 4 if not glu else 2 %}
    {%- for i in range(4) %}
    {
        let row = first_row + 4u * row4 + {{ i }}u;
        {%- if norm %}
        let scale = squares[4u * row4 + {{ i }}u];
        {%- endif %}
        {%- for o in range(own) %}
        {
            let output = first + {{ own }}u * out4 + {{ o }}u;
            if row < rows && output < {{ "params.w2.y" if experts == "in" else "outputs" }} {
                var value = sum0_{{ i }}[{{ o }}]{{ " * scale" if norm else "" }};
                {%- if glu %}
                var value_up = sum1_{{ i }}[{{ o }}]{{ " * scale" if norm else "" }};
                {%- endif %}
                {%- if experts %}
                let to = groups[rows_at + 2u * row];
                let routing_weight = bitcast<f32>(groups[rows_at + 2u * row + 1u]);
                {%- endif %}
                {%- if experts == "in" %}
                {{- expert_products(glu, weighs_inputs, scales, biases, "output") }}
                {%- elif biases %}
                let bias_at = (expert + params.w2.z) * outputs + min(output, outputs - 1u);
                value += {{ "biases[bias_at]" if weighs_inputs else "routing_weight * biases[bias_at]" }};
                {%- endif %}
                {%- if glu %}
                value = glu(value, value_up, bitcast<f32>(params.r.w));
                {%- elif act %}
                value = activation(value);
                {%- endif %}
                {%- if scales %}
                value *= biases[scale_at + {{ 2 if glu else 1 }}u * params.y.z];
                {%- endif %}
                let col = params.y[part] + output{{ " + head * outputs" if heads }};
                {%- if addend %}
                value += r[params.r.x + row * params.r.y + col - params.y.x];
                {%- endif %}
                {%- if experts == "in" %}
                y[to * params.y.w + col] = select(0.0, {{ "value" if weighs_inputs else "routing_weight * value" }}, output < outputs);
                {%- elif experts %}
                y[to * params.y.w + col] = value;
                {%- else %}
                y[row * params.y.w + col] = value;
                {%- endif %}
            }
        }
        {%- endfor %}
    }
    {%- endfor %}
}
