"""Checks of the page against `rustorch serve` with the demo model: that both agree about the endpoints."""

import os
import re
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

from page_reader import check, reading, violations

QUESTION = "What is the capital of Italy?"

# As the demo model writes about 1,000 tokens in a second, nobody could see it write, or stop it. The reference backend writes 15.
SLOW = ("--backend", "reference")

DEMO = Path(__file__).parents[2] / "demo-model/rustorch-demo-q6_k.gguf"


def without_template(data):
    """The file with the key of its chat template renamed, so that no program finds it."""
    key = b"tokenizer.chat_template"
    assert data.count(key) == 1
    return data.replace(key, b"general.chat_template__")


# Counts how often the answer's text changes.
GROWTH = """() => {
  window.growth = 0;
  const seen = new Set();
  new MutationObserver(() => {
    const text = document.querySelector(".message.live > .markdown")?.innerText;
    if (text && !seen.has(text)) window.growth = seen.add(text).size;
  }).observe(document.querySelector("#scroller"), { subtree: true, childList: true, characterData: true });
}"""


@contextmanager
def real(browser, *arguments, **options):
    """A reader of a real server."""
    command = [os.environ["RUSTORCH"], "serve", "--port", "0", "--alias", "demo", *arguments]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        base = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))
        with reading(browser, f"{base}/", **options) as reader:
            yield reader
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert server.returncode == 0, server.returncode


def answer_of(reader):
    return reader.page.locator(".message.assistant.last")


def exact(reader):
    """The most probable tokens, from now on."""
    reader.page.keyboard.press("Alt+s")
    reader.page.fill("#set-temperature", "0")
    reader.page.keyboard.press("Escape")


@check
def real_answers(browser):
    with real(browser) as reader:
        page = reader.page
        expect(page.locator("#model")).to_have_value("demo")
        exact(reader)
        reader.ask(QUESTION)
        reader.shows(re.compile("Rome"))
        expect(answer_of(reader).locator(".figures")).to_contain_text(re.compile(r"\d+ tokens · .* tokens/s · prompt \d+ · demo"))
        expect(page.locator("#title")).to_have_text(QUESTION)

        page.get_by_role("button", name="Answer again").last.click()
        reader.finished()
        expect(page.locator(".turner")).to_have_text("2/2")
        reader.shows(re.compile("Rome"))

        question = page.locator(".message.user")
        question.hover()
        question.get_by_role("button", name="Edit and send again").click()
        page.locator(".editor textarea").fill("What is the capital of Norway?")
        page.keyboard.press("Enter")
        reader.finished()
        reader.shows(re.compile("Oslo"))
        page.get_by_role("button", name="Previous branch").first.click()
        reader.shows(re.compile("Rome"))

        reader.ask("What is 2 + 3?")
        expect(answer_of(reader).locator(".figures")).to_contain_text("% from cache")
        expect(page.locator(".message")).to_have_count(4)
        page.reload()
        expect(page.locator(".message")).to_have_count(4)


@check
def real_streaming(browser):
    with real(browser, *SLOW) as reader:
        page = reader.page
        exact(reader)
        reader.inside(GROWTH)
        reader.say("Tell me a story about a dragon.")
        expect(page.locator(".live .figures")).to_contain_text("tokens/s")
        expect(page.locator("#state")).to_contain_text("1 running")
        page.get_by_role("button", name="Stop").click()
        reader.finished()
        assert reader.inside("window.growth") >= 3
        expect(answer_of(reader).locator(".note")).to_contain_text("Stopped.")
        expect(page.locator("#state")).not_to_contain_text("running")
        stopped = reader.text()
        assert stopped.startswith("Once upon a time"), stopped
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(".live > .markdown")).to_contain_text(re.compile(f"{re.escape(stopped.strip())}.{{20}}", re.DOTALL))
        page.get_by_role("button", name="Stop").click()
        reader.finished()


@check
def real_probabilities(browser):
    with real(browser) as reader:
        page = reader.page
        exact(reader)
        answer = reader.ask(QUESTION)
        first = reader.text()
        answer.get_by_role("button", name="Token probabilities").click()
        popover = reader.alternatives_at("Rome")
        assert popover.locator(".alternatives-head code").inner_text() == "␣R"
        assert popover.locator("li").count() == 8
        assert popover.locator("li .taken").count() == 1
        other = popover.locator("button:not(.taken):not(:disabled)").first
        word = other.locator("code").inner_text().replace("␣", " ")
        other.click()
        reader.finished()
        expect(page.locator(".assistant .turner")).to_have_text("2/2")
        begin = first[: first.index(" Rome")] + word
        assert reader.text().startswith(begin) and len(reader.text()) > len(begin), (begin, reader.text())
        assert reader.inside("CSS.highlights.get('picked').size") >= 1
        page.get_by_role("button", name="Previous branch").click()
        reader.shows(first)


