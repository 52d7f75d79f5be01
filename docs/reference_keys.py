"""The page of JSON keys, from keys.json. A test compares keys.json with what the commands print."""
import json

from reference_help import cell, table


def rows(keys):
    return [[f"`{key}`", cell(meaning)] for key, meaning in keys.items()]


def page(data):
    """The keys of `--json`, command by command."""
    commands = json.loads(data.read_text(encoding="utf-8"))
    made = ("# JSON keys\n\n`--json` makes a command print one JSON object with `schema_version`. Units are SI and part of the key. "
            "`a.b` is key `b` of object `a`, `a[]` an item of list `a`, `*` any name.\n")
    for name, command in commands.items():
        made += f"\n## {name}\n\n" + (command["about"] + "\n\n" if command.get("about") else "") + table(["key", "meaning"], rows(command["keys"]))
        if command.get("sometimes"):
            made += "\nOnly in some outputs:\n\n" + table(["key", "meaning"], rows(command["sometimes"]))
    return made
