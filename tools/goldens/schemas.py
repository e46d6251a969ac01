#!/usr/bin/env python3
"""Random JSON schemas with instances and the verdicts of the package jsonschema, for crates/grammar/goldens/schemas.json.

Needs jsonschema[format] 4.26.0. Run from the repository root:
    python3 tools/goldens/schemas.py

Instances have the keys of objects in the order of the schema, further ones after them, and numbers in their shortest form:
the spelling that a grammar of a schema writes. A few schemas of every keyword are fixed, the others are drawn.
"""

import json
import pathlib
import random

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

SEED = 20201212
SCHEMAS = 400
CHECKER = Draft202012Validator.FORMAT_CHECKER
WORDS = ["a", "b", "id", "name", "x y", "ä", "q\"t", "k1", "k22", "zz"]
PATTERNS = [
    ("^[a-c]+$", ["a", "abc"], ["", "abd", "xa"]),
    ("b", ["b", "abc"], ["", "ac"]),
    ("^a|z$", ["ab", "xz", "a"], ["za", "x"]),
    ("^(a|z)$", ["a", "z"], ["az", ""]),
    ("^[0-9]{2,3}$", ["12", "123"], ["1", "1234", "1a"]),
    ("^\\d+-[\\w]{1,2}$", ["1-a", "12-_9"], ["-a", "1-abc"]),
    ("^[^/]*/x$", ["/x", "a b/x"], ["x", "/x/"]),
    ("[[]|[&&~]", ["[", "a~", "&"], ["", "]"]),
    ("^\\S+\\s\\S+$", ["a b"], ["ab", " a"]),
    ("^.{3}$", ["äöü", "abc"], ["ab", "abcd"]),
    ("\\u00e4$", ["xä"], ["ax"]),
]
FORMATS = {
    "date": (["2024-02-29", "1999-12-31"], ["2024-13-01", "24-01-01", "x"]),
    "time": (["12:30:00Z", "23:59:59.5+01:00"], ["24:00:00Z", "12:30"]),
    "date-time": (["2024-02-29T12:30:00Z"], ["2024-02-29", "2024-02-30T12:30:00Z"]),
    "email": (["a@b.org"], ["a.b.org", ""]),
    "ipv4": (["127.0.0.1"], ["256.1.1.1", "1.1.1"]),
    "ipv6": (["::1", "2001:db8::8a2e:370:7334"], ["1:2", "::g"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
    "hostname": (["a-b.example"], ["-a", "a_b!"]),
    "uri": (["https://a.example/b?c#d"], ["a b", "//x"]),
    "duration": (["P1DT2H", "P3W"], ["1D", "P"]),
}


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        return self.random.choice([0, 1, -1, 2, 3, 5, 7, 10, 12, 99, 100, -17, 255, 0.5, 1.25, -3.75, 1000.125])

    def schema(self, depth):
        makers = [self.string, self.integer, self.real, self.scalar, self.enum, self.pattern, self.format]
        if depth > 0:
            makers += [self.array, self.tuple, self.object, self.object, self.object, self.any_of, self.all_of, self.one_of, self.free]
        return self.random.choice(makers)(depth)

    def string(self, _):
        schema = {"type": "string"}
        if self.random.random() < 0.6:
            least = self.random.randrange(4)
            schema["minLength"] = least
            if self.random.random() < 0.7:
                schema["maxLength"] = least + self.random.randrange(4)
        return schema

    def bounds(self, schema, pick):
        low, high = sorted([pick(), pick()])
        if self.random.random() < 0.5:
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.random.random() < 0.5:
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = high + 1
        return schema

    def integer(self, _):
        schema = self.bounds({"type": "integer"}, lambda: self.random.randrange(-120, 300))
        if self.random.random() < 0.2:
            schema["multipleOf"] = self.random.choice([2, 3, 5, 10])
        return schema

    def real(self, _):
        schema = self.bounds({"type": "number"}, self.number)
        if self.random.random() < 0.2:
            schema["multipleOf"] = self.random.choice([0.5, 2])
        return schema

    def scalar(self, _):
        kinds = self.random.sample(["null", "boolean", "integer", "string"], self.random.randrange(1, 4))
        return {"type": kinds[0] if len(kinds) == 1 else kinds}

    def enum(self, _):
        values = [None, True, False, 1, -2, 2.5, "a", "b c", "", "ü\n", [], [1, "a"], {"a": 1, "b": None}]
        chosen = self.random.sample(values, self.random.randrange(1, 5))
        return {"const": chosen[0]} if self.random.random() < 0.3 else {"enum": chosen}

    def pattern(self, _):
        return {"type": "string", "pattern": self.random.choice(PATTERNS)[0]}

    def format(self, _):
        return {"type": "string", "format": self.random.choice(list(FORMATS))}

    def array(self, depth):
        schema = {"type": "array", "items": self.schema(depth - 1)}
        if self.random.random() < 0.6:
            least = self.random.randrange(3)
            schema["minItems"] = least
            if self.random.random() < 0.7:
                schema["maxItems"] = least + self.random.randrange(3)
        return schema

    def tuple(self, depth):
        schema = {"type": "array", "prefixItems": [self.schema(depth - 1) for _ in range(self.random.randrange(1, 4))]}
        schema["items"] = self.random.choice([False, True, {"type": "integer"}])
        if self.random.random() < 0.5:
            schema["minItems"] = self.random.randrange(4)
        return schema

    def object(self, depth):
        names = self.random.sample(WORDS, self.random.randrange(0, 5))
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if names and self.random.random() < 0.8:
            schema["required"] = sorted(self.random.sample(names, self.random.randrange(1, len(names) + 1)), key=names.index)
        if self.random.random() < 0.1:
            schema.setdefault("required", []).append("more")
        if self.random.random() < 0.3:
            schema["patternProperties"] = {"^k[0-9]+$": self.schema(0)}
        roll = self.random.random()
        if roll < 0.5:
            schema["additionalProperties"] = False
        elif roll < 0.8:
            schema["additionalProperties"] = self.schema(0)
        if self.random.random() < 0.1:
            schema["minProperties"] = len(schema.get("required", [])) + self.random.randrange(2)
        if self.random.random() < 0.1:
            schema["maxProperties"] = len(names) + self.random.randrange(2)
        return schema

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth - 1) for _ in range(self.random.randrange(1, 4))]}

    def one_of(self, depth):
        kinds = self.random.sample([{"type": "null"}, {"type": "boolean"}, self.string(0), self.integer(0), self.array(depth)], 3)
        return {"oneOf": kinds}

    def all_of(self, depth):
        first = self.random.choice([self.string, self.integer, self.real, self.object])
        return {"allOf": [first(depth - 1), first(depth - 1)]}

    def free(self, _):
        return self.random.choice([{}, True, {"type": "object"}, {"type": "array"}])

    def root(self, number):
        schema = self.schema(3)
        if isinstance(schema, dict) and number % 5 == 0:
            definition = self.object(1)
            definition["properties"]["next"] = {"$ref": "#/$defs/a~1b"}
            schema = {"$defs": {"a/b": definition}, "anyOf": [{"$ref": "#/$defs/a~1b"}, schema]}
        return schema

    # Instances.

    def any_value(self):
        return self.random.choice([None, True, 0, 7, -2.5, "", "abc", [], [1], {}, {"a": 1}])

    def instance(self, schema, root, depth=0):
        """A value that often satisfies the schema."""
        if depth > 6 or self.random.random() < 0.06:
            return self.any_value()
        if not isinstance(schema, dict) or not schema:
            return self.any_value()
        again = lambda inner: self.instance(inner, root, depth + 1)
        if "$ref" in schema:
            return again(root["$defs"]["a/b"] if schema["$ref"] != "#" else root)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        for key in ["anyOf", "oneOf"]:
            if key in schema:
                return again(self.random.choice(schema[key]))
        if "allOf" in schema:
            parts = [part for part in schema["allOf"] if isinstance(part, dict)]
            if all("properties" in part for part in parts):
                merged = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
                for part in parts:
                    merged["properties"] = {**merged["properties"], **part["properties"]}
                    merged["required"] += part.get("required", [])
                return again(merged)
            return again(self.random.choice(parts))
        if "pattern" in schema:
            good, bad = next((good, bad) for pattern, good, bad in PATTERNS if pattern == schema["pattern"])
            return self.random.choice(good + good + bad)
        if "format" in schema:
            good, bad = FORMATS.get(schema["format"], (["a"], ["b"]))
            return self.random.choice(good + good + bad)
        kind = schema.get("type", "object" if "properties" in schema else None)
        kind = self.random.choice(kind) if isinstance(kind, list) else kind
        if kind == "null":
            return None
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "string":
            length = schema.get("minLength", 0) + self.random.choice([-1, 0, 0, 1, 2])
            return "".join(self.random.choice("abzä \\\"\n漢") for _ in range(max(0, length)))
        if kind in ("integer", "number"):
            return self.near(schema, kind)
        if kind == "array":
            length = schema.get("minItems", len(schema.get("prefixItems", []))) + self.random.choice([-1, 0, 0, 1])
            prefix = schema.get("prefixItems", [])
            inner = lambda at: prefix[at] if at < len(prefix) else schema.get("items", True)
            return [again(inner(at)) for at in range(max(0, length))]
        if kind == "object":
            value = {}
            required = schema.get("required", [])
            properties = schema.get("properties", {})
            for name in list(properties) + [name for name in required if name not in properties]:
                if self.random.random() < (0.95 if name in required else 0.5):
                    value[name] = again(properties.get(name, schema.get("additionalProperties", True)))
            for name in ["k7", "k22", "other"]:
                if name not in value and self.random.random() < 0.2:
                    inner = schema.get("patternProperties", {}).get("^k[0-9]+$") if name[0] == "k" else None
                    value[name] = again(inner or schema.get("additionalProperties", True))
            return value
        return self.any_value()

    def near(self, schema, kind):
        edges = [schema[key] for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] if key in schema]
        value = self.random.choice(edges + [self.number()]) + self.random.choice([-1, 0, 0, 1, 0.25, -0.5])
        if "multipleOf" in schema and self.random.random() < 0.7:
            value = round(value / schema["multipleOf"]) * schema["multipleOf"]
        if kind == "integer" and self.random.random() < 0.9:
            value = int(value)
        return int(value) if value == int(value) else value