@check
def real_files(browser):
    with real(browser) as reader:
        page = reader.page
        exact(reader)
        reader.ask(QUESTION)
        text = reader.text()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export all conversations").click()
        path = Path(download.value.path())
        page.locator(".conversation").hover()
        page.locator(".conversation").get_by_role("button", name="Delete").click()
        expect(page.locator(".welcome")).to_be_visible()
        page.set_input_files("#import-picker", {"name": "all.json", "mimeType": "application/json", "buffer": path.read_bytes()})
        expect(page.locator("#toasts")).to_contain_text("1 conversation is imported")
        reader.shows(text)
        reader.ask("And of Norway?")
        expect(page.locator(".message")).to_have_count(4)


@check
def real_settings(browser):
    with real(browser) as reader:
        page = reader.page
        ignored = []
        page.on("response", lambda response: ignored.append(response.headers.get("x-ignored-fields")))
        page.keyboard.press("Alt+s")
        page.get_by_text("More parameters").click()
        for name, value in [
            ("temperature", 0.3), ("top_p", 0.9), ("top_k", 20), ("min_p", 0.1), ("repeat_penalty", 1.1), ("max_tokens", 4), ("seed", 7),
        ]:  # fmt: skip
            page.fill(f"#set-{name}", str(value))
        page.fill("#system", "Be brief.")
        page.fill("#template", '{"builtin": true}')
        page.select_option("#reasoning", "off")
        page.get_by_label("Reuse the cached part of the prompt").uncheck()
        page.keyboard.press("Escape")
        for _ in range(2):
            reader.ask(QUESTION * 5)
            expect(answer_of(reader).locator(".note")).to_contain_text("longest length")
            expect(answer_of(reader).locator(".figures")).not_to_contain_text("from cache")
        assert not any(ignored), ignored


@check
def real_suggestions(browser):
    with real(browser) as reader:
        exact(reader)
        examples = reader.page.locator(".examples button span").all_inner_texts()
        for example, words in zip(examples, ["Rome", "dragon|cave|once", "R-I-V-E-R", "-m "], strict=True):
            reader.ask(example)
            reader.shows(re.compile(words, re.IGNORECASE))
        expect(reader.page.locator(".context")).to_have_text(re.compile(r"\d+ of 1,024"))


@check
def real_completing(browser):
    """The demo model without its chat template."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base.gguf"
        path.write_bytes(without_template(DEMO.read_bytes()))
        with real(browser, "-m", str(path)) as reader:
            page = reader.page
            exact(reader)
            expect(page.locator(".welcome")).to_contain_text("it completes text")
            reader.ask("Once upon a time")
            reader.shows(re.compile("^there|^,"))
            expect(page.locator(".context")).to_have_text(re.compile(r"\d+ of 1,024"))
            assert reader.inside("document.querySelectorAll('.trouble').length") == 0


@check
def real_trouble(browser):
    with real(browser, "--api-key", "open-sesame", expected=("Failed to load resource",)) as reader:
        page = reader.page
        expect(page.locator("#key")).to_be_visible()
        page.fill("#api-key", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-note")).to_contain_text("refused this key")
        page.fill("#api-key", "open-sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#model")).to_be_enabled()
        reader.say("word " * 3000)
        expect(page.locator(".trouble strong")).to_have_text(re.compile("1024 tokens"))
        expect(page.locator(".context-note")).to_contain_text("The context is full.")


@check
def real_accessibility(browser):
    for theme in ["light", "dark"]:
        with real(browser, bypass_csp=True, reduced_motion="reduce", color_scheme=theme) as reader:
            page = reader.page
            found = violations(reader)
            reader.ask(QUESTION)
            reader.ask("Tell me a story about a dragon.")
            page.get_by_role("button", name="Answer again").last.click()
            reader.finished()
            page.get_by_role("button", name="Token probabilities").last.click()
            page.locator(".last > .markdown").focus()
            page.keyboard.press("ArrowRight")
            found += violations(reader)
            assert not found, theme + "\n" + "\n".join(found)


@check
def real_pictures(browser):
    """Those of the documents, if `PICTURES` is docs/pictures."""
    folder = Path(os.environ.get("PICTURES", tempfile.gettempdir()))
    for theme in ["light", "dark"]:
        with real(browser, reduced_motion="reduce", color_scheme=theme) as reader:
            page = reader.page
            page.set_viewport_size({"width": 1280, "height": 800})
            exact(reader)
            for earlier in ["Spell the word river.", "What is the capital of Norway?", "How do I load another model?"]:
                reader.ask(earlier)
                page.keyboard.press("Alt+n")
                expect(page.locator(".welcome")).to_be_visible()
            reader.ask("Write a poem about the sea.")
            reader.ask("Tell me a story about a dragon.")
            page.get_by_role("button", name="Token probabilities").last.click()
            page.locator(".last > .markdown").focus()
            reader.alternatives(lambda: page.keyboard.press("Home"))
            for _ in range(7):
                page.keyboard.press("ArrowRight")
            expect(page.locator(".alternatives-head code")).to_have_text("␣curious")
            page.screenshot(path=folder / f"page-{theme}.png")
