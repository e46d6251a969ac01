{#- RoPE, and writing keys and values to the K/V cache: one thread per pair of adjacent columns.

- `rope`: writes roped heads of `x` to `y`.
- `store`: writes keys, roped with `keys_rope`, and values to the cache. For each page and head the cache holds keys
  as `[dim / 2][32 positions]` and values as `[32 positions][dim / 2]`. An element is two f16 values in a word or,
  with `kv_f32`, two words.

`pairing` selects which columns are rotated together. -#}
{%- from "common.wgsl" import rotation -%}
struct Params {
    // Queries, keys, values: offset, stride, heads, head dimension.
    q: vec4<u32>,
    k: vec4<u32>,
    v: vec4<u32>,
    // Offset and stride of the roped queries.
    y: vec2<u32>,
    // Roped columns; offset of the cos/sin table in `step`.
    dims: u32,
    cos_sin: u32,
    // Offsets in `step`: positions, block table offsets, pages.
    positions: u32,
    tables: u32,
    pages: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
{%- if rope %}
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
{%- endif %}
{%- if store %}
{%- set first = 4 if rope else 3 %}
@group(0) @binding({{ first }}) var<storage, read_write> keys: array<u32>;
@group(0) @binding({{ first + 1 }}) var<storage, read_write> values: array<u32>;
{%- if separate %}
@group(0) @binding({{ first + 2 }}) var<storage, read> v_x: array<f32>;
{%- endif %}
{%- endif %}

{%- if rope or keys_rope %}
{{ rotation(pairing) }}
{%- endif %}
{%- if store %}
/// Page of a row, and slot offset in it.
fn page_and_slot(row: u32) -> vec2<u32> {
    let position = step[params.positions + row];
    return vec2<u32>(step[params.pages + step[params.tables + row] + position / 32u], position % 32u);
}
{%- endif %}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.z;
    var item = id.x;
    {%- if rope %}
    let q_elements = (params.q.w + 1u) / 2u;
    if item < params.q.z * q_elements {
        let head = item / q_elements;
        let col = item % q_elements * 2u;
        let at = params.q.x + row * params.q.y + head * params.q.w;
        let to = params.y.x + row * params.y.y + head * params.q.w;
        y[to + col] = roped(at, col, row);
        if col + 1u < params.q.w {
            y[to + col + 1u] = roped(at, col + 1u, row);
        }
        return;
    }
    item -= params.q.z * q_elements;
    {%- endif %}
    {%- if store %}
    let cell = page_and_slot(row);
    let k_elements = (params.k.w + 1u) / 2u;
    if item < params.k.z * k_elements {
        let head = item / k_elements;
        let col = item % k_elements * 2u;
        let at = params.k.x + row * params.k.y + head * params.k.w;
        {%- set value = "roped(at, COL, row)" if keys_rope else "x[at + COL]" %}
        let value = {{ value | replace("COL", "col") }};
        var next = 0.0;
        if col + 1u < params.k.w {
            next = {{ value | replace("COL", "col + 1u") }};
        }
        let to = ((cell.x * params.k.z + head) * k_elements + item % k_elements) * 32u + cell.y;
        {%- if kv_f32 %}
        keys[2u * to] = bitcast<u32>(value);
        keys[2u * to + 1u] = bitcast<u32>(next);
        {%- else %}
        keys[to] = pack2x16float(vec2<f32>(value, next));
        {%- endif %}
        return;
    }
    item -= params.k.z * k_elements;
    let v_elements = (params.v.w + 1u) / 2u;
    if item < params.v.z * v_elements {
        let head = item / v_elements;
        let col = item % v_elements * 2u;
        let at = params.v.x + row * params.v.y + head * params.v.w;
        {%- set from = "v_x" if separate else "x" %}
        let value = {{ from }}[at + col];
        var next = 0.0;
        if col + 1u < params.v.w {
            next = {{ from }}[at + col + 1u];
        }
        let to = ((cell.x * params.v.z + head) * 32u + cell.y) * v_elements + item % v_elements;
        {%- if kv_f32 %}
        values[2u * to] = bitcast<u32>(value);
        values[2u * to + 1u] = bitcast<u32>(next);
        {%- else %}
        values[to] = pack2x16float(vec2<f32>(value, next));
        {%- endif %}
    }
    {%- endif %}
}