FIXED = [
    (True, [None, 1, {"a": []}]),
    ({}, [None, 1.5, "x"]),
    ({"type": "integer"}, [0, -5, 12345678901, 1.5, "1"]),
    ({"type": "number", "minimum": 0.1, "maximum": 0.3}, [0.1, 0.2, 0.3, 0.05, 0.31, 0, 1]),
    ({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 7}, [7, 14, 0, -7, 8]),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ["ää", "a", "abc", "漢字", "\\\""]),
    ({"properties": {"a": {"type": "integer"}}}, [{"a": 1}, {"a": "1"}, {}, 5, {"b": "1"}, {"a": 1, "b": None}]),
    ({"type": "object", "patternProperties": {"^n_": {"type": "integer"}}}, [{"n_a": 1}, {"n_a": "1"}, {"x": "1"}]),
    ({"type": "object", "patternProperties": {"^n_": {"type": "integer"}, "_t$": {"type": "string"}}}, [{"n_a": 1}, {"a_t": "x"}, {"n_t": 1}]),
    ({"type": "object", "patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False}, [{"n_a": 1}, {"x": 1}, {}]),
    ({"type": "object", "properties": {"n_a": {"minimum": 5}}, "patternProperties": {"^n_": {"type": "integer"}}}, [{"n_a": 7}, {"n_a": 1}, {"n_a": "x"}]),
    ({"type": "object", "minProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"type": "object", "maxProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"type": "object", "minProperties": 2}, [{"a": 1}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1, "additionalProperties": False}, [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}]),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1, "additionalProperties": False}, [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}]),
    ({"type": "object", "properties": {"a": False}}, [{}, {"a": 1}, {"b": 1}]),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"], "additionalProperties": {"type": "string"}}, [{"b": "x"}, {"a": 1, "b": "x"}, {"b": 1}, {"a": 1}]),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, [[], [1], [1, 2], ["a"]]),
    ({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}, "$schema": "http://json-schema.org/draft-07/schema#"},
     [[], [1], [1, "a"], [1, 2], ["a"]]),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "minimum": 3, "exclusiveMinimum": True}, [3, 4, 2]),
    ({"enum": [1, "1", None, [1], {"a": 1}]}, [1, "1", None, [1], {"a": 1}, 2, [2], {"a": 2}, {}]),
    ({"const": {"b": 1, "a": [True, None]}}, [{"b": 1, "a": [True, None]}, {"b": 1}, {}]),
    ({"const": 2.5}, [2.5, 2, 3]),
    ({"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, [1, "a", "ab", None]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 3]),
    ({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "integer"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]},
     [{"k": "a", "v": 1}, {"k": "b", "v": "x"}, {"k": "a", "v": "x"}, {"k": "c"}, {}]),
    ({"allOf": [{"minimum": 2}, {"maximum": 4}], "type": "integer"}, [1, 2, 4, 5]),
    ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^x"}]}, ["ab", "abc", "xabc"]),
    ({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}, [[], [[], [[]]], [1]]),
    ({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}, [{}, {"next": {"next": {}}}, {"next": 1}]),
    ({"$ref": "#/$defs/a%25b", "$defs": {"a%b": {"const": 1}}}, [1, 2]),
    ({"$id": "https://a.example/s", "$ref": "https://a.example/s#/$defs/c", "$defs": {"c": {"const": 1}}}, [1, 2]),
    ({"title": "t", "description": "d", "default": 1, "examples": [2], "deprecated": True, "readOnly": True, "$comment": "c", "type": "null"}, [None, 1]),
    ({"x-order": 1, "forms": "unknown", "type": "boolean"}, [True, False, 0]),
    ({"type": ["integer", "null"], "minimum": 3}, [3, None, 2]),
    ({"minimum": 3, "minLength": 2}, [3, 2, "ab", "a", None, []]),
    ({"uniqueItems": False, "type": "array"}, [[1, 1]]),
    ({"type": "array", "minItems": 2, "maxItems": 3, "items": {"enum": ["a", "b"]}}, [["a"], ["a", "b"], ["a", "b", "a"], ["a", "b", "a", "b"], ["c", "a"]]),
    # Refused by name.
    ({"not": {"type": "string"}}, [1, "a"]),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, ["a", "ab"]),
    ({"type": "array", "uniqueItems": True}, [[1, 2], [1, 1]]),
    ({"contains": {"type": "integer"}}, [[1], ["a"]]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1}]),
    ({"propertyNames": {"pattern": "^a"}}, [{"a": 1}, {"b": 1}]),
    ({"unevaluatedProperties": False, "properties": {"a": {}}}, [{"a": 1}, {"b": 1}]),
    ({"unevaluatedItems": False}, [[], [1]]),
    ({"type": "string", "format": "regex"}, ["a"]),
    ({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "null"}}}, [None, 1]),
    ({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "null"}}}, [None, 1]),
    ({"type": "string", "pattern": "^(?=a)"}, ["a", "b"]),
]


def spelled(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main():
    cases = []
    for schema, instances in FIXED:
        validator = validator_for(schema, Draft202012Validator)(schema, format_checker=CHECKER)
        cases.append([schema, [[spelled(value), validator.is_valid(value)] for value in instances]])
    maker = Maker(SEED)
    for number in range(SCHEMAS):
        schema = maker.root(number)
        validator = Draft202012Validator(schema, format_checker=CHECKER)
        texts = {}
        for _ in range(12):
            value = maker.instance(schema, schema)
            texts[spelled(value)] = validator.is_valid(value)
        cases.append([schema, sorted([text, valid] for text, valid in texts.items())])
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    pathlib.Path("crates/grammar/goldens/schemas.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    verdicts = [valid for _, instances in cases for _, valid in instances]
    print(f"{len(cases)} schemas, {len(verdicts)} instances, {sum(verdicts)} valid")


if __name__ == "__main__":
    main()
