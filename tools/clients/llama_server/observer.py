"""A plugin of pytest: skips files that are left out, and tests that need a model or a file that is not here, ends those that hang, and
writes down how each ends."""

import json
import os
import signal

import pytest
import utils
from requests.structures import CaseInsensitiveDict

# Seconds after which a test hangs.
HANG = 120

# Models that the suite asks for, and those that take their place.
MODELS = {
    "ggml-org/test-model-stories260K",
    "ggml-org/test-model-stories260K-infill",
    "ggml-org/models:bert-bge-small/ggml-model-f16.gguf",
    "ggml-org/models:jina-reranker-v1-tiny-en/ggml-model-f16.gguf",
}


def with_any_case(make_request):
    """Names of headers have no case, which the suite's dictionary does not know."""

    def make(*arguments, **options):
        response = make_request(*arguments, **options)
        response.headers = CaseInsensitiveDict(response.headers)
        return response

    return make


def absent(*_, **__):
    pytest.skip("needs a file that is not here")


def guarded(start):
    def start_if_here(server, *arguments, **options):
        name = ":".join(part for part in [server.model_hf_repo, server.model_hf_file] if part)
        if name and name not in MODELS:
            pytest.skip(f"needs the model {name}")
        return start(server, *arguments, **options)

    return start_if_here


def hangs(*_):
    raise TimeoutError(f"the test has not ended within {HANG} s")


def pytest_configure():
    utils.ServerProcess.start = guarded(utils.ServerProcess.start)
    utils.ServerProcess.make_request = with_any_case(utils.ServerProcess.make_request)
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.download_file = absent
    signal.signal(signal.SIGALRM, hangs)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in os.environ["LEFT_OUT"].split(","):
            item.add_marker(pytest.mark.skip(reason="left out"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol():
    signal.alarm(HANG)
    yield
    signal.alarm(0)


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    why = ""
    if report.outcome == "skipped":
        why = report.longrepr[2]
    elif report.outcome == "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        why = (crash.message if crash else str(report.longrepr)).splitlines()[0]
    name = report.nodeid.removeprefix("unit/")
    with open(os.environ["OUTCOMES"], "a") as out:
        print(json.dumps({"name": name, "outcome": report.outcome, "why": why}), file=out)
