#!/usr/bin/env python3
"""Draws texts under the JSON schemas of a folder, and has the package jsonschema judge them.

    cargo build --release -p rustorch-grammar --example drafts
    python tools/checks/schema_bench.py FOLDER target/release/examples/drafts VOCABULARY.gguf [TEXTS]

FOLDER has schemas of real programs, such as those of JSONSchemaBench or of the SchemaStore, one in each file. A schema is
refused by the name of a keyword, or every text that comes to an end is valid; prints those that are not (there must be none),
why schemas are refused, and times of compilation and of masks. `-v` prints the reason for each refused schema, and texts without
an end. Takes jsonschema with its formats: pip install 'jsonschema[format]'
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

import jsonschema


def validator(schema):
    """Judges by draft 2020-12, with what older drafts spell differently where the schema is of one."""
    names = str(schema.get("$schema", ""))
    old = re.search("draft-0?([3467])", names)
    kinds = {"3": jsonschema.Draft4Validator, "4": jsonschema.Draft4Validator, "6": jsonschema.Draft6Validator, "7": jsonschema.Draft7Validator}
    kind = kinds[old.group(1)] if old else jsonschema.Draft202012Validator
    # The formats of draft 2020-12: older ones have another `time`.
    return kind(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def reason(message):
    """A refusal without what is particular to one schema."""
    message = re.sub(r"the JSON schema at (its root|/[^`]*?):", "", message)
    message = re.sub(r'"(\\.|[^"\\])*"', '"…"', message)
    return re.sub(r"\(there is `oneOf` at .*", "", re.sub(r"\d+", "N", message)).strip()[:120]


def at(times, share):
    return sorted(times)[int((len(times) - 1) * share)] if times else float("nan")


def spread(times):
    return ", ".join(f"p{round(share * 100)} {at(times, share):,.0f} µs" for share in (0.5, 0.9, 0.99, 1))


def main():
    verbose = "-v" in sys.argv
    folder, drafts, vocabulary, *texts = [argument for argument in sys.argv[1:] if argument != "-v"]
    paths = sorted(pathlib.Path(folder).glob("*.json"))
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    ran = subprocess.Popen([drafts, vocabulary, (texts or ["12"])[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def said(schema):
        ran.stdin.write(json.dumps(schema, ensure_ascii=False, separators=(",", ":")) + "\n")
        ran.stdin.flush()
        return json.loads(ran.stdout.readline())

    refused, failed, compiles, masks = collections.Counter(), collections.Counter(), [], []
    right = wrong = unknown = used = 0
    for path, schema in zip(paths, schemas):
        drawn = said(schema)
        if "refused" in drawn:
            refused[reason(drawn["refused"])] += 1
            if verbose:
                print(f"refused {path.name}: {drawn['refused']}")
            continue
        used += 1
        compiles.append(drawn["compile"])
        masks += drawn["masks"]
        for why in drawn["failed"]:
            failed[why.split(":")[0]] += 1
            if verbose:
                print(f"no end {path.name}: {why}")
        judge = validator(schema)
        for text in drawn["texts"]:
            try:
                error = next(judge.iter_errors(json.loads(text)), None)
            except json.JSONDecodeError as found:
                error = found
            except Exception as found:  # A pattern that Python's `re` does not know, for example.
                unknown += 1
                if verbose:
                    print(f"not judged {path.name}: {found!r}"[:300])
                continue
            if error is None:
                right += 1
            else:
                wrong += 1
                print(f"WRONG {path.name}: {text[:300]}\n    {str(getattr(error, 'message', error))[:300]} {list(getattr(error, 'absolute_schema_path', []))}")
    for why, count in refused.most_common():
        print(f"{count:5} refused: {why}")
    for why, count in failed.most_common():
        print(f"{count:5} texts: {why}")
    print(f"{len(paths)} schemas, {used} used; texts: {right} valid, {wrong} invalid, {unknown} not judged")
    print(f"compilation: {spread(compiles)}\nmasks, of {len(masks):,}: {spread(masks)}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
