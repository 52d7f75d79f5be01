#!/usr/bin/env python3
"""The parts that a machine with a GPU runs: what they keep, what they end, and whose faults they count. Needs no GPU."""
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "experiments" / "device"))
import machine  # noqa: E402
import nccl  # noqa: E402
import run  # noqa: E402

# As compute-sanitizer of CUDA 12 and 13 prints them for programs without line information, and older ones with it.
RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at void tandem::exec::cuda::kernel_of<tandem::exec::device::NormKernel, int>(T1)+0x90
=========     and Read access at void tandem::exec::cuda::kernel_of<tandem::exec::device::NormKernel, int>(T1)+0xc0 [4 hazards]
=========
========= Warning: Race reported between Read access at cudnn_sdpa(const unsigned int *, int)+0x260
=========     and Write access at cudnn_sdpa(const unsigned int *, int)+0x200 [294291 hazards]
========= Error: Race reported between Write access at 0x100 in /a/block_error.cu:16:sumKernel(int *, int *)
========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)
"""
READS = """========= Invalid __global__ read of size 4 bytes
=========     at void tandem::exec::cuda::kernel_of<tandem::exec::device::LossKernel, int>(T1)+0x210 in /a/loss.hpp:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Access at 0x7f3c7ec000fc is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main in main.cpp:12 [0x1234] in tandem
========= ERROR SUMMARY: 1 error
"""


class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def faults(self, text):
        log = self.folder / "log"
        log.write_text(text, encoding="utf-8")
        return run.faults_in(log)

    def test_races_are_counted_by_kernel_with_and_without_line_information(self):
        found = self.faults(RACES)
        self.assertEqual(list(found["own"].values()), [1])
        self.assertIn("NormKernel", list(found["own"])[0])
        self.assertEqual(sum(found["libraries"].values()), 2)
        self.assertEqual(found["told"], ["RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)"])

    def test_an_access_is_counted_once_in_the_kernel_that_makes_it(self):
        found = self.faults(READS)
        self.assertEqual(list(found["own"].values()), [1])
        self.assertIn("LossKernel", list(found["own"])[0])
        self.assertEqual(found["libraries"], {})

    def test_a_part_with_own_faults_has_not_ended_well(self):
        self.assertTrue(run.well({"exit": 0, "own": {}}))
        self.assertFalse(run.well({"exit": 0, "own": {"kernel": 1}}))

    def test_what_a_late_program_started_ends_with_it(self):
        begin = time.monotonic()
        code, out, err = machine.ended(["sh", "-c", "echo begun; sleep 60 & wait"], None, 1)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual((code, out), (None, "begun\n"))
        self.assertIn("ended after 1 s", err)

    def test_a_program_that_is_not_there_is_an_exit_code(self):
        self.assertEqual(machine.ended([str(self.folder / "none")], None, 1)[0], 127)

    def test_half_an_output_is_a_failure_and_no_exception(self):
        result = run.run("half", ["sh", "-c", "echo '{\"steps\": ['"], {}, 10)
        self.assertEqual(result["exit"], 1)
        self.assertIn("no JSON", result["end"])

    def test_results_are_kept_one_by_one_and_only_those_that_failed_are_run_again(self):
        file, made = self.folder / "kernels.json", []

        def results_of(part, build, out, chosen, until):
            for name in ("one", "two", "three"):
                if chosen(name):
                    made.append(name)
                    yield {"name": name, "exit": 0 if name != "two" or len(made) > 3 else 1}
                    self.assertEqual(json.loads(file.read_text(encoding="utf-8"))["results"][-1]["name"], name)

        before, run.results_of = run.results_of, results_of
        try:
            self.assertFalse(run.perform("kernels", self.folder, self.folder, None, 10))
            self.assertTrue(run.perform("kernels", self.folder, self.folder, None, 10))
        finally:
            run.results_of = before
        self.assertEqual(made, ["one", "two", "three", "two"])

    def test_the_driver_tells_card_and_version_where_nvidia_smi_is_missing(self):
        about = self.folder / "gpus" / "0000:19:00.0" / "information"
        about.parent.mkdir(parents=True)
        about.write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 270\n", encoding="utf-8")
        version = self.folder / "version"
        for line in ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Nov 4 00:00:00 UTC 2025",
                     "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@host)"):
            version.write_text(line + "\nGCC version:  gcc version 13.3.0\n", encoding="utf-8")
            self.assertEqual(machine.card_and_driver(self.folder), ("NVIDIA H200", "580.159.04"))
        self.assertEqual(machine.card_and_driver(self.folder / "none"), ("", ""))

    def test_a_tool_of_the_toolkit_is_found_beside_path(self):
        there = self.folder / "cuda-13.0" / "bin" / "compute-sanitizer-of-a-test"
        there.parent.mkdir(parents=True)
        there.write_text("#!/bin/sh\n", encoding="utf-8")
        places = [f"{self.folder}/cuda*/bin"]
        self.assertEqual(machine.tool(there.name, places), there.name)  # not executable
        there.chmod(0o755)
        self.assertEqual(machine.tool(there.name, places), str(there))
        self.assertTrue(machine.tool("sh", places).endswith("/sh"))

    def test_every_file_of_tests_that_comes_first_exists(self):
        files = {f.stem for f in (SOURCE / "tests" / "exec").rglob("*_test.cpp")}
        self.assertEqual([f for f in run.NEW if f not in files], [])

    def test_a_program_that_cannot_list_its_tests_ends_the_part(self):
        program = self.folder / "test_exec"
        self.assertEqual(list(run.tests_of(self.folder, *run.TESTS[0])), [])  # --dry without programs
        for text, told in (("echo no library >&2; exit 127", "exit 127: no library"), ("exit 0", "exit 0: ")):
            program.write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
            program.chmod(0o755)
            with self.assertRaises(SystemExit) as end:
                list(run.tests_of(self.folder, *run.TESTS[0]))
            self.assertIn(f"{program} lists no tests: {told}", str(end.exception))

    def test_little_time_is_enough_for_some_commands(self):
        self.assertEqual([run.fair(left, 9) for left in (450, 60, 20)], [50, run.ENOUGH, 20])

    def test_cases_over_nccl_that_were_good_are_not_run_again(self):
        file, made = self.folder / "nccl.json", []

        def job(name, good):
            return name, lambda: made.append(name) or {"good": good}

        self.assertFalse(nccl.perform([job("one", True), job("two", False)], time.monotonic() + 10, file, {"card": "a card"}))
        self.assertFalse(nccl.perform([job("one", True), job("two", True), job("three", True)], time.monotonic() - 1, file, {}))
        self.assertTrue(nccl.perform([job("one", True), job("two", True)], time.monotonic() + 10, file, {}))
        self.assertEqual(made, ["one", "two", "two"])
        self.assertEqual([r["name"] for r in json.loads(file.read_text(encoding="utf-8"))["results"]], ["one", "two"])

    def test_programs_for_another_kind_of_card_are_refused_at_once(self):
        self.assertEqual(machine.unsuitable(self.folder, "10.0"), "")  # nobody knows what they are for
        for architecture, fits, other in (("90-real", "9.0", "10.0"), ("90a-real", "9.0", "8.0"), ("100-real", "10.3", "9.0"), ("80-real;90-real", "9.0", "12.0")):
            (self.folder / "architecture").write_text(architecture + "\n", encoding="utf-8")
            self.assertEqual(machine.unsuitable(self.folder, fits), "")
            self.assertIn(f"this one has {other}: build them elsewhere with experiments/device/build.sh FOLDER {other.replace('.', '')}-real",
                          machine.unsuitable(self.folder, other))

    def test_without_time_nothing_begins(self):
        self.assertIn("not begun", run.run("late", ["sh", "-c", "exit 0"], {}, 1)["end"])


if __name__ == "__main__":
    unittest.main()
