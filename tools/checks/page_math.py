"""Checks of formulas in the page's answers: what is a formula, and which MathML it becomes."""

import re

from page_reader import check, reading, violations

# Markdown rendered at once. With `steps`, also as it grows by a character: the texts of all its states.
RENDER = r"""async ([text, steps]) => {
  const { MarkdownView } = await import("/page/markdown.js");
  const view = new MarkdownView();
  const states = [];
  for (let at = steps ? 1 : text.length; at <= text.length; at += 1) {
    view.update(text.slice(0, at));
    states.push([text.slice(0, at), view.element.querySelectorAll("math").length]);
  }
  return steps ? states : view.element.innerHTML;
}"""

# Where in the source the text nodes of a formula are.
PLACES = r"""async (text) => {
  const { MarkdownView } = await import("/page/markdown.js");
  const { Places } = await import("/page/places.js");
  const view = new MarkdownView();
  view.update(text);
  return new Places(view.element).nodes.map(({ node, start }) => [node.data, start]);
}"""

X, N, TWO = "<mi>x</mi>", "<mi>n</mi>", "<mn>2</mn>"
OPEN, CLOSE = '<mo form="prefix" stretchy="false">(</mo>', '<mo form="postfix" stretchy="false">)</mo>'
MINUS = '<mo form="prefix">−</mo>'
THIN = '<mspace width="0.1667em"></mspace>'
LIM = '<mo movablelimits="true" lspace="0" rspace="0">lim</mo>'


def row(*parts):
    return f"<mrow>{''.join(parts)}</mrow>"


def rows(attributes, *lines):
    cells = ["".join(f"<mtd>{cell}</mtd>" for cell in line) for line in lines]
    return f"<mtable{attributes}>{''.join(f'<mtr>{line}</mtr>' for line in cells)}</mtable>"


ALIGNED = ' class="aligned" displaystyle="true"'
SQUARE = rows("", ["<mn>1</mn>", X], ["<mn>0</mn>", N])

