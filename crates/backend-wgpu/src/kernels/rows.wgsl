{%- from "common.wgsl" import activation -%}
{#- Element-wise and row-wise operations; one workgroup per row.

- `rms_norm`: `y = a / sqrt(mean(a^2) + eps) * b` over groups of `cols` columns, one workgroup each; `b` is one row.
- `add`: `y = a + b`; a stride of 0 adds one row to all.
- `gate`: `y = act(a) * b`.
- `scale`: `y = factor * a`.
- `output_rows`: gathers the output rows of `a`; `b` is the offset of their indices in `step`. -#}
struct Params {
    // Offsets and strides.
    a: vec2<u32>,
    b: vec2<u32>,
    y: vec2<u32>,
    cols: u32,
    // Epsilon or factor.
    scalar: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> a: array<f32>;
{%- if reads_b %}
@group(0) @binding(4) var<storage, read> b: array<f32>;
{%- endif %}

{%- if operation == "gate" %}{{ activation(act) }}{% endif %}

const THREADS = 128u;
{%- if operation == "rms_norm" %}
var<workgroup> partial: array<f32, 128>;
{%- endif %}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = id.z;
    {%- if operation == "output_rows" %}
    let from_row = step[params.b.x + row];
    {%- else %}
    let from_row = row;
    {%- endif %}
    {%- if operation == "rms_norm" %}
    let group = (id.y * ids.x + id.x) * params.cols;
    {%- else %}
    let group = 0u;
    {%- endif %}
    let a_at = params.a.x + from_row * params.a.y + group;
    let b_at = params.b.x + from_row * params.b.y;
    let y_at = params.y.x + row * params.y.y + group;
    {%- if operation == "rms_norm" %}
    var squares = 0.0;
    for (var i = thread; i < params.cols; i += THREADS) {
        squares += a[a_at + i] * a[a_at + i];
    }
    partial[thread] = squares;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread < width {
            partial[thread] += partial[thread + width];
        }
        workgroupBarrier();
    }
    let scale = 1.0 / sqrt(partial[0] / f32(params.cols) + params.scalar);
    {%- endif %}
    for (var i = thread; i < params.cols; i += THREADS) {
        let value = a[a_at + i];
        {%- if operation == "rms_norm" %}
        y[y_at + i] = value * scale * b[b_at + i];
        {%- elif operation == "add" %}
        y[y_at + i] = value + b[b_at + i];
        {%- elif operation == "gate" %}
        y[y_at + i] = activation(value) * b[b_at + i];
        {%- elif operation == "scale" %}
        y[y_at + i] = params.scalar * value;
        {%- elif operation == "output_rows" %}
        y[y_at + i] = value;
        {%- else %}
        there is no operation {{ operation }}
        {%- endif %}
    }
}
