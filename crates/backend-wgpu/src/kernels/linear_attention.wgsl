{#- Linear attention: a workgroup computes 32 columns of a head of a sequence, row by row. Each thread has one column of a
quarter of the head's state, `[k_dim][v_dim]`.

- `k_dim`, `v_dim`: columns of a head of keys and of values.
- `delta`: the delta rule.
- `tiled`: value head `h` reads key head `h mod k_heads`.
- `skips`: vectors of the heads' factors of values, or 0. -#}
struct Params {
    // Offsets and strides.
    q: vec2<u32>,
    k: vec2<u32>,
    v: vec2<u32>,
    decay: vec2<u32>,
    beta: vec2<u32>,
    y: vec2<u32>,
    heads: u32,
    k_heads: u32,
    scale: f32,
    // Offset of the sequences in `step`.
    sequences: u32,
    {%- if skips > 0 %}
    skip: array<vec4<f32>, {{ skips }}>,
    {%- endif %}
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> q: array<f32>;
@group(0) @binding(4) var<storage, read> k: array<f32>;
@group(0) @binding(5) var<storage, read> v: array<f32>;
@group(0) @binding(6) var<storage, read> decay: array<f32>;
@group(0) @binding(7) var<storage, read> beta: array<f32>;
@group(0) @binding(8) var<storage, read_write> state: array<f32>;

{%- set quarter = (k_dim + 3) // 4 %}
const K_DIM = {{ k_dim }}u;
const V_DIM = {{ v_dim }}u;
const QUARTER = {{ quarter }}u;
/// Workgroups per head.
const BLOCKS = {{ (v_dim + 31) // 32 }}u;

/// The query and the key of a row, filled up with 0.
var<workgroup> query: array<f32, {{ 4 * quarter }}>;
var<workgroup> key: array<f32, {{ 4 * quarter }}>;
var<workgroup> partial: array<f32, 128>;

/// The sum over the four threads of a column.
fn column_sum(thread: u32, sum: f32) -> f32 {
    workgroupBarrier();
    partial[thread] = sum;
    workgroupBarrier();
    let column = thread % 32u;
    return partial[column] + partial[column + 32u] + partial[column + 64u] + partial[column + 96u];
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) ids: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = id.y * ids.x + id.x;
    let head = group / BLOCKS;
    if head >= params.heads {
        return;
    }
    {%- if tiled %}
    let k_head = head % params.k_heads;
    {%- else %}
    let k_head = head / (params.heads / params.k_heads);
    {%- endif %}
    let column = group % BLOCKS * 32u + thread % 32u;
    let part = thread / 32u * QUARTER;
    let is_column = column < V_DIM;
    // First row, rows, whether there is a state, slots to read and to write, checkpoint and its slot.
    let at = params.sequences + id.z * 8u;
    let first = step[at];
    let rows = step[at + 1u];
    let values = params.heads * K_DIM * V_DIM;
    let of_thread = (head * K_DIM + part) * V_DIM + column;
    var own: array<f32, {{ quarter }}>;
    for (var i = 0u; i < QUARTER; i++) {
        own[i] = 0.0;
        if is_column && part + i < K_DIM && step[at + 2u] != 0u {
            own[i] = state[step[at + 3u] * values + of_thread + i * V_DIM];
        }
    }
    for (var row = first; row < first + rows; row++) {
        workgroupBarrier();
        for (var i = thread; i < 4u * QUARTER; i += 128u) {
            query[i] = 0.0;
            key[i] = 0.0;
            if i < K_DIM {
                query[i] = q[params.q.x + row * params.q.y + k_head * K_DIM + i];
                key[i] = k[params.k.x + row * params.k.y + k_head * K_DIM + i];
            }
        }
        workgroupBarrier();
        let factor = exp(decay[params.decay.x + row * params.decay.y + head]);
        var value = 0.0;
        if is_column {
            value = v[params.v.x + row * params.v.y + head * V_DIM + column];
        }
        var added = value;
        {%- if delta %}
        var known = 0.0;
        for (var i = 0u; i < QUARTER; i++) {
            own[i] *= factor;
            known += key[part + i] * own[i];
        }
        added -= column_sum(thread, known);
        {%- endif %}
        added *= beta[params.beta.x + row * params.beta.y + head];
        var result = 0.0;
        for (var i = 0u; i < QUARTER; i++) {
            {%- if delta %}
            own[i] += key[part + i] * added;
            {%- else %}
            own[i] = factor * own[i] + key[part + i] * added;
            {%- endif %}
            result += query[part + i] * own[i];
        }
        result = params.scale * column_sum(thread, result);
        {%- if skips > 0 %}
        result += params.skip[head / 4u][head % 4u] * value;
        {%- endif %}
        if is_column && part == 0u {
            y[params.y.x + row * params.y.y + head * V_DIM + column] = result;
        }
        if row + 1u == first + step[at + 5u] {
            store(step[at + 6u] * values + of_thread, part, is_column, &own);
        }
    }
    store(step[at + 4u] * values + of_thread, part, is_column, &own);
}

fn store(at: u32, part: u32, is_column: bool, own: ptr<function, array<f32, {{ quarter }}>>) {
    for (var i = 0u; i < QUARTER; i++) {
        if is_column && part + i < K_DIM {
            state[at + i * V_DIM] = (*own)[i];
        }
    }
}
