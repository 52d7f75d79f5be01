#!/usr/bin/env python3
"""Attacks the tandem program at random with damaged inputs, kills and outputs over inputs.

    attack.py [--seed N] [--seconds S] [--cases N] [--case I] [--jobs J] [--kind NAME] [--keep FOLDER]

TANDEM is the program [build/tandem]. Nothing may end with exit code 1 or a signal, take over 20 s, print control characters or more
than 200 kB of messages, or change a file that is no output. What does is printed with its command, and its folder is kept.
"""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
import material
import mutants


def sanitized(program):
    """Whether a program was built with a sanitizer."""
    data = pathlib.Path(program).read_bytes() if os.path.exists(program) else b""
    return any(mark in data for mark in (b"__asan_init", b"__tsan_init", b"__ubsan_handle"))


SANITIZED = sanitized(material.PROGRAM)
LIMIT = 60 if SANITIZED else 20        # s; a sanitizer makes it several times slower
MOST_MEMORY = 6 << 30                  # bytes of addresses, so that a flood ends before the machine does
MOST_MESSAGES = 200_000                # bytes
FOLDERS = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # rows and checkpoints wait for the disk, which may be busy
CODES = {0, 2, 3, 4, 5, 6, 7, 130}


def limits():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def snapshot(folder):
    """Digest of every file below a folder by its path from there; links by where they lead."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in files + [f for f in folders if os.path.islink(os.path.join(root, f))]:
            path = pathlib.Path(root, name)
            key = path.relative_to(folder).as_posix()
            large = not path.is_symlink() and path.stat().st_size > 1 << 30
            found[key] = (os.readlink(path) if path.is_symlink() else str(path.stat().st_size) if large else
                          hashlib.blake2b(path.read_bytes()).hexdigest())
    return found


class Attack:
    """One case: its folder, its runs, what went wrong."""

    def __init__(self, index, seed, made, folder, kind=None):
        self.index, self.folder, self.problems, self.commands = index, folder, [], []
        self.chance = random.Random(f"{seed}:{index}")
        chosen = cases.choose(self.chance)
        self.kind = kind or chosen
        self.case = self.kind(self.chance, made, folder)

    def run(self, arguments, patient=False, kill_after=0, stdin=b""):
        """Exit code (negative: a signal), stdout, stderr. A patient run is interrupted at its limit, which it must obey."""
        environment = material.environment(self.folder, **self.case.environment)
        own = [f"{k}={v}" for k, v in self.case.environment.items()]
        self.commands.append(f"cd {shlex.quote(str(self.folder))} && {shlex.join([*own, material.PROGRAM, *arguments])}")
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = subprocess.Popen([material.PROGRAM, *arguments], cwd=self.folder, env=environment, stdin=given, stdout=out, stderr=err,
                                       preexec_fn=limits)
            self._wait(process, patient, kill_after)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        return process.returncode, *texts

    def _wait(self, process, patient, kill_after):
        steps = [(kill_after, signal.SIGKILL)] if kill_after else [(2, signal.SIGTERM), (2, signal.SIGTERM)] if patient else []
        for seconds, sent in steps:
            try:
                process.wait(timeout=seconds)
                return
            except subprocess.TimeoutExpired:
                process.send_signal(sent)
        try:
            process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.problems.append(f"took over {LIMIT} s")
            process.kill()
            process.wait()

    def judge(self):
        case, before = self.case, snapshot(self.folder)
        code, out, err = self.run(case.arguments, case.patient, case.kill_after, case.stdin)
        killed = case.kill_after and code == -signal.SIGKILL
        if not killed and code not in (CODES if case.codes is None else case.codes):
            self.problems.append(f"exit {code}: {err[-2000:]}")
        self._judge_texts(out, err, "--json" in case.arguments)
        after = snapshot(self.folder)
        for path in sorted({p for p in before | after if before.get(p) != after.get(p)}):
            if not cases.is_output(path, case.outputs):
                self.problems.append(f"changed {path}, which is no output")
        if case.after and not self.problems:
            self.problems += case.after(self.run, code)
        return self.problems

    def _judge_texts(self, out, err, is_json):
        if len(err) > MOST_MESSAGES:
            self.problems.append(f"{len(err)} bytes of messages")
        if "internal:" in err or "runtime error:" in err or "Sanitizer" in err:
            self.problems.append(f"an internal error: {err[-3000:]}")
        if any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in err + ("" if is_json else out)):
            self.problems.append("control characters in what was printed")


def attack(index, options, made):
    """Problems of one case; its folder is gone where there are none."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tandem_attack_{index}_", dir=FOLDERS))
    try:
        one = Attack(index, options.seed, made, folder, options.kind)
        problems = one.judge()
        name = one.kind.__name__
        if problems:
            kept = pathlib.Path(options.keep) / f"{options.seed}-{index}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept, symlinks=True, ignore=lambda _, names: [n for n in names if n in ("hole", "odd.json")])
            print(f"case {index} ({name}), repeat with --seed {options.seed} --case {index}; inputs in {kept}", flush=True)
            for command in one.commands:
                print("  " + command, flush=True)
            for problem in problems:
                print("  " + problem.replace("\n", "\n    "), flush=True)
        return name, bool(problems)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--seconds", type=float, default=240, help="no case begins after so long")
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kind", type=lambda name: {k.__name__: k for k in cases.KINDS}[name], help="one of " + ", ".join(k.__name__ for k in cases.KINDS))
    parser.add_argument("--keep", default="out/attack", help="folder for the inputs of cases that failed")
    return parser.parse_args()


def main():
    options = parsed()
    if not os.path.exists(material.PROGRAM):
        sys.exit(f"no program at {material.PROGRAM}; set TANDEM")
    print(f"seed {options.seed}, {material.PROGRAM}{', sanitized' if SANITIZED else ''}", flush=True)
    begin, counts, failed = time.monotonic(), {}, 0
    with tempfile.TemporaryDirectory(prefix="tandem_attack_material_", dir=FOLDERS) as folder:
        made = material.Material(pathlib.Path(folder))
        made.plans = mutants.Plans(made.schema)
        indices = iter([options.case] if options.case is not None else range(options.cases))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            def work(_):
                done = []
                for index in indices_until(indices, begin + options.seconds):
                    done.append(attack(index, options, made))
                return done
            for name, bad in (one for part in pool.map(work, range(options.jobs)) for one in part):
                counts[name] = counts.get(name, 0) + 1
                failed += bad
    kinds = ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))
    print(f"{sum(counts.values())} cases ({kinds}), {failed} failed, {time.monotonic() - begin:.0f} s", flush=True)
    sys.exit(1 if failed or not counts else 0)


def indices_until(indices, end):
    while time.monotonic() < end:
        index = next(indices, None)
        if index is None:
            return
        yield index


if __name__ == "__main__":
    main()
