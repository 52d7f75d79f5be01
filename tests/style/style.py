#!/usr/bin/env python3
"""Checks the rules that a compiler cannot see, and reports sizes.

    style.py ROOT

Fails on: an include against the direction table, a circle between subfolders, a knot of more than 4 units, a folder of more than
45 code files, a third party or threads outside their home, a folder without README.md (see `needs_readme`), a path that leaves the project, a line of C++ with more
than 132 characters of code, more than 50 reads of plan fields past the lowering, two types of one name in one namespace, a call
of std::filesystem that touches the disk outside models/base or may throw, a file opened or a text printed past the one place for
it. Prints function and file sizes; they never fail.
"""
import re
import statistics
import sys
from pathlib import Path

ALLOWED = {
    "models": {"models"},
    "topology": {"topology", "models"},
    "reports": {"reports", "models"},
    "sim": {"sim", "models", "topology", "reports"},
    "exec": {"exec", "models", "reports"},
    "experiments": {"models", "topology", "reports", "sim", "exec", "experiments"},
    "tests": {"models", "topology", "reports", "sim", "exec", "experiments", "tests"},
}
# include pattern -> what may include it: regular expressions over the path from the root
HOMES = {
    r"nlohmann/json_fwd\.hpp": [r"models/base/json\.hpp"],
    r"nlohmann/": [r".*\.cpp", r"tests/.*"],
    r"boost/math/": [r"sim/(result/step_range|cost/slowest)\.cpp"],
    r"boost/container/": [r"sim/memory/caching_allocator\.hpp"],
    r"boost/": [r"topology/route\.cpp"],
    r"Eigen/": [r"exec/cpu/gemm/.*"],
    r"(?:oneapi/|omp\.h)": [r"exec/cpu/gemm/.*"],
    r"(?:cuda|cublas|cudnn)": [r"exec/(cuda|nccl)/.*", r"tests/hostcuda/.*"],
    r"nccl\.h": [r"exec/nccl/.*", r"tests/hostcuda/libraries/nccl\.cpp"],
    r"mpi\.h": [r"exec/process/mpi_carrier\.cpp"],
    r"gloo/": [r"exec/process/gloo_carrier\.cpp"],
    r"unicode/": [r"exec/tokenizer/unicode/unicode\.cpp"],
    r"sentencepiece": [r"exec/tokenizer/formats/sentences\.cpp"],
    r"CLI/": [r"experiments/tandem/commands/.*", r"experiments/bench/.*"],
    r"catch2/": [r"tests/.*"],
    r"(?:thread|future)$": [r"models/base/threads\.hpp", r"tests/.*"],
}
# top folder -> its subfolders in order: each may include those before it
ORDERS = {
    "sim": ["nccl", "cost", "network", "engine", "memory", "result", "closed_form", "budget"],
}
# past the lowering plan fields are read in few places, in files of these apart: they print a plan, or its numbers in formulas
PLAN_TOPS = {"topology", "reports", "sim", "exec", "experiments"}
PLAN_PRINTERS = [
    r"reports/prediction/(plan_title\.hpp|prediction_text\.cpp)",
    r"reports/page/.*",
    r"experiments/tandem/(explain|search|planning|import|export)/.*",
    r"experiments/tandem/(study/outcome|validation/plan_digest)\.cpp",
    r"experiments/bench/.*",
]
MOST_PLAN_READS = 50
PART = r"(?:model|parallel|training|cluster)"
PLAN_NAME = re.compile(r"\bPlan&? (\w+)\b")
LONGEST_LINE = 132
LARGEST_KNOT = 4  # units (a header with its source) that all include each other, directly or not
FULLEST_FOLDER = 45  # code files beside each other
CODE = {".cpp", ".hpp", ".cu"}
# what std::filesystem does on a disk; all of these throw where they are not given an error code
DISK_CALLS = """absolute canonical copy copy_file copy_symlink create_directories create_directory create_directory_symlink
    create_hard_link create_symlink current_path directory_iterator equivalent exists file_size hard_link_count is_block_file
    is_character_file is_directory is_empty is_fifo is_other is_regular_file is_socket is_symlink last_write_time permissions proximate
    read_symlink recursive_directory_iterator relative remove remove_all rename resize_file space status symlink_status
    temp_directory_path weakly_canonical""".split()
