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

{#- What both kernels of flash attention are told, and which rows a workgroup has. -#}
{%- macro flash(x, keys, values) %}
struct Params {
    // Where queries begin and their stride, and the result's.
    q: vec2<u32>,
    y: vec2<u32>,
    // Heads of queries, of keys; bits of the scale.
    heads: u32,
    kv_heads: u32,
    scale: f32,
    // Where `step` has positions, where rows' pages begin among them, pages, and tiles: first row and rows of each.
    positions: u32,
    tables: u32,
    pages: u32,
    tiles: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<{{ x }}>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> keys: array<{{ keys }}>;
@group(0) @binding(5) var<storage, read> values: array<{{ values }}>;

const LEAST = -3.4028234e38;
const LARGEST = 3.4028234e38;
const NEVER = 0xffffffffu;

/// Rows of a sequence that follow each other: the first one, its position, where the sequence's pages are.
struct Tile {
    row: u32,
    rows: u32,
    position: u32,
    table: u32,
}

fn own_tile(number: u32) -> Tile {
    let row = step[params.tiles + 2u * number];
    let rows = step[params.tiles + 2u * number + 1u];
    return Tile(row, rows, step[params.positions + row], params.pages + step[params.tables + row]);
}
{% endmacro %}

{#- A value that is no number must not reach rows that do not see its position, though their weight for it is 0: it is
left out, and columns are no numbers from that position on. -#}
{%- macro spoiled(columns) %}
var<workgroup> spoiled: array<atomic<u32>, {{ columns }}>;

/// `numbers` of four columns at a position, those that are numbers.
fn without_spoiled(numbers: vec4<f32>, column: u32, position: u32) -> vec4<f32> {
    var kept = numbers;
    for (var i = 0u; i < 4u; i++) {
        if !(abs(numbers[i]) <= LARGEST) {
            atomicMin(&spoiled[column + i], position);
            kept[i] = 0.0;
        }
    }
    return kept;
}

/// Results of four columns of the row at `position`.
fn with_spoiled(numbers: vec4<f32>, column: u32, position: u32) -> vec4<f32> {
    var spoilt = numbers;
    for (var i = 0u; i < 4u; i++) {
        if atomicLoad(&spoiled[column + i]) <= position {
            // A NaN; the compiler takes no constant one.
            spoilt[i] = bitcast<f32>(0x7fc00000u | params.heads);
        }
    }
    return spoilt;
}
{% endmacro %}
