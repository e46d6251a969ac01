{#- Flash attention (Dao et al. 2022) of up to 64 neighbouring rows of a sequence, one query head, and all positions that
they see: for devices without matrix units, and for stores of f32.

32 positions at a time: 32 columns after the other of their keys go to workgroup memory, and a thread has the scores of 4
rows and 4 positions; then a softmax that goes on from block to block; then the values the same way as the keys, where a
thread has 4 columns of 4 rows. Queries are already roped where they are. Columns have to be multiples of 4, and at most
256. -#}
{%- from "parts.wgsl" import flash, spoiled -%}
{%- set element = "vec2<f32>" if kv_f32 else "u32" %}
{%- set read = "" if kv_f32 else "unpack2x16float" %}
{{ flash("vec4<f32>", element, element) }}

// [position][32 columns and room against bank conflicts]
var<workgroup> chunk: array<vec4<f32>, 288>;
// [row][32 positions, what results so far are multiplied by, and room]
var<workgroup> weights: array<f32, 2304>;
var<workgroup> partial: array<f32, 128>;
{{ spoiled(v_dim, windowed) }}

{#- Brings `count` vectors of each position to `chunk`: `first` and `second` are where their elements lie. -#}
{%- macro bring(array, count, first, second, checked) %}
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
                var number = vec4<f32>({{ read }}({{ array }}[{{ first }}]), {{ read }}({{ array }}[{{ second }}]));
                if block + place >= end {
                    number = vec4<f32>();
                } else if !all(abs(number) <= vec4<f32>(LARGEST)) {
                    number = without_spoiled(number, {{ checked }} + 4u * vector, block + place, tile);
                }
                {%- else %}
                let number = vec4<f32>({{ read }}({{ array }}[{{ first }}]), {{ read }}({{ array }}[{{ second }}]));
                {%- endif %}
                chunk[9u * place + vector] = number;
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
    let end = tile.position + tile.rows;
    let place = thread % 32u;
    let own_vector = thread / 32u;
    let row4 = thread / 8u * 4u;
    let column = thread % 8u;
    clear_spoiled(thread);
    {%- for i in range(4) %}
    let q{{ i }} = (params.q.x + (tile.row + min(row4 + {{ i }}u, tile.rows - 1u)) * params.q.y + head * {{ k_dim }}u) / 4u;
    {%- for c in range((v_dim + 31) // 32) %}
    var mean{{ i }}_{{ c }} = vec4<f32>();
    {%- endfor %}
    {%- endfor %}
    // Of the row that this thread has half of the softmax of.
    let own_row = thread / 2u;
    let first = thread % 2u * 16u;
    var largest = LEAST;
    var sum = 0.0;
    {%- if windowed %}
    let first_block = (tile.position + 1u - min(tile.position + 1u, params.window)) / 32u * 32u;
    let first_seen = tile.position + own_row + 1u - min(tile.position + own_row + 1u, params.window);
    {%- else %}
    let first_block = 0u;
    {%- endif %}
    for (var block = first_block; block < end; block += 32u) {
        let cell = step[tile.table + block / 32u] * params.kv_heads + kv_head;
        {%- for i in range(4) %}
        var score{{ i }} = vec4<f32>();
        {%- endfor %}
        {%- for c in range(0, k_dim, 32) %}
        {%- set count = [k_dim - c, 32] | min // 4 %}
        {%- set at = "cell * " ~ (16 * k_dim) ~ "u + 32u * (" ~ (c // 2) ~ "u + 2u * vector) + place" %}
        {{- bring("keys", count, at, at ~ " + 32u", "") }}
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
        {%- for j in range(4) %}
        weights[36u * (row4 + {{ r }}u) + column + {{ 8 * j }}u] = score{{ r }}[{{ j }}] * params.scale;
        {%- endfor %}
        {%- endfor %}
        workgroupBarrier();
        var most = LEAST;
        let seen = tile.position + own_row + 1u;
        for (var i = 0u; i < 16u; i++) {
            if block + first + i < seen{{ " && block + first + i >= first_seen" if windowed }} {
                most = max(most, weights[36u * own_row + first + i]);
            }
        }
        partial[thread] = most;
        workgroupBarrier();
        most = max(max(partial[thread], partial[thread ^ 1u]), largest);
        let factor = exp(largest - most);
        largest = most;
        sum *= factor;
        for (var i = 0u; i < 16u; i++) {
            let at = 36u * own_row + first + i;
            let weight = select(0.0, exp(weights[at] - most), block + first + i < seen{{ " && block + first + i >= first_seen" if windowed }});
            weights[at] = weight;
            sum += weight;
        }
        weights[36u * own_row + 32u] = factor;
        {%- for c in range(0, v_dim, 32) %}
        {%- set count = [v_dim - c, 32] | min // 4 %}
        {%- set at = "(cell * 32u + place) * " ~ (v_dim // 2) ~ "u + " ~ (c // 2) ~ "u + 2u * vector" %}
        {{- bring("values", count, at, at ~ " + 1u", c ~ "u") }}
        {%- if c == 0 %}
        {%- for r in range(4) %}
        let factor{{ r }} = weights[36u * (row4 + {{ r }}u) + 32u];
        {%- endfor %}
        {%- endif %}
        {%- for r in range(4) %}
        mean{{ r }}_{{ c // 32 }} *= factor{{ r }};
        {%- endfor %}
        {%- if count < 8 %}
        if column < {{ count }}u {
        {%- else %}
        {
        {%- endif %}
            for (var i = 0u; i < 32u; i++) {
                let value = chunk[9u * i + column];
                {%- for r in range(4) %}
                mean{{ r }}_{{ c // 32 }} += weights[36u * (row4 + {{ r }}u) + i] * value;
                {%- endfor %}
            }
        }
        {%- endfor %}
    }

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
            y[to + {{ c // 4 }}u] = with_spoiled(mean{{ r }}_{{ c // 32 }} / all, {{ c }}u + 4u * column, row, tile);
        }
        {%- endfor %}
    }
    {%- endfor %}
}
