#!/usr/bin/env python3
"""Training on two hosts with folders of their own, started by hand, by mpirun and by torchrun: the bits of threads."""
import json
import os
import shutil
import subprocess
import unittest

import hosts
import tandem
from processes_test import MPIRUN, changed, errors, files_of, finish, free_port
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, TEXT, run

PYTHON = "/usr/bin/python3"  # of Debian, which has its torch
PORT = 29610
PLAN = changed(SMALL, **{"parallel": {"tensor": 2, "data": 2}, "cluster.devices": 4})
SETTINGS = {"TANDEM_MEASURED": NOTHING_MEASURED, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed.run"], capture_output=True, check=False).returncode == 0


def torchrun(*arguments):
    """PyTorch 1 knows no hyphens within options, and on Python 3.11 none that redirect nothing: a rank that is not there has one."""
    return [PYTHON, "-m", "torch.distributed.run", "--no_python", "--redirects", "9:1", "--tee", "9:1", *arguments]


class OnTwoHosts(unittest.TestCase):
    def setUp(self):
        self.hosts = hosts.TwoHosts()
        self.addCleanup(self.hosts.close)
        for own in self.hosts.own:
            (own / "plan.json").write_text(json.dumps(PLAN))
            shutil.copyfile(TEXT, own / "text.txt")
        self.plan, self.text = self.hosts.work / "plan.json", self.hosts.work / "text.txt"
        self.shares = self.hosts.shared / "shares"
        self.arguments = ["train", self.plan, "--data", self.text, "--steps", 4, "--json", "--save"]

    def threads(self, save):
        """Losses of the same training in one process, which leaves its checkpoint at `save`."""
        code, out, err = run("train", self.hosts.own[0] / "plan.json", "--data", self.hosts.own[0] / "text.txt", "--steps", 4, "--json",
                             "--save", save)
        self.assertEqual(code, 0, err)
        return [s["loss"] for s in json.loads(out)["steps"]]

    def start(self, host, command, **variables):
        return subprocess.Popen([*self.hosts.command(host), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **SETTINGS, **variables})

    def start_each(self, arguments):
        """Two processes a host, as a launcher of one's own starts them."""
        return [self.start(rank // 2, [PROGRAM, *arguments, "--launch", "env"], RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank % 2),
                           LOCAL_WORLD_SIZE="2", MASTER_ADDR=hosts.NAMES[0], MASTER_PORT=str(PORT)) for rank in range(4)]

    def mpirun(self, arguments):
        mpi = [MPIRUN, "--allow-run-as-root", "-n", 4, "--host", ",".join(name + ":2" for name in hosts.NAMES), "--map-by", "slot",
               "--mca", "plm_rsh_agent", self.hosts.remote_shell(), "--mca", "btl_tcp_if_include", hosts.NETWORK,
               "--mca", "oob_tcp_if_include", hosts.NETWORK]
        for name in SETTINGS:
            mpi += ["-x", name]
        return self.start(0, [*mpi, PROGRAM, *arguments, "--launch", "mpi"])

    def check_bits(self, train):
        """Trains twice: shares of all ranks in the common folder, and one file in the folder of process 0's host alone."""
        alone = self.hosts.shared / "threads"
        losses = self.threads(alone)
        ends = train([*self.arguments, self.shares])
        self.assertEqual([e[0] for e in ends], [0] * len(ends), ends)
        self.assertEqual([s["loss"] for s in json.loads(ends[0][1])["steps"]], losses)
        self.assertTrue(files_of(alone) == files_of(self.shares), "checkpoints differ")
        one = self.hosts.shared / "threads.safetensors"
        self.threads(one)
        ends = train([*self.arguments, self.hosts.work / "run.safetensors"])
        self.assertEqual([e[0] for e in ends], [0] * len(ends), ends)
        self.assertTrue(files_of(one) == files_of(self.hosts.own[0] / "run.safetensors"), "checkpoints differ")
        self.assertFalse((self.hosts.own[1] / "run.safetensors").exists())

    def test_processes_started_by_hand_train_the_bits_of_threads(self):
        self.check_bits(lambda arguments: finish(self.start_each(arguments)))

    @unittest.skipIf(MPIRUN is None, "there is no mpirun")
    def test_processes_of_mpirun_train_the_bits_of_threads(self):
        self.check_bits(lambda arguments: finish([self.mpirun(arguments)]))

    @unittest.skipUnless(has_torch(), "there is no torch.distributed.run; install python3-torch")
    def test_processes_of_torchrun_train_the_bits_of_threads(self):
        def train(arguments):
            nodes = torchrun("--nnodes", 2, "--nproc_per_node", 2, "--rdzv_backend", "c10d", "--rdzv_id", "hosts",
                             "--rdzv_endpoint", f"{hosts.NAMES[0]}:{PORT}", PROGRAM, *arguments, "--launch", "env")
            return self.output_first(finish([self.start(host, nodes) for host in range(2)]))
        self.check_bits(train)

    @staticmethod
    def output_first(ends):
        """Ends of the two agents, that of process 0's first: torchrun chooses its host."""
        return sorted(ends, key=lambda end: end[1] == "")

    def test_a_text_that_differs_on_the_other_host_is_refused(self):
        (self.hosts.own[1] / "text.txt").write_text("another text\n" * 1000)
        ends = finish(self.start_each([*self.arguments, self.shares]))
        self.assertEqual([e[0] for e in ends], [3] * 4, ends)
        told = [line for e in ends for line in errors(e[2])]
        self.assertEqual(len(told), 1, told)
        self.assertIn(f"on {hosts.NAMES[1]}", told[0])


class Torchrun(tandem.WithFolder):
    @unittest.skipUnless(has_torch(), "there is no torch.distributed.run; install python3-torch")
    def test_processes_of_torchrun_on_one_host_train_the_bits_of_threads(self):
        plan, one, other = self.folder.plan(PLAN), self.path("threads"), self.path("processes")
        arguments = ["train", plan, "--data", TEXT, "--steps", 4, "--json", "--save"]
        code, alone, err = run(*arguments, one)
        self.assertEqual(code, 0, err)
        command = torchrun("--nproc_per_node", 2, "--master_port", free_port(), PROGRAM, *arguments, other, "--launch", "env")
        ends = finish([subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **SETTINGS})])
        self.assertEqual(ends[0][0], 0, ends)
        self.assertEqual([s["loss"] for s in json.loads(ends[0][1])["steps"]], [s["loss"] for s in json.loads(alone)["steps"]])
        self.assertTrue(files_of(one) == files_of(other), "checkpoints differ")


if __name__ == "__main__":
    if why := hosts.refusal():
        print("two hosts cannot be made: " + why)
        OnTwoHosts = None
        if not has_torch():
            print("there is no torch.distributed.run; install python3-torch")
            raise SystemExit(77)
    tandem.main()
