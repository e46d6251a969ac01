"""Checks of what surrounds the answers: files, conversations, settings, key, keyboard, accessibility, narrow windows."""

import json
import os
import tempfile
from pathlib import Path

from playwright.sync_api import expect

from page_reader import check, reading, violations
from page_texts import TEXTS

# Elements of messages that reach beyond the window and that nothing scrolls to.
CUT_OFF = """() => [...document.querySelectorAll(".message *")].filter((element) => {
  if (element.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let parent = element.parentElement; parent; parent = parent.parentElement) {
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(parent).overflowX) && parent.id !== "scroller") return parent.tagName === "BODY";
  }
  return true;
}).map((element) => element.outerHTML.slice(0, 80))"""


@check
def files(browser):
    with reading(browser) as reader, tempfile.TemporaryDirectory() as folder:
        page = reader.page
        names = {"a.py": b"x = '```'\n", "large.txt": b"x" * 600_000, "binary.bin": b"\xff\xfe\x00"}
        for name, data in names.items():
            (Path(folder) / name).write_bytes(data)
        page.set_input_files("#composer input[type=file]", [Path(folder) / name for name in names])
        expect(page.locator(".chips li")).to_have_count(1)
        expect(page.locator(".toast")).to_have_count(2)
        assert (
            "at most 512 kB" in page.locator("#toasts").inner_text() and "not a text file" in page.locator("#toasts").inner_text()
        )
        data = page.evaluate_handle("""() => {
            const data = new DataTransfer();
            data.items.add(new File(["dropped"], "b.txt"));
            return data;
        }""")
        page.dispatch_event("body", "dragenter", {"dataTransfer": data})
        expect(page.locator("#drop")).to_be_visible()
        page.dispatch_event("body", "drop", {"dataTransfer": data})
        expect(page.locator(".chips li")).to_have_count(2)
        expect(page.locator("#drop")).to_be_hidden()
        page.get_by_role("button", name="Remove b.txt").click()
        reader.ask("what is this?")
        [message] = reader.requests()[-1]["messages"]
        assert message["content"] == "a.py:\n````py\nx = '```'\n````\n\nwhat is this?", message
        page.locator(".file summary").click()
        expect(page.locator(".file pre")).to_have_text("x = '```'")


@check
def conversations(browser):
    with reading(browser) as reader:
        page = reader.page
        reader.ask("about rivers")
        page.keyboard.press("Alt+n")
        expect(page.locator(".welcome")).to_be_visible()
        reader.ask("show files")
        entries = page.locator(".entry")
        expect(entries).to_have_text(["show files", "about rivers"])
        page.keyboard.press("Control+k")
        page.keyboard.type("stones")
        expect(entries).to_have_count(1)
        expect(entries.locator("small")).to_contain_text("falls on the stones")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("#title")).to_have_text("about rivers")
        page.fill("#search", "")
        item = page.locator(".conversation").last
        item.hover()
        item.get_by_role("button", name="Rename").click()
        page.keyboard.type("All rivers")
        page.keyboard.press("Enter")
        expect(page.locator("#title")).to_have_text("All rivers")

        with page.expect_download() as download:
            page.get_by_role("button", name="Export all conversations").click()
        exported = Path(download.value.path()).read_text()
        assert {record["title"] for record in json.loads(exported)["conversations"]} == {"All rivers", "show files"}
        page.get_by_role("button", name="More for this conversation").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export as Markdown").click()
        assert Path(download.value.path()).read_text().startswith("# All rivers\n\n## You\n\nabout rivers\n\n## Qwen3")

        item.hover()
        item.get_by_role("button", name="Delete").click()
        expect(entries).to_have_count(1)
        page.get_by_role("button", name="Undo").click()
        expect(entries).to_have_count(2)
        for name in ["All rivers", "show files"]:
            page.locator(".conversation").first.hover()
            page.locator(".conversation").first.get_by_role("button", name="Delete").click()
            page.wait_for_timeout(100)
        expect(entries).to_have_count(0)
        expect(page.locator(".welcome")).to_be_visible()

        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            for text, words in [(exported, "2 conversations are imported"), ("{}", "holds no conversations"), ("x", "not JSON")]:
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                page.set_input_files("#import-picker", file.name)
                expect(page.locator("#toasts")).to_contain_text(words)
            circle = [{"id": "a", "parent": "b", "role": "user"}, {"id": "b", "parent": "a", "role": "user"}]
            odd = [
                {"id": "a", "role": "user", "content": 5, "files": "x", "created": "never"},
                {"id": "b", "parent": "a", "role": "assistant", "content": "<b>odd</b>", "stats": {"written": {}, "writing": "1"},
                 "tools": [None], "state": "running", "error": {"title": {}}},
            ]  # fmt: skip
            for messages, words in [
                (circle, "in a circle"), (circle[:1] * 2, "the same id"), (circle[:1], "that the file lacks"),
                ([{"id": "a", "role": "system"}], "no role that is known"), (odd, "1 conversation is imported"),
            ]:  # fmt: skip
                record = {"title": {"x": 1}, "leaf": "nowhere", "messages": messages}
                Path(file.name).write_text(
                    json.dumps({"format": "rustorch-conversations", "version": 1, "conversations": [record]})
                )
                page.set_input_files("#import-picker", file.name)
                expect(page.locator("#toasts")).to_contain_text(words)
            reader.shows("<b>odd</b>")
        expect(entries).to_have_count(3)
        entries.filter(has_text="show files").click()
        expect(page.locator("#title")).to_have_text("show files")
        entries.filter(has_text="All rivers").click()
        expect(page.locator("#title")).to_have_text("All rivers")
        reader.shows(TEXTS["plain"])
        page.go_back()
        expect(page.locator("#title")).to_have_text("show files")


