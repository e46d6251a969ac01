"""Checks of one client: a list, and what runs it against the server of `--url`."""

import argparse
import json
import os
import sys
import time
import traceback
import urllib.request
from dataclasses import dataclass

CHECKS = []

# The demo model knows it, also at a temperature of 0.
QUESTION, ANSWER = "What is the capital of Italy?", "Rome"

# A model this small writes white space wherever a grammar lets it, unless what it repeats becomes less likely.
FORCED = {"temperature": 0, "frequency_penalty": 2, "max_tokens": 400}

# Ends long after anybody who waits has left.
ENDLESS = {"ignore_eos": True, "max_tokens": 700}

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def check(function):
    """Has `main` run this function, with the server."""
    CHECKS.append(function)
    return function


@dataclass
class Server:
    url: str
    model: str

    @property
    def openai(self):
        """The base of OpenAI's protocol."""
        return f"{self.url}/v1"

    def running(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:num_requests_running{"))

    def forgets(self):
        """Waits until no request runs; one that nobody reads must end soon."""
        end = time.monotonic() + 10
        while self.running() > 0:
            assert time.monotonic() < end, f"{self.running()} requests run still"
            time.sleep(0.05)


def raises(kind, function):
    """The exception of this kind that `function` raises."""
    try:
        result = function()
    except kind as error:
        return error
    raise AssertionError(f"{result!r}, expected {kind}")


def is_weather(arguments):
    """Whether a call's arguments, as JSON or read from it, follow the schema."""
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    assert set(arguments) == {"city", "days"} and arguments["city"] in ["Rome", "Oslo"], arguments
    assert isinstance(arguments["days"], int) and 1 <= arguments["days"] <= 5, arguments
    return True


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--model", required=True)
    server = Server(**vars(arguments.parse_args()))
    client = os.path.basename(sys.argv[0]).removesuffix(".py").removesuffix("_client")
    failed = 0
    for function in CHECKS:
        start = time.monotonic()
        try:
            function(server)
        except Exception:
            failed += 1
            print(f"FAILED {client} {function.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"ok {client} {function.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(failed > 0)
