#!/usr/bin/env python3
"""Writes options/megatron-core.json: every option of Megatron-LM with the name and the default of its argument.

Usage: options.py MEGATRON_LM_CHECKOUT

Needs PyTorch and NumPy. The checkout is the commit that megatron-core.json names as its source.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import typing

if not hasattr(typing, "override"):  # before Python 3.12
    typing.override = lambda function: function

PLAIN = (int, float, str, bool, type(None))


def plain(value):
    """A default as JSON: an enumeration by its name, a list by its entries."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return getattr(value, "name", str(value))


def main():
    root = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(root))
    from megatron.training.arguments import add_megatron_arguments

    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    options = {}
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help":
                options[option[2:].replace("_", "-")] = [action.dest, plain(action.default)]
    out = pathlib.Path(__file__).parent / "options" / "megatron-core.json"
    lines = [f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(options.items())]
    commit = subprocess.run(["git", "-C", root, "log", "-1", "--format=%h (%cs)"], capture_output=True, text=True).stdout.strip()
    source = f"NVIDIA/Megatron-LM {commit}: megatron/training/arguments.py" if commit else sys.argv[2]
    out.write_text('{\n  "source": ' + json.dumps(source) + ',\n  "options": {\n' + ",\n".join(lines) + "\n  }\n}\n")


if __name__ == "__main__":
    main()
