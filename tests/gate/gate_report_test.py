#!/usr/bin/env python3
"""The gate's report is shown build trees and results of tests."""
import json
import stat
import tempfile
import unittest
from pathlib import Path

import gate_report

SOURCES = ("attention.cpp", "attention_absent.cpp", "kernels.cu", "measure.cpp")
JUNIT = """<testsuite>
<testcase name="sim: a" classname="sim: a" time="1.5" status="run"/>
<testcase name="sim: b" classname="sim: b" time="12.25" status="fail"/>
{more}
</testsuite>"""


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)


class Cuda(WithFolder):
    def build(self, *made, listed=()):
        """A source tree, and a build tree with the objects of `made`; commands of `listed` stand there without an object."""
        build, sources = self.root / "build", self.root / "exec" / "cuda"
        for folder in (build, sources):
            folder.mkdir(parents=True, exist_ok=True)
        for name in SOURCES:
            (sources / name).write_text("")
        for name in made:
            (build / f"{name}.o").write_text("")
        (build / "other.o").write_text("")
        commands = [{"file": str(sources / n), "command": f"c++ -c {n} -o {n}.o"} for n in (*made, *listed)]
        commands.append({"file": str(self.root / "exec/cpu/kernels.cu"), "command": "c++ -o other.o"})
        (build / "compile_commands.json").write_text(json.dumps(commands))
        return gate_report.cuda(self.root, build, "/a/nvcc")

    def test_all_files_that_can_be_are_counted(self):
        self.assertEqual(self.build("attention.cpp", "kernels.cu", "measure.cpp"), ("CUDA files: 3 of 3 compiled", True))

    def test_a_build_without_the_frontend_says_so_and_passes(self):
        line, fine = self.build("attention_absent.cpp", "kernels.cu", "measure.cpp")
        self.assertTrue(fine)
        self.assertIn("3 of 3 compiled, without attention.cpp", line)

    def test_a_build_without_cuda_fails_where_nvcc_is_there(self):
        for made, listed in (((), ()), (("attention.cpp", "measure.cpp"), ()), (("attention.cpp", "measure.cpp"), ("kernels.cu",)),
                             (("kernels.cu", "measure.cpp"), ())):
            with self.subTest(made=made, listed=listed):
                self.setUp()
                line, fine = self.build(*made, listed=listed)
                self.assertFalse(fine)
                self.assertIn("/a/nvcc", line)

    def test_a_machine_without_nvcc_passes(self):
        self.assertEqual(gate_report.cuda(self.root, self.root, None), ("CUDA files: none compiled, there is no nvcc; tests/hostcuda is not built", True))

    def test_nvcc_is_found_where_cmake_would_look(self):
        compiler = self.root / "bin" / "nvcc"
        compiler.parent.mkdir()
        compiler.write_text("#!/bin/sh\n")
        compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
        for environment in ({"CUDACXX": str(compiler)}, {"CUDAToolkit_ROOT": str(self.root)}, {"PATH": str(compiler.parent)}):
            self.assertEqual(gate_report.nvcc({"PATH": "", **environment}), str(compiler))


class Times(WithFolder):
    def told(self, more=""):
        (self.root / "times").write_text("configuring 9\ncompiling 725\n")
        (self.root / "tests.xml").write_text(JUNIT.format(more=more))
        return gate_report.times(self.root / "times", self.root / "tests.xml").splitlines()

    def test_parts_and_tests_are_told_with_their_time_the_slowest_first(self):
        self.assertEqual(self.told(), ["configuring: 0 min 9 s", "compiling: 12 min 5 s", "slowest tests:",
                                       "     12.2 s  sim: b", "      1.5 s  sim: a"])

    def test_ten_tests_are_told_and_no_more(self):
        lines = self.told("\n".join(f'<testcase name="t{i}" time="{100 + i}"/>' for i in range(20)))
        self.assertEqual(len(lines), 3 + 10)
        self.assertEqual(lines[3], "    119.0 s  t19")

    def test_tests_that_left_no_results_are_no_error(self):
        (self.root / "times").write_text("testing 1\n")
        self.assertEqual(gate_report.times(self.root / "times", self.root / "none.xml"), "testing: 0 min 1 s")


if __name__ == "__main__":
    unittest.main()
