{#- Flash attention (Dao et al. 2022) for a tile of up to 64 rows of one sequence and one query head, without
cooperative matrices. `policy.rs` prefers `flash_coop.wgsl` where it applies.

Positions are processed in blocks of 32. Keys are staged in workgroup memory 32 columns at a time, and a thread
computes the scores of 4 rows and 4 positions. After the online softmax, values are staged the same way, and a thread
accumulates 4 columns of 4 rows. Queries are roped beforehand. Head dimensions must be multiples of 4, up to 256. -#}
{%- from "common.wgsl" import flash, nonfinite, sinks as read_sinks, softcap -%}
{%- set element = "vec2<f32>" if kv_f32 else "u32" %}
{%- set read = "" if kv_f32 else "unpack2x16float" %}
{{ flash("vec4<f32>", element, element) }}
{%- if sinks %}{{ read_sinks(6) }}{% endif %}

// [position][32 columns, padded against bank conflicts]
var<workgroup> chunk: array<vec4<f32>, 288>;
// [row][32 positions, then the rescale factor of earlier results, padded]
var<workgroup> weights: array<f32, 2304>;
var<workgroup> partial: array<f32, 128>;
{{ nonfinite(v_dim, masked) }}
{%- if capped %}
{{ softcap() }}
{%- endif %}

{#- Stages `count` vectors per position in `chunk`; `first` and `second` index the two halves of a vector. -#}
{%- macro stage(array, count, first, second, checked) %}
        workgroupBarrier();
        {%- for i in range((count + 3) // 4) %}
        {
            {%- if count - 4 * i < 4 %}
            if own_vector < {{ count - 4 * i }}u {
            {%- else %}
            {
            {%- endif %}
                let vector = own_vector + {{ 4 * i }}u;
                {%- if checked %}
                var v = vec4<f32>({{ read }}({{ array }}[{{ first }}]), {{ read }}({{ array }}[{{ second }}]));
                if block + slot >= end {
                    v = vec4<f32>();
                } else if !all(abs(v) <= vec4<f32>(F32_MAX)) {
                    v = mask_nonfinite(v, {{ checked }} + 4u * vector, block + slot, tile);
                }
                {%- else %}
                let v = vec4<f32>({{ read }}({{ array }}[{{ first }}]), {{ read }}({{ array }}[{{ second }}]));
                {%- endif %}
                chunk[9u * slot + vector] = v;
            }
        }
        {%- endfor %}
        workgroupBarrier();
{%- endmacro %}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let tile = own_tile(id.z);
    let head = id.x;
    let kv_head = head / (params.heads / params.kv_heads);
    let slot = thread % 32u;
    let own_vector = thread / 32u;
    let row4 = thread / 8u * 4u;
    let column = thread % 8u;
    clear_nonfinite(thread);
    {%- for i in range(4) %}
    let q{{ i }} = (params.q.x + (tile.row + min(row4 + {{ i }}u, tile.rows - 1u)) * params.q.y + head * {{ k_dim }}u) / 4u;
    {%- for c in range((v_dim + 31) // 32) %}
    var acc{{ i }}_{{ c }} = vec4<f32>();
    {%- endfor %}
    {%- endfor %}
    // Two threads share the softmax of a row.
    let own_row = thread / 2u;
    let first = thread % 2u * 16u;
    var row_max = LOWEST;
    var sum = 0.0;
    {%- if masked %}
    let first_block = visible(tile, 0u).x / 32u * 32u;
    let end = visible(tile, tile.rows - 1u).y;
    let first_seen = visible(tile, own_row).x;
    let seen = visible(tile, own_row).y;
    {%- else %}
    let first_block = 0u;
    let end = tile.position + tile.rows;
    let seen = tile.position + own_row + 1u;
    {%- endif %}
    for (var block = first_block; block < end; block += 32u) {
        let cell = step[tile.table + block / 32u] * params.kv_heads + kv_head;
        {%- for i in range(4) %}
        var score{{ i }} = vec4<f32>();
        {%- endfor %}
        {%- for c in range(0, k_dim, 32) %}
        {%- set count = [k_dim - c, 32] | min // 4 %}
        {%- set at = "cell * " ~ (16 * k_dim) ~ "u + 32u * (" ~ (c // 2) ~ "u + 2u * vector) + slot" %}
        {{- stage("keys", count, at, at ~ " + 32u", "") }}
        for (var i = 0u; i < {{ count }}u; i++) {
            {%- for j in range(4) %}
            let key{{ j }} = chunk[9u * (column + {{ 8 * j }}u) + i];
            {%- endfor %}
            {%- for r in range(4) %}
            let query{{ r }} = x[q{{ r }} + {{ c // 4 }}u + i];
            score{{ r }} += vec4<f32>(dot(query{{ r }}, key0), dot(query{{ r }}, key1), dot(query{{ r }}, key2), dot(query{{ r }}, key3));
            {%- endfor %}
        }
        {%- endfor %}
        {%- for r in range(4) %}
        score{{ r }} *= params.scale;
        {%- if capped %}
        score{{ r }} = softcap(score{{ r }}, params.cap);
        {%- endif %}
        {%- for j in range(4) %}
        weights[36u * (row4 + {{ r }}u) + column + {{ 8 * j }}u] = score{{ r }}[{{ j }}];
        {%- endfor %}
        {%- endfor %}
        workgroupBarrier();
        var new_max = LOWEST;
        for (var i = 0u; i < 16u; i++) {
            if block + first + i < seen{{ " && block + first + i >= first_seen" if masked }} {
                new_max = max(new_max, weights[36u * own_row + first + i]);
            }
        }
        partial[thread] = new_max;
        workgroupBarrier();
        new_max = max(max(partial[thread], partial[thread ^ 1u]), row_max);
        let factor = exp(row_max - new_max);
        row_max = new_max;
        sum *= factor;
        for (var i = 0u; i < 16u; i++) {
            let at = 36u * own_row + first + i;
            let weight = select(0.0, exp(weights[at] - new_max), block + first + i < seen{{ " && block + first + i >= first_seen" if masked }});
            weights[at] = weight;
            sum += weight;
        }
        weights[36u * own_row + 32u] = factor;
        {%- for c in range(0, v_dim, 32) %}
        {%- set count = [v_dim - c, 32] | min // 4 %}
        {%- set at = "(cell * 32u + slot) * " ~ (v_dim // 2) ~ "u + " ~ (c // 2) ~ "u + 2u * vector" %}
        {{- stage("values", count, at, at ~ " + 1u", c ~ "u") }}
        {%- if c == 0 %}
        {%- for r in range(4) %}
        let factor{{ r }} = weights[36u * (row4 + {{ r }}u) + 32u];
        {%- endfor %}
        {%- endif %}
        {%- for r in range(4) %}
        acc{{ r }}_{{ c // 32 }} *= factor{{ r }};
        {%- endfor %}
        {%- if count < 8 %}
        if column < {{ count }}u {
        {%- else %}
        {
        {%- endif %}
            for (var i = 0u; i < 32u; i++) {
                let value = chunk[9u * i + column];
                {%- for r in range(4) %}
                acc{{ r }}_{{ c // 32 }} += weights[36u * (row4 + {{ r }}u) + i] * value;
                {%- endfor %}
            }
        }
        {%- endfor %}
    }

    {%- if sinks %}
    if thread % 2u == 0u {
        sum += sink_weight(head, row_max);
    }
    {%- endif %}
    partial[thread] = sum;
    workgroupBarrier();
    {%- for r in range(4) %}
    if row4 + {{ r }}u < tile.rows {
        let row = row4 + {{ r }}u;
        let all = partial[2u * row] + partial[2u * row + 1u];
        let to = (params.y.x + (tile.row + row) * params.y.y + head * {{ v_dim }}u) / 4u + column;
        {%- for c in range(0, v_dim, 32) %}
        {%- set count = [v_dim - c, 32] | min // 4 %}
        {{ "if column < " ~ count ~ "u " if count < 8 }}{
            y[to + {{ c // 4 }}u] = apply_nonfinite(acc{{ r }}_{{ c // 32 }} / all, {{ c }}u + 4u * column, row, tile);
        }
        {%- endfor %}
    }
    {%- endfor %}
}
