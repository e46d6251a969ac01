{%- from "common.wgsl" import activation, softcap -%}
{#- Element-wise and row-wise operations; one workgroup per row.

- `rms_norm`: `y = a / sqrt(mean(a^2) + eps) * b` over groups of `cols` columns, one workgroup each; `b` is one row.
- `layer_norm`: the same of `a - mean(a)`.
- `add`: `y = a + b`; a stride of 0 adds one row to all.
- `gate`: `y = act(a) * b`.
- `act`: `y = act(a)`.
- `scale`: `y = factor * a`.
- `softcap`: `y = cap * tanh(a / cap)`.
- `output_rows`: gathers the output rows of `a`; `b` is the offset of their indices in `step`. -#}
struct Params {
    // Offsets and strides.
    a: vec2<u32>,
    b: vec2<u32>,
    y: vec2<u32>,
    cols: u32,
    // Epsilon, factor or cap.
    scalar: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> a: array<f32>;
{%- if reads_b %}
@group(0) @binding(4) var<storage, read> b: array<f32>;
{%- endif %}

{%- if operation in ["act", "gate"] %}{{ activation(act) }}{% endif %}
{%- if operation == "softcap" %}{{ softcap() }}{% endif %}

const THREADS = 128u;
{%- set is_norm = operation in ["layer_norm", "rms_norm"] %}
{%- if is_norm %}
var<workgroup> partial: array<f32, 128>;

/// The mean over the group of what each thread has summed.
fn mean(thread: u32, sum: f32) -> f32 {
    workgroupBarrier();
    partial[thread] = sum;
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread < width {
            partial[thread] += partial[thread + width];
        }
        workgroupBarrier();
    }
    return partial[0] / f32(params.cols);
}
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
    {%- if is_norm %}
    let group = (id.y * ids.x + id.x) * params.cols;
    {%- else %}
    let group = 0u;
    {%- endif %}
    let a_at = params.a.x + from_row * params.a.y + group;
    let b_at = params.b.x + from_row * params.b.y;
    let y_at = params.y.x + row * params.y.y + group;
    {%- if is_norm %}
    {%- if operation == "layer_norm" %}
    var sum = 0.0;
    for (var i = thread; i < params.cols; i += THREADS) {
        sum += a[a_at + i];
    }
    let center = mean(thread, sum);
    {%- else %}
    let center = 0.0;
    {%- endif %}
    var squares = 0.0;
    for (var i = thread; i < params.cols; i += THREADS) {
        let difference = a[a_at + i] - center;
        squares += difference * difference;
    }
    let scale = 1.0 / sqrt(mean(thread, squares) + params.scalar);
    {%- endif %}
    for (var i = thread; i < params.cols; i += THREADS) {
        let value = a[a_at + i];
        {%- if is_norm %}
        y[y_at + i] = (value - center) * scale * b[b_at + i];
        {%- elif operation == "add" %}
        y[y_at + i] = value + b[b_at + i];
        {%- elif operation == "gate" %}
        y[y_at + i] = activation(value) * b[b_at + i];
        {%- elif operation == "act" %}
        y[y_at + i] = activation(value);
        {%- elif operation == "scale" %}
        y[y_at + i] = params.scalar * value;
        {%- elif operation == "softcap" %}
        y[y_at + i] = softcap(vec4<f32>(value), params.scalar).x;
        {%- elif operation == "output_rows" %}
        y[y_at + i] = value;
        {%- else %}
        there is no operation {{ operation }}
        {%- endif %}
    }
}
