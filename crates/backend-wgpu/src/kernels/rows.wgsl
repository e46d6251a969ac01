{%- from "parts.wgsl" import activation -%}
{#- Operations on values of a row, a workgroup a row.

- `rms_norm`: `y = a / sqrt(mean(a^2) + eps) * b`, `b` one row; a workgroup for each `cols` columns of a row;
- `add`: `y = a + b`, with a stride of 0 for a row that is added to all;
- `gate`: `y = act(a) * b`;
- `scale`: `y = factor * a`;
- `output_rows`: the rows of `a` that are output rows; `b` begins where `step` names them. -#}
struct Params {
    // Where each begins and its stride.
    a: vec2<u32>,
    b: vec2<u32>,
    y: vec2<u32>,
    cols: u32,
    // Epsilon, or the factor.
    number: f32,
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
    let scale = 1.0 / sqrt(partial[0] / f32(params.cols) + params.number);
    {%- endif %}
    for (var i = thread; i < params.cols; i += THREADS) {
        let number = a[a_at + i];
        {%- if operation == "rms_norm" %}
        y[y_at + i] = number * scale * b[b_at + i];
        {%- elif operation == "add" %}
        y[y_at + i] = number + b[b_at + i];
        {%- elif operation == "gate" %}
        y[y_at + i] = activation(number) * b[b_at + i];
        {%- elif operation == "scale" %}
        y[y_at + i] = params.number * number;
        {%- elif operation == "output_rows" %}
        y[y_at + i] = number;
        {%- else %}
        there is no operation {{ operation }}
        {%- endif %}
    }
}
