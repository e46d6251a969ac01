{#- Causal convolution of columns: a thread computes a column of a sequence, row by row. Its state is the last `taps - 1`
inputs, `[taps - 1][cols]`.

- `taps`: columns of the weight.
- `biased`: the last buffer is added. -#}
struct Params {
    // Offsets and strides.
    x: vec2<u32>,
    y: vec2<u32>,
    cols: u32,
    // Offset of the sequences in `step`.
    sequences: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read_write> state: array<f32>;
@group(0) @binding(5) var<storage, read> weight: array<f32>;
{%- if biased %}
@group(0) @binding(6) var<storage, read> bias: array<f32>;
{%- endif %}

{%- set before = taps - 1 %}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let col = (id.y * ids.x + id.x) * 64u + thread;
    if col >= params.cols {
        return;
    }
    // First row, rows, whether there is a state, slots to read and to write, checkpoint and its slot.
    let at = params.sequences + id.z * 8u;
    let first = step[at];
    let rows = step[at + 1u];
    var weights: array<f32, {{ taps }}>;
    for (var j = 0u; j < {{ taps }}u; j++) {
        weights[j] = weight[col * {{ taps }}u + j];
    }
    {%- if before > 0 %}
    let values = {{ before }}u * params.cols;
    var inputs: array<f32, {{ before }}>;
    for (var j = 0u; j < {{ before }}u; j++) {
        inputs[j] = 0.0;
        if step[at + 2u] != 0u {
            inputs[j] = state[step[at + 3u] * values + j * params.cols + col];
        }
    }
    {%- endif %}
    for (var row = 0u; row < rows; row++) {
        let input = x[params.x.x + (first + row) * params.x.y + col];
        {%- if biased %}
        var sum = bias[col];
        {%- else %}
        var sum = 0.0;
        {%- endif %}
        {%- if before > 0 %}
        for (var j = 0u; j < {{ before }}u; j++) {
            sum += weights[j] * inputs[j];
        }
        for (var j = 1u; j < {{ before }}u; j++) {
            inputs[j - 1u] = inputs[j];
        }
        inputs[{{ before - 1 }}] = input;
        {%- endif %}
        y[params.y.x + (first + row) * params.y.y + col] = sum + weights[{{ before }}] * input;
        {%- if before > 0 %}
        if row + 1u == step[at + 5u] {
            for (var j = 0u; j < {{ before }}u; j++) {
                state[step[at + 6u] * values + j * params.cols + col] = inputs[j];
            }
        }
        {%- endif %}
    }
    {%- if before > 0 %}
    for (var j = 0u; j < {{ before }}u; j++) {
        state[step[at + 4u] * values + j * params.cols + col] = inputs[j];
    }
    {%- endif %}
}
