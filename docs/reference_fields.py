"""The page of plan fields, from the JSON Schema that the program prints, with units and examples from fields.json."""
import json
import re
import sys

from reference_help import cell, table

DEFAULT = re.compile(r"^(.*?)\s*Default: (.*?)\.?$", re.DOTALL)
LIMITS = (("minimum", ">= {}"), ("exclusiveMinimum", "> {}"), ("maximum", "<= {}"), ("exclusiveMaximum", "< {}"))
TYPES = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "array": list, "object": dict}


def fields(node, prefix=""):
    """(path, schema) of every field that is no group of fields, in the order of a plan file."""
    for name, schema in node.get("properties", {}).items():
        if schema.get("properties"):
            yield from fields(schema, f"{prefix}{name}.")
        else:
            yield prefix + name, schema


def required(node, prefix=""):
    """Paths of fields that a plan has to say, unless its part names a preset."""
    for name, schema in node.get("properties", {}).items():
        lists = [schema.get("required", [])] + [part["required"] for part in schema.get("anyOf", []) if "required" in part]
        yield from (f"{prefix}{name}.{field}" for found in lists for field in found if field != "preset" or len(lists) == 1)
        yield from required(schema, f"{prefix}{name}.")


def number(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def kind(schema):
    """The type in words, with its limits."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(f"`{part['const']}`" if "const" in part else kind(part) for part in schema["anyOf"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if types == ["array"]:
        return "list of " + (kind(schema["items"]) if "object" != schema["items"].get("type") else "objects")
    limits = [text.format(number(schema[key])) for key, text in LIMITS if key in schema]
    return " or ".join(types) + (" " + ", ".join(limits) if limits else "")


def fits(value, schema):
    """Whether an example is what the schema allows."""
    if "anyOf" in schema:
        return any(fits(value, part) for part in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, TYPES[t]) and isinstance(value, bool) == (t == "boolean") for t in types):
        return False
    if isinstance(value, list):
        return all(fits(item, schema["items"]) for item in value)
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    return isinstance(value, (bool, dict)) or (schema.get("minimum", value) <= value <= schema.get("maximum", value)
                                               and value > schema.get("exclusiveMinimum", value - 1)
                                               and value < schema.get("exclusiveMaximum", value + 1))


def row(path, schema, note, must):
    unit, example = note
    if not fits(example, schema):
        sys.exit(f"fields.json: {path} = {example!r} is not what the schema allows")
    said = DEFAULT.match(schema.get("description", ""))
    meaning, default = said.groups() if said else (schema.get("description", ""), None)
    if default is None:
        default = "required" if path in must else f"`{json.dumps(schema['default'])}`" if "default" in schema else "none"
    return [f"`{path}`", cell(kind(schema)), unit or "-", cell(default), f"`{json.dumps(example)}`", cell(meaning)]


def page(text, notes):
    """Every field with type, unit, default, example and meaning."""
    schema = json.loads(text)
    known = json.loads(notes.read_text(encoding="utf-8"))
    found = dict(fields(schema))
    if set(found) != set(known):
        sys.exit(f"{notes}: lacks {sorted(set(found) - set(known))}, and no field of a plan is {sorted(set(known) - set(found))}")
    must = set(required(schema))
    parts = {}
    for path, field in found.items():
        parts.setdefault(path.split(".")[0] if "." in path else "", []).append(row(path, field, known[path], must))
    head = ["field", "type", "unit", "default", "example", "meaning"]
    made = ("# Plan fields\n\nA plan is a JSON object. `tandem schema` prints its JSON Schema for editors. "
            "A required field may come from a `preset`. `\"stack\": \"NAME\"` means the newest code of stack NAME.\n")
    return made + "".join(f"\n## {name or 'top'}\n\n" + table(head, rows) for name, rows in parts.items())
