#!/usr/bin/env python3
"""What the gate prints beside the tests' own words.

    gate_report.py cuda ROOT BUILD     how many CUDA files BUILD has compiled; fails where nvcc is there and one is missing
    gate_report.py times TIMES JUNIT   seconds of each part (lines "PART SECONDS") and the slowest tests of a JUnit file
"""
import json
import os
import re
import shutil
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

SLOWEST = 10
TWINS = ("attention.cpp", "attention_absent.cpp")  # the second is compiled where the first one's headers are not there


def nvcc(environment):
    """Where CMake would find it: $CUDACXX, $CUDAToolkit_ROOT, the path, the usual folder."""
    root = environment.get("CUDAToolkit_ROOT", "")
    places = [environment.get("CUDACXX", ""), root and f"{root}/bin/nvcc", "nvcc", "/usr/local/cuda/bin/nvcc"]
    return next((found for found in (place and shutil.which(place, path=environment.get("PATH")) for place in places) if found), None)


def compiled(build):
    """Names of the files of exec/cuda whose objects are in the build tree; not those that tests compile for the host."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    objects = [(Path(c["file"]), re.search(r"\s-o\s+(\S+)", c["command"])) for c in commands]
    there = [file for file, made in objects if made and not made.group(1).startswith("tests/") and (build / made.group(1)).exists()]
    return {path.name for path in there if path.parent.parts[-2:] == ("exec", "cuda")}


def cuda(root, build, compiler):
    """The line to print, and whether the gate may go on."""
    if compiler is None:
        return "CUDA files: none compiled, there is no nvcc; tests/hostcuda is not built", True
    wanted = {p.name for p in (root / "exec" / "cuda").iterdir() if p.suffix in {".cpp", ".cu"}}
    made = compiled(build)
    missing = sorted(wanted - made - set(TWINS))
    if missing or not made & set(TWINS):
        return f"CUDA files: {compiler} is there, but not compiled were {', '.join(missing or TWINS)}", False
    without = "" if TWINS[0] in made else f", without {TWINS[0]}: see the lines of the configuration"
    return f"CUDA files: {len(made & wanted)} of {len(wanted) - 1} compiled{without}", True


def slowest(junit):
    tests = [(float(t.get("time", 0)), t.get("name")) for t in xml.parse(junit).getroot().iter("testcase")]
    return sorted(tests, reverse=True)[:SLOWEST]


def times(parts, junit):
    lines = [f"{part}: {int(seconds) // 60} min {int(seconds) % 60} s" for part, seconds in map(str.split, parts.read_text().splitlines())]
    if junit.exists():  # else ctest ended before it wrote one
        lines += ["slowest tests:"] + [f"  {seconds:7.1f} s  {name}" for seconds, name in slowest(junit)]
    return "\n".join(lines)


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("cuda", "times"):
        sys.exit(__doc__)
    first, second = map(Path, sys.argv[2:])
    if sys.argv[1] == "times":
        return print(times(first, second))
    line, fine = cuda(first, second, nvcc(os.environ))
    print(line)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
