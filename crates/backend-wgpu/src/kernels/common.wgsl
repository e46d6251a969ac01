{#- Loads four activations, from 4 * j of a chunk on. `ragged`: the last chunk of a row is partial; its missing values read
as 0. `heads`: of the head at `head_at`. `scalars`: of an array of scalars. -#}
{%- macro activations(ragged, norm, heads, scalars) %}
{%- if ragged %}
fn masked(v: vec4<f32>, col: u32) -> vec4<f32> {
    return select(vec4<f32>(0.0), v, vec4<u32>(col, col + 1u, col + 2u, col + 3u) < vec4<u32>(params.x.z));
}
{%- endif %}
{%- if heads %}
/// Offset of the head within a row of `x`.
var<private> head_at: u32;
{%- endif %}

fn x_four(row: u32, chunk: u32, j: u32) -> vec4<f32> {
    let at = params.x.x + row * params.x.y{{ " + head_at" if heads }};
    {%- if scalars %}
    let col = 32u * chunk + 4u * j;
    let last = params.x.z - 1u;
    let v = vec4<f32>(x[at + min(col, last)], x[at + min(col + 1u, last)], x[at + min(col + 2u, last)], x[at + min(col + 3u, last)]);
    return masked(v, col);
    {%- elif ragged %}
    return masked(x[at + min(8u * chunk + j, (params.x.z - 1u) / 4u)], 32u * chunk + 4u * j);
    {%- else %}
    return x[at + 8u * chunk + j];
    {%- endif %}
}
{% if norm %}
fn g_four(chunk: u32, j: u32) -> vec4<f32> {
    {%- if ragged %}
    return masked(g[min(8u * chunk + j, arrayLength(&g) - 1u)], 32u * chunk + 4u * j);
    {%- else %}
    return g[8u * chunk + j];
    {%- endif %}
}
{% endif %}
{%- endmacro %}

{#- `cap * tanh(x / cap)`. If the power overflows, the result is still the cap. -#}
{%- macro softcap() %}
fn softcap(x: vec4<f32>, cap: f32) -> vec4<f32> {
    return cap - 2.0 * cap / (exp(x * (2.0 / cap)) + 1.0);
}
{% endmacro %}

{#- Activation functions. If an intermediate value overflows, the result is still 0 or x. -#}
{%- macro activation(act) %}
fn activation(x: f32) -> f32 {
    {%- if act == "silu" %}
    return x / (1.0 + exp(-x));
    {%- elif act == "gelu_tanh" %}
    // x / 2 * (1 + tanh(z)) = x / (1 + exp(-2 z)); the constant is 2 sqrt(2 / pi).
    return x / (1.0 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    {%- elif act == "gelu_sigmoid" %}
    return x / (1.0 + exp(-1.702 * x));
    {%- elif act == "sigmoid" %}
    return 1.0 / (1.0 + exp(-x));
    {%- elif act == "softplus" %}
    // ln(1 + exp(x)) without overflow, and without cancellation where exp is small.
    let power = exp(-abs(x));
    return max(x, 0.0) + select(log(1.0 + power), power - 0.5 * power * power, power < 1e-4);
    {%- elif act == "relu" %}
    // A maximum may drop NaN.
    return select(x, 0.0, x < 0.0);
    {%- elif act == "relu_squared" %}
    return select(x * x, 0.0, x < 0.0);
    {%- elif act == "identity" %}
    return x;
    {%- else %}
    there is no activation {{ act }}
    {%- endif %}
}
{% endmacro %}

{#- A gated linear unit; `limited`: gate and up are at most `limit`, up at least `-limit`, and 1 is added to it. NaN stays
NaN. -#}
{%- macro gated(act, limited) %}
{{- activation(act) }}
{%- if limited %}
// Compilers may turn comparisons into a minimum that drops NaN.
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
{% endif %}
fn glu(gate: f32, up: f32, limit: f32) -> f32 {
    {%- if limited %}
    let value = activation(select(min(gate, limit), gate, is_nan(gate)));
    return value * (select(clamp(up, -limit, limit), up, is_nan(up)) + 1.0);
    {%- else %}
    return activation(gate) * up;
    {%- endif %}
}
{% endmacro %}

{#- The products of an expert, `value` and with `glu` also `value_up`, before the activation: by the routing weight if it
weighs inputs, by their factors, plus the biases of `output`. -#}
{%- macro expert_products(glu, weighs_inputs, scales, biases, output) %}
{%- if weighs_inputs %}
value *= routing_weight;
{%- if glu %}
value_up *= routing_weight;
{%- endif %}
{%- endif %}
{%- if scales %}
let scale_at = params.y.y + expert + params.w2.z;
value *= biases[scale_at];
{%- if glu %}
value_up *= biases[scale_at + params.y.z];
{%- endif %}
{%- endif %}
{%- if biases %}
let bias_at = (expert + params.w2.z) * outputs + min({{ output }}, outputs - 1u);
value += biases[bias_at];
{%- if glu %}
value_up += biases[params.r.y + bias_at];
{%- endif %}
{%- endif %}
{%- endmacro %}

{#- One logit per head that only enters the denominator of the softmax. -#}
{%- macro sinks(binding) %}
@group(0) @binding({{ binding }}) var<storage, read> sinks: array<f32>;

/// The sink's weight, relative to a score of `row_max`. A weight of e^80 leaves nothing of the values.
fn sink_weight(head: u32, row_max: f32) -> f32 {
    return exp(min(sinks[head] - row_max, 80.0));
}
{% endmacro %}

{#- RoPE of heads of `x`. `params` has the number of roped columns and the offset of the cos/sin table. -#}
{%- macro rotation(pairing) %}
/// Column `col` of the head at `at`, roped for the position of `row`.
fn roped(at: u32, col: u32, row: u32) -> f32 {
    let value = x[at + col];
    if col >= params.dims {
        return value;
    }
    {%- if pairing == "halves" %}
    let half_dims = params.dims / 2u;
    let is_first = col < half_dims;
    let pair = select(col - half_dims, col, is_first);
    let other = x[at + select(col - half_dims, col + half_dims, is_first)];
    {%- else %}
    let is_first = col % 2u == 0u;
    let pair = col / 2u;
    let other = x[at + select(col - 1u, col + 1u, is_first)];
    {%- endif %}
    let entry = params.cos_sin + 2u * (row * (params.dims / 2u) + pair);
    let cosine = bitcast<f32>(step[entry]);
    let sine = bitcast<f32>(step[entry + 1u]);
    return value * cosine + select(other * sine, -other * sine, is_first);
}
{% endmacro %}

{#- Parameters of all matmul kernels. `gemm_coop.wgsl` reads `x` as vectors of f16. -#}
{%- macro matmul_params() %}
struct Params {
    w0: vec4<u32>,
    w1: vec4<u32>,
    w2: vec4<u32>,
    // Outputs per weight.
    outputs: vec4<u32>,
    // Column offset of each weight's outputs in `y`; stride of `y`.
    y: vec4<u32>,
    // `x`: offset and stride in vectors, columns; index of the row count in `step`.
    x: vec4<u32>,
    // `r`: offset, stride; epsilon; limit of a GLU.
    r: vec4<u32>,
}
{% endmacro %}

{#- Parameters of both flash attention kernels, and the tile of a workgroup. -#}
{%- macro flash(x, keys, values) %}
struct Params {
    // Offsets and strides of queries and result.
    q: vec2<u32>,
    y: vec2<u32>,
    // Query heads, K/V heads; softmax scale.
    heads: u32,
    kv_heads: u32,
    scale: f32,
    // Offsets in `step`: positions, block table offsets, pages, and tiles (first row, row count).
    positions: u32,
    tables: u32,
    pages: u32,
    tiles: u32,
    // Offset in `step` of the visible positions; cap of scores.
    visible: u32,
    cap: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<{{ x }}>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> keys: array<{{ keys }}>;
@group(0) @binding(5) var<storage, read> values: array<{{ values }}>;

const LOWEST = -3.4028234e38;
const F32_MAX = 3.4028234e38;
const NEVER = 0xffffffffu;

/// Consecutive rows of a sequence: first row, row count, position of the first row, offset of the block table.
struct Tile {
    row: u32,
    rows: u32,
    position: u32,
    table: u32,
}

fn own_tile(index: u32) -> Tile {
    let row = step[params.tiles + 2u * index];
    let rows = step[params.tiles + 2u * index + 1u];
    return Tile(row, rows, step[params.positions + row], params.pages + step[params.tables + row]);
}
{% endmacro %}

{#- A non-finite value must not reach rows that do not see its position, even with a weight of 0. It is replaced by 0,
and the column becomes NaN for rows that do see it. `nonfinite` holds the first such position of each column or, with
a mask, a bit per row of the tile. -#}
{%- macro nonfinite(columns, masked) %}
var<workgroup> nonfinite: array<atomic<u32>, {{ columns * (2 if masked else 1) }}>;

fn clear_nonfinite(thread: u32) {
    for (var i = thread; i < {{ columns * (2 if masked else 1) }}u; i += 128u) {
        atomicStore(&nonfinite[i], {{ "0u" if masked else "NEVER" }});
    }
}
{%- if masked %}

/// The first position that a row of the tile sees, and the end of these; of rows past the last, those of the last.
fn visible(tile: Tile, row: u32) -> vec2<u32> {
    let at = params.visible + 2u * (tile.row + min(row, tile.rows - 1u));
    return vec2<u32>(step[at], step[at + 1u]);
}
{%- endif %}

/// Four columns of a value with non-finite ones recorded and replaced by 0.
fn mask_nonfinite(v: vec4<f32>, column: u32, position: u32, tile: Tile) -> vec4<f32> {
    var finite = v;
    for (var i = 0u; i < 4u; i++) {
        if !(abs(v[i]) <= F32_MAX) {
            {%- if masked %}
            for (var row = 0u; row < tile.rows; row++) {
                let seen = visible(tile, row);
                let bit = select(0u, 1u, position >= seen.x && position < seen.y);
                atomicOr(&nonfinite[2u * (column + i) + row / 32u], bit << (row % 32u));
            }
            {%- else %}
            atomicMin(&nonfinite[column + i], position);
            {%- endif %}
            finite[i] = 0.0;
        }
    }
    return finite;
}

/// Four columns of a row's result, NaN where the row saw a non-finite value.
fn apply_nonfinite(v: vec4<f32>, column: u32, row: u32, tile: Tile) -> vec4<f32> {
    var result = v;
    for (var i = 0u; i < 4u; i++) {
        {%- if masked %}
        if (atomicLoad(&nonfinite[2u * (column + i) + row / 32u]) >> (row % 32u) & 1u) == 1u {
        {%- else %}
        if atomicLoad(&nonfinite[column + i]) <= tile.position + row {
        {%- endif %}
            // A NaN; WGSL rejects constant ones.
            result[i] = bitcast<f32>(0x7fc00000u | params.heads);
        }
    }
    return result;
}
{% endmacro %}
