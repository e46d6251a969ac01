{#- Rows of activations for `tiles.wgsl`: as f16, each row times the power of two that brings its largest number near
2^13, so that nothing overflows and what is small beside it is all that is lost. The middle two of four
change places, as weights do (`formats.wgsl`). `norm`: rows are divided by their
root mean square and multiplied by `g` before. A workgroup a row; `scales` are what products are multiplied by. -#}
enable f16;
struct Params {
    // Where rows begin and their stride, in vectors; vectors of a row; epsilon.
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
var<workgroup> largest: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let at = params.x.x + id.z * params.x.y;
    var sum = 0.0;
    var most = vec4<f32>(0.0);
    for (var i = thread; i < params.vectors; i += THREADS) {
        var number = x[at + i];
        {%- if norm %}
        sum += dot(number, number);
        number *= g[i];
        {%- endif %}
        most = max(most, abs(number));
    }
    squares[thread] = sum;
    largest[thread] = max(max(most.x, most.y), max(most.z, most.w));
    workgroupBarrier();
    for (var width = THREADS / 2u; width > 0u; width /= 2u) {
        if thread < width {
            squares[thread] += squares[thread + width];
            largest[thread] = max(largest[thread], largest[thread + width]);
        }
        workgroupBarrier();
    }
    {%- if norm %}
    let divisor = 1.0 / sqrt(squares[0] / f32(4u * params.vectors) + params.eps);
    {%- else %}
    let divisor = 1.0;
    {%- endif %}
    // 2^13 over the power of two in the largest number; both powers are numbers themselves.
    let exponent = clamp((bitcast<u32>(largest[0] * divisor) >> 23u) & 255u, 16u, 253u);
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
