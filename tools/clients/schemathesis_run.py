"""Requests that schemathesis makes of the server's OpenAPI document: no answer is an error of the server, or has a status, a type, a
header or a field that the document does not have.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request

from checks import check, main

SECONDS = 200
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]
# They answer 501, which is no fault of theirs.
ELSEWHERE = "^/api/(pull|push|create|copy|delete|blobs)"


def answers(document):
    """The schemas of answers, with those that they name."""
    found, names = [], set()

    def walk(schema):
        if isinstance(schema, list):
            return [walk(item) for item in schema]
        if not isinstance(schema, dict):
            return None
        name = schema.get("$ref", "").removeprefix("#/components/schemas/")
        if name and name not in names:
            names.add(name)
            walk(document["components"]["schemas"][name])
        found.append(schema)
        return [walk(value) for value in schema.values()]

    for item in document["paths"].values():
        for operation in item.values():
            walk(operation["responses"])
    return found


def closed(document):
    """The document without leave for fields of answers that it does not have, and without the schemas of events: schemathesis
    takes an event for an object with `event` and `data`, and does not read the data."""
    for item in document["paths"].values():
        for operation in item.values():
            operation["responses"].get("200", {}).get("content", {}).get("text/event-stream", {}).pop("schema", None)
    for schema in answers(document):
        if "object" in schema.get("type", []) and "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return document


@check
def document(server):
    with urllib.request.urlopen(f"{server.url}/openapi.json", timeout=30) as answer:
        document = json.load(answer)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "openapi.json")
        with open(path, "w") as file:
            json.dump(closed(document), file)
        command = [os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", path, "--url", server.url]
        command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--max-time", str(SECONDS)]
        command += ["--exclude-path-regex", ELSEWHERE, "--request-timeout", "30", "--seed", "1", "--continue-on-failure"]
        command += ["--suppress-health-check", "all", "--warnings", "off", "--no-color", *os.environ.get("SCHEMATHESIS", "").split()]
        done = subprocess.run(command, cwd=folder, check=False, timeout=3 * SECONDS)
        assert done.returncode == 0, f"schemathesis ended with {done.returncode}"
    server.forgets()


if __name__ == "__main__":
    main()
