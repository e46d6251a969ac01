{#- Loads and dot products for a chunk of 32 values in each device format; `formats.rs` defines the planes.

For a weight `w`, `w_load` fetches a packed chunk, `w_value0` to `w_value7` unpack four values each, and `w_dot`
multiplies the chunk with eight vectors of activations. Conversions from integers are slow on many devices, so
integers are placed in the mantissa of a power of two instead. This yields `v`, and a value in half `h` of the chunk
is `scales[h] * (v - bias) + mins[h]`. -#}
{%- macro shared() %}
/// The low nibbles of the bytes of a word, plus 128.
fn low_nibbles(word: u32) -> vec4<f32> {
    let shifted = vec4<u32>(word << 16u, word << 8u, word, word >> 8u);
    return bitcast<vec4<f32>>((shifted & vec4<u32>(0x000f0000u)) | vec4<u32>(0x43000000u));
}

/// The high nibbles, plus 128.
fn high_nibbles(word: u32) -> vec4<f32> {
    let shifted = vec4<u32>(word << 12u, word << 4u, word >> 4u, word >> 12u);
    return bitcast<vec4<f32>>((shifted & vec4<u32>(0x000f0000u)) | vec4<u32>(0x43000000u));
}

/// The low 7 bits of the bytes, plus 128.
fn low_7_bits(word: u32) -> vec4<f32> {
    let shifted = vec4<u32>(word << 16u, word << 8u, word, word >> 8u);
    return bitcast<vec4<f32>>((shifted & vec4<u32>(0x007f0000u)) | vec4<u32>(0x43000000u));
}

/// The bytes, plus 256.
fn all_8_bits(word: u32) -> vec4<f32> {
    let shifted = vec4<u32>(word << 15u, word << 7u, word >> 1u, word >> 9u);
    return bitcast<vec4<f32>>((shifted & vec4<u32>(0x007f8000u)) | vec4<u32>(0x43800000u));
}

fn unpack_f16x4(words: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn unpack_bf16x4(words: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}

/// One of the two f16 halves of a word.
fn f16_of(word: u32, which: u32) -> f32 {
    return unpack2x16float(word >> (16u * which)).x;
}

/// Scale and minimum of group `group` of a 256-value block, from its header (`quant::q4_k`).
fn scale_min(head: vec4<u32>, group: u32) -> vec2<f32> {
    let shift = 8u * (group & 3u);
    let bytes = (head.yzw >> vec3<u32>(shift)) & vec3<u32>(0xffu);
    let late = vec2<u32>(bytes.z & 15u, bytes.z >> 4u) | ((bytes.xy >> vec2<u32>(6u)) << vec2<u32>(4u));
    let pair = select(bytes.xy & vec2<u32>(63u), late, group >= 4u);
    return unpack2x16float(head.x) * vec2<f32>(pair);
}
{% endmacro %}

{#- 16-byte vectors per packed chunk. -#}
{%- set vectors_of = {"f32": 8, "f16": 4, "bf16": 4, "q4_0": 1, "q8_0": 2, "q4_k": 1, "q5_k": 1, "q6_k": 1} %}

{#- Quants 4 * j to 4 * j + 3 of the packed chunk `p`, one per byte; signed ones plus 128. -#}
{%- macro bytes(format, j) -%}
    {%- set nibbles = "((p.q0[" ~ (j // 2) ~ "] >> " ~ (4 * (j % 2)) ~ "u) & 0x0f0f0f0fu)" %}
    {%- if format == "q8_0" -%} (p.q{{ j // 4 }}[{{ j % 4 }}] ^ 0x80808080u)
    {%- elif format in ["q4_0", "q4_k"] -%} {{ nibbles }}
    {%- elif format == "q5_k" -%} ({{ nibbles }} | (((p.high.x >> {{ j }}u) & 0x01010101u) << 4u))
    {%- elif format == "q6_k" -%}
        ({{ nibbles }} | (((p.high.{{ "y" if j >= 4 else "x" }} >> {{ j % 4 * 2 }}u) & 0x03030303u) << 4u))
    {%- endif -%}
{%- endmacro %}

{#- Values `v` 4 * j to 4 * j + 3 of the packed chunk `p`. -#}
{%- macro four(format, j) -%}
    {%- if format == "f32" -%} bitcast<vec4<f32>>(p.q{{ j }})
    {%- elif format == "f16" -%} unpack_f16x4(p.q{{ j // 2 }}.{{ "zw" if j % 2 else "xy" }})
    {%- elif format == "bf16" -%} unpack_bf16x4(p.q{{ j // 2 }}.{{ "zw" if j % 2 else "xy" }})
    {%- elif format == "q8_0" -%} all_8_bits({{ bytes(format, j) }})
    {%- elif format in ["q4_0", "q4_k"] -%} {{ "high" if j % 2 else "low" }}_nibbles(p.q0[{{ j // 2 }}])
    {%- else -%} low_7_bits({{ bytes(format, j) }})
    {%- endif -%}
{%- endmacro %}

{%- macro chunk(w, format) %}
{%- set is_float = format in ["f32", "f16", "bf16"] %}
{%- set has_mins = format in ["q4_k", "q5_k"] %}
{%- set bias = {"q8_0": "384.0", "q6_k": "160.0", "q4_0": "136.0"}[format] | default("128.0") %}
struct {{ w }}_Packed {
    {%- for i in range(vectors_of[format]) %}
    q{{ i }}: vec4<u32>,
    {%- endfor %}
    {%- if format in ["q5_k", "q6_k"] %}
    high: vec2<u32>,
    {%- endif %}
    {%- if not is_float %}
    scales: vec2<f32>,
    {%- endif %}
    {%- if has_mins %}
    mins: vec2<f32>,
    {%- endif %}
}

fn {{ w }}_load(row: u32, chunk: u32) -> {{ w }}_Packed {
    let at = row * params.{{ w }}.x + chunk;
    var p: {{ w }}_Packed;
    {%- for i in range(vectors_of[format]) %}
    p.q{{ i }} = {{ w }}[{{ vectors_of[format] }}u * at + {{ i }}u];
    {%- endfor %}
{%- if format in ["q4_0", "q8_0"] %}
    p.scales = vec2<f32>(f16_of({{ w }}[params.{{ w }}.y + at / 8u][at / 2u % 4u], at % 2u));
{%- elif has_mins %}
    let factors = scale_min({{ w }}[params.{{ w }}.y + at / 8u], at % 8u);
    p.scales = factors.xx;
    p.mins = -factors.yy;
    {%- if format == "q5_k" %}
    p.high = vec2<u32>({{ w }}[params.{{ w }}.z + at / 4u][at % 4u], 0u);
    {%- endif %}
{%- elif format == "q6_k" %}
    let block = at / 8u;
    let highs = {{ w }}[params.{{ w }}.y + at / 2u];
    p.high = select(highs.xy, highs.zw, (at & 1u) == 1u);
    let d = f16_of({{ w }}[params.{{ w }}.w + block / 8u][block / 2u % 4u], block % 2u);
    let pair = {{ w }}[params.{{ w }}.z + block][at % 8u / 2u] >> (16u * (at & 1u));
    p.scales = d * vec2<f32>(unpack4xI8(pair).xy);
{%- endif %}
    return p;
}
{% for j in range(8) %}
fn {{ w }}_value{{ j }}(p: {{ w }}_Packed) -> vec4<f32> {
    {%- if is_float %}
    return {{ four(format, j) }};
    {%- else %}
    {%- set h = "y" if j >= 4 else "x" %}
    return p.scales.{{ h }} * ({{ four(format, j) }} - vec4<f32>({{ bias }})){% if has_mins %} + vec4<f32>(p.mins.{{ h }}){% endif %};
    {%- endif %}
}
{% endfor %}
/// Dot product with activations; `sums` holds the sum of each half of them.
fn {{ w }}_dot(
    p: {{ w }}_Packed,
    {%- for j in range(8) %}
    x{{ j }}: vec4<f32>,
    {%- endfor %}
    sums: vec2<f32>,
) -> f32 {
    {%- for h in range(2) %}
    let half{{ h }} = {% for j in range(4) %}{{ " + " if j }}dot({{ four(format, 4 * h + j) }}, x{{ 4 * h + j }}){% endfor %};
    {%- endfor %}
    {%- if is_float %}
    return half0 + half1;
    {%- else %}
    return dot(p.scales, vec2<f32>(half0, half1) - {{ bias }} * sums){% if has_mins %} + dot(p.mins, sums){% endif %};
    {%- endif %}
}
{% endmacro %}

{#- The same values as f16, `w_f16_0` to `w_f16_7`. The middle two of every four are swapped, as in `f16_rows.wgsl`,
so that two integers at a time can be placed in mantissas without reordering. A minimum applies to 32 inputs, so its
rounding error would add up: scale and minimum are two f16 values each. -#}
{%- macro f16_chunk(w, format) %}
{%- set bias = {"q8_0": "1152.0h", "q6_k": "1056.0h", "q4_0": "1032.0h"}[format] | default("1024.0h") %}
{% for j in range(8) %}
fn {{ w }}_f16_{{ j }}(p: {{ w }}_Packed) -> vec4<f16> {
    {%- if format == "f16" %}
    return vec4<f16>({{ four(format, j) }}.xzyw);
    {%- else %}
    {%- set h = "y" if j >= 4 else "x" %}
    let q = f16_bytes({{ bytes(format, j) }}) - vec4<f16>({{ bias }});
    let scale = f16(p.scales.{{ h }});
    {%- if format in ["q4_k", "q5_k"] %}
    let low = f16(p.mins.{{ h }});
    let rest = vec2<f16>(vec2<f32>(p.scales.{{ h }}, p.mins.{{ h }}) - vec2<f32>(vec2<f16>(scale, low)));
    return fma(q, vec4<f16>(scale), vec4<f16>(low)) + fma(q, vec4<f16>(rest.x), vec4<f16>(rest.y));
    {%- else %}
    return q * scale;
    {%- endif %}
    {%- endif %}
}
{% endfor %}
{% endmacro %}

{%- macro f16_shared() %}
/// The bytes of a word plus 1024, in the order 0, 2, 1, 3.
fn f16_bytes(word: u32) -> vec4<f16> {
    let even = unpack2x16float((word & 0x00ff00ffu) | 0x64006400u);
    let odd = unpack2x16float(((word >> 8u) & 0x00ff00ffu) | 0x64006400u);
    return vec4<f16>(vec2<f16>(even), vec2<f16>(odd));
}
{% endmacro %}
