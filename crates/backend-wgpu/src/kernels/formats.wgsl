{#- Loads and dot products for a chunk of 32 values in each format of `FORMATS`; `crates/gpu/src/formats.rs` defines the
planes.

For a weight `w`, `w_load` fetches a packed chunk, `w_value0` to `w_value7` unpack four values each, and `w_dot`
multiplies the chunk with eight vectors of activations. Conversions from integers are slow on many devices, so
integers are placed in the mantissa of a power of two instead. This yields `v`, and a value in half `h` of the chunk
is `scales[h] * (v - bias) + mins[h]`. The codes of MXFP4 and of grids become integers of at most 7 bits by arithmetic on
the four bytes of a word. -#}
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

/// One of the 16 bytes of a vector.
fn byte_of(vector: vec4<u32>, which: u32) -> u32 {
    return (vector[which / 4u] >> (8u * (which % 4u))) & 0xffu;
}

/// Codes of MXFP4 as 16 plus twice the value: magnitudes 0, 1, 2, 3, 4, 6, 8 and 12, and a sign.
fn mxfp4_bytes(codes: u32) -> u32 {
    let m = codes & 0x07070707u;
    let large = ((m >> 2u) & 0x01010101u) * 0xffu;
    let seven = ((m + 0x01010101u) >> 3u) & 0x01010101u;
    let magnitude = m + (m & 0x03030303u & large) + 2u * seven;
    let minus = ((codes >> 3u) & 0x01010101u) * 0xffu;
    return 0x10101010u + magnitude - 2u * (magnitude & minus);
}

/// Codes of IQ3_XXS as 62 plus the value: `8 code - 60`, and 2 more or less at both ends.
fn iq3_xxs_bytes(codes: u32) -> u32 {
    let last = ((codes + 0x01010101u) >> 4u) & 0x01010101u;
    let first = ((0x10101010u - codes) >> 4u) & 0x01010101u;
    return (codes << 3u) + 0x02020202u + 2u * last - 2u * first;
}

/// Codes of IQ2 as 64 plus the value: magnitudes 8, 25 and 43, and a sign.
fn iq2_bytes(m: u32, signs: u32) -> u32 {
    let magnitude = 0x08080808u + m * 17u + (m >> 1u & 0x01010101u);
    return 0x40404040u + magnitude - 2u * (magnitude & (signs * 0xffu));
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
{%- set vectors_of = {"f32": 8, "f16": 4, "bf16": 4, "q4_0": 1, "q8_0": 2, "q4_k": 1, "q5_k": 1, "q6_k": 1,
    "mxfp4": 1, "iq3_xxs": 1, "iq3_s": 1, "iq2": 0, "iq1": 0, "ternary": 0} %}

{#- What is added to quants. -#}
{%- set zeros = {"q8_0": 128, "q6_k": 32, "q4_0": 8, "mxfp4": 16, "iq3_xxs": 62, "iq3_s": 15, "iq2": 64, "iq1": 9, "ternary": 1} %}

{#- The factor of all scales of a grid (`quant::GridBlock::UNIT`). -#}
{%- set units = {"iq3_xxs": "0.25", "iq3_s": "1.0", "iq2": "0.125", "iq1": "0.125"} %}

{#- Quants 4 * j to 4 * j + 3 of the packed chunk `p`, one per byte; signed ones plus 128. -#}
{%- macro bytes(format, j) -%}
    {%- set nibbles = "((p.q0[" ~ (j // 2) ~ "] >> " ~ (4 * (j % 2)) ~ "u) & 0x0f0f0f0fu)" %}
    {%- set pairs = "((p.high." ~ ("y" if j >= 4 else "x") ~ " >> " ~ (j % 4 * 2) ~ "u) & 0x03030303u)" %}
    {%- set signs = "((p.signs >> " ~ j ~ "u) & 0x01010101u)" %}
    {%- if format == "q8_0" -%} (p.q{{ j // 4 }}[{{ j % 4 }}] ^ 0x80808080u)
    {%- elif format in ["q4_0", "q4_k"] -%} {{ nibbles }}
    {%- elif format == "q5_k" -%} ({{ nibbles }} | (((p.high.x >> {{ j }}u) & 0x01010101u) << 4u))
    {%- elif format == "q6_k" -%}
        ({{ nibbles }} | ({{ pairs }} << 4u))
    {%- elif format == "mxfp4" -%} mxfp4_bytes({{ nibbles }})
    {%- elif format == "iq3_xxs" -%} iq3_xxs_bytes({{ nibbles }})
    {%- elif format == "iq3_s" -%} ({{ nibbles }} << 1u)
    {%- elif format == "iq2" -%} iq2_bytes({{ pairs }}, {{ signs }})
    {%- elif format == "iq1" -%} (({{ pairs }} << 3u) + 0x02020202u - ({{ signs }} << 1u))
    {%- elif format == "ternary" -%} {{ pairs }}
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
{%- set zero = zeros[format] | default(0) %}
{%- set bias = ((256 if format == "q8_0" else 128) + zero) ~ ".0" %}
struct {{ w }}_Packed {
    {%- for i in range(vectors_of[format]) %}
    q{{ i }}: vec4<u32>,
    {%- endfor %}
    {%- if format in ["q5_k", "q6_k", "iq2", "iq1", "ternary"] %}
    high: vec2<u32>,
    {%- endif %}
    {%- if format in ["iq2", "iq1"] %}
    signs: u32,
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
{%- elif format == "mxfp4" %}
    let e = byte_of({{ w }}[params.{{ w }}.y + at / 16u], at % 16u);
    p.scales = vec2<f32>(bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e < 2u)));
{%- elif format in units %}
    {%- set scales = "z" if format in ["iq2", "iq1"] else "y" %}
    {%- set d = "w" if format in ["iq2", "iq1"] else "z" %}
    {%- if format in ["iq2", "iq1"] %}
    let highs = {{ w }}[at / 2u];
    p.high = select(highs.xy, highs.zw, (at & 1u) == 1u);
    p.signs = {{ w }}[params.{{ w }}.y + at / 4u][at % 4u];
    {%- endif %}
    let block = at / 8u;
    let d = f16_of({{ w }}[params.{{ w }}.{{ d }} + block / 8u][block / 2u % 4u], block % 2u);
    let pair = byte_of({{ w }}[params.{{ w }}.{{ scales }} + at / 16u], at % 16u);
    p.scales = {{ units[format] }} * d * (2.0 * vec2<f32>(vec2<u32>(pair & 15u, pair >> 4u)) + 1.0);
{%- elif format == "ternary" %}
    let highs = {{ w }}[at / 2u];
    p.high = select(highs.xy, highs.zw, (at & 1u) == 1u);
    let block = at / 8u;
    p.scales = vec2<f32>(f16_of({{ w }}[params.{{ w }}.y + block / 8u][block / 2u % 4u], block % 2u));
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
{%- set zero = zeros[format] | default(0) %}
{%- set bias = (1024 + zero) ~ ".0h" %}
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
