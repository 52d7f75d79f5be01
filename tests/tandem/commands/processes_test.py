#!/usr/bin/env python3
"""Training with ranks in several processes, by MPI and by Gloo: the bits of threads, one voice, named failures."""
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess

import tandem
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, TEXT, WithFolder, changed, run

MPIRUN = shutil.which("mpirun")
LAYOUTS = 60 if os.environ.get("TANDEM_NIGHTLY") == "1" else 5
SHAPES = [{"data": 4}, {"tensor": 4}, {"pipeline": 4}, {"tensor": 2, "data": 2}, {"tensor": 2, "pipeline": 2}, {"pipeline": 2, "data": 2},
          {"context": 2, "data": 2}, {"tensor": 2, "sequence_parallel": True, "data": 2}, {"data": 4, "zero_stage": 1},
          {"data": 4, "zero_stage": 2}, {"data": 4, "zero_stage": 3}, {"tensor": 2, "pipeline": 2, "data": 2},
          {"pipeline": 2, "data": 2, "schedule": "breadth-first", "virtual_pipeline": 2}, {"pipeline": 2, "data": 2, "schedule": "dualpipe-v"}]
# Both stages send to each other in one direction of the pipeline.
TWO_WAYS = {"pipeline": 2, "schedule": "interleaved", "virtual_pipeline": 2}


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def environment(rank, size, port, **more):
    return dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED, NO_COLOR="1", RANK=str(rank), WORLD_SIZE=str(size),
                LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), **more)


def start_env(size, arguments, plans=None, **more):
    """So many processes as torchrun starts them."""
    port = free_port()
    return [subprocess.Popen([PROGRAM, "train", plans[r] if plans else arguments[0], *map(str, arguments[1:]), "--launch", "env"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(r, size, port, **more)) for r in range(size)]


def finish(processes, timeout=120):
    """(exit code, stdout, stderr) of each."""
    ends = []
    for p in processes:
        out, err = p.communicate(timeout=timeout)
        ends.append((p.returncode, out.decode(), err.decode()))
    return ends


def mpi_command(size, *arguments):
    return [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(size), PROGRAM, "train", *map(str, arguments), "--launch", "mpi"]


def run_mpi(size, *arguments, timeout=120):
    done = subprocess.run(mpi_command(size, *arguments), capture_output=True, timeout=timeout, check=False,
                          env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED, NO_COLOR="1"))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def errors(text):
    return [line for line in text.splitlines() if line.startswith("tandem: error:")]


def files_of(path):
    """Bytes by relative path of what is saved there: a folder or a file."""
    return {str(f.relative_to(path)): f.read_bytes() for f in [pathlib.Path(path), *pathlib.Path(path).rglob("*")] if f.is_file()}


def plan_of(shape):
    ranks = 1
    for axis in ("tensor", "pipeline", "data", "context"):
        ranks *= shape.get(axis, 1)
    chunks = 2 if shape.get("schedule") == "dualpipe-v" else shape.get("virtual_pipeline", 1)
    return changed(SMALL, **{"parallel": shape, "cluster.devices": ranks, "model.num_layers": max(2, chunks * shape.get("pipeline", 1))})


def layouts(count):
    """A seeded list of (layout, processes, launch)."""
    draw = random.Random(25)
    cases = [(shape, processes, launch) for shape in SHAPES for processes in (2, 3, 4) for launch in ("mpi", "env")]
    draw.shuffle(cases)
    return [(TWO_WAYS, 2, "mpi"), *cases[:count]]


class Launched(WithFolder):
    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(plan_of({"tensor": 2, "data": 2}))

    def train(self, launch, processes, *arguments):
        if launch == "mpi":
            return run_mpi(processes, *arguments)
        ends = finish(start_env(processes, arguments))
        self.assertEqual([e[0] for e in ends[1:]], [ends[0][0]] * (processes - 1), ends)
        self.assertEqual([e[1] + e[2] for e in ends[1:]], [""] * (processes - 1), "process 0 speaks for all")
        return ends[0]


