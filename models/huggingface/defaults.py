#!/usr/bin/env python3
"""Writes the defaults of transformers' configuration classes into types/*.json.

    defaults.py [TYPE...]

Needs an installed `transformers`. `class_rope`: stretched positions of the class, for a file that has neither `rope_parameters` nor
`rope_scaling`. A config.json leaves out what equals the default of its class, so a table needs the defaults of all
fields that its expressions read. Types that transformers does not have keep what their file says. Without arguments: all types.
"""
import json
import pathlib
import re
import sys

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

TYPES = pathlib.Path(__file__).resolve().parent / "types"
FIELD = re.compile(r"\$([A-Za-z_]\w*)")
# Tables of language models inside others, by the class that describes them there; types that are spelled as another class.
INSIDE = {"qwen2_vl_text": "qwen2_vl", "qwen2_5_vl_text": "qwen2_5_vl"}
AS = {"kimi_k2": "deepseek_v3", "kimi_k25_text": "deepseek_v3", "minimax_m3": "minimax_m3_vl_text"}

# A file has modules of multi-token prediction only if it says so, whatever the class has: older versions wrote files without.
UNSAID = {"num_nextn_predict_layers"}


def completed(name):
    """A table with those that it is like below it."""
    own = json.loads((TYPES / f"{name}.json").read_text(encoding="utf-8"))
    table = completed(own["like"]) if "like" in own else {}
    for part, value in own.items():
        table[part] = {**table.get(part, {}), **value} if isinstance(value, dict) else value
    return table


def expressions(value):
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else ():
        yield from expressions(inner)


def configuration(name):
    """The configuration class of a model type, nothing where transformers has none."""
    name = AS.get(name, name)
    if name in INSIDE:
        return CONFIG_MAPPING[INSIDE[name]].sub_configs["text_config"]
    return CONFIG_MAPPING[name] if name in CONFIG_MAPPING else None


def positions(cls):
    """Rotary positions that the class has where a file has none; those of layers without a window if kinds of layers differ."""
    said = getattr(cls(), "rope_parameters", None) or {}
    return said.get("full_attention", said)


def attribute(cls, field):
    """The value of the class' own attribute, under the first of its names that has one."""
    spelled = getattr(cls, "attribute_map", {})
    names = [field, spelled.get(field, field), *(other for other, name in spelled.items() if name == field)]
    return next((value for name in names if (value := getattr(cls, name, None)) is not None), None)


def defaults(cls, fields):
    """Values of the class' own attributes: an explicit null of a file is kept as it is, so null is no default."""
    found = {}
    for field in sorted(fields - UNSAID):
        value = positions(cls).get("rope_theta", getattr(cls, "default_theta", None)) if field == "rope_theta" else attribute(cls, field)
        if isinstance(value, (bool, int, float, str, list)):
            found[field] = value
        elif isinstance(value, dict) and field.endswith(("attn_config", "ffn_config")):
            found[field] = value
    if positions(cls).get("rope_type") in ("linear", "yarn", "llama3"):
        found["class_rope"] = positions(cls)
    return found


def spellings(cls, fields):
    """Other names of the fields, as transformers takes them."""
    found = {}
    for name, own in sorted(getattr(cls, "attribute_map", {}).items()):
        for field, other in ((name, own), (own, name)):
            if field in fields:
                found.setdefault(field, []).append(other)
    return found


def text_of(table):
    """A table as the files have it: a line for each entry of a part."""
    parts = []
    for part, value in table.items():
        if isinstance(value, dict):
            entries = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
            parts.append(f"  {json.dumps(part)}: {{\n{entries}\n  }}" if entries else f"  {json.dumps(part)}: {{}}")
        else:
            break_lines = isinstance(value, list) and len(value) > 1
            text = "[" + f",\n{' ' * 13}".join(map(json.dumps, value)) + "]" if break_lines else json.dumps(value)
            parts.append(f"  {json.dumps(part)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main():
    names = sys.argv[1:] or sorted(p.stem for p in TYPES.glob("*.json") if not p.stem[0].isupper())
    for name in names:
        path = TYPES / f"{name}.json"
        own = json.loads(path.read_text(encoding="utf-8"))
        table, cls = completed(name), configuration(name)
        if cls is None or "impossible" in own or "inner" in own:
            path.write_text(text_of(own), encoding="utf-8")
            continue
        parts = ("facts", "plan", "weights", "features")
        fields = {f for part in parts for text in expressions(table.get(part, {})) for f in FIELD.findall(text)}
        inherited = completed(own["like"]).get("defaults", {}) if own["like"][0].islower() else {}
        found = {**dict.fromkeys(sorted(fields & inherited.keys())), **defaults(cls, fields)}
        order = [f for f in own.get("defaults", {}) if f in found]  # a new field is a new line, and nothing else
        own["defaults"] = {f: found[f] for f in dict.fromkeys([*order, *found])}
        own.pop("spellings", None)
        if others := spellings(cls, fields):
            own["spellings"] = others
        path.write_text(text_of(own), encoding="utf-8")


if __name__ == "__main__":
    main()
