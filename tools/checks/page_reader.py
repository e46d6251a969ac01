"""A reader of the server's page: one window of headless Chromium, in which nothing may go wrong unseen. And the list of checks."""

import json
import os
import re
from contextlib import contextmanager

from playwright.sync_api import expect

from page_server import end, serve

CHECKS = []


def check(function):
    """Has `page_check.py` run this function, with the browser."""
    CHECKS.append(function)
    return function


expect.set_options(timeout=8000)

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""

PLACE = """({ text, offset }) => {
    const node = document.querySelector(".assistant > .markdown p")?.firstChild;
    if (!node?.data?.includes(text)) return null;
    const range = document.createRange();
    range.setStart(node, node.data.indexOf(text) + offset);
    range.setEnd(node, node.data.indexOf(text) + offset + 1);
    const box = range.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
}"""


class Reader:
    """Reads from a server that plays the endpoints, or from the one at `base`."""

    def __init__(self, browser, base=None, expected=(), **options):
        self.server = None if base else serve()
        self.base = base or f"http://127.0.0.1:{self.server.server_port}/"
        self.context = browser.new_context(viewport={"width": 1280, "height": 860}, **options)
        self.context.add_init_script(WATCH)
        self.page = self.context.new_page()
        self.complaints = []
        self.expected = expected
        self.page.on("console", self.heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error.stack}"))
        self.context.on("request", self.asked)
        self.page.goto(self.base)
        expect(self.page.locator("#state:has-text('K/V'), #key[open]").first).to_be_visible()

    def heard(self, message):
        if message.type in ("error", "warning") and not any(words in message.text for words in self.expected):
            self.complaints.append(f"console: {message.text}")

    def asked(self, request):
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.complaints.append(f"request to {request.url}")

    def say(self, text):
        self.page.fill("#message", text)
        self.page.keyboard.press("Enter")

    def ask(self, text):
        """Sends a message and waits for the end of the answer, which it returns."""
        self.say(text)
        return self.finished()

    def finished(self):
        last = self.page.locator(".message.assistant.last")
        expect(last.locator(".icon-button").first).to_be_visible()
        expect(self.page.locator(".message.live")).to_have_count(0)
        return last

    def last_text(self):
        return self.page.locator(".message.assistant.last > .markdown")

    def text(self, locator=None):
        return (locator or self.last_text()).inner_text()

    def shows(self, text):
        """Waits for the text, or pattern, of the last answer: a page that is opened renders it a moment later."""
        # A string would be compared without regard to white space.
        pattern = re.compile(f"^{re.escape(text)}$") if isinstance(text, str) else text
        expect(self.last_text()).to_have_text(pattern, use_inner_text=True)

    def alternatives_at(self, text, offset=0):
        """The alternatives to the token at these words of the answer, once the mouse is there."""

        def point():
            place = self.inside(PLACE, {"text": text, "offset": offset})
            if place:
                self.page.mouse.move(*place)

        return self.alternatives(point)

    def alternatives(self, act):
        """The alternatives that an act opens. It is repeated: the answer may still move, and tokens are read from a database."""
        popover = self.page.locator(".alternatives")
        for _ in range(100):
            act()
            self.page.wait_for_timeout(200)
            if popover.is_visible():
                break
        expect(popover).to_be_visible()
        return popover

    def requests(self):
        return self.server.state.requests

    def inside(self, script, value=None):
        return self.page.evaluate(script, value)

    def leave(self):
        self.context.close()
        if self.server:
            end(self.server)

    def close(self):
        if not self.page.is_closed():
            self.complaints += [f"policy: {violation}" for violation in self.page.evaluate("window.violations")]
        self.leave()
        assert not self.complaints, "\n".join(self.complaints)


@contextmanager
def reading(browser, base=None, **options):
    reader = Reader(browser, base, **options)
    try:
        yield reader
    except BaseException:
        reader.leave()
        if reader.complaints:
            print("\n".join(reader.complaints))
        raise
    reader.close()


def violations(reader):
    """Faults that axe finds in the page as it is now."""
    with open(os.environ["AXE"]) as file:
        reader.page.evaluate(file.read() + "; null")
    found = reader.page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
    return [
        f"{rule['id']}: {json.dumps([[node['target'], node['failureSummary']] for node in rule['nodes'][:3]])}" for rule in found
    ]
