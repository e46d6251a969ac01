// Schemas as zod 4 writes them for its targets, one JSON object per line: {"name", "schema"}.
//
//     npm install zod@4 && node dialects.mjs
import * as z from "zod";

const person = z.object({ name: z.string(), age: z.number().int().min(0).max(150).optional() });
const shapes = {
  string: z.string(),
  length: z.string().min(2).max(5),
  email: z.email(),
  uuid: z.uuid(),
  url: z.url(),
  datetime: z.iso.datetime(),
  date: z.iso.date(),
  time: z.iso.time(),
  ipv4: z.ipv4(),
  ipv6: z.ipv6(),
  base64: z.base64(),
  cuid2: z.cuid2(),
  ulid: z.ulid(),
  jwt_like: z.string().regex(/^[a-z]+\.[a-z]+$/),
  starts: z.string().startsWith("ab"),
  look_ahead: z.string().regex(/^(?!no)[a-z]+$/),
  number: z.number(),
  integer: z.int(),
  int32: z.int32(),
  positive: z.number().positive(),
  bounded: z.number().gt(1).lt(9),
  multiple: z.number().multipleOf(0.5),
  boolean: z.boolean(),
  nothing: z.null(),
  unknown: z.unknown(),
  literal: z.literal("a"),
  literals: z.literal(["a", 1, true]),
  enumeration: z.enum(["red", "green", "blue"]),
  optional: z.object({ a: z.string().optional() }),
  nullable: z.string().nullable(),
  nullish: z.object({ a: z.string().nullish() }),
  with_default: z.object({ a: z.string().default("x") }),
  described: z.object({ a: z.string().describe("A text.") }),
  array: z.array(z.string()),
  few: z.array(z.int()).min(1).max(3),
  tuple: z.tuple([z.string(), z.number()]),
  tuple_rest: z.tuple([z.string()], z.number()),
  union: z.union([z.string(), z.number()]),
  discriminated: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("a"), n: z.number() }),
    z.object({ kind: z.literal("b"), t: z.string() }),
  ]),
  intersection: z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() })),
  record: z.record(z.string(), z.number()),
  record_enum: z.partialRecord(z.enum(["x", "y"]), z.number()),
  record_pattern: z.record(z.string().regex(/^k[0-9]+$/), z.number()),
  strict: z.strictObject({ a: z.string() }),
  loose: z.looseObject({ a: z.string() }),
  catchall: z.object({ a: z.string() }).catchall(z.number()),
  nested: z.object({ people: z.array(person), boss: person.nullable() }),
  partial: person.partial(),
  nullable_object: person.nullable(),
  nullable_enum: z.enum(["a", "b"]).nullable(),
  deep: z.object({ a: z.object({ b: z.object({ c: z.array(z.object({ d: z.boolean() })) }) }) }),
};
const tree = z.object({ name: z.string(), get children() { return z.array(tree); } });
shapes.recursive = tree;

for (const target of ["draft-2020-12", "draft-7", "draft-4", "openapi-3.0"]) {
  for (const io of ["input", "output"]) {
    for (const [name, shape] of Object.entries(shapes)) {
      if (io === "output" && target !== "draft-2020-12" && name.length % 2) continue;
      const schema = z.toJSONSchema(shape, { target, io, unrepresentable: "any" });
      console.log(JSON.stringify({ name: `zod ${target} ${io} ${name}`, schema }));
    }
  }
}
