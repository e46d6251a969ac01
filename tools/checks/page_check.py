"""Runs the checks of the server's page; `tools/checks/page` calls it with what it needs."""

import os
import sys
import time
import traceback

from playwright.sync_api import sync_playwright

import page_answers  # noqa: F401
import page_around  # noqa: F401
import page_large  # noqa: F401
import page_math  # noqa: F401
import page_models  # noqa: F401
import page_real  # noqa: F401
from page_reader import CHECKS


def main():
    names = sys.argv[1:]
    failed = passed = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["BROWSER"], args=["--no-sandbox"])
        for function in CHECKS:
            if names and not any(name in function.__name__ for name in names):
                continue
            start = time.time()
            try:
                function(browser)
            except Exception:
                failed += 1
                print(f"FAILED {function.__name__}\n{traceback.format_exc()}", flush=True)
            else:
                passed += 1
                print(f"ok {function.__name__} ({time.time() - start:.1f} s)", flush=True)
        print(f"page in Chromium {browser.version}: {passed} passed, {failed} failed\n{passed} passed, {failed} failed")
        browser.close()
    sys.exit(failed > 0 or passed == 0)


if __name__ == "__main__":
    main()
