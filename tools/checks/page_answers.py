"""Checks of the page's answers: how they arrive, are rendered, branch, stop, fail and go on."""

import json
import re

from playwright.sync_api import expect

import page_large
from page_reader import check, reading
from page_server import end, serve
from page_texts import TEXTS

# The text that the stored tokens of the last answer spell, by their places.
SPELLED = """async () => {
  const { current } = await import("/page/app.js");
  const { loadTokens } = await import("/page/store.js");
  const { content, id } = current().leaf;
  const tokens = await loadTokens(id);
  if (tokens.some(({ text, start, end }) => text !== null && text !== content.slice(start, end))) return "misplaced";
  return tokens.map(({ start, end }) => content.slice(start, end)).join("");
}"""


@check
def answers(browser):
    with reading(browser) as reader:
        page = reader.page
        expect(page.locator(".examples button")).to_have_count(4)
        page.locator(".examples button").first.click()
        assert "transformer" in page.input_value("#message")
        assert "from cache" in reader.ask("one\ntwo").locator(".figures").inner_text()
        reader.shows(TEXTS["plain"])
        [request] = reader.requests()
        assert request["messages"] == [{"role": "user", "content": "one\ntwo"}]
        assert request["stream"] and request["stream_options"]["include_usage"] and request["timings_per_token"]
        assert request["logprobs"] and request["top_logprobs"] == 8 and request["model"].startswith("Qwen3")
        page.fill("#message", "a")
        page.keyboard.press("Shift+Enter")
        assert page.input_value("#message") == "a\n"
        page.fill("#message", "")
        reader.ask("again")
        assert [message["role"] for message in reader.requests()[1]["messages"]] == ["user", "assistant", "user"]
        expect(page.locator("#state")).to_contain_text("K/V 34 %")
        page.reload()
        expect(page.locator(".message")).to_have_count(4)
        reader.shows(TEXTS["plain"])
        assert "#" in page.url


@check
def finished_answers_are_announced(browser):
    with reading(browser) as reader:
        reader.say("slow")
        expect(reader.page.locator(".live > .markdown")).not_to_be_empty()
        assert reader.page.locator("#announcements").inner_text() == ""
        reader.finished()
        expect(reader.page.locator("#announcements")).to_contain_text("Answer: The river")


@check
def live_figures(browser):
    with reading(browser) as reader:
        reader.say("slow wait")
        expect(reader.page.locator(".wait")).to_contain_text("In the queue: 2 requests wait")
        expect(reader.page.locator(".live .figures")).to_contain_text("tokens/s")
        expect(reader.page.locator("#state")).to_contain_text("1 running")
        reader.finished()


@check
def markdown(browser):
    with reading(browser) as reader:
        answer = reader.ask("markdown")
        for selector, text in [
            (".heading-1", "Title"), ("em", "emphasis"), ("strong", "strong"), ("em strong", "both"), ("del", "gone"),
            ("p > code", "code"), ("ol > li > ul > li >> nth=0", "inner"), ("blockquote", "quoted text"), (".heading-2", "Setext"),
            ("a >> nth=0", "https://example.com/a_b(c)"), ("a >> nth=1", "A link"),
        ]:  # fmt: skip
            found = answer.locator(selector).first
            assert " ".join(found.inner_text().split()) == text, (selector, found.inner_text())
        assert answer.locator("a").first.get_attribute("rel") == "noopener noreferrer nofollow"
        assert answer.locator("input[type=checkbox]:checked").count() == 1 and answer.locator("hr").count() == 1
        poem = answer.locator("p", has_text="Line two")
        assert poem.locator("br").count() == 3 and poem.inner_text().count("\n") == 3, poem.inner_text()
        assert "snake_case_name and 2 * 3 * 4" in answer.inner_text() and "a@b & <b>." in answer.inner_text()
        table = reader.ask("table").locator("td")
        assert table.all_inner_texts() == ["1", "x|y", "2", "b"] and table.nth(1).get_attribute("class") == "right"
        assert reader.ask("unclosed").locator("pre").inner_text() == "def f():\n    return 1\n"


@check
def code(browser):
    with reading(browser) as reader:
        reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
        answer = reader.ask("code")
        parts = TEXTS["code"].split("```")[1::2]
        assert answer.locator("pre").count() == len(parts)
        for i, part in enumerate(parts):
            language, text = part.split("\n", 1)
            block = answer.locator(".code-block").nth(i)
            assert block.locator("code").text_content() == text, language
            assert block.locator("[class^=hl-]").count() >= 2, language
        assert answer.locator(".hl-comment").first.inner_text() == "/// Adds."
        answer.locator(".copy").first.click()
        expect(answer.locator(".copy").first).to_have_text("Copied")
        assert reader.inside("navigator.clipboard.readText()") == parts[0].split("\n", 1)[1].rstrip("\n")


