{#- Chunks of activations. `ragged`: rows are no whole chunks, and what lies behind them is not to be read as numbers. -#}
{%- macro activations(ragged, norm) %}
{%- if ragged %}
fn kept(numbers: vec4<f32>, col: u32) -> vec4<f32> {
    return select(vec4<f32>(0.0), numbers, vec4<u32>(col, col + 1u, col + 2u, col + 3u) < vec4<u32>(params.x.z));
}
{%- endif %}

fn x_chunk(row: u32, chunk: u32) -> Chunk {
    let at = params.x.x + row * params.x.y + 8u * chunk;
    return Chunk(
    {%- for j in range(8) %}
    {%- if ragged %}
        kept(x[at + min({{ j }}u, params.x.y - 1u - 8u * chunk)], 32u * chunk + {{ 4 * j }}u),
    {%- else %}
        x[at + {{ j }}u],
    {%- endif %}
    {%- endfor %}
    );
}
{% if norm %}
fn g_chunk(chunk: u32) -> Chunk {
    return Chunk(
    {%- for j in range(8) %}
    {%- if ragged %}
        kept(g[min(8u * chunk + {{ j }}u, arrayLength(&g) - 1u)], 32u * chunk + {{ 4 * j }}u),
    {%- else %}
        g[8u * chunk + {{ j }}u],
    {%- endif %}
    {%- endfor %}
    );
}

fn times(a: Chunk, b: Chunk) -> Chunk {
    return Chunk(
    {%- for j in range(8) %}
        a[{{ j }}] * b[{{ j }}],
    {%- endfor %}
    );
}
{% endif %}
{%- endmacro %}
