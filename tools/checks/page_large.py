"""Checks of the page that measure: rendering in pieces, a long answer, a conversation of 10,000 messages."""

import time

from playwright.sync_api import expect

from page_reader import check, reading

# Random texts of what markdown is made of, rendered in random pieces and at once; and whether each text node knows its source.
PIECES = r"""async () => {
  const { MarkdownView } = await import("/page/markdown.js");
  const { sources } = await import("/page/inline.js");
  let seed = 12345;
  const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor((seed / 2147483648) * n); };
  const parts = ["# ", "- ", "1. ", "> ", "```", "```py\n", "\n", "\n\n", "word", " ", "*", "**", "_", "`", "|", "|--|--|\n", "| a | b |\n", "---\n",
    "[x](https://e.org)", "[", "](", "  ", "    ", "~~", "\\", "<br>", "&amp;", "https://e.org/x", "=\n", "- [ ] ", "!", "/* \n", "'''", "\r\n",
    "$", "$$", "\\(", "\\)", "\\[", "\\]", "$$\n", "\\[\n", "x^2", "\\frac", "{", "}", "5", "\\begin{align}", "\\end{align}", "&"];
  const wrong = [];
  for (let round = 0; round < 1500; round += 1) {
    let text = "";
    for (let i = random(40) + 3; i > 0; i -= 1) text += parts[random(parts.length)];
    const grown = new MarkdownView();
    for (let at = 0; at < text.length;) {
      at = Math.min(text.length, at + 1 + random(6));
      grown.update(text.slice(0, at));
    }
    const whole = new MarkdownView();
    whole.update(text);
    if (grown.element.innerHTML !== whole.element.innerHTML) wrong.push([text, grown.element.innerHTML, whole.element.innerHTML]);
    const walker = document.createTreeWalker(whole.element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const at = sources.get(node);
      if (at === undefined || node.data === "&" || text.includes("\r") || node.parentElement.closest("math")) continue;
      const source = text.slice(at, at + node.length);
      if (source !== node.data) wrong.push([text, node.data, source]);
    }
  }
  return wrong;
}"""

WORK = """() => {
  window.longest = 0;
  window.blocked = 0;
  new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => {
    window.longest = Math.max(window.longest, duration);
    window.blocked += duration;
  })).observe({ type: "longtask" });
}"""

# A conversation of N messages, written into the store.
FILL = """async (count) => {
  const { save, openStore } = await import("/page/store.js");
  await openStore();
  const messages = [];
  const record = { id: "big", title: "Ten thousand messages", created: 1, updated: Date.now(), system: "", leaf: `m${count - 1}` };
  for (let i = 0; i < count; i += 1) {
    messages.push({ id: `m${i}`, conversation: "big", parent: i ? `m${i - 1}` : "", role: i % 2 ? "assistant" : "user", state: "done", created: i,
      order: i, content: i % 2 ? `Answer **${i}** with a list:\\n\\n- one\\n- two \\`code\\`\\n\\n${"Some more words. ".repeat(i % 23)}` : `Question ${i}` });
  }
  await save(record, messages);
}"""

TYPING = """async () => {
  const area = document.querySelector("#message");
  area.focus();
  const times = [];
  for (let i = 0; i < 60; i += 1) {
    const start = performance.now();
    area.setRangeText("x", area.value.length, area.value.length, "end");
    area.dispatchEvent(new InputEvent("input", { bubbles: true }));
    area.getBoundingClientRect();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    times.push(performance.now() - start);
  }
  area.value = "";
  return times.sort((a, b) => a - b)[57];
}"""


@check
def long_answer(browser):
    """100 kB arrive; the page stays responsive and does not render again what stands."""
    with reading(browser) as reader:
        page = reader.page
        reader.inside(WORK)
        start = time.time()
        reader.say("long 16000")
        expect(page.locator(".live > .markdown p").nth(3)).to_be_attached(timeout=20_000)
        page.evaluate("document.querySelector('.assistant > .markdown p').first = true")
        expect(page.locator(".message.live")).to_have_count(0, timeout=60_000)
        size = reader.inside("document.querySelector('.assistant > .markdown').textContent.length")
        assert size > 95_000, size
        assert reader.inside("document.querySelector('.assistant > .markdown p').first") is True
        longest, blocked = reader.inside("[window.longest, window.blocked]")
        print(
            f"   {size / 1000:.0f} kB in {time.time() - start:.1f} s: longest task {longest:.0f} ms, {blocked / 1000:.1f} s in long tasks"
        )
        assert longest < 1000, longest
        page.get_by_role("button", name="Token probabilities").click()
        page.locator(".last > .markdown").focus()
        for key in ["End", "Home"]:
            page.keyboard.press(key)
            page.wait_for_timeout(300)
            expect(page.locator(".alternatives")).to_be_in_viewport()
        assert page.locator("#scroller").evaluate("(scroller) => scroller.scrollTop") < 800


@check
def ten_thousand_messages(browser):
    with reading(browser) as reader:
        page = reader.page
        reader.inside(FILL, 10_000)
        opened = []
        for _ in range(3):  # the machine may be busy with something else
            page.goto("about:blank")
            start = time.time()
            page.goto(f"{reader.base}#/c/big")
            expect(page.locator(".message")).to_have_count(10_000)
            expect(page.locator(".message.last .markdown strong")).to_have_text("9999")
            page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
            opened.append(time.time() - start)
        opened = min(opened)
        bottom = "document.querySelector('#scroller').scrollHeight - document.querySelector('#scroller').scrollTop - document.querySelector('#scroller').clientHeight"
        page.wait_for_timeout(300)
        assert reader.inside(bottom) < 80, "the view is at the end"
        typing = reader.inside(TYPING)
        reader.inside(WORK)
        reader.ask("one more")
        longest = reader.inside("window.longest")
        assert reader.inside(bottom) < 80, "the view follows the answer"
        start = time.time()
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        expect(page.locator(".message > .markdown").first).to_contain_text("Answer 1 ")
        top = time.time() - start
        page.wait_for_timeout(300)
        rendered = page.locator(".message > .markdown").count()
        heap = reader.inside("performance.memory.usedJSHeapSize / 1e6")
        print(
            f"   10,000 messages: open {opened:.2f} s, a key {typing:.0f} ms (95 %), sending blocks {longest:.0f} ms, to the top {top:.2f} s; "
            f"{rendered} rendered, heap {heap:.0f} MB"
        )
        assert opened < 2 and typing < 100 and longest < 500 and rendered < 400, (opened, typing, longest, rendered)
        page.fill("#search", "question 5000")
        page.locator(".entry small").click()
        expect(page.locator(".message[data-id=m5000]")).to_be_in_viewport()