@check
def hostile_text_stays_text(browser):
    with reading(browser) as reader:
        answer = reader.ask("hostile")
        assert reader.inside("window.broken") is None
        assert answer.locator(".markdown :is(script, img, iframe, object, embed, style, link, form)").count() == 0
        assert answer.locator(".markdown > :not(.code-block) svg").count() == 0
        assert "<script>window.broken = 1</script>" in answer.inner_text()
        found = reader.inside("""() => [...document.querySelectorAll(".message *")].flatMap((element) => [...element.attributes]
            .filter(({ name }) => name.startsWith("on") || name === "srcdoc").map(({ name }) => name))""")
        assert found == [], found
        links = answer.locator(".markdown a").evaluate_all("(links) => links.map((link) => link.protocol)")
        assert links and set(links) <= {"http:", "https:", "mailto:"}, links
        assert reader.inside("document.title").startswith("hostile")
        reader.page.reload()
        reader.finished()
        assert reader.inside("window.broken") is None


@check
def rendering_in_pieces_is_rendering_at_once(browser):
    with reading(browser) as reader:
        wrong = reader.inside(page_large.PIECES)
        assert wrong == [], json.dumps(wrong[:2])


@check
def probabilities(browser):
    with reading(browser) as reader:
        page = reader.page
        answer = reader.ask("emoji")
        expect(page.locator("#announcements")).to_contain_text("Answer:")
        assert reader.inside(SPELLED) == TEXTS["emoji"]
        answer.get_by_role("button", name="Token probabilities").click()
        expect(answer.locator("> .markdown")).to_be_focused()
        body = answer.locator("> .markdown")
        popover = reader.alternatives_at("thumb", offset=1)
        assert popover.locator(".alternatives-head code").inner_text() == "␣thumb"
        assert popover.locator("li").count() == 8 and "%" in popover.locator(".percent").first.inner_text()
        assert reader.inside("CSS.highlights.has('token')")
        page.mouse.move(5, 5)
        expect(popover).to_be_hidden()

        body.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert popover.locator(".alternatives-head code").inner_text() == "␣smile"
        expect(page.locator("#announcements")).to_contain_text("Instead:")
        page.keyboard.press("ArrowDown")
        expect(popover.locator("button:focus")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(popover).to_be_hidden()
        expect(body).to_be_focused()

        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        choice = popover.locator("button:not(.taken)").first
        word = choice.locator("code").inner_text().replace("␣", " ")
        choice.focus()
        page.keyboard.press("Enter")
        reader.finished()
        last = reader.requests()[-1]["messages"][-1]
        assert last == {"role": "assistant", "content": f"A{word}"}, last
        reader.shows(re.compile(f"^A{re.escape(word)} and so the text goes on"))
        expect(page.locator(".assistant .turner")).to_contain_text("2/2")
        assert reader.inside("CSS.highlights.get('picked').size") >= 1
        page.get_by_role("button", name="Previous branch").click()
        reader.shows(TEXTS["emoji"])
        page.keyboard.press("Alt+p")
        expect(page.locator(".assistant > .markdown[tabindex]")).to_have_count(0)


@check
def branches(browser):
    with reading(browser) as reader:
        page = reader.page
        reader.ask("first")
        reader.ask("second")
        page.get_by_role("button", name="Answer again").last.click()
        reader.finished()
        expect(page.locator(".turner")).to_have_text("2/2")
        question = page.locator(".message.user").first
        question.hover()
        question.get_by_role("button", name="Edit and send again").click()
        page.locator(".editor textarea").fill("table, please")
        page.keyboard.press("Enter")
        reader.finished()
        assert page.locator(".message").count() == 2 and page.locator("td").count() == 4
        page.get_by_role("button", name="Previous branch").click()
        expect(page.locator(".message")).to_have_count(4)
        expect(page.locator(".turner")).to_have_text(["1/2", "2/2"])
        page.reload()
        expect(page.locator(".turner")).to_have_text(["1/2", "2/2"])
        page.fill("#message", "")
        page.keyboard.press("ArrowUp")
        expect(page.locator(".editor textarea")).to_have_value("second")
        page.keyboard.press("Escape")
        answer = page.locator(".message.assistant").last
        answer.get_by_role("button", name="Edit the answer").click()
        page.locator(".editor textarea").fill("My own answer")
        page.get_by_role("button", name="Save as a branch").click()
        reader.shows("My own answer")
        expect(page.locator(".turner").last).to_have_text("3/3")
        page.locator(".last").get_by_role("button", name="Go on").click()
        expect(page.locator(".last > .markdown")).to_contain_text("nothing had happened")
        assert reader.requests()[-1]["messages"][-1]["content"] == "My own answer"


@check
def answers_go_on_elsewhere(browser):
    with reading(browser) as reader:
        page = reader.page
        reader.say("slow one")
        expect(page.locator(".live > .markdown")).to_contain_text("The river")
        page.keyboard.press("Alt+n")
        expect(page.locator(".welcome")).to_be_visible()
        reader.ask("markdown")
        expect(page.locator(".toast")).to_contain_text("“slow one” has its answer.")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("#title")).to_have_text("slow one")
        reader.shows(TEXTS["plain"])


