{%- from "common.wgsl" import activation, gated, softcap -%}
{#- Element-wise and row-wise operations. A workgroup computes `cols` columns of a row.

- `rms_norm`: `y = a / sqrt(mean(a^2) + eps)` over the `cols` columns of the workgroup.
- `layer_norm`: the same of `a - mean(a)`.
- `l2_norm`: `y = a / sqrt(sum(a^2) + eps)`.
- `weighted_rms_norm`, `weighted_layer_norm`, `weighted_l2_norm`: the same times `b`, whose columns repeat.
- `add`: `y = a + b`; a stride of 0 adds one row to all.
- `mul`: `y = a * b`; the columns of `b` repeat.
- `gate`: `y = glu(a, b)`.
- `gate_of_row`: the same with `a` of one column.
- `act`: `y = act(a)`.
- `scale`: `y = factor * a`.
- `scale_rows`: `y = factor * a` with a factor per row; `b` is their offset in `step`.
- `softcap`: `y = cap * tanh(a / cap)`.
- `slice`: some columns of each head of `a`.
- `join`: each head of `a` followed by a head of `b`; the columns of `b` repeat.
- `output_rows`: gathers the output rows of `a`; `b` is the offset of their indices in `step`.
- `first_of_sequence`, `mean_of_sequence`: the first row of the output row's sequence, or the mean of its rows; `b` is the
  offset in `step` of their first row and number. -#}
struct Params {
    // Offsets and strides.
    a: vec2<u32>,
    b: vec2<u32>,
    y: vec2<u32>,
    // Columns of a workgroup, and of `y`.
    cols: u32,
    y_cols: u32,
    // Epsilon, factor, cap or limit.
    scalar: f32,
    // Columns of `b`.
    b_cols: u32,
    // `slice`: columns of a head of `a` and of `y`, first column. `join`: columns of a head of `a` and of `b`.
    head: vec3<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> a: array<f32>;
{%- if reads_b %}
@group(0) @binding(4) var<storage, read> b: array<f32>;
{%- endif %}

{%- if operation == "act" %}{{ activation(act) }}{% endif %}
{%- if operation in ["gate", "gate_of_row"] %}{{ gated(act, limited) }}{% endif %}
{%- if operation == "softcap" %}{{ softcap() }}{% endif %}

const THREADS = 128u;
{%- set is_norm = operation is endingwith "norm" %}
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
    let first = (id.y * ids.x + id.x) * params.cols;
    let end = min(first + params.cols, params.y_cols);
    {%- if operation == "output_rows" %}
    let from_row = step[params.b.x + row];
    {%- elif operation is endingwith "sequence" %}
    let from_row = step[params.b.x + 2u * row];
    {%- else %}
    let from_row = row;
    {%- endif %}
    let a_at = params.a.x + from_row * params.a.y;
    let b_at = params.b.x + row * params.b.y;
    let y_at = params.y.x + row * params.y.y;
    {%- if is_norm %}
    {%- if operation is endingwith "layer_norm" %}
    var sum = 0.0;
    for (var i = first + thread; i < end; i += THREADS) {
        sum += a[a_at + i];
    }
    let center = mean(thread, sum);
    {%- else %}
    let center = 0.0;
    {%- endif %}
    var squares = 0.0;
    for (var i = first + thread; i < end; i += THREADS) {
        let difference = a[a_at + i] - center;
        squares += difference * difference;
    }
    {%- if operation is endingwith "l2_norm" %}
    let scale = 1.0 / sqrt(mean(thread, squares) * f32(params.cols) + params.scalar);
    {%- else %}
    let scale = 1.0 / sqrt(mean(thread, squares) + params.scalar);
    {%- endif %}
    {%- elif operation == "scale_rows" %}
    let factor = bitcast<f32>(step[params.b.x + row]);
    {%- endif %}
    for (var i = first + thread; i < end; i += THREADS) {
        {%- if is_norm and reads_b %}
        y[y_at + i] = (a[a_at + i] - center) * scale * b[b_at + i % params.b_cols];
        {%- elif is_norm %}
        y[y_at + i] = (a[a_at + i] - center) * scale;
        {%- elif operation == "add" %}
        y[y_at + i] = a[a_at + i] + b[b_at + i];
        {%- elif operation == "mul" %}
        y[y_at + i] = a[a_at + i] * b[b_at + i % params.b_cols];
        {%- elif operation == "gate" %}
        y[y_at + i] = glu(a[a_at + i], b[b_at + i], params.scalar);
        {%- elif operation == "gate_of_row" %}
        y[y_at + i] = glu(a[a_at], b[b_at + i], params.scalar);
        {%- elif operation == "act" %}
        y[y_at + i] = activation(a[a_at + i]);
        {%- elif operation == "scale" %}
        y[y_at + i] = params.scalar * a[a_at + i];
        {%- elif operation == "scale_rows" %}
        y[y_at + i] = factor * a[a_at + i];
        {%- elif operation == "softcap" %}
        y[y_at + i] = softcap(vec4<f32>(a[a_at + i]), params.scalar).x;
        {%- elif operation == "slice" %}
        y[y_at + i] = a[a_at + i / params.head.y * params.head.x + params.head.z + i % params.head.y];
        {%- elif operation == "join" %}
        let width = params.head.x + params.head.y;
        let head = i / width;
        let col = i % width;
        if col < params.head.x {
            y[y_at + i] = a[a_at + head * params.head.x + col];
        } else {
            y[y_at + i] = b[b_at + head * params.head.y % params.b_cols + col - params.head.x];
        }
        {%- elif operation in ["output_rows", "first_of_sequence"] %}
        y[y_at + i] = a[a_at + i];
        {%- elif operation == "mean_of_sequence" %}
        let count = step[params.b.x + 2u * row + 1u];
        var sum = 0.0;
        for (var r = 0u; r < count; r++) {
            sum += a[a_at + r * params.a.y + i];
        }
        y[y_at + i] = sum / f32(count);
        {%- else %}
        there is no operation {{ operation }}
        {%- endif %}
    }
}
