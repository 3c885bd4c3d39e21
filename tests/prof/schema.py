"""Checks a value against the part of JSON Schema that tools/prof/tc-prof.schema.json uses. Another word in the schema is an error."""
import json
import pathlib
import re

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "tools/prof/tc-prof.schema.json").read_text())
TYPES = {"string": str, "number": (int, float), "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}
KNOWN = {"type", "properties", "required", "additionalProperties", "items", "$ref", "$defs", "$schema", "title", "description", "oneOf", "const", "enum", "minimum",
         "minItems", "maxItems", "pattern"}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def problems(value, schema=SCHEMA, where="$"):
    """What is wrong with a value, a line each."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        yield from problems(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], where)
        return
    if "oneOf" in schema:
        found = [list(problems(value, s, where)) for s in schema["oneOf"]]
        if sum(not f for f in found) != 1:
            yield min(found, key=len)[0] if found else f"{where}: none of the alternatives"
        return
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        yield f"{where}: {value!r:.60} is no {' or '.join(types)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r:.60} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r:.60} is none of {schema['enum']}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where}: {value} is less than {schema['minimum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r:.60} is not {schema['pattern']}"
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                yield f"{where}: no {name}"
        for name, member in value.items():
            if name in schema.get("properties", {}):
                yield from problems(member, schema["properties"][name], f"{where}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{where}: {name} is not in the schema"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{where}: {len(value)} items"
        for i, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{where}[{i}]")
