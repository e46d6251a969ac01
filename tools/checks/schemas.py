#!/usr/bin/env python3
"""Compares structured output with the official test suite of JSON schema, which the source archive of jsonschema contains.

    pip download --no-deps --no-binary :all: jsonschema==4.26.0 && tar xf jsonschema-4.26.0.tar.gz
    cargo build --release -p rustorch-grammar --example judge
    python tools/checks/schemas.py jsonschema-4.26.0/json/tests/draft2020-12 target/release/examples/judge VOCABULARY.gguf

Prints texts that a model could write though they are invalid (there must be none), and counts those that it could not write
though they are valid, and the schemas that are refused.
"""

import collections
import json
import pathlib
import subprocess
import sys


def main():
    suite, judge, vocabulary = sys.argv[1:]
    paths = sorted(pathlib.Path(suite).glob("*.json"))
    cases = [(path.stem, case) for path in paths for case in json.loads(path.read_text(encoding="utf-8"))]
    spelled = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    lines = [spelled([case["schema"], [spelled(test["data"]) for test in case["tests"]]]) for _, case in cases]
    ran = subprocess.run([judge, vocabulary], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True)
    verdicts = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(verdicts) == len(cases)
    counts, narrow, wrong = collections.Counter(), collections.Counter(), 0
    for (file, case), verdict in zip(cases, verdicts):
        counts["schemas"] += 1
        if isinstance(verdict, str):
            counts["schemas refused"] += 1
            if "-v" in sys.argv:
                print(f"{file}: {case['description']}: {verdict}")
            continue
        for test, can in zip(case["tests"], verdict):
            if can and not test["valid"]:
                wrong += 1
                print(f"WRONG {file}: {case['description']}: {test['description']}: {spelled(case['schema'])} {spelled(test['data'])}")
            elif test["valid"] and not can:
                narrow[file] += 1
                print(f"narrow {file}: {case['description']}: {test['description']}: {spelled(case['schema'])[:200]} {spelled(test['data'])[:80]}")
            else:
                counts["verdicts that agree"] += 1
    print(dict(counts), "valid texts that cannot be written:", dict(narrow), "invalid texts that can:", wrong)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
