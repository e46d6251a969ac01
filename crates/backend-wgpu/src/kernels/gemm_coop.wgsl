{#- GEMM of activation rows with one to three weights, on cooperative matrices.

A workgroup computes `tile` rows and `tile` outputs (with `glu`, half as many of each weight). 64 input columns at a
time are staged in workgroup memory as f16; the next ones are loaded to registers before the barrier. A subgroup
computes 32 outputs and `width` rows in squares of `size`. Activations come from `f16_rows.wgsl` as f16 with a scale
per row; accumulators are f32. Weight values must be finite in f16, and rows a multiple of 64 long. Other options are
those of `gemv.wgsl`.

`vectors`: matrices are loaded from arrays of vectors; Metal needs scalars. -#}
{%- from "formats.wgsl" import shared, chunk, f16_shared, f16_chunk -%}
{%- from "common.wgsl" import gated, matmul_params -%}
enable f16;
enable wgpu_cooperative_matrix;
{{ matmul_params() }}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
{%- for part in parts %}
@group(0) @binding({{ 5 + loop.index0 }}) var<storage, read> w{{ loop.index0 }}: array<vec4<u32>>;
{%- endfor %}
{%- if addend %}
@group(0) @binding({{ 5 + parts | length }}) var<storage, read> r: array<f32>;
{%- endif %}
{{ shared() }}
{{ f16_shared() }}
{%- if glu %}{{ gated(act, limited) }}{% endif %}
{%- for part in parts %}{{ chunk("w" ~ loop.index0, part) }}{{ f16_chunk("w" ~ loop.index0, part) }}{% endfor %}

{%- set threads = 2 * tile %}
{%- set subgroups = threads // 32 %}
{%- set width = tile * tile // 32 // subgroups %}
{%- set output_subgroups = tile // 32 %}
{%- set step = 1 if vectors else 4 %}
{%- set stride = 18 * step %}
{%- set square = size * size %}
{%- set m_tiles = 32 // size %}
{%- set n_tiles = width // size %}
{%- set loads = 16 * tile // threads %}
{%- set element = "vec4<f16>" if vectors else "f16" %}

// [output or row][64 input columns, padded against bank conflicts]
var<workgroup> ws: array<{{ element }}, {{ tile * stride }}>;
var<workgroup> xs: array<{{ element }}, {{ tile * stride }}>;
var<workgroup> results: array<f32, {{ subgroups * square }}>;

{%- macro store(array, at, value) %}
    {%- if vectors %}
            {{ array }}[{{ at }}] = {{ value }};
    {%- else %}
            {
                let four = {{ value }};
                let index = 4u * ({{ at }});
                {{ array }}[index] = four.x;
                {{ array }}[index + 1u] = four.y;
                {{ array }}[index + 2u] = four.z;
                {{ array }}[index + 3u] = four.w;
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

    // This thread stages one chunk of an output, and some vectors of rows.
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

    let output_offset = subgroup % {{ output_subgroups }}u * 32u;
    let row_offset = subgroup / {{ output_subgroups }}u * {{ width }}u;
    {%- for m in range(m_tiles) %}{% for n in range(n_tiles) %}
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
        {{ store("ws", "own * 18u + 8u * own_chunk + " ~ j ~ "u", "four" ~ j) }}
        {%- endfor %}
        {%- for i in range(loads) %}
        {{ store("xs", "(thread / 16u + " ~ (i * threads // 16) ~ "u) * 18u + x_vector", "x" ~ i) }}
        {%- endfor %}
        workgroupBarrier();
        {%- for k in range(64 // size) %}
        {
            {%- set at = k * size * step // 4 %}
            {%- for m in range(m_tiles) %}
            let a{{ m }} = coopLoadT<coop_mat{{ size }}x{{ size }}<f16, A>>(&ws[(output_offset + {{ m * size }}u) * {{ stride }}u + {{ at }}u], {{ stride }}u);
            {%- endfor %}
            {%- for n in range(n_tiles) %}
            let b{{ n }} = coopLoad<coop_mat{{ size }}x{{ size }}<f16, B>>(&xs[(row_offset + {{ n * size }}u) * {{ stride }}u + {{ at }}u], {{ stride }}u);
            {%- endfor %}
            {%- for m in range(m_tiles) %}{% for n in range(n_tiles) %}
            sum{{ m }}_{{ n }} = coopMultiplyAdd(a{{ m }}, b{{ n }}, sum{{ m }}_{{ n }});
            {%- endfor %}{% endfor %}
        }
        {%- endfor %}
    }

    let base = subgroup * {{ square }}u;
    {%- for n in range(n_tiles) %}
    {%- for m in range(m_tiles // 2 if glu else m_tiles) %}
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
        coopStore(sum{{ m + (m_tiles // 2 if glu else 0) }}_{{ n }}, &results[base], {{ size }}u);
        workgroupBarrier();
        let output = first + output_offset{{ " / 2u" if glu else "" }} + {{ m * size }}u + lane % {{ size }}u;
        {%- for i in range(each) %}
        {
            let row = first_row + row_offset + {{ n * size }}u + (lane + {{ 32 * i }}u) / {{ size }}u;
            if row < rows && output < outputs {
                let scale = scales[row];
                var value = results[base + lane + {{ 32 * i }}u] * scale;
                {%- if glu %}
                value = glu(gate{{ i }} * scale, value, bitcast<f32>(params.r.w));
                {%- endif %}
                let col = params.y[part] + output;
                {%- if addend %}
                value += r[params.r.x + row * params.r.y + col - params.y.x];
                {%- endif %}
                y[row * params.y.w + col] = value;
            }
        }
        {%- endfor %}
    }
    {%- endfor %}
    {%- endfor %}
}
