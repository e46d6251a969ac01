"""Compares the chat crate with Jinja2 on every chat template of a folder.

    python templates.py TEMPLATES

TEMPLATES is a folder of *.jinja files, such as models/templates of llama.cpp. Renders the conversations of
tools/goldens/conversations.py with Jinja2 and runs a test of the chat crate on them. Prints what differs, and the number of
templates and renderings. Takes tools/requirements.txt.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "goldens"))
from chat import environment, results  # noqa: E402

import jinja2  # noqa: E402

good, folder = [], Path(sys.argv[1]).resolve()
for path in sorted(folder.glob("*.jinja")):
    try:
        environment().from_string(path.read_text())
        good.append(path)
    except jinja2.exceptions.TemplateError as error:
        print(f"{path.name}: Jinja2 refuses it: {error}")
expected = results(good, longest=sys.maxsize)
for name, cases in expected["results"].items():
    # Values that Jinja2 computes lazily are lists here, as in llama.cpp.
    lazy = [case for case in cases if isinstance(case[2], dict) and "generator is not JSON" in case[2].get("failed", "")]
    if lazy:
        print(f"{name}: Jinja2 fails in {len(lazy)} cases that are left out, with {lazy[0][2]['failed']!r}")
        cases[:] = [case for case in cases if case not in lazy]
cases = [case for cases in expected["results"].values() for case in cases]
texts = sum(isinstance(case[2], str) for case in cases)
print(f"{len(good)} templates, {len(cases)} renderings, of which Jinja2 refuses {len(cases) - texts}")
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    json.dump(expected, file)
    file.flush()
    test = ["cargo", "test", "-q", "-p", "rustorch-chat", "--test", "chat", "templates_of_a_folder", "--", "--nocapture"]
    wanted = os.environ | {"RUSTORCH_TEMPLATES": str(folder), "RUSTORCH_TEMPLATES_EXPECTED": file.name}
    sys.exit(subprocess.run(test, env=wanted, cwd=Path(__file__).parents[2]).returncode)