DISK_HOME = "models/base/"
# what only some files may do -> the pattern, those files, and the door for all others
DOORS = {
    "opens a file": (r"\b(?:i|o)?fstream\b|\b(?:fopen|freopen)\s*\(|(?<![\w:])::(?:open|openat|creat)\s*\(",
                     [r"models/base/(input|output|new_file|appended_file|file_lock)\.cpp",
                      r"experiments/tandem/study/results\.cpp",  # locks a folder, and appends to a log
                      r"exec/(measure/measure_host|process/memory_pools)\.cpp"],  # ask the system about itself
                     "read through models/base/input.hpp or json.hpp, write through output.hpp"),
    "prints": (r"\bstd::(?:cout|cerr|clog)\b|(?<!\w)(?:std::)?(?:fwrite|fputs|puts|v?f?printf|putchar|fputc|perror)\s*\(",
               [r"experiments/tandem/base/terminal\.cpp"],
               "print through experiments/tandem/base/terminal.hpp, which escapes control characters"),
}
SCRIPTS = {".cpp", ".hpp", ".cu", ".py", ".sh", ".cmake"}  # a folder with one of them holds more than data
SOURCES = {".cpp", ".hpp", ".cu", ".py", ".sh", ".cmake", ".txt", ".json", ".md"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+ )?\{|^\}  // namespace( [\w:]+)?$|^(?:struct|class|union) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: : [^;{]*?)? ?\{", re.MULTILINE)
OUTSIDE = re.compile(r"(?<![\w.$}])/(?:work|root|home|tmp|mnt|opt)/[\w.-]+|(?<![\w./])\.\./(?:\.\./)*shared\b")


