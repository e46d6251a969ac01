"""Answers of `tools/checks/page_server.py`."""

FENCE = "```"

SHOW = f"""A context manager fits here: it closes the file even when an error leaves the block.

{FENCE}python
from pathlib import Path

def count_words(path: Path) -> dict[str, int]:
    \"\"\"Counts each word of a text file.\"\"\"
    counts: dict[str, int] = {{}}
    with path.open(encoding="utf-8") as lines:
        for line in lines:          # one line at a time: any size of file
            for word in line.lower().split():
                counts[word] = counts.get(word, 0) + 1
    return counts
{FENCE}

How it compares:

| Way | Closes on error | Memory |
|:--|:-:|--:|
| `with open(…)` | yes | 1 line |
| `open(…)` and `close()` | no | 1 line |
| `read_text()` | yes | whole file |

- **Prefer `with`** for anything that is larger than a few kB.
- Use *read_text* for small settings.
"""

HOSTILE = (
    f"""<script>window.broken = 1</script>
<img src=x onerror="window.broken = 2">

[one](javascript:window.broken=3) [two](data:text/html,<script>1</script>) [three](JaVaScRiPt:alert(1))
[four](vbscript:x) [five](https://example.com/ok) <javascript:alert(1)> [six](//elsewhere.example/x) [seven](&#106;avascript:1)
![picture](https://elsewhere.example/p.png) <iframe src="https://elsewhere.example"></iframe>

<svg onload="window.broken = 4"></svg> <a href="javascript:1" onclick="window.broken = 5">x</a>

[bad
link](https://example.com/"onmouseover="window.broken=6)

{">" * 400} deep

{"- " * 300}deep

{"*a _b " * 400}

{"[" * 2000}

\\(\\text{{<img src=x onerror="window.broken = 9">}}\\) $\\href{{javascript:window.broken=10}}{{x}}$ \\[<script>window.broken = 11</script>\\]

{"$x " * 3000}

{"$$ " * 3001}

{"[(".join([chr(92)] * 3000)}

{(chr(92) + "[") * 3000}

{"$" + "{" * 3000 + "$"}

{"`" * 999} x {"``" * 500}

| a | b |
|---|---|
"""
    + "".join(f"| {i} | <b onclick=x>{i}</b> |\n" for i in range(300))
    + f"""
{FENCE}html
<script>window.broken = 7</script>
</code></pre><script>window.broken = 8</script>
"""
)

CODE = "\n".join(
    f"{FENCE}{language}\n{text}\n{FENCE}\n"
    for language, text in {
        "rust": '/// Adds.\nfn add(a: u32, b: u32) -> u32 {\n    let text = "a\\"b"; /* over\n    lines */ println!("{a}");\n    a + b // sum\n}',
        "js": "const f = async (x) => `a ${x}`; // done\nexport { f };",
        "c": '#include <stdio.h>\nint main(void) { return printf("%d\\n", 0x1F); }',
        "sh": 'for f in *.txt; do echo "$f" # each\ndone',
        "json": '{"name": [1, true, null, "x"]}',
        "html": '<!-- note --><a href="x">y</a>',
        "sql": "SELECT name FROM users WHERE id = 1; -- one",
    }.items()
)

TEXTS = {
    "reasoning": "The reader wants a short answer. First I look at what is asked, then I weigh two ways, and take the simpler one.",
    "hostile": HOSTILE,
    "code": CODE,
    "show": SHOW,
    "formulas": r"""The roots are $x_1$ and \(x_2\), for $5 or $10:

\[ x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a} \]

1. A matrix:
   $$
   A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
   $$
2. Unknown: \(\foo{x}\)

\begin{align}
x &= 1 \\
- 10x &= 10
\end{align}

$$"""
    + "a + " * 60
    + "b$$\n",
    "table": "| a | b |\n|---|--:|\n| 1 | `x|y` |\n| 2 | **b** |\n",
    "unclosed": f"Before\n\n{FENCE}python\ndef f():\n    return 1\n",
    "markdown": "# Title\n\nSome *emphasis*, **strong**, ***both***, ~~gone~~, `code`, <br>snake_case_name and 2 * 3 * 4.\n\n"
    "1. one\n2. two\n   - inner\n   - [x] done\n\n> quoted\n> text\n\n---\n\nSee https://example.com/a_b(c). "
    '[A link](https://example.com "title"), a@b &amp; &lt;b&gt;.\nLine two  \nafter a break\\\nand another\n\nSetext\n---\n',
    "emoji": "A smile 😀 and a thumb 👍 in a sentence – naïve café.",
    "plain": "The river is calm in the morning. Light falls on the stones, and the garden behind the house is quiet.",
}
