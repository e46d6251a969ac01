{#- `flash.wgsl` with cooperative matrices and an f16 cache.

Positions are processed in blocks of 64. Keys are staged in workgroup memory unchanged. Each subgroup multiplies them
with 16 query rows, held as f16 and scaled by the power of two that brings the largest magnitude of a row near 2^13.
Scores are passed through workgroup memory for the softmax, two threads per row, and written back as f16 weights.
Values then replace the keys in workgroup memory. Accumulators stay in cooperative matrices, which threads cannot
scale: they are rescaled through workgroup memory, and only when a row's maximum has grown by more than 2^8, so that
weights are at most 2^8. Head dimensions must be multiples of 16, up to 128. -#}
{%- from "common.wgsl" import flash, nonfinite, sinks as read_sinks, softcap -%}
enable f16;
enable wgpu_cooperative_matrix;
{{ flash("vec4<f32>", "vec2<f16>", "vec4<f16>") }}
{%- if sinks %}{{ read_sinks(6) }}{% endif %}

{%- set stride = [k_dim, v_dim] | max // 4 + 2 %}
{%- set parts = v_dim // 16 %}
const LOG2_E = 1.4426950408889634;
const GROWTH = 8.0;

// Queries [row][column], then keys or values [position][column], padded against bank conflicts.
var<workgroup> tile: array<vec4<f16>, {{ 64 * stride }}>;
// [row][64 positions or columns, padded]
var<workgroup> scores: array<vec4<f32>, {{ 64 * 17 }}>;
var<workgroup> weights: array<vec4<f16>, {{ 64 * 18 }}>;
// A flag of 16 bytes: cooperative loads need 16-byte alignment, and drivers may place workgroup arrays back to back.
var<workgroup> has_grown: vec4<u32>;
{{ nonfinite(v_dim, masked) }}
{%- if capped %}
{{ softcap() }}
{%- endif %}

{%- macro fetch_keys(block) %}
        {
            let slot = thread % 64u;
            let page = step[own.table + min(({{ block }} + slot) / 32u, last_page)];
            let at = (page * params.kv_heads + kv_head) * {{ 16 * k_dim }}u + slot % 32u;
            {%- for i in range(k_dim // 8) %}
            key{{ i }} = vec4<f16>(
                keys[at + 64u * (thread / 64u + {{ 2 * i }}u)],
                keys[at + 64u * (thread / 64u + {{ 2 * i }}u) + 32u],
            );
            {%- endfor %}
        }
{%- endmacro %}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let own = own_tile(id.z);
    let head = id.x;
    let kv_head = head / (params.heads / params.kv_heads);
    clear_nonfinite(thread);
    // The subgroup's rows; two threads share the softmax of a row.
    let first_row = 16u * subgroup;
    let own_row = first_row + lane % 16u;
    let own_half = lane / 16u;
    {%- if masked %}
    let first_block = visible(own, 0u).x / 32u * 32u;
    let end = visible(own, own.rows - 1u).y;
    let first_seen = visible(own, own_row).x;
    let seen = visible(own, own_row).y;
    {%- else %}
    let first_block = 0u;
    let end = own.position + own.rows;
    let seen = own.position + own_row + 1u;
    {%- endif %}
    var scale = 0.0;
    {%- for i in range(16) %}
    let q_at{{ i }} = (params.q.x + (own.row + min(first_row + {{ i }}u, own.rows - 1u)) * params.q.y + head * {{ k_dim }}u) / 4u;
    let q{{ i }} = select(vec4<f32>(), x[q_at{{ i }} + min(lane, {{ k_dim // 4 - 1 }}u)], lane < {{ k_dim // 4 }}u);
    {%- endfor %}
    {%- for i in range(16) %}
    {
        let size = abs(q{{ i }});
        let new_max = subgroupMax(max(max(size.x, size.y), max(size.z, size.w)));
        // 2^13 divided by the power of two in the largest magnitude, clamped so that the factor and its reciprocal
        // are normal.
        let exponent = clamp((bitcast<u32>(new_max) >> 23u) & 255u, 16u, 253u);
        let factor = bitcast<f32>((267u - exponent) << 23u);
        if lane < {{ k_dim // 4 }}u {
            tile[(first_row + {{ i }}u) * {{ stride }}u + lane] = vec4<f16>(q{{ i }} * factor);
        }
        scale = select(scale, params.scale * LOG2_E / factor, lane % 16u == {{ i }}u);
    }
    {%- endfor %}
    workgroupBarrier();
    {%- for d in range(k_dim // 16) %}
    let query{{ d }} = coopLoadT<coop_mat16x16<f16, A>>(&tile[first_row * {{ stride }}u + {{ 4 * d }}u], {{ stride }}u);
    {%- endfor %}
    {%- for n in range(parts) %}
    var acc{{ n }} = coop_mat16x16<f32, C>();
    {%- endfor %}
    // Maximum as an exponent of 2, and sum of the weights relative to it.
    var row_max = LOWEST;
    var sum = 0.0;
    let last_page = (end - 1u) / 32u;
    {%- for i in range(k_dim // 8) %}
    var key{{ i }}: vec4<f16>;
    {%- endfor %}
    {{- fetch_keys('first_block') }}
    // A row that sees no position of the first blocks gets weights of 1 there. The first block that it sees rescales
    // them to 0.
    for (var block = first_block; block < end; block += 64u) {
        let page0 = step[own.table + block / 32u];
        let page1 = step[own.table + min(block / 32u + 1u, last_page)];
        workgroupBarrier();
        {%- for i in range(k_dim // 8) %}
        tile[thread % 64u * {{ stride }}u + thread / 64u + {{ 2 * i }}u] = key{{ i }};
        {%- endfor %}
        {%- set vectors = v_dim // 4 %}
        {%- for i in range(v_dim // 8) %}
        let slot{{ i }} = (thread + {{ 128 * i }}u) / {{ vectors }}u;
        let vector{{ i }} = (thread + {{ 128 * i }}u) % {{ vectors }}u;
        let cell{{ i }} = select(page0, page1, slot{{ i }} >= 32u) * params.kv_heads + kv_head;
        let value{{ i }} = select(
            vec4<f16>(),
            values[(cell{{ i }} * 32u + slot{{ i }} % 32u) * {{ vectors }}u + vector{{ i }}],
            block + slot{{ i }} < end,
        );
        {%- endfor %}
        if thread == 0u {
            has_grown.x = 0u;
        }
        workgroupBarrier();
        {%- for n in range(4) %}
        {
            var score = coop_mat16x16<f32, C>();
            {%- for d in range(k_dim // 16) %}
            score = coopMultiplyAdd(query{{ d }}, coopLoad<coop_mat16x16<f16, B>>(&tile[{{ 16 * n * stride + 4 * d }}u], {{ stride }}u), score);
            {%- endfor %}
            coopStoreT(score, &scores[17u * first_row + {{ 4 * n }}u], 17u);
        }
        {%- endfor %}
        workgroupBarrier();
        var new_max = LOWEST;
        {%- for i in range(8) %}
        let position{{ i }} = block + 32u * own_half + {{ 4 * i }}u;
        let score{{ i }} = select(
            vec4<f32>(LOWEST),
            {%- if capped %}
            softcap(scores[17u * own_row + 8u * own_half + {{ i }}u] * scale, params.cap * LOG2_E),
            {%- else %}
            scores[17u * own_row + 8u * own_half + {{ i }}u] * scale,
            {%- endif %}
            {%- set positions = "vec4<u32>(P, P + 1u, P + 2u, P + 3u)" | replace("P", "position" ~ i) %}
            {{ positions }} < vec4<u32>(seen){% if masked %} & {{ positions }} >= vec4<u32>(first_seen){% endif %},
        );
        new_max = max(new_max, max(max(score{{ i }}.x, score{{ i }}.y), max(score{{ i }}.z, score{{ i }}.w)));
        {%- endfor %}
        new_max = max(new_max, subgroupShuffleXor(new_max, 16u));
        if new_max > row_max + GROWTH {
            has_grown.x = 1u;
        }
        if workgroupUniformLoad(&has_grown).x == 1u {
            let factor = exp2(row_max - max(row_max, new_max));
            row_max = max(row_max, new_max);
            sum *= factor;
            {%- for first in range(0, parts, 4) %}
            {%- set last = [first + 4, parts] | min %}
            {%- for n in range(first, last) %}
            coopStoreT(acc{{ n }}, &scores[17u * first_row + {{ 4 * (n - first) }}u], 17u);
            {%- endfor %}
            workgroupBarrier();
            {%- for i in range(8) %}
            scores[17u * own_row + 8u * own_half + {{ i }}u] *= factor;
            {%- endfor %}
            workgroupBarrier();
            {%- for n in range(first, last) %}
            acc{{ n }} = coopLoadT<coop_mat16x16<f32, C>>(&scores[17u * first_row + {{ 4 * (n - first) }}u], 17u);
            {%- endfor %}
            workgroupBarrier();
            {%- endfor %}
        }
        {%- for i in range(8) %}
        let weight{{ i }} = exp2(score{{ i }} - row_max);
        sum += weight{{ i }}.x + weight{{ i }}.y + weight{{ i }}.z + weight{{ i }}.w;
        weights[18u * own_row + 8u * own_half + {{ i }}u] = vec4<f16>(weight{{ i }});
        {%- endfor %}
        var are_finite = true;
        {%- for i in range(v_dim // 8) %}
        are_finite &= all(abs(value{{ i }}) <= vec4<f16>(65504.0h));
        tile[slot{{ i }} * {{ stride }}u + vector{{ i }}] = value{{ i }};
        {%- endfor %}
        if !are_finite {
            for (var i = thread; i < {{ 64 * vectors }}u; i += 128u) {
                let at = i / {{ vectors }}u * {{ stride }}u + i % {{ vectors }}u;
                tile[at] = vec4<f16>(mask_nonfinite(vec4<f32>(tile[at]), 4u * (i % {{ vectors }}u), block + i / {{ vectors }}u, own));
            }
        }
        workgroupBarrier();
        {{- fetch_keys('block + 64u') }}
        {%- for k in range(4) %}
        {
            let weight = coopLoadT<coop_mat16x16<f16, A>>(&weights[18u * first_row + {{ 4 * k }}u], 18u);
            {%- for n in range(parts) %}
            acc{{ n }} = coopMultiplyAdd(weight, coopLoadT<coop_mat16x16<f16, B>>(&tile[{{ 16 * k * stride + 4 * n }}u], {{ stride }}u), acc{{ n }});
            {%- endfor %}
        }
        {%- endfor %}
    }

    let divisor = sum + subgroupShuffleXor(sum, 16u){{ " + sink_weight(head, row_max / LOG2_E)" if sinks }};
    {%- for first in range(0, parts, 4) %}
    {%- set count = [parts - first, 4] | min %}
    workgroupBarrier();
    {%- for n in range(count) %}
    coopStoreT(acc{{ first + n }}, &scores[17u * first_row + {{ 4 * n }}u], 17u);
    {%- endfor %}
    workgroupBarrier();
    {%- for i in range(2 * count) %}
    {
        let row = (lane + {{ 32 * i }}u) / {{ 4 * count }}u;
        let vector = (lane + {{ 32 * i }}u) % {{ 4 * count }}u;
        let value = scores[17u * (first_row + row) + vector] / subgroupShuffle(divisor, row);
        if first_row + row < own.rows {
            let to = (params.y.x + (own.row + first_row + row) * params.y.y + head * {{ v_dim }}u) / 4u + {{ 4 * first }}u + vector;
            y[to] = apply_nonfinite(value, {{ 16 * first }}u + 4u * vector, first_row + row, own);
        }
    }
    {%- endfor %}
    {%- endfor %}
}
