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

{#- A function of one number; what overflows in it is 0 or the number in the end. -#}
{%- macro activation(act) %}
fn activation(x: f32) -> f32 {
    {%- if act == "silu" %}
    return x / (1.0 + exp(-x));
    {%- elif act == "gelu_tanh" %}
    // x / 2 * (1 + tanh(z)) is x / (1 + exp(-2 z)); twice the root of 2 / pi.
    return x / (1.0 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    {%- endif %}
}
{% endmacro %}

{#- Rotation of heads of `x`: `params` has the columns that rotate and where `step` has cosines and sines. -#}
{%- macro rotation(pairing) %}
/// Column `col` of the head that begins at `at`, roped by the position of `row`.
fn roped(at: u32, col: u32, row: u32) -> f32 {
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
    let place = params.angles + 2u * (row * (params.dims / 2u) + pair);
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
    // Positions that a row sees.
    window: u32,
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
left out, and of rows that see it the column is no number. `spoiled` has the first such position of each column; with a
window, a bit for each row of the tile. -#}
{%- macro spoiled(columns, windowed) %}
var<workgroup> spoiled: array<atomic<u32>, {{ columns * (2 if windowed else 1) }}>;

fn clear_spoiled(thread: u32) {
    for (var i = thread; i < {{ columns * (2 if windowed else 1) }}u; i += 128u) {
        atomicStore(&spoiled[i], {{ "0u" if windowed else "NEVER" }});
    }
}
{%- if windowed %}

/// Bits of `word` (0 or 1) for rows of the tile from `first` to before `last`.
fn rows_between(first: u32, last: u32, word: u32) -> u32 {
    let from_row = clamp(first, 32u * word, 32u * word + 32u) - 32u * word;
    let to_row = clamp(last, 32u * word, 32u * word + 32u) - 32u * word;
    let below = select((1u << (to_row & 31u)) - 1u, NEVER, to_row == 32u);
    return select(0u, below & (NEVER << (from_row & 31u)), from_row < to_row);
}
{%- endif %}

/// `numbers` of four columns at a position, those that are numbers.
fn without_spoiled(numbers: vec4<f32>, column: u32, position: u32, tile: Tile) -> vec4<f32> {
    var finite = numbers;
    for (var i = 0u; i < 4u; i++) {
        if !(abs(numbers[i]) <= LARGEST) {
            {%- if windowed %}
            let first = max(position, tile.position) - tile.position;
            let last = position + min(params.window, NEVER - position);
            let end = max(last, tile.position) - tile.position;
            atomicOr(&spoiled[2u * (column + i)], rows_between(first, end, 0u));
            atomicOr(&spoiled[2u * (column + i) + 1u], rows_between(first, end, 1u));
            {%- else %}
            atomicMin(&spoiled[column + i], position);
            {%- endif %}
            finite[i] = 0.0;
        }
    }
    return finite;
}

/// Results of four columns of a row of the tile.
fn with_spoiled(numbers: vec4<f32>, column: u32, row: u32, tile: Tile) -> vec4<f32> {
    var spoilt = numbers;
    for (var i = 0u; i < 4u; i++) {
        {%- if windowed %}
        if (atomicLoad(&spoiled[2u * (column + i) + row / 32u]) >> (row % 32u) & 1u) == 1u {
        {%- else %}
        if atomicLoad(&spoiled[column + i]) <= tile.position + row {
        {%- endif %}
            // A NaN; the compiler takes no constant one.
            spoilt[i] = bitcast<f32>(0x7fc00000u | params.heads);
        }
    }
    return spoilt;
}
{% endmacro %}
