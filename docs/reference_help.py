"""Pages of commands, flags and exit codes, from the program's --help."""
import json
import re
import sys

OPTION = re.compile(r"^  (\S.*?)(?:\s{2,}(\S.*))?$")
TYPE = re.compile(r"^(?P<names>[^ ]+(?:,[^ ]+)*)(?: (?P<type>.*))?$")
WORDS = {"INT": "integer", "FLOAT": "number", "SHARE": "number", "TEXT": "text", "": ""}
FOOTER = re.compile(r"^exit codes: (.*?)^Data goes to", re.MULTILINE | re.DOTALL)


def cell(text):
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def section(text, title):
    """Lines of a part of --help: (left column, right column), with lines that go on joined."""
    found, inside = [], False
    for line in text.split("\n"):
        if line and not line.startswith(" "):
            inside = line.lower().rstrip(":") == title
        elif inside and line.strip():
            option = OPTION.match(line)
            if option:
                found.append([option.group(1), option.group(2) or ""])
            else:
                found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
    return found


def subcommands(text):
    return section(text, "subcommands")


def value(text):
    """`INT 1..9 REQUIRED` in words."""
    needs = re.search(r"Needs: (\S+)", text)
    spans = re.search(r"(INT|FLOAT) (\S+?)\.\.([^\s=,]+)", text)
    choices = re.search(r"\{(.*?)\}", text)
    kind = "one of " + choices.group(1).replace(",", ", ") if choices else WORDS.get(re.split(r"[\s:,]", text)[0], text.split(" ")[0])
    if spans:
        kind = f"{WORDS[spans.group(1)]} from {spans.group(2)} to {spans.group(3)}"
    elif "..." in text and "..." not in kind:
        kind += ", one or more"
    return kind + (", required" if "REQUIRED" in text else "") + (f"; needs `{needs.group(1)}`" if needs else "")


def flag(left):
    """-o,--output TEXT REQUIRED: the names as code, and the value."""
    parts = TYPE.match(left)
    names = ", ".join(f"`{name}`" for name in parts.group("names").split(","))
    return cell(names), cell(value(parts.group("type") or ""))


def command(run, name, about):
    text = run(name, "--help")
    arguments = section(text, "positionals")
    flags = [f for f in section(text, "options") if not f[0].startswith("-h")]
    usage = re.search(r"^Usage: (.*)$", text, re.MULTILINE).group(1)
    rows = [[*flag(left), cell(right)] for left, right in arguments + flags]
    return f"\n## {name}\n\n{about}.\n\n```\n{usage}\n```\n\n" + table(["argument or flag", "value", "meaning and [default]"], rows)


def commands(run):
    """Every command with its arguments and flags."""
    page = "# Commands and flags\n\nEvery command also has `--help`. Results go to stdout, messages and progress to stderr.\n"
    return page + "".join(command(run, name, about) for name, about in subcommands(run("--help")))


def printed_codes(text):
    """The exit codes of --help with their meanings."""
    parts = " ".join(FOOTER.search(text).group(1).split())
    return {int(code): meaning.strip() for code, meaning in re.findall(r"(?:^|; )(\d+) (.*?)(?=; \d+ |$)", parts)}


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
