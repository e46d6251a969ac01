{#- Numbers of activations, four at a time: number 4 * j of a chunk and the next ones. `ragged`: rows are no whole chunks,
and what lies behind them is not to be read as numbers. -#}
{%- macro activations(ragged, norm) %}
{%- if ragged %}
fn kept(numbers: vec4<f32>, col: u32) -> vec4<f32> {
    return select(vec4<f32>(0.0), numbers, vec4<u32>(col, col + 1u, col + 2u, col + 3u) < vec4<u32>(params.x.z));
}
{%- endif %}

fn x_four(row: u32, chunk: u32, j: u32) -> vec4<f32> {
    let at = params.x.x + row * params.x.y;
    {%- if ragged %}
    return kept(x[at + min(8u * chunk + j, (params.x.z - 1u) / 4u)], 32u * chunk + 4u * j);
    {%- else %}
    return x[at + 8u * chunk + j];
    {%- endif %}
}
{% if norm %}
fn g_four(chunk: u32, j: u32) -> vec4<f32> {
    {%- if ragged %}
    return kept(g[min(8u * chunk + j, arrayLength(&g) - 1u)], 32u * chunk + 4u * j);
    {%- else %}
    return g[8u * chunk + j];
    {%- endif %}
}
{% endif %}
{%- endmacro %}

{#- Rotation of heads of `x`: `params` has the columns that turn and where `step` has cosines and sines. -#}
{%- macro rotation(pairing) %}
/// Column `col` of the head that begins at `at`, turned by the position of `row`.
fn turned(at: u32, col: u32, row: u32) -> f32 {
    let number = x[at + col];
    if col >= params.dims {
        return number;
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
    let place = params.turns + 2u * (row * (params.dims / 2u) + pair);
    let cosine = bitcast<f32>(step[place]);
    let sine = bitcast<f32>(step[place + 1u]);
    return number * cosine + select(other * sine, -other * sine, is_first);
}
{% endmacro %}

{#- What all kernels of products are told; those of matrix units have `x` in vectors of f16. -#}
{%- macro products() %}
struct Params {
    w0: vec4<u32>,
    w1: vec4<u32>,
    w2: vec4<u32>,
    // Outputs of each weight.
    outputs: vec4<u32>,
    // Where the numbers of each begin in a row of `y`; the stride of a row.
    y: vec4<u32>,
    // Of `x` where it begins and its stride, in vectors, columns; where `step` says how many rows.
    x: vec4<u32>,
    // Of `r` where it begins and its stride; epsilon.
    r: vec4<u32>,
}
{% endmacro %}
