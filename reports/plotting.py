"""What the plots share: reading Tandem's files and naming a plan."""
import json
import pathlib
import sys

try:
    import matplotlib
except ImportError:
    sys.exit(f"{sys.argv[0]}: {sys.executable} has no matplotlib; install python3-matplotlib, or run it with the interpreter that has it (Debian's: /usr/bin/python3)")
matplotlib.use("Agg")
import matplotlib.pyplot as plt


def load(path, what):
    """The JSON document of `path`; ends the program with one message when it is not a `what` of schema_version 1."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[0]}: {path}: cannot be read: {error}")
    if not isinstance(document, dict) or document.get("what") != what or document.get("schema_version") != 1:
        sys.exit(f"{sys.argv[0]}: {path}: not a {what} of schema_version 1")
    return {**document, "file": pathlib.Path(path).stem}


def plan_title(document):
    plan = document.get("plan") or {}
    parallel, training = plan.get("parallel", {}), plan.get("training", {})
    name = plan.get("name") or plan.get("model", {}).get("name") or document["file"]
    return (f"{name}: tensor {parallel.get('tensor', '?')} x pipeline {parallel.get('pipeline', '?')} x data "
            f"{parallel.get('data', '?')}, global batch {training.get('global_batch_size', '?')}")


def add_header(figure, title, handles, labels):
    """Title and legend in two lines above the panels, whatever the figure's height."""
    inch = 1 / figure.get_figheight()
    figure.text(0.01, 1 - 0.1 * inch, title, ha="left", va="top", fontsize=11, fontweight="bold")
    figure.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.005, 1 - 0.32 * inch), ncol=len(labels),
                  fontsize=8, frameon=False, borderaxespad=0)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.6 * inch))


def number_at_least_one(text):
    value = int(text)
    if value < 1:
        raise ValueError("must be at least 1")
    return value