class Processes(Launched):
    def test_processes_train_the_bits_of_threads_over_mpi_and_over_gloo(self):
        for i, (shape, processes, launch) in enumerate(layouts(LAYOUTS)):
            with self.subTest(shape=shape, processes=processes, launch=launch):
                plan, one, other = self.folder.plan(plan_of(shape), "layout.json"), self.path(f"threads{i}"), self.path(f"processes{i}")
                arguments = (plan, "--data", TEXT, "--steps", 3, "--json", "--save")
                code, alone, err = run("train", *arguments, one)
                self.assertEqual(code, 0, err)
                code, out, err = self.train(launch, processes, *arguments, other)
                self.assertEqual(code, 0, err)
                self.assertEqual([s["loss"] for s in json.loads(out)["steps"]], [s["loss"] for s in json.loads(alone)["steps"]])
                for key in ("flops", "bytes_sent", "arena_bytes"):
                    self.assertEqual(json.loads(out)[key], json.loads(alone)[key])
                self.assertTrue(files_of(one) == files_of(other), "checkpoints differ")

    def test_a_run_is_saved_resumed_evaluated_and_timed_across_processes(self):
        half, whole, resumed, timeline = (self.path(n) for n in ("half", "whole", "resumed", "timeline.json"))
        self.assertEqual(run("train", self.plan, "--data", TEXT, "--steps", 4, "--eval-every", 2, "--save", whole)[0], 0)
        self.assertEqual(run_mpi(4, self.plan, "--data", TEXT, "--steps", 2, "--eval-every", 2, "--schedule-steps", 4, "--save", half)[0], 0)
        code, out, err = self.train("env", 2, self.plan, "--data", TEXT, "--steps", 4, "--eval-every", 2, "--resume", half,
                                    "--save", resumed, "--timeline", timeline)
        self.assertEqual(code, 0, err)
        self.assertIn("evaluation after step 3", err)
        self.assertTrue(files_of(whole) == files_of(resumed), "a resumed run differs")
        predicted = self.path("predicted.json")
        self.assertEqual(run("simulate", self.plan, "--timeline", predicted)[0], 0)
        code, out, err = run("compare", predicted, timeline)
        self.assertIn(code, (0, 6), err)  # joins every task of every rank; how near they are is not this test's

    def test_bytes_that_are_staged_through_the_host_train_the_bits_of_threads(self):
        saved = []
        for processes, more in ((1, ()), (2, ("--backend", "cpu-async", "--comm", "staged")), (4, ("--backend", "cpu-async", "--comm", "staged"))):
            saved.append(self.path(f"staged{processes}.safetensors"))
            arguments = (self.plan, "--data", TEXT, "--steps", 2, "--save", saved[-1], *more)
            ends = finish(start_env(processes, arguments)) if processes > 1 else [run("train", *arguments)]
            self.assertEqual([e[0] for e in ends], [0] * processes, ends)
        whole = [pathlib.Path(s).read_bytes() for s in saved]
        self.assertEqual(whole[0], whole[1])
        self.assertEqual(whole[0], whole[2])

    def test_a_device_is_shared_by_processes_only_where_that_is_allowed(self):
        code, out, err = run("train", self.plan, "--data", TEXT, "--comm", "nccl")
        self.assertEqual((code, len(errors(err))), (3, 1), err)
        self.assertIn("--backend", err)
        ends = finish(start_env(2, (self.plan, "--data", TEXT, "--backend", "cuda"), CUDA_VISIBLE_DEVICES="0"))
        told = [line for e in ends for line in errors(e[2])]
        self.assertEqual(len(told), 1, told)
        if ends[0][0] == 4:
            return self.assertIn("no CUDA", told[0])  # a build without it
        self.assertEqual([e[0] for e in ends], [7, 7], ends)
        self.assertIn("2 processes of this host have 1 CUDA device: ", told[0])
        self.assertIn("TANDEM_SHARE_DEVICE=1", told[0])

    def test_errors_are_told_once_with_their_exit_code(self):
        other = self.folder.plan(changed(plan_of({"tensor": 2, "data": 2}), **{"training.seed": 77}), "other.json")
        ends = finish(start_env(2, (self.plan, "--data", TEXT, "--steps", 2), plans=[self.plan, other]))
        self.assertEqual([e[0] for e in ends], [3, 3], ends)
        told = [line for e in ends for line in errors(e[2])]
        self.assertEqual(len(told), 1, told)
        self.assertIn("process 1 on ", told[0])
        self.assertIn("training.seed = 77", told[0])
        code, out, err = run_mpi(2, self.path("missing.json"), "--data", TEXT)
        self.assertEqual((code, len(errors(err))), (3, 1), err)
        code, out, err = run_mpi(8, self.plan, "--data", TEXT)
        self.assertEqual((code, len(errors(err))), (2, 1), err)
        self.assertIn("the plan has 4 ranks", err)

    def test_variables_that_contradict_each_other_and_silent_addresses_are_refused(self):
        arguments = ("train", self.plan, "--data", TEXT, "--launch", "env")
        code, out, err = run(*arguments, environment={"RANK": "4", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"})
        self.assertEqual((code, errors(err)), (2, ["tandem: error: RANK = 4: contradicts WORLD_SIZE=4: numbers begin with 0"]))
        port = free_port()
        for rank, text, wait in (("0", "process 1 of 2 has not come to 127.0.0.1", f"process 0 waits at 127.0.0.1:{port} for process 1 of 2"),
                                 ("1", "gives no answer within 0.5 s", f"process 1 waits for process 0 at 127.0.0.1:{port}")):
            code, out, err = run(*arguments, "--timeout", 0.5, environment={"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                                                           "MASTER_PORT": str(port)})
            self.assertEqual((code, len(errors(err))), (7, 1), err)
            self.assertIn(text, err)
            self.assertEqual(err.count(wait + ", for at most 0.5 s (--timeout)"), 1, err)
        code, out, err = run("train", self.plan, "--data", TEXT, "--timeout", 5)
        self.assertEqual(code, 2)
        self.assertIn("--timeout: needs --launch mpi or env", err)


def built_with(launch):
    """Whether the program was built with what carries bytes."""
    code, out, err = run("train", "none.json", "--data", "none", "--launch", launch, environment={"RANK": "0", "WORLD_SIZE": "1",
                                                                                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    return code != 4


def main():
    if MPIRUN is None or not built_with("mpi") or not built_with("env"):
        print("there is no mpirun, or the program was built without MPI or Gloo")
        raise SystemExit(77)
    tandem.main()


if __name__ == "__main__":
    main()
