"""Checks of what the page says of the model: loading, full, tiny, without a chat template, not for text."""

import re

from playwright.sync_api import expect

from page_reader import check, reading


def described(reader, **first):
    """The first model is such from now on."""
    reader.server.state.first = first
    reader.page.reload()
    expect(reader.page.locator("#state")).to_contain_text("K/V")


@check
def context_meter(browser):
    with reading(browser) as reader:
        page = reader.page
        expect(page.locator(".context")).to_be_hidden()
        answer = reader.ask("hello")
        written = int(re.match(r"\d+", answer.locator(".figures").inner_text())[0])
        expect(page.locator(".context")).to_have_text(f"Context: {512 + written} of 8,192")
        expect(page.locator(".context-note")).to_be_hidden()
        for n_ctx, words in [(600, "nearly full"), (512 + written, "is full")]:
            reader.server.state.n_ctx = n_ctx
            page.reload()
            expect(page.locator(".context")).to_contain_text(f"of {n_ctx}")
            expect(page.locator(".context-note")).to_contain_text(words)
        expect(page.locator(".context-note")).to_contain_text("--ctx-size")
        page.locator(".context-note").get_by_role("button", name="New conversation").click()
        expect(page.locator(".context-note")).to_be_hidden()
        expect(page.locator(".welcome")).to_be_visible()


@check
def context_of_a_prompt_that_is_too_long(browser):
    with reading(browser) as reader:
        reader.expected = ("Failed to load resource",)
        reader.say("context")
        expect(reader.page.locator(".context-note")).to_contain_text("The context is full.")
        expect(reader.page.locator(".context")).to_contain_text("9,000 of 8,192")


@check
def loading(browser):
    with reading(browser) as reader:
        page = reader.page
        described(reader, status={"value": "loading"})
        expect(page.locator("#notice")).to_contain_text("Qwen3-4B-Instruct-Q4_K_M is being loaded")
        expect(page.locator("#notice .after")).to_have_text(re.compile(r"\d+ s"))
        page.fill("#message", "wait")
        page.keyboard.press("Enter")
        expect(page.locator(".wait")).to_contain_text("Loading Qwen3-4B")
        reader.server.state.first = {}
        expect(page.locator("#notice")).to_be_hidden()
        reader.finished()
        described(reader, status={"value": "unloaded"})
        page.keyboard.press("Alt+n")
        expect(page.locator(".welcome")).to_contain_text("The first message loads Qwen3-4B")


@check
def suggestions(browser):
    with reading(browser) as reader:
        page = reader.page
        expect(page.locator(".examples")).to_contain_text("Compare SQLite")
        described(reader, meta={"n_ctx": 1024, "n_params": 6_820_096})
        expect(page.locator(".examples")).to_contain_text("capital of Italy")
        page.select_option("#model", "SmolLM2-1.7B-Q8_0")
        expect(page.locator(".examples")).to_contain_text("Compare SQLite")


@check
def completing(browser):
    with reading(browser) as reader:
        page = reader.page
        described(reader, capabilities=["completion"])
        expect(page.locator(".welcome")).to_contain_text("it completes text")
        expect(page.get_by_role("button", name="Complete")).to_be_disabled()
        reader.ask("Once upon a time")
        reader.shows("there was a river,")
        [request] = reader.requests()
        assert request["prompt"] == "Once upon a time" and request["max_tokens"] == 256 and request["logprobs"] == 5, request
        assert not {"messages", "chat_template_kwargs", "top_logprobs"} & set(request), request
        page.locator(".last").get_by_role("button", name="Go on").click()
        expect(page.locator(".last > .markdown")).to_have_text("there was a river, there was a river,")
        reader.finished()
        assert reader.requests()[-1]["prompt"] == "Once upon a time there was a river,"
        page.keyboard.press("Alt+s")
        expect(page.locator("#sampling")).to_be_visible()
        expect(page.locator("#system, #template")).to_have_count(0)
        page.fill("#set-max_tokens", "9")
        page.keyboard.press("Escape")
        reader.ask("until the end")
        request = reader.requests()[-1]
        assert request["prompt"] == "Once upon a time there was a river, there was a river, until the end", request
        assert request["max_tokens"] == 9
        expect(page.locator(".last .note")).to_contain_text("The model ended the text.")
        popover = page.locator(".last").get_by_role("button", name="Token probabilities")
        expect(popover).to_be_visible()
        page.select_option("#model", "SmolLM2-1.7B-Q8_0")
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        reader.ask("hello")
        assert reader.requests()[-1]["messages"][-1] == {"role": "user", "content": "hello"}


@check
def a_model_that_turns_out_to_complete(browser):
    with reading(browser) as reader:
        reader.expected = ("Failed to load resource",)
        reader.ask("A base")
        reader.shows("there was a river,")
        assert [request.get("prompt") for request in reader.requests()] == [None, "A base"]
        page = reader.page
        expect(page.locator(".trouble")).to_have_count(0)
        expect(page.get_by_role("button", name="Complete")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export all conversations").click()
        page.set_input_files("#import-picker", download.value.path())
        expect(page.locator("#toasts")).to_contain_text("1 conversation is imported")
        expect(page.locator(".entry")).to_have_count(2)
        page.locator(".last").get_by_role("button", name="Go on").click()
        expect(page.locator(".last > .markdown")).to_have_text("there was a river, there was a river,")
        assert [request.get("prompt") for request in reader.requests()[2:]] == ["A base there was a river,"]


@check
def a_model_that_writes_no_text(browser):
    with reading(browser) as reader:
        page = reader.page
        described(reader, capabilities=["embedding"])
        expect(page.locator(".examples")).to_have_count(0)
        expect(page.locator("#notice")).to_contain_text("computes embeddings and writes no text. Choose another model")
        page.fill("#message", "hello")
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        page.keyboard.press("Enter")
        expect(page.locator("#message")).to_have_value("hello")
        page.select_option("#model", "SmolLM2-1.7B-Q8_0")
        expect(page.locator("#notice")).to_be_hidden()
        page.get_by_role("button", name="Send").click()
        reader.finished()


@check
def a_key_that_was_declined(browser):
    with reading(browser) as reader:
        reader.expected = ("Failed to load resource",)
        page = reader.page
        reader.server.state.key = "open sesame"
        page.reload()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#notice")).to_contain_text("Invalid API key")
        page.get_by_role("button", name="Enter the key").click()
        page.fill("#api-key", "open sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#notice")).to_be_hidden()
        expect(page.locator("#model")).to_be_enabled()
