{#- The 32 values of a chunk of a weight, for each format; planes lie as `formats.rs` says. -#}
{%- macro shared() %}
alias Chunk = array<vec4<f32>, 8>;

fn dot_chunks(a: Chunk, b: Chunk) -> f32 {
    return dot(a[0], b[0]) + dot(a[1], b[1]) + dot(a[2], b[2]) + dot(a[3], b[3])
        + dot(a[4], b[4]) + dot(a[5], b[5]) + dot(a[6], b[6]) + dot(a[7], b[7]);
}

fn four(word: u32) -> vec4<f32> {
    return vec4<f32>(unpack4xU8(word));
}

fn eight_halves(words: vec4<u32>) -> array<vec4<f32>, 2> {
    return array<vec4<f32>, 2>(
        vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)),
        vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)),
    );
}

fn two_upper_halves(word: u32) -> vec2<f32> {
    return vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

/// The scale and the minimum of group `group` of a block of 256, whose head this is; as `quant::q4_k`.
fn scale_min(head: vec4<u32>, group: u32) -> vec2<f32> {
    let shift = 8u * (group & 3u);
    let bytes = (head.yzw >> vec3<u32>(shift)) & vec3<u32>(0xffu);
    var numbers = bytes.xy & vec2<u32>(63u);
    if group >= 4u {
        numbers = vec2<u32>(bytes.z & 15u, bytes.z >> 4u) | ((bytes.xy >> vec2<u32>(6u)) << vec2<u32>(4u));
    }
    return unpack2x16float(head.x) * vec2<f32>(numbers);
}
{% endmacro %}

{%- macro chunk(w, format) %}
fn {{ w }}_chunk(row: u32, chunk: u32) -> Chunk {
    let at = row * params.{{ w }}.x + chunk;
{%- if format == "f32" %}
    return Chunk(
    {%- for j in range(8) %}
        bitcast<vec4<f32>>({{ w }}[8u * at + {{ j }}u]),
    {%- endfor %}
    );
{%- elif format == "f16" %}
    {%- for j in range(4) %}
    let v{{ j }} = eight_halves({{ w }}[4u * at + {{ j }}u]);
    {%- endfor %}
    return Chunk(v0[0], v0[1], v1[0], v1[1], v2[0], v2[1], v3[0], v3[1]);
{%- elif format == "bf16" %}
    {%- for j in range(4) %}
    let v{{ j }} = {{ w }}[4u * at + {{ j }}u];
    {%- endfor %}
    return Chunk(
    {%- for j in range(4) %}
        vec4<f32>(two_upper_halves(v{{ j }}.x), two_upper_halves(v{{ j }}.y)),
        vec4<f32>(two_upper_halves(v{{ j }}.z), two_upper_halves(v{{ j }}.w)),
    {%- endfor %}
    );
{%- elif format == "q4_0" %}
    let q = {{ w }}[at];
    let d = unpack2x16float({{ w }}[params.{{ w }}.y + at / 8u][at / 2u % 4u])[at % 2u];
    let m = vec4<f32>(-8.0 * d);
    return Chunk(
    {%- for j in range(4) %}
        d * four(q[{{ j }}] & 0x0f0f0f0fu) + m, d * four((q[{{ j }}] >> 4u) & 0x0f0f0f0fu) + m,
    {%- endfor %}
    );
{%- elif format == "q8_0" %}
    let low = {{ w }}[2u * at];
    let high = {{ w }}[2u * at + 1u];
    let d = unpack2x16float({{ w }}[params.{{ w }}.y + at / 8u][at / 2u % 4u])[at % 2u];
    return Chunk(
    {%- for part in ["low", "high"] %}{% for j in range(4) %}
        d * vec4<f32>(unpack4xI8({{ part }}[{{ j }}])),
    {%- endfor %}{% endfor %}
    );
{%- elif format == "q4_k" %}
    let q = {{ w }}[at];
    let factors = scale_min({{ w }}[params.{{ w }}.y + at / 8u], at % 8u);
    let d = factors.x;
    let m = vec4<f32>(-factors.y);
    return Chunk(
    {%- for j in range(4) %}
        d * four(q[{{ j }}] & 0x0f0f0f0fu) + m, d * four((q[{{ j }}] >> 4u) & 0x0f0f0f0fu) + m,
    {%- endfor %}
    );
{%- elif format == "q5_k" %}
    let q = {{ w }}[at];
    let h = {{ w }}[params.{{ w }}.z + at / 4u][at % 4u];
    let factors = scale_min({{ w }}[params.{{ w }}.y + at / 8u], at % 8u);
    let d = factors.x;
    let m = vec4<f32>(-factors.y);
    return Chunk(
    {%- for j in range(4) %}
        d * four((q[{{ j }}] & 0x0f0f0f0fu) | (((h >> {{ 2 * j }}u) & 0x01010101u) << 4u)) + m,
        d * four(((q[{{ j }}] >> 4u) & 0x0f0f0f0fu) | (((h >> {{ 2 * j + 1 }}u) & 0x01010101u) << 4u)) + m,
    {%- endfor %}
    );
{%- elif format == "q6_k" %}
    let q = {{ w }}[at];
    let highs = {{ w }}[params.{{ w }}.y + at / 2u];
    let h = select(highs.xy, highs.zw, (at & 1u) == 1u);
    let block = at / 8u;
    let d = unpack2x16float({{ w }}[params.{{ w }}.w + block / 8u][block / 2u % 4u])[block % 2u];
    let pair = {{ w }}[params.{{ w }}.z + block][at % 8u / 2u] >> (16u * (at & 1u));
    let scales = d * vec2<f32>(unpack4xI8(pair).xy);
    let low = scales.x;
    let high = scales.y;
    return Chunk(
    {%- for j in range(4) %}
        {%- set d = "low" if j < 2 else "high" %}
        {%- for i in range(2) %}
        {{ d }} * (four(((q[{{ j }}] >> {{ 4 * i }}u) & 0x0f0f0f0fu)
            | (((h[{{ j // 2 }}] >> {{ 4 * (j % 2) + 2 * i }}u) & 0x03030303u) << 4u)) - vec4<f32>(32.0)),
        {%- endfor %}
    {%- endfor %}
    );
{%- endif %}
}
{% endmacro %}