MATHML = {
    r"x": X,
    r"x^2": f"<msup>{X}{TWO}</msup>",
    r"x_n^2": f"<msubsup>{X}{N}{TWO}</msubsup>",
    r"x^2_n": f"<msubsup>{X}{N}{TWO}</msubsup>",
    r"x^10": row(f"<msup>{X}<mn>1</mn></msup>", "<mn>0</mn>"),
    r"x^{10.5}": f"<msup>{X}<mn>10.5</mn></msup>",
    r"x'": f"<msup>{X}<mo>′</mo></msup>",
    r"x''_n": f"<msubsup>{X}{N}<mo>′′</mo></msubsup>",
    r"\frac{x}{2}": f"<mfrac>{X}{TWO}</mfrac>",
    r"\frac x2": f"<mfrac>{X}{TWO}</mfrac>",
    r"{x \over 2}": f"<mfrac>{X}{TWO}</mfrac>",
    r"\sqrt{x}": f"<msqrt>{X}</msqrt>",
    r"\sqrt[n]{x}": f"<mroot>{X}{N}</mroot>",
    r"-x - 2": row(MINUS, X, "<mo>−</mo>", TWO),
    r"x = -2": row(X, "<mo>=</mo>", MINUS, TWO),
    r"(x)": row(OPEN, X, CLOSE),
    r"\alpha \le \Omega": row("<mi>α</mi>", "<mo>≤</mo>", '<mi mathvariant="normal">Ω</mi>'),
    r"x \to \infty": row(X, "<mo>→</mo>", '<mi mathvariant="normal">∞</mi>'),
    r"x ≤ n": row(X, "<mo>≤</mo>", N),
    r"x \not= n": row(X, "<mo>≠</mo>", N),
    r"\sum_{x}^n x": row(f"<munderover><mo>∑</mo>{X}{N}</munderover>", X),
    r"\int_2^n x": row(f"<msubsup><mo>∫</mo>{TWO}{N}</msubsup>", X),
    r"\int\limits_2^n": f'<munderover><mo movablelimits="false">∫</mo>{TWO}{N}</munderover>',
    r"\lim_{x \to 2} x": row(f"<munder>{LIM}{row(X, '<mo>→</mo>', TWO)}</munder>", THIN, X),
    r"\sin x": row("<mi>sin</mi>", THIN, X),
    r"2\sin(x)": row(TWO, THIN, "<mi>sin</mi>", OPEN, X, CLOSE),
    r"\hat{x}": f'<mover accent="true">{X}<mo stretchy="false">^</mo></mover>',
    r"\underbrace{x}_{n}": f'<munder><munder accentunder="true">{X}<mo stretchy="true">⏟</mo></munder>{N}</munder>',
    r"\overline{x}": f'<mrow class="overline">{X}</mrow>',
    r"\text{if $x$ is 2}": row("<mtext>if\u00a0</mtext>", X, "<mtext>\u00a0is\u00a02</mtext>").replace("\u00a0", "&nbsp;"),
    r"\text{\textbf{n}\,\%}": row('<mtext class="bold">n</mtext>', "<mtext>&nbsp;%</mtext>"),
    r"\ket{x}": row('<mo form="prefix">|</mo>', X, '<mo form="postfix">⟩</mo>'),
    r"x\kern 2em n\mspace{-3mu}x": row(X, '<mspace width="2em"></mspace>', N, X),
    r"\mathrm{kg}": "<mi>kg</mi>",
    r"\mathrm{d}x": row('<mi mathvariant="normal">d</mi>', X),
    r"\mathbf{x}": "<mi>𝐱</mi>",
    r"\mathbb{R}": "<mi>ℝ</mi>",
    r"\mathbb{E}": "<mi>𝔼</mi>",
    r"\mathcal{L}": "<mi>ℒ</mi>",
    r"\mathcal{N}": "<mi>𝒩</mi>",
    r"\boldsymbol{\alpha}": "<mi>𝜶</mi>",
    r"\left( x \right]": row('<mo form="prefix" stretchy="true">(</mo>', X, '<mo form="postfix" stretchy="true">]</mo>'),
    r"\left. x \right|_2": "<msub>" + row(X, '<mo form="postfix" stretchy="true">|</mo>') + f"{TWO}</msub>",
    r"\binom{n}{2}": row('<mo stretchy="true">(</mo>', f'<mfrac linethickness="0">{N}{TWO}</mfrac>', '<mo stretchy="true">)</mo>'),
    r"\boxed{x}": f'<mrow class="boxed">{X}</mrow>',
    r"\color{red}{x}": X,
    r"\textcolor{red}{x}": X,
    r"x\quad n": row(X, '<mspace width="1em"></mspace>', N),
    r"x\!n": row(X, N),
    r"\begin{matrix} 1 & x \\ 0 & n \end{matrix}": SQUARE,
    r"\begin{pmatrix} 1 & x \\ 0 & n \\ \end{pmatrix}": row('<mo stretchy="true">(</mo>', SQUARE, '<mo stretchy="true">)</mo>'),
    r"\begin{cases} x & n \\[4pt] 2 & x \end{cases}": row('<mo stretchy="true">{</mo>', rows(' class="cases"', [X, N], [TWO, X])),
    r"\begin{aligned} x &= 2 \\ &= n \end{aligned}": rows(
        ALIGNED, [X, row("<mo>=</mo>", TWO)], ["<mrow></mrow>", row("<mo>=</mo>", N)]
    ),
    r"\begin{eqnarray} x &=& 2 \end{eqnarray}": '<mtable displaystyle="true"><mtr>'
    f'<mtd class="right">{X}</mtd><mtd><mo>=</mo></mtd><mtd class="left">{TWO}</mtd></mtr></mtable>',
    r"x \\ n": rows(' displaystyle="true"', [X], [N]),
    r"\begin{array}{l|r} x & 2 \\ \hline n & 2 \end{array}": f'<mtable><mtr><mtd class="left">{X}</mtd><mtd class="right bar">{TWO}</mtd></mtr>'
    f'<mtr class="ruled"><mtd class="left">{N}</mtd><mtd class="right bar">{TWO}</mtd></mtr></mtable>',
    r"x \& \% \{ n \}": row(
        X,
        '<mi mathvariant="normal">&amp;</mi>',
        '<mi mathvariant="normal">%</mi>',
        '<mo form="prefix" stretchy="false">{</mo>',
        N,
        '<mo form="postfix" stretchy="false">}</mo>',
    ),
    r"x < n": row(X, "<mo>&lt;</mo>", N),
}

# What is not understood in full stays as it was written.
UNKNOWN = [
    r"\foo{x}", r"\frac{x}", r"{x", r"x}", r"\left( x", r"x^2^2", r"x & \end{matrix}", r"\begin{matrix} x \end{pmatrix}",
    r"\begin{tikzpicture} x \end{tikzpicture}", r"\sqrt[3", r"\text{x", r"\href{javascript:alert(1)}{x}", "{" * 500 + "x" + "}" * 500,
    r"\sqrt" * 500, "x" * 20_000,
]  # fmt: skip

