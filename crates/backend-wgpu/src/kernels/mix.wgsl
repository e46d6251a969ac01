{#- Sums the outputs of each row's experts, which `gemm.wgsl` has weighted; `addend`: plus a residual. A workgroup
computes 128 columns of a row. -#}
struct Params {
    // Offsets and strides of the result and of the residual.
    y: vec2<u32>,
    r: vec2<u32>,
    cols: u32,
    // Maximum experts per row.
    used: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read> chosen: array<u32>;
{%- if addend %}
@group(0) @binding(5) var<storage, read> r: array<f32>;
{%- endif %}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = id.z;
    let col = (id.y * ids.x + id.x) * 128u + thread;
    if col >= params.cols {
        return;
    }
    let experts = chosen[row * (1u + 2u * params.used)];
    var sum = {{ "r[params.r.x + row * params.r.y + col]" if addend else "0.0" }};
    for (var slot = 0u; slot < experts; slot++) {
        sum += x[(row * params.used + slot) * params.cols + col];
    }
    y[params.y.x + row * params.y.y + col] = sum;
}
