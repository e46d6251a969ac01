{#- Attention of one row and up to `heads` query heads of one K/V head, over all positions or a split of them.

Positions are processed in blocks of 128. A thread computes the scores of one position for all heads, or with several
`teams` a part of the key columns of that position. An online softmax (Milakov and Gimelshein 2018) runs over
the blocks. Then a thread accumulates two value columns over a part of the positions.

- `rope`: ropes the queries on load.
- `fresh`: the rows belong to different sequences, and their own keys and values are not in the cache yet. They are
  read from the activations, and the first workgroup of each K/V head writes them to the cache.
- `split`: several workgroups share a row's positions; `combine.wgsl` merges their results.
- `capped`: scores are capped.
- `alibi`: scores fall with the distance of the position, by a slope per head.
- `sinks`: each head has a sink. With `split`, `combine.wgsl` adds it.
- `masked`: a row sees the positions that `step` says, instead of all up to its own. Blocks start at the page of the
  first of these. -#}
{%- from "common.wgsl" import rotation, sinks as read_sinks, softcap -%}
{%- set k_elements = (k_dim + 1) // 2 %}
{%- set v_elements = (v_dim + 1) // 2 %}
{%- set threads = 128 * teams %}
{%- set slices = [threads // v_elements, 1] | max %}
{%- set rounds = (v_elements + threads - 1) // threads %}
{#- Loads in flight. With more, the kernel becomes so long that instruction fetches dominate. -#}
{%- set own_elements = k_elements // teams %}
{%- set ahead = [own_elements, 16] | min %}
{%- set v_ahead = 8 %}
struct Params {
    // Offsets and strides of queries and result.
    q: vec2<u32>,
    y: vec2<u32>,
    // Query heads, K/V heads; softmax scale.
    heads: u32,
    kv_heads: u32,
    scale: f32,
    // Roped columns; offset of the cos/sin table in `step`.
    dims: u32,
    cos_sin: u32,
    // Offsets in `step`: positions, block table offsets, pages.
    positions: u32,
    tables: u32,
    pages: u32,
    // Offsets of the row's own keys and values.
    k: u32,
    v: u32,
    // Offset in `step` of the number of splits and the positions per split.
    split: u32,
    // Offset in `step` of the visible positions; cap of scores.
    visible: u32,
    cap: f32,
    // Largest bias of ALiBi.
    alibi: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
{%- set access = "read_write" if fresh else "read" %}
@group(0) @binding(4) var<storage, {{ access }}> keys: array<{{ "vec2<f32>" if kv_f32 else "u32" }}>;
@group(0) @binding(5) var<storage, {{ access }}> values: array<{{ "vec2<f32>" if kv_f32 else "u32" }}>;
{%- if sinks %}{{ read_sinks(6) }}{% endif %}

{%- set read = "" if kv_f32 else "unpack2x16float" %}
const HEADS = {{ heads }}u;
const LOWEST = -3.4028234e38;

var<workgroup> queries: array<vec2<f32>, {{ heads * k_elements }}>;
var<workgroup> weights: array<f32, {{ heads * threads }}>;
var<workgroup> partial: array<f32, {{ threads }}>;
var<workgroup> block_max: array<f32, {{ heads }}>;
var<workgroup> results: array<vec2<f32>, {{ heads * threads }}>;
var<workgroup> pages: array<u32, 4>;
{%- if fresh %}
{%- set packed = "vec2<f32>" if kv_f32 else "u32" %}
var<workgroup> own_key: array<{{ packed }}, {{ k_elements }}>;
{%- endif %}
{%- if rope %}
{{ rotation(pairing) }}
{%- endif %}

{#- Columns `col` and `col + 1` of the head of `dim` columns at `at`. -#}
{%- macro pair(at, dim, is_roped) %}
{%- set value = "roped(AT, COL, row)" if is_roped else "x[AT + COL]" %}
{%- set value = value | replace("AT", at) %}
vec2<f32>({{ value | replace("COL", "col") }}, {% if dim % 2 == 1 %}select(0.0, {{ value | replace("COL", "min(col + 1u, " ~ (dim - 1) ~ "u)") }}, col + 1u < {{ dim }}u){% else %}{{ value | replace("COL", "col + 1u") }}{% endif %})
{%- endmacro %}

{#- Loads the values of `v_ahead` positions from `j` on; `add_values` accumulates them with their softmax weights. -#}
{%- macro fetch_values() %}
            {%- for u in range(v_ahead) %}
            let j{{ u }} = j + {{ u * slices }}u;
            let at{{ u }} = ((pages[min(j{{ u }}, count - 1u) / 32u] * params.kv_heads + kv_head) * 32u
                + min(j{{ u }}, count - 1u) % 32u) * {{ v_elements }}u;
            {%- for i in range(rounds) %}
            let stored{{ i }}_{{ u }} = values[at{{ u }} + min(element + {{ threads * i }}u, {{ v_elements - 1 }}u)];
            {%- endfor %}
            {%- endfor %}
{%- endmacro %}
{%- macro add_values() %}
            {%- for u in range(v_ahead) %}
            {%- for i in range(rounds) %}
            {%- if fresh %}
            let value{{ i }}_{{ u }} = select({{ read }}(stored{{ i }}_{{ u }}), own_value{{ i }}, block + min(j{{ u }}, count - 1u) == last);
            {%- else %}
            let value{{ i }}_{{ u }} = {{ read }}(stored{{ i }}_{{ u }});
            {%- endif %}
            {%- endfor %}
            {%- for h in range(heads) %}
            let weight{{ h }}_{{ u }} = select(0.0, weights[{{ h * threads }}u + min(j{{ u }}, 127u)], j{{ u }} < count);
            sum{{ h }} += weight{{ h }}_{{ u }};
            {%- for i in range(rounds) %}
            acc{{ h }}_{{ i }} += weight{{ h }}_{{ u }} * value{{ i }}_{{ u }};
            {%- endfor %}
            {%- endfor %}
            {%- endfor %}
{%- endmacro %}

{%- if capped %}
{{ softcap() }}
{%- endif %}

{%- if alibi %}
/// The ALiBi slope of a head.
fn slope(head: u32) -> f32 {
    let m = 1u << firstLeadingBit(params.heads);
    let later = f32(2u * (head - min(head, m)) + 1u) / f32(2u * m);
    return exp2(-params.alibi * select(later, f32(head + 1u) / f32(m), head < m));
}
{%- endif %}

{%- if teams > 1 %}
/// Sums the teams' parts of a score. Positions that the row does not see get the lowest score, or the lowest capped one.
fn total(head: u32, slot: u32) -> f32 {
    let at = head * {{ threads }}u + slot;
    let score = {% for team in range(teams) %}{{ " + " if team }}weights[at + {{ 128 * team }}u]{% endfor %};
    return {{ "softcap(vec4<f32>(score), params.cap).x" if capped else "score" }};
}
{%- endif %}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = id.z;
    let share = params.heads / params.kv_heads;
    let blocks = (share + HEADS - 1u) / HEADS;
    let kv_head = id.x / blocks;
    // The last block of heads is padded: it recomputes heads of the block before.
    let first_head = kv_head * share + min(id.x % blocks * HEADS, share - HEADS);
    let positions = step[params.positions + row] + 1u;
    let table = params.pages + step[params.tables + row];
    let part = step[params.split + 1u];
    {%- if masked %}
    let first_seen = step[params.visible + 2u * row];
    let begin = first_seen / 32u * 32u + id.y * part;
    let end = min(step[params.visible + 2u * row + 1u], begin + part);
    {%- else %}
    let begin = id.y * part;
    let end = min(positions, begin + part);
    {%- endif %}

    for (var i = thread; i < HEADS * {{ k_elements }}u; i += {{ threads }}u) {
        let col = i % {{ k_elements }}u * 2u;
        let at = params.q.x + row * params.q.y + (first_head + i / {{ k_elements }}u) * {{ k_dim }}u;
        queries[i] = {{ pair("at", k_dim, rope) }};
    }
    {%- if fresh %}
    // Rounded as if read from the cache.
    let last = positions - 1u;
    let cell = (step[table + last / 32u] * params.kv_heads + kv_head) * 32u;
    let writes = id.x % blocks == 0u && last >= begin && last < end;
    for (var i = thread; i < {{ k_elements }}u; i += {{ threads }}u) {
        let col = 2u * i;
        let at = params.k + row * params.q.y + kv_head * {{ k_dim }}u;
        let value = {{ pair("at", k_dim, rope) }};
        own_key[i] = {{ "value" if kv_f32 else "pack2x16float(value)" }};
        if writes {
            keys[cell * {{ k_elements }}u + 32u * i + last % 32u] = own_key[i];
        }
    }
    {%- for i in range(rounds) %}
    var own_value{{ i }} = vec2<f32>(0.0);
    {
        let col = 2u * min(thread % {{ v_elements }}u + {{ threads * i }}u, {{ v_elements - 1 }}u);
        let at = params.v + row * params.q.y + kv_head * {{ v_dim }}u;
        let value = {{ pair("at", v_dim, false) }};
        {%- if kv_f32 %}
        let stored = value;
        {%- else %}
        let stored = pack2x16float(value);
        {%- endif %}
        own_value{{ i }} = {{ read }}(stored);
        if writes && thread + {{ threads * i }}u < {{ v_elements }}u {
            values[(cell + last % 32u) * {{ v_elements }}u + col / 2u] = stored;
        }
    }
    {%- endfor %}
    {%- endif %}
    workgroupBarrier();

    let element = thread % {{ v_elements }}u;
    let slice = thread / {{ v_elements }}u;
    {%- for h in range(heads) %}
    var max{{ h }} = LOWEST;
    var sum{{ h }} = 0.0;
    {%- for i in range(rounds) %}
    var acc{{ h }}_{{ i }} = vec2<f32>(0.0);
    {%- endfor %}
    {%- endfor %}
    for (var block = begin; block < end; block += 128u) {
        let position = block + thread % 128u;
        if thread < 4u {
            pages[thread] = step[table + min(block / 32u + thread, (end - 1u) / 32u)];
        }
        workgroupBarrier();
        let count = min(end - block, 128u);
        {%- for h in range(heads) %}
        var score{{ h }} = {{ "select(0.0, LOWEST, thread < 128u)" if teams > 1 else "LOWEST" }};
        {%- endfor %}
        if position < end{{ " && position >= first_seen" if masked }} {
            {%- for h in range(heads) %}
            score{{ h }} = 0.0;
            {%- endfor %}
            let at = (pages[thread % 128u / 32u] * params.kv_heads + kv_head) * {{ 32 * k_elements }}u + thread % 32u;
            {%- macro scores(count) %}
                {%- for i in range(count) %}
                {%- if fresh %}
                let stored{{ i }} = select(keys[at + 32u * (e + {{ i }}u)], own_key[e + {{ i }}u], {{ "vec2<bool>(position == last)" if kv_f32 else "position == last" }});
                let key{{ i }} = {{ read }}(stored{{ i }});
                {%- else %}
                let key{{ i }} = {{ read }}(keys[at + 32u * (e + {{ i }}u)]);
                {%- endif %}
                {%- endfor %}
                {%- for i in range(count) %}{% for h in range(heads) %}
                score{{ h }} += dot(queries[{{ h * k_elements + i }}u + e], key{{ i }});
                {%- endfor %}{% endfor %}
            {%- endmacro %}
            {%- if teams > 1 %}
            let own = thread / 128u * {{ own_elements }}u;
            for (var e = own; e < own + {{ own_elements }}u; e += {{ ahead }}u) {
            {%- else %}
            for (var e = 0u; e < {{ k_elements // ahead * ahead }}u; e += {{ ahead }}u) {
            {%- endif %}
                {{- scores(ahead) }}
            }
            {%- if own_elements % ahead > 0 %}
            {
                let e = {{ k_elements // ahead * ahead }}u;
                {{- scores(k_elements % ahead) }}
            }
            {%- endif %}
            {%- for h in range(heads) %}
            score{{ h }} *= params.scale;
            {%- if capped and teams == 1 %}
            score{{ h }} = softcap(vec4<f32>(score{{ h }}), params.cap).x;
            {%- endif %}
            {%- if alibi %}
            // Of several teams, the first adds it.
            let distance{{ h }} = f32(max(position, positions - 1u) - min(position, positions - 1u));
            score{{ h }} -= select(0.0, slope(first_head + {{ h }}u) * distance{{ h }}, thread < 128u);
            {%- endif %}
            {%- endfor %}
        }
        {%- for h in range(heads) %}
        weights[{{ h * threads }}u + thread] = score{{ h }};
        {%- endfor %}
        workgroupBarrier();
        {%- if teams > 1 %}
        {%- for h in range(heads) %}
        score{{ h }} = total({{ h }}u, thread % 128u);
        {%- endfor %}
        {%- endif %}
        // 16 threads per head reduce its maximum.
        for (var first = 0u; first < HEADS; first += {{ threads // 16 }}u) {
            let head = first + thread / 16u;
            var local_max = LOWEST;
            if head < HEADS {
                for (var i = thread % 16u; i < 128u; i += 16u) {
                    local_max = max(local_max, {{ 'total(head, i)' if teams > 1 else 'weights[head * 128u + i]' }});
                }
            }
            partial[thread] = local_max;
            workgroupBarrier();
            if thread % 16u == 0u && head < HEADS {
                for (var i = 1u; i < 16u; i++) {
                    local_max = max(local_max, partial[thread + i]);
                }
                block_max[head] = local_max;
            }
            workgroupBarrier();
        }
        {%- for h in range(heads) %}
        let new{{ h }} = max(max{{ h }}, block_max[{{ h }}]);
        let old{{ h }} = exp(max{{ h }} - new{{ h }});
        max{{ h }} = new{{ h }};
        {%- endfor %}
        {%- if teams > 1 %}
        if thread < 128u {
        {%- else %}
        {
        {%- endif %}
            {%- for h in range(heads) %}
            weights[{{ h * threads }}u + thread] = select(0.0, exp(score{{ h }} - new{{ h }}), position < end{{ " && position >= first_seen" if masked }});
            {%- endfor %}
        }
        workgroupBarrier();
        {%- for h in range(heads) %}
        sum{{ h }} *= old{{ h }};
        {%- for i in range(rounds) %}
        acc{{ h }}_{{ i }} *= old{{ h }};
        {%- endfor %}
        {%- endfor %}
        if slice < {{ slices }}u {
            {%- if masked %}
            // Skip values before the visible ones: a NaN times a weight of 0 would still be NaN.
            for (var j = slice + max(first_seen, block) - block; j < count; j += {{ slices * v_ahead }}u) {
            {%- else %}
            for (var j = slice; j < count; j += {{ slices * v_ahead }}u) {
            {%- endif %}
                {{- fetch_values() | indent(4) }}
                {{- add_values() | indent(4) }}
            }
        }
        workgroupBarrier();
    }

    // The first slice sums the others' columns and weights.
    {%- for h in range(heads) %}
    weights[{{ threads * h }}u + thread] = sum{{ h }};
    {%- endfor %}
    {%- for i in range(rounds) %}
    {%- for h in range(heads) %}
    results[{{ threads * h }}u + thread] = acc{{ h }}_{{ i }};
    {%- endfor %}
    workgroupBarrier();
    {
        let col = 2u * (element + {{ threads * i }}u);
        if slice == 0u && col < {{ v_dim }}u {
            {%- for h in range(heads) %}
            {
                var acc = acc{{ h }}_{{ i }};
                var sum = sum{{ h }};
                for (var s = 1u; s < {{ slices }}u; s++) {
                    acc += results[{{ threads * h }}u + element + s * {{ v_elements }}u];
                    sum += weights[{{ threads * h }}u + element + s * {{ v_elements }}u];
                }
                let head = first_head + {{ h }}u;
                {%- if split %}
                let to = ((row * params.heads + head) * step[params.split] + id.y) * {{ v_dim + 2 }}u;
                y[to + col] = acc.x;
                {% if v_dim % 2 == 1 %}if col + 1u < {{ v_dim }}u {% endif %}{
                    y[to + col + 1u] = acc.y;
                }
                if col == 0u {
                    y[to + {{ v_dim }}u] = max{{ h }};
                    y[to + {{ v_dim + 1 }}u] = sum;
                }
                {%- else %}
                {%- if sinks %}
                sum += sink_weight(head, max{{ h }});
                {%- endif %}
                let to = params.y.x + row * params.y.y + head * {{ v_dim }}u + col;
                y[to] = acc.x / sum;
                {% if v_dim % 2 == 1 %}if col + 1u < {{ v_dim }}u {% endif %}{
                    y[to + 1u] = acc.y / sum;
                }
                {%- endif %}
            }
            {%- endfor %}
        }
    }
    workgroupBarrier();
    {%- endfor %}
}