def all_files(root):
    """Every file of the project, build trees, outputs and hidden folders left out; in sorted order."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if parts[0].startswith((".", "build")) or parts[0] == "out" or "__pycache__" in parts:
            continue
        if path.is_file():
            yield path.relative_to(root)


def is_text(path):
    return path.suffix in SOURCES or path.name == "Makefile"


def include_problems(path, text):
    """Lines like "models/x.cpp: includes ..."."""
    folder = path.parts[0]
    problems = []
    for bracket, name in INCLUDE.findall(text):
        target = name.split("/")[0]
        if bracket == '"' and folder in ALLOWED and target not in ALLOWED[folder]:
            problems.append(f'{path}: includes "{name}": {folder} may include {", ".join(sorted(ALLOWED[folder]))}')
        home = next((h for pattern, h in HOMES.items() if re.match(pattern, name)), None)
        if bracket == "<" and home and not any(re.fullmatch(h, path.as_posix()) for h in home):
            problems.append(f"{path}: includes <{name}>, whose home is {' or '.join(home)}")
    return problems


def knots(arrows):
    """Groups of nodes that all reach each other (Tarjan's strongly connected components), those of one node left out."""
    number, low, stack, groups = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            at = stack.index(node)
            groups.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(arrows):
        if node not in number:
            visit(node)
    return sorted((g for g in groups if len(g) > 1), key=len, reverse=True)


def include_arrows(sources, name_of):
    """Arrows between what `name_of` makes of an including and an included path. `sources`: (path, text) of every code file."""
    arrows = {}
    for path, text in sources:
        here = name_of(path)
        there = {name_of(Path(name)) for bracket, name in INCLUDE.findall(text) if bracket == '"' and "/" in name}
        arrows.setdefault(here, set()).update(there - {here})
    return arrows


def order_problems(arrows):
    """Arrows between the subfolders of a top folder against its order; subfolders that the order does not name."""
    problems = []
    for top, order in ORDERS.items():
        place = {f"{top}/{name}": i for i, name in enumerate(order)}
        for here in sorted(a for a in arrows if a.startswith(top + "/")):
            if here not in place:
                problems.append(f"{here}: ORDERS[{top!r}] does not name this folder")
                continue
            problems += [f"{here}: includes {there}, which comes later in ORDERS[{top!r}]"
                         for there in sorted(arrows[here]) if place.get(there, 0) > place[here]]
    return problems


def structure_problems(sources):
    """Circles between folders, arrows against an order, knots of units, full folders; and a line of figures."""
    folders = include_arrows(sources, lambda path: path.parent.as_posix())
    circles = knots(folders)
    units = knots(include_arrows(sources, lambda path: path.with_suffix("").as_posix()))
    files_in = {}
    for path, _ in sources:
        files_in[path.parent.as_posix()] = files_in.get(path.parent.as_posix(), 0) + 1
    problems = [f"circle between folders: {', '.join(group)}" for group in circles]
    problems += order_problems(folders)
    problems += [f"knot of {len(group)} units, more than {LARGEST_KNOT}: {', '.join(group)}"
                 for group in units if len(group) > LARGEST_KNOT]
    problems += [f"{folder}: {n} code files are more than {FULLEST_FOLDER}" for folder, n in sorted(files_in.items())
                 if n > FULLEST_FOLDER]
    fullest = max(files_in, key=files_in.get, default="")
    return problems, (f"folders of code: {len(files_in)}, circles {len(circles)}, fullest {fullest} with {files_in.get(fullest, 0)} files; "
                      f"knots of units: {len(units)}, largest {len(units[0]) if units else 1}")


def arguments(text, start):
    """What stands between the bracket before `start` and the one that closes it, split at its commas."""
    parts, depth = [""], 1
    for c in text[start:]:
        depth += (c in "({[") - (c in ")}]")
        if depth == 0:
            return [p.strip() for p in parts]
        if c == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def disk_problems(path, text):
    """Calls of std::filesystem that touch the disk: in models/base alone, and there with an error code or on a known status."""
    if path.parts[0] == "tests":
        return []
    text = code_only(text)
    spaces = ["std::filesystem", "filesystem", *re.findall(r"namespace (\w+) = (?:::)?std::filesystem\b", text)]
    codes = re.findall(r"std::error_code\s*&?\s*(\w+(?:\s*,\s*\w+)*)", text)
    codes = {name.strip() for names in codes for name in names.split(",")}
    problems = [f"{path}: opens the namespace std::filesystem: write its name" for _ in re.findall(r"using (?:namespace )?std::filesystem\b", text)]
    call = rf"(?<![\w:])(?:{'|'.join(spaces)})::({'|'.join(DISK_CALLS)})\b(?:\s+\w+)?\s*([({{])"
    for match in re.finditer(call, text):
        given = arguments(text, match.end())
        if not path.as_posix().startswith(DISK_HOME):
            problems.append(f"{path}: calls std::filesystem::{match.group(1)}: use models/base/files.hpp")
        elif not harmless(match.group(1), given, codes):
            problems.append(f"{path}: std::filesystem::{match.group(1)} may throw: give it an error code")
    return problems


def door_problems(path, text):
    """Files opened and texts printed past the one place for it. Benchmarks and tests are no part of the product."""
    if path.parts[0] == "tests" or path.parts[:2] == ("experiments", "bench"):
        return []
    text = re.sub(r"#\s*include[^\n]*", "", code_only(text))
    return [f"{path}: {what} ({match.group(0).strip()}): {door}" for what, (pattern, homes, door) in DOORS.items()
            if not any(re.fullmatch(home, path.as_posix()) for home in homes) for match in re.finditer(pattern, text)]


def harmless(call, given, codes):
    """The end of a folder's entries, an error code, or a question about a status that is known."""
    ends = call.endswith("directory_iterator") and given == [""]
    of_status = call.startswith("is_") and "status(" in given[0]
    return ends or of_status or given[-1].split(".")[-1] in codes


def guess_problems(path, text):
    """Code that asks for a preset, a model or a vocabulary by name or number, and `models` naming files of `topology`."""
    if path.parts[0] == "tests":
        return []
    named = re.findall(r"(?:preset|model\.name)\s*[!=]=\s*\"[^\"]*\"|vocab_size\s*(?:[!=<>]=|[<>])\s*[1-9]\d*", text)
    problems = [f"{path}: asks for a name or a vocabulary: {found}" for found in named]
    knows_folders = path.as_posix() == "models/base/own_presets.cpp"  # the folders that TANDEM_PRESETS may have
    if path.parts[0] == "models" and not knows_folders and re.search(r'^(?!\s*(?:#include|//)).*"topology/', text, re.MULTILINE):
        problems.append(f"{path}: names a file of topology: let the caller look it up")
    return problems


def plan_reads(text):
    """How often code reads a field of a plan's parts: `plan.parallel.tensor`, and `q.tensor` where `q` is a reference to such a part,
    up to the end of its function. A reference to a field is one read, and what writes a field is none."""
    text = code_only(text)
    names = "|".join(sorted({"plan", "plan_", *PLAN_NAME.findall(text)}))
    reads = len(re.findall(rf"(?<!\w)(?:{names})(?:\(\))?\.{PART}(?:\.\w+)+(?![\w.]|\s*=[^=])", text))
    for alias in re.finditer(rf"const \w+& (\w+) = [\w.]*\b(?:{names})\.{PART};", text):
        end = text.find("\n}", alias.end())
        reads += len(re.findall(rf"(?<![\w.>]){alias.group(1)}\.\w+", text[alias.end():end if end >= 0 else len(text)]))
    return reads


def plan_read_problems(sources):
    """Too many reads of plan fields past the lowering; and a line of figures."""
    found = {path.as_posix(): plan_reads(text) for path, text in sources
             if path.parts[0] in PLAN_TOPS and not any(re.fullmatch(home, path.as_posix()) for home in PLAN_PRINTERS)}
    most = sorted((-n, path) for path, n in found.items() if n > 0)
    total, worst = sum(found.values()), ", ".join(f"{path} {-n}" for n, path in most[:3])
    line = f"plan fields read past the lowering: {total}, at most {MOST_PLAN_READS}; most in {worst or 'no file'}"
    tell = f"{line}: pass what is needed instead of the plan (models/plan/data_shape.hpp), or list a file that prints plans"
    return ([tell] if total > MOST_PLAN_READS else []), line


def path_problems(path, text):
    found = OUTSIDE.search(text)
    return [f"{path}: names a place outside the project: {found.group(0)}"] if found else []


def test_name_problems(path, text):
    """CMake reads names as list items: a bracket or a semicolon would make of several tests one that runs nothing."""
    return [f"{path}: the name of a test holds one of [ ] ;: {name}" for name in re.findall(r'TEST_CASE\("([^"]*)"', text)
            if re.search(r"[\[\];]", name)]


def readme_problems(root, names):
    """Folders without a README that need one. `names`: paths of all files of the project, of any kind."""
    kept = {}
    for path in names:
        kept.setdefault(path.parent, set()).add(path.suffix)
    return [f"{folder}: has no README.md, and {folder.parent}/README.md does not name `{folder.name}/`"
            if is_data(folder, kept[folder]) else f"{folder}: has no README.md"
            for folder in sorted(kept) if needs_readme(root, folder, kept[folder])]


def is_data(folder, suffixes):
    return len(folder.parts) > 1 and not suffixes & SCRIPTS


def needs_readme(root, folder, suffixes):
    """Not the root, a folder of tests that mirrors a folder of sources, or a folder of data that the README above names."""
    mirrors = folder.parts[:1] == ("tests",) and (root / folder.relative_to("tests")).is_dir()
    if folder == Path(".") or mirrors or (root / folder / "README.md").exists():
        return False
    above = root / folder.parent / "README.md"
    return not (is_data(folder, suffixes) and above.exists() and f"`{folder.name}/`" in above.read_text(encoding="utf-8"))


def code_only(text):
    """The source without comments, strings and character literals: what braces can be counted in."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda m: "\n" * m.group(0).count("\n"), text, flags=re.DOTALL)


def line_problems(path, text):
    """Lines of code over 132 characters, messages (the inside of strings), comments and tables (clang-format off) left out."""
    tables = re.sub(r"// clang-format off.*?(// clang-format on|\Z)", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.DOTALL)
    lines = enumerate(code_only(tables).split("\n"), 1)
    return [f"{path}:{i}: {len(line)} characters of code are more than {LONGEST_LINE}" for i, line in lines if len(line) > LONGEST_LINE]


def types(text):
    """Full names of the types at the edge of a file, but those of namespaces without a name: nobody else sees them."""
    spaces = []
    for m in NAMESPACE.finditer(text):
        if m.group().startswith("namespace"):
            spaces.append((m.group(1) or "").strip())
        elif m.group().startswith("}"):
            spaces.pop()
        elif all(spaces):
            yield "::".join([*spaces, m.group(3)])


def one_definition_problems(where):
    """A program with two types of one name is wrong without a word from compiler or linker: of the functions that templates make
    of the two it takes one (the standard, basic.def.odr). `where`: files by type, of the whole project."""
    return [f"{paths[1]}: {name} is another type in {paths[0]}: give one of them another name"
            for name, paths in sorted(where.items()) if len(paths) > 1]


def function_sizes(text):
    """Lines of every braced body that follows a parameter list, nested lambdas counted with their function."""
    text = code_only(text)
    sizes, depth, starts = [], 0, []
    for match in re.finditer(r"[{}]", text):
        if match.group(0) == "{":
            head = text[max(0, match.start() - 300):match.start()]
            opens = re.search(r"\)\s*(?:const|noexcept|override|final|->[^;{}]*|:[^;{}]*)*\s*$", head)
            is_function = bool(opens) and not re.search(r"\b(?:if|for|while|switch|catch)\s*\([^;{}]*(?:;[^;{}]*){0,2}$", head)
            starts.append((match.start(), is_function and not any(s[1] for s in starts)))
        elif starts:
            start, is_function = starts.pop()
            if is_function:
                sizes.append(text.count("\n", start, match.start()) + 1)
    return sizes


def report(root, sources):
    sizes, lengths = [], []
    for path in sources:
        text = (root / path).read_text(encoding="utf-8")
        lengths.append((text.count("\n"), path.as_posix()))
        sizes += function_sizes(text)
    if not sizes:
        return "no functions"
    sizes.sort()
    lengths.sort(reverse=True)
    lines = [f"functions: {len(sizes)}, median {statistics.median(sizes):.0f} lines, nine in ten under "
             f"{sizes[int(len(sizes) * 0.9)] + 1}, longest {sizes[-1]}",
             f"files: {len(lengths)}, median {statistics.median(n for n, _ in lengths):.0f} lines, "
             f"{sum(n > 400 for n, _ in lengths)} over 400; longest:"]
    return "\n".join(lines + [f"  {n:5d} {name}" for n, name in lengths[:8]])


def check(root):
    names = list(all_files(root))
    paths = [p for p in names if is_text(p)]
    problems = readme_problems(root, names)
    where, sources = {}, []
    for path in paths:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        if path.suffix in CODE:
            if path.parts[0] != "tests":
                sources.append((path, text))
            problems += include_problems(path, text)
            problems += test_name_problems(path, text)
            problems += line_problems(path, text)
            problems += guess_problems(path, text)
            problems += disk_problems(path, text)
            problems += door_problems(path, text)
            for name in types(text):
                where.setdefault(name, []).append(path.as_posix())
        if path.suffix != ".md" and path.parts[:2] != ("tests", "style"):
            problems += path_problems(path, text)
    problems += one_definition_problems(where)
    structure, figures = structure_problems(sources)
    reads, read_line = plan_read_problems(sources)
    sizes = report(root, [p for p, _ in sources if p.suffix != ".cu"])
    return problems + structure + reads, f"{sizes}\n{figures}\n{read_line}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems, sizes = check(Path(sys.argv[1]))
    print(sizes)
    for problem in problems:
        print(f"style: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
