"""Pages of commands, flags and exit codes, from the program's --help."""
import json
import re
import sys

OPTION = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")


def cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def sections(text):
    """The parts of --help by title: pairs of left and right column, with lines that go on joined."""
    found, part = {}, []
    for line in text.split("\n"):
        if line and not line.startswith(" "):
            part = found.setdefault(line.rstrip(":"), [])
        elif OPTION.match(line):
            left, right = OPTION.match(line).groups()
            part.append([left, right or ""])
        elif line.strip():
            part[-1][1] = (part[-1][1] + " " + line.strip()).strip()
    return found


def subcommands(text):
    """Names and descriptions of the commands: whatever stands between options and exit codes."""
    found = sections(text)
    titles = list(found)
    return [row for title in titles[titles.index("Options") + 1:titles.index("exit codes")] for row in found[title]]


def option(left, right):
    """`-o,--out FILE` with its meaning: the names as code, and the value."""
    names, _, value = left.partition(" ")
    return [cell(", ".join(f"`{name}`" for name in names.split(","))), cell(f"`{value}`" if value else ""), cell(right)]


def command(run, name, about):
    """A command's arguments and options, group by group as --help has them."""
    text = run(name, "--help")
    usage = re.search(r"^Usage: (.*)$", text, re.MULTILINE).group(1)
    parts = sections(text)
    example = parts.pop("example")[0][0]
    rows = [option(left, right) for part in parts.values() for left, right in part if not left.startswith("-h")]
    return (f"\n## {name}\n\n{about}.\n\n```\n{usage}\n\n{example}\n```\n\n"
            + table(["argument or flag", "value", "meaning and [default]"], rows))


def commands(run):
    """Every command with its arguments and flags."""
    page = "# Commands and flags\n\nEvery command also has `--help`. Results go to stdout, messages and progress to stderr.\n"
    return page + "".join(command(run, name, about) for name, about in subcommands(run("--help")))


def printed_codes(text):
    """The exit codes of --help with their meanings."""
    parts = (" ".join([left, right]).strip().split(" ", 1) for left, right in sections(text)["exit codes"])
    return {int(code): meaning for code, meaning in parts}


def exit_codes(run, notes):
    """Exit codes as --help has them, with what to know about each, and the environment."""
    printed = printed_codes(run("--help"))
    data = json.loads(notes.read_text(encoding="utf-8"))
    if sorted(map(str, printed)) != sorted(data["codes"]):
        sys.exit(f"{notes}: has the codes {sorted(data['codes'])}, --help has {sorted(printed)}")
    codes = [[str(code), cell(meaning), cell(data["codes"][str(code)])] for code, meaning in printed.items()]
    variables = [[f"`{name}`", cell(meaning)] for name, meaning in data["environment"].items()]
    return ("# Exit codes and environment\n\n" + table(["code", "meaning", "remark"], codes)
            + "\n" + table(["variable", "meaning"], variables))
