{#- Converts activation rows to f16 for `gemm_coop.wgsl`; one workgroup per row. Each row is scaled by the power of
two that brings its largest magnitude near 2^13, so that nothing overflows and only relatively small values lose bits;
`scales` undo this after the GEMM. The middle two of every four values are swapped, as in the weights
(`formats.wgsl`). `norm`: applies RMS norm with the weight `g` first. -#}
enable f16;
struct Params {
    // Offset and stride in vectors; vectors per row; epsilon.
    x: vec2<u32>,
    vectors: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> scales: array<f32>;
{%- if norm %}
@group(0) @binding(5) var<storage, read> g: array<vec4<f32>>;
{%- endif %}

const THREADS = 256u;
var<workgroup> squares: array<f32, 256>;
var<workgroup> row_max: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    var sum = 0.0;
    var local_max = vec4<f32>(0.0);
    for (var i = thread; i < params.vectors; i += THREADS) {
        var value = x[at + i];
        {%- if norm %}
        sum += dot(value, value);
        value *= g[i];
        {%- endif %}
        local_max = max(local_max, abs(value));
    }
    squares[thread] = sum;
    row_max[thread] = max(max(local_max.x, local_max.y), max(local_max.z, local_max.w));
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread < width {
            squares[thread] += squares[thread + width];
            row_max[thread] = max(row_max[thread], row_max[thread + width]);
        }
        workgroupBarrier();
    }
    {%- if norm %}
    let divisor = 1.0 / sqrt(squares[0] / f32(4u * params.vectors) + params.eps);
    {%- else %}
    let divisor = 1.0;
    {%- endif %}
    // 2^13 divided by the power of two in the largest magnitude, clamped so that the factor and its reciprocal are
    // normal.
    let exponent = clamp((bitcast<u32>(row_max[0] * divisor) >> 23u) & 255u, 16u, 253u);
    let factor = bitcast<f32>((267u - exponent) << 23u);
    for (var i = thread; i < params.vectors; i += THREADS) {
        {%- if norm %}
        y[id.z * params.vectors + i] = vec4<f16>(x[at + i] * g[i] * divisor * factor).xzyw;
        {%- else %}
        y[id.z * params.vectors + i] = vec4<f16>(x[at + i] * factor).xzyw;
        {%- endif %}
    }
    if thread == 0u {
        scales[id.z] = 1.0 / factor;
    }
}
