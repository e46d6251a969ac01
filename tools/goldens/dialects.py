"""Writes crates/grammar/goldens/dialects.json: schemas as zod 4, pydantic 2 and function-calling leaderboards write them.

    npm install zod@4 && python dialects.py

Runs dialects.mjs beside it in the working directory, where zod is installed. Takes pydantic and email-validator.
"""

import json
import subprocess
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

from pydantic import AnyUrl, BaseModel, ConfigDict, EmailStr, Field, TypeAdapter, conint, conlist, constr


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


class Level(int, Enum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    street: str
    city: str = "Bath"
    zip: Annotated[str, Field(pattern=r"^[0-9]{5}$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Pet(BaseModel):
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Person(BaseModel):
    name: str = Field(min_length=1, max_length=20, description="The name", examples=["Ann"])
    age: Optional[int] = Field(None, ge=0, lt=150)
    home: Address
    work: Optional[Address] = None
    colour: Colour = Colour.RED
    levels: list[Level]
    tags: set[str] = set()
    born: date


TYPES = {
    "str": str, "int": int, "float": float, "bool": bool, "none": None, "any": Any, "bytes": bytes, "date": date,
    "datetime": datetime, "time": time, "timedelta": timedelta, "uuid": UUID, "decimal": Decimal, "url": AnyUrl,
    "email": EmailStr, "literal": Literal["a", 1, None], "optional": Optional[int], "union": Union[int, str, None],
    "list": list[int], "tuple": tuple[int, str], "tuple_open": tuple[int, ...], "set": set[int],
    "set_enum": set[Colour], "frozenset_bool": frozenset[bool], "dict": dict[str, int], "dict_enum": dict[Colour, int],
    "dict_pattern": dict[constr(pattern="^k"), int], "conint": conint(gt=1, le=10, multiple_of=2),
    "constr": constr(min_length=2, max_length=4), "conlist": conlist(int, min_length=1, max_length=3),
    "pattern": Annotated[str, Field(pattern=r"^\d{3}-\w+$")], "look": Annotated[str, Field(json_schema_extra={"pattern": "^(?=a).*$"})],
    "large": Annotated[int, Field(ge=-(2**63), le=2**63 - 1)], "colour": Colour, "level": Level, "address": Address,
    "strict": Strict, "open": Open, "pet": Pet, "node": Node, "person": Person, "people": list[Person],
    "either": Union[Cat, Dog], "maybe": Optional[Person],
}

# As the Berkeley Function-Calling Leaderboard, Gemini and hand-written tools have them.
OTHERS = {
    "bfcl dict": {"type": "dict", "properties": {"x": {"type": "float", "description": "A number"}, "n": {"type": "integer"}}, "required": ["x"]},
    "bfcl tuple": {"type": "dict", "properties": {"at": {"type": "tuple", "items": {"type": "float"}}}, "required": ["at"]},
    "bfcl any": {"type": "dict", "properties": {"v": {"type": "any"}}, "required": []},
    "gemini": {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}, "b": {"type": "ARRAY", "items": {"type": "NUMBER"}}}},
    "openapi nullable ref": {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/definitions/A"}], "nullable": True}}, "definitions": {"A": {"type": "integer"}}},
    "openapi exclusive": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 10, "format": "int64"},
    "nulls": {"type": "object", "properties": {"a": {"type": "string", "enum": None, "default": None}}, "required": None, "description": None},
    "not": {"type": "object", "properties": {"a": {"type": "string", "not": {"const": "b"}}}, "required": ["a"]},
    "conditions": {"type": "object", "properties": {"a": {"type": "integer"}}, "if": {"required": ["a"]}, "then": {"minProperties": 1}},
    "dependent": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}},
    "contains": {"type": "array", "items": {"type": "integer"}, "contains": {"const": 3}},
    "many names": {"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}},
}


def main():
    folder = Path(__file__).parent
    # From stdin, so that zod is that of the working directory.
    node = ["node", "--input-type=module", "-"]
    source = (folder / "dialects.mjs").read_text()
    lines = subprocess.run(node, input=source, check=True, capture_output=True, text=True).stdout
    schemas = [json.loads(line) for line in lines.splitlines()]
    for name, kind in TYPES.items():
        for mode in ("validation", "serialization"):
            schemas.append({"name": f"pydantic {mode} {name}", "schema": TypeAdapter(kind).json_schema(mode=mode)})
    schemas += [{"name": name, "schema": schema} for name, schema in OTHERS.items()]
    path = folder.parents[1] / "crates" / "grammar" / "goldens" / "dialects.json"
    path.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in schemas) + "\n]\n")
    print(len(schemas), "schemas,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
