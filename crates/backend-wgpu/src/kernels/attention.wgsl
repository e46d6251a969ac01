{#- Attention of one row and up to `heads` query heads of one K/V head over a part of the positions.

Blocks of 128 positions: a thread has the scores of one position for all heads; then a softmax that goes on
from block to block (Milakov and Gimelshein 2018); then a thread has two columns of the values for a part of the positions.
`split`: a row's positions are shared by several workgroups, whose results `combine` adds. -#}
{%- set k_elements = (k_dim + 1) // 2 %}
{%- set v_elements = (v_dim + 1) // 2 %}
{%- set slices = [128 // v_elements, 1] | max %}
{%- set turns = (v_elements + 127) // 128 %}
struct Params {
    // Where queries begin and their stride, and the result's.
    q: vec2<u32>,
    y: vec2<u32>,
    // Heads of queries, of keys; bits of the scale.
    heads: u32,
    kv_heads: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read> keys: array<{{ "vec2<f32>" if wide else "u32" }}>;
@group(0) @binding(5) var<storage, read> values: array<{{ "vec2<f32>" if wide else "u32" }}>;

{%- set read = "" if wide else "unpack2x16float" %}
const HEADS = {{ heads }}u;
const LEAST = -3.4028234e38;

var<workgroup> queries: array<vec2<f32>, {{ heads * k_elements }}>;
var<workgroup> weights: array<f32, {{ heads * 128 }}>;
var<workgroup> partial: array<f32, 128>;
var<workgroup> largest: array<f32, {{ heads }}>;
var<workgroup> results: array<vec2<f32>, 128>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = id.z;
    let share = params.heads / params.kv_heads;
    let blocks = (share + HEADS - 1u) / HEADS;
    let kv_head = id.x / blocks;
    // The last block of heads is filled up with heads that are computed twice.
    let first_head = kv_head * share + min(id.x % blocks * HEADS, share - HEADS);
    let positions = step[step[2] + row] + 1u;
    let table = step[5] + step[step[3] + row];
    let begin = id.y * step[7];
    let end = min(positions, begin + step[7]);

    for (var i = thread; i < HEADS * {{ k_elements }}u; i += 128u) {
        let col = i % {{ k_elements }}u * 2u;
        let at = params.q.x + row * params.q.y + (first_head + i / {{ k_elements }}u) * {{ k_dim }}u + col;
        queries[i] = vec2<f32>(q[at], {% if k_dim % 2 == 1 %}select(0.0, q[at + 1u], col + 1u < {{ k_dim }}u){% else %}q[at + 1u]{% endif %});
    }
    workgroupBarrier();

    let element = thread % {{ v_elements }}u;
    let slice = thread / {{ v_elements }}u;
    {%- for h in range(heads) %}
    var max{{ h }} = LEAST;
    var sum{{ h }} = 0.0;
    {%- for i in range(turns) %}
    var mean{{ h }}_{{ i }} = vec2<f32>(0.0);
    {%- endfor %}
    {%- endfor %}
    for (var block = begin; block < end; block += 128u) {
        let position = block + thread;
        {%- for h in range(heads) %}
        var score{{ h }} = LEAST;
        {%- endfor %}
        if position < end {
            {%- for h in range(heads) %}
            score{{ h }} = 0.0;
            {%- endfor %}
            let page = step[table + position / 32u];
            let at = (page * params.kv_heads + kv_head) * {{ 32 * k_elements }}u + position % 32u;
            for (var e = 0u; e < {{ k_elements }}u; e++) {
                let key = {{ read }}(keys[at + 32u * e]);
                {%- for h in range(heads) %}
                score{{ h }} += dot(queries[{{ h * k_elements }}u + e], key);
                {%- endfor %}
            }
            {%- for h in range(heads) %}
            score{{ h }} *= params.scale;
            {%- endfor %}
        }
        {%- for h in range(heads) %}
        weights[{{ h * 128 }}u + thread] = score{{ h }};
        {%- endfor %}
        workgroupBarrier();
        // Sixteen threads a head, eight heads at a time.
        for (var first = 0u; first < HEADS; first += 8u) {
            let head = first + thread / 16u;
            var most = LEAST;
            if head < HEADS {
                for (var i = thread % 16u; i < 128u; i += 16u) {
                    most = max(most, weights[head * 128u + i]);
                }
            }
            partial[thread] = most;
            workgroupBarrier();
            if thread % 16u == 0u && head < HEADS {
                for (var i = 1u; i < 16u; i++) {
                    most = max(most, partial[thread + i]);
                }
                largest[head] = most;
            }
            workgroupBarrier();
        }
        {%- for h in range(heads) %}
        let new{{ h }} = max(max{{ h }}, largest[{{ h }}]);
        let old{{ h }} = exp(max{{ h }} - new{{ h }});
        max{{ h }} = new{{ h }};
        {%- endfor %}
        {%- for h in range(heads) %}
        weights[{{ h * 128 }}u + thread] = select(0.0, exp(score{{ h }} - new{{ h }}), position < end);
        {%- endfor %}
        workgroupBarrier();
        let count = min(end - block, 128u);
        {%- for h in range(heads) %}
        sum{{ h }} *= old{{ h }};
        {%- for i in range(turns) %}
        mean{{ h }}_{{ i }} *= old{{ h }};
        {%- endfor %}
        {%- endfor %}
        if slice < {{ slices }}u {
            for (var j = slice; j < count; j += {{ slices }}u) {
                let page = step[table + (block + j) / 32u];
                let at = ((page * params.kv_heads + kv_head) * 32u + (block + j) % 32u) * {{ v_elements }}u;
                {%- for i in range(turns) %}
                let value{{ i }} = {{ read }}(values[at + min(element + {{ 128 * i }}u, {{ v_elements - 1 }}u)]);
                {%- endfor %}
                {%- for h in range(heads) %}
                let weight{{ h }} = weights[{{ h * 128 }}u + j];
                sum{{ h }} += weight{{ h }};
                {%- for i in range(turns) %}
                mean{{ h }}_{{ i }} += weight{{ h }} * value{{ i }};
                {%- endfor %}
                {%- endfor %}
            }
        }
        workgroupBarrier();
    }

    {%- for h in range(heads) %}
    {%- for i in range(turns) %}
    {
        // Slices of columns, and of sums, are added by the first of them.
        results[thread] = mean{{ h }}_{{ i }};
        partial[thread] = sum{{ h }};
        workgroupBarrier();
        let col = 2u * (element + {{ 128 * i }}u);
        if slice == 0u && col < {{ v_dim }}u {
            var mean = mean{{ h }}_{{ i }};
            var sum = sum{{ h }};
            for (var s = 1u; s < {{ slices }}u; s++) {
                mean += results[element + s * {{ v_elements }}u];
                sum += partial[element + s * {{ v_elements }}u];
            }
            let head = first_head + {{ h }}u;
            {%- if split %}
            let to = ((row * params.heads + head) * step[6] + id.y) * {{ v_dim + 2 }}u;
            y[to + col] = mean.x;
            {% if v_dim % 2 == 1 %}if col + 1u < {{ v_dim }}u {% endif %}{
                y[to + col + 1u] = mean.y;
            }
            if col == 0u {
                y[to + {{ v_dim }}u] = max{{ h }};
                y[to + {{ v_dim + 1 }}u] = sum;
            }
            {%- else %}
            let to = params.y.x + row * params.y.y + head * {{ v_dim }}u + col;
            y[to] = mean.x / sum;
            {% if v_dim % 2 == 1 %}if col + 1u < {{ v_dim }}u {% endif %}{
                y[to + 1u] = mean.y / sum;
            }
            {%- endif %}
        }
        workgroupBarrier();
    }
    {%- endfor %}
    {%- endfor %}
}