# Texts, and how many formulas are in them.
FORMULAS = {
    r"a \(x\) b": 1,
    r"a \[x\] b": 1,
    "a $x$ b": 1,
    "a $$x$$ b": 1,
    "**a $x$** and *$x$*": 2,
    "|$x$|\n|-|\n|\\(x\\)|": 2,
    "# $x$": 1,
    "设$x$为": 1,
    "the $n$th, ($x$), $x$.": 3,
    r"$\text{if $x$}$ and $\text{if \$5}$": 2,
    "- $x$\n  \\[\n  x\n  - 2\n  + n\n  \\]": 2,
    "$$\nx\n= n\n- 2\n# 2\n> 2\n=\n$$": 1,
    "so\n\\[\nx\n- 2\n\\]\nand\n- item": 1,
    "> \\[\n> x\n> - 2\n> \\]": 1,
    "\\begin{align}\nx &= 2 \\\\\n- n &= 2\n\\end{align}": 1,
    r"\( a_1 * b_1 * c_1 \) and \(x*y*z\)": 2,
    r"\[ \text{$x$} \]": 1,
    "$x$ costs \\$5, $n$ costs \\$6": 2,
    # Money, variables, code and what never closes.
    "$5 and $10": 0,
    "$5-$10, US$5, A$6, 5$, 6$": 0,
    "It costs $5 and that is 10$ more": 0,
    "from $1,000.50 to $2M ($3M)": 0,
    "$HOME:$PATH and ${HOME}/$X": 0,
    "$a/$b, $x=$y; $_GET['x']=$_POST": 0,
    "dollars ($) and '$' or \"$\" or euros ($)": 0,
    "`$x$` and ``\\(x\\)``": 0,
    "$x `$`": 0,
    "```\n$x$ \\(x\\)\n$$\nx\n$$\n```": 0,
    r"\$x\$ and \\(x\\)": 0,
    r"a \(x and \[y and $$z": 0,
    "$$\nx\n\ny\n$$": 0,
    "$ x $ and $$ $$": 0,
    r"[\[1\]](https://example.com)": 1,
}


@check
def formulas_are_mathml(browser):
    with reading(browser) as reader:
        for latex, expected in MATHML.items():
            html = reader.inside(RENDER, [rf"\({latex}\)", False])
            assert html == f"<p><math>{expected}</math></p>", (latex, html, expected)
        html = reader.inside(RENDER, [r"\[x\]", False])
        assert f'<math display="block">{X}</math>' in html, html


@check
def unknown_latex_is_shown(browser):
    with reading(browser) as reader:
        for latex in UNKNOWN:
            formula = rf"\({latex}\)"
            expected = f'<p><code class="latex">{formula.replace("&", "&amp;")}</code></p>'
            html = reader.inside(RENDER, [formula, False])
            assert html == expected, (latex[:100], html[:300])


@check
def formulas_are_told_from_text(browser):
    with reading(browser) as reader:
        for text, count in FORMULAS.items():
            html = reader.inside(RENDER, [text, False])
            assert html.count("<math") == count, (text, html)
        html = reader.inside(RENDER, ["It is $5 and $10, *or* \\(x", False])
        assert html == "<p>It is $5 and $10, <em>or</em> \\(x</p>", html


@check
def formulas_arrive_whole(browser):
    """A formula is text until it is complete, and then stays one."""
    with reading(browser) as reader:
        text = "By \\(x^{2}\\) and $n_{1}$:\n\\[\nx\n- \\frac{1}{2}\n\\]\nso $5 and $$x$$ end"
        ends = [match.end() for match in re.finditer(r"\\\)|1}\$|\\\]|x\$\$", text)]
        for shown, count in reader.inside(RENDER, [text, True]):
            assert count == sum(end <= len(shown) for end in ends), (shown, count)


@check
def tokens_of_formulas_have_places(browser):
    with reading(browser) as reader:
        text = "a\n  \\(\\sqrt[n]{x} +\n \\hat\\alpha\\) b"
        found = reader.inside(PLACES, text)
        places = [(shown, text.index(source)) for shown, source in
                  [("a", "a"), ("n", "n]"), ("x", "x}"), ("+", "+"), ("^", "\\hat"), ("α", "\\alpha"), (" b", " b")]]  # fmt: skip
        assert [tuple(place) for place in found if place[0].strip()] == places, (found, places)


@check
def formulas_of_answers(browser):
    """In an answer, under the server's policy and in a narrow window."""
    with reading(browser) as reader:
        last = reader.ask("formulas")
        assert last.locator("math").count() == 6 and last.locator("code").count() == 1
        edges = last.locator(".aligned mtd:first-child > *").evaluate_all(
            "(all) => all.map((cell) => cell.getBoundingClientRect().right)"
        )
        assert len(edges) == 2 and abs(edges[0] - edges[1]) < 0.5, edges
        assert not violations(reader), violations(reader)
        reader.page.set_viewport_size({"width": 360, "height": 700})
        assert reader.inside("document.querySelector('#scroller').scrollWidth <= window.innerWidth"), "nothing leaves the window"
        box = last.locator(".formula").last
        assert box.evaluate("(box) => (box.scrollLeft = 50) && box.scrollLeft === 50"), "a wide formula scrolls"