@check
def settings(browser):
    with reading(browser) as reader:
        page = reader.page
        page.keyboard.press("Alt+s")
        expect(page.locator("#settings")).to_be_visible()
        assert page.get_attribute("#set-temperature", "placeholder") == "0.7"
        page.fill("#system", "Be brief.")
        page.fill("#set-temperature", "0.3")
        page.fill("#set-seed", "7")
        page.fill("#set-top_p", "5")
        expect(page.locator("#hint-top_p")).to_contain_text("from 0 to 1")
        page.fill("#template", '{"builtin": true}')
        page.select_option("#reasoning", "off")
        page.keyboard.press("Escape")
        page.select_option("#model", "SmolLM2-1.7B-Q8_0")
        reader.ask("hello")
        request = reader.requests()[-1]
        assert request["messages"][0] == {"role": "system", "content": "Be brief."}
        assert (request["temperature"], request["seed"], request.get("top_p")) == (0.3, 7, None)
        assert request["chat_template_kwargs"] == {"builtin": True, "enable_thinking": False}
        assert request["model"] == "SmolLM2-1.7B-Q8_0"
        page.reload()
        expect(page.locator("#model")).to_have_value("SmolLM2-1.7B-Q8_0")
        page.keyboard.press("Alt+s")
        assert page.input_value("#set-seed") == "7" and page.input_value("#system") == "Be brief."
        page.get_by_role("button", name="Use the server's values").click()
        page.keyboard.press("Escape")
        page.keyboard.press("Alt+r")
        reader.finished()
        assert "seed" not in reader.requests()[-1]


@check
def api_key(browser):
    with reading(browser) as reader:
        reader.expected = ("Failed to load resource",)
        page = reader.page
        reader.server.state.key = "open sesame"
        page.reload()
        expect(page.locator("#key")).to_be_visible()
        page.fill("#api-key", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#key-note")).to_contain_text("refused this key")
        page.fill("#api-key", "open sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#model")).to_be_enabled()
        reader.ask("hello")
        reader.shows(TEXTS["plain"])
        assert "sesame" not in page.url and reader.inside("JSON.stringify(localStorage)").find("sesame") < 0
        assert reader.inside("sessionStorage.getItem('api-key')") == "open sesame"


@check
def keyboard_and_focus(browser):
    with reading(browser) as reader:
        page = reader.page
        expect(page.locator("#message")).to_be_focused()
        page.locator("#head").click()
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()
        page.keyboard.press("/")
        expect(page.locator("#message")).to_be_focused()
        page.keyboard.press("Alt+b")
        expect(page.locator("#sidebar")).to_be_hidden()
        page.keyboard.press("Alt+b")
        expect(page.locator("#sidebar")).to_be_visible()
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#message")).to_be_focused()


@check
def accessibility(browser):
    for theme in ["light", "dark"]:
        with reading(browser, bypass_csp=True, reduced_motion="reduce") as reader:
            page = reader.page
            page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
            found = violations(reader)
            for word in ["markdown", "show", "think", "code"]:
                reader.ask(word)
            page.get_by_role("button", name="Answer again").last.click()
            reader.finished()
            found += violations(reader)
            page.get_by_role("button", name="Token probabilities").last.click()
            page.locator(".last > .markdown").focus()
            page.keyboard.press("ArrowRight")
            found += violations(reader)
            page.keyboard.press("Escape")
            for keys, dialog in [("Alt+s", "#settings"), ("?", "#help")]:
                page.evaluate("document.activeElement.blur()")
                page.keyboard.press(keys)
                expect(page.locator(dialog)).to_be_visible()
                found += violations(reader)
                page.keyboard.press("Escape")
            assert not found, theme + "\n" + "\n".join(found)


@check
def narrow(browser):
    with reading(browser, has_touch=True) as reader:
        page = reader.page
        for width in [320, 390, 700]:
            page.set_viewport_size({"width": width, "height": 780})
            reader.ask("show")
            overflow = reader.inside("document.documentElement.scrollWidth - innerWidth")
            wide = reader.inside(
                "document.querySelector('#scroller').scrollWidth - document.querySelector('#scroller').clientWidth"
            )
            assert overflow <= 0 and wide <= 0, (width, overflow, wide)
            assert reader.inside(CUT_OFF) == [], width
        expect(page.locator("#sidebar")).to_be_hidden()
        page.get_by_role("button", name="List of conversations").click()
        expect(page.locator("#sidebar")).to_be_visible()
        page.locator(".entry").first.click()
        expect(page.locator("#sidebar")).to_be_hidden()


@check
def pictures(browser):
    folder = Path(os.environ.get("PICTURES", tempfile.gettempdir())) / "page-pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ["light", "dark"]:
        with reading(browser, color_scheme=theme, reduced_motion="reduce") as reader:
            page = reader.page
            page.screenshot(path=folder / f"empty-{theme}.png")
            reader.ask("show me how to count the words of a file")
            page.screenshot(path=folder / f"answer-{theme}.png")
            page.get_by_role("button", name="Token probabilities").click()
            page.locator(".last > .markdown").focus()
            for _ in range(3):
                page.keyboard.press("ArrowRight")
            page.screenshot(path=folder / f"tokens-{theme}.png")
            page.keyboard.press("Escape")
            page.keyboard.press("Alt+s")
            page.screenshot(path=folder / f"settings-{theme}.png")
            page.keyboard.press("Escape")
            page.set_viewport_size({"width": 390, "height": 800})
            page.screenshot(path=folder / f"mobile-{theme}.png")
            page.get_by_role("button", name="List of conversations").click()
            page.screenshot(path=folder / f"mobile-list-{theme}.png")
    print(f"   pictures in {folder}")