@check
def what_arrived_outlives_the_page(browser):
    with reading(browser) as reader:
        page = reader.page
        page.on("dialog", lambda dialog: dialog.accept())
        reader.say("slow long 400")
        page.wait_for_timeout(3000)
        page.reload()
        expect(page.locator(".note")).to_contain_text("Stopped.")
        assert len(reader.text()) > 20
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(".last > .markdown")).to_contain_text("nothing had happened")


@check
def stopping_and_going_on(browser):
    with reading(browser) as reader:
        page = reader.page
        reader.say("slow")
        expect(page.locator(".live > .markdown")).to_contain_text("The river")
        page.keyboard.press("Escape")
        expect(page.locator(".note")).to_contain_text("Stopped.")
        before = reader.text()
        assert len(before) < len(TEXTS["plain"])
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(".last > .markdown")).to_contain_text("as if nothing had happened.")
        reader.finished()
        assert reader.requests()[-1]["messages"][-1]["content"].strip() == before.strip()
        reader.say("limit")
        reader.finished()
        expect(page.locator(".note").last).to_contain_text("longest length")


@check
def troubles(browser):
    with reading(browser) as reader:
        reader.expected = ("Failed to load resource", "net::ERR")
        page = reader.page
        for word, title in [
            ("busy", "Loading model"), ("context", "the prompt has 9000 tokens, expected at most 8192"), ("odd", "`top_p` has the value 7"),
            ("unknown", "there is no such key"), ("proxy", "HTTP 502 Bad Gateway: upstream is gone"),
            ("broken", "the device was lost"), ("cut", "The connection was lost"),
        ]:  # fmt: skip
            reader.say(word)
            if word == "unknown":
                page.get_by_role("button", name="Cancel").click()
            expect(page.locator(".last .trouble strong")).to_contain_text(title)
        assert "Try again in 7 s." in page.locator(".trouble").first.inner_text()
        reader.shows(re.compile("^The river"))  # what arrived is kept
        expect(page.get_by_role("button", name="Enter the key")).to_have_count(1)
        page.locator(".last").get_by_role("button", name="Go on").click()
        expect(page.locator(".last > .markdown")).to_contain_text("nothing had happened")
        expect(page.locator(".trouble")).to_have_count(6)


@check
def server_restarts(browser):
    with reading(browser) as reader:
        reader.expected = ("Failed to load resource", "net::ERR")
        page = reader.page
        port = reader.server.server_port
        end(reader.server)
        reader.say("hello")
        expect(page.locator(".trouble strong")).to_contain_text("does not answer")
        expect(page.locator("#notice")).to_contain_text("does not answer")
        reader.server = serve(port)
        expect(page.locator("#notice")).to_be_hidden()
        page.get_by_role("button", name="Try again").click()
        reader.finished()
        reader.shows(TEXTS["plain"])


@check
def reasoning_and_tools(browser):
    with reading(browser) as reader:
        reader.say("think")
        expect(reader.page.locator(".reasoning summary")).to_have_text("Thinking…")
        answer = reader.finished()
        summary = answer.locator(".reasoning summary")
        assert summary.inner_text() in ("Reasoning", "Thought for 1 s"), summary.inner_text()
        assert not answer.locator(".reasoning .markdown").is_visible()
        summary.click()
        expect(answer.locator(".reasoning .markdown")).to_have_text(TEXTS["reasoning"])
        reader.ask("next")
        assert "reasoning_content" not in reader.requests()[-1]["messages"][1]
        tool = reader.ask("tool").locator(".tool")
        assert "get_weather" in tool.inner_text() and '"days": 3' in tool.inner_text()
