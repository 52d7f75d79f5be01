#!/usr/bin/env python3
"""The gate itself, with stand-ins for the programs that build and test."""
import os
import subprocess
import unittest

from stand_ins import WithStandIns

CLOSING = "100% tests passed, 0 tests failed out of 2\n\nTotal Test time (real) =   1.75 sec"
JUNIT = '<testsuite><testcase name="sim: a" time="1.5"/><testcase name="sim: b" time="0.25"/></testsuite>'


class Gate(WithStandIns):
    FILES = (".ci/run", "cmake/configure.sh", "cmake/install_deps.sh", "packages.txt", "tests/gate/gate_report.py")

    def setUp(self):
        super().setUp()
        (self.root / "exec/cuda").mkdir(parents=True)
        (self.root / "build-ci").mkdir()
        (self.root / "build-ci/compile_commands.json").write_text("[]")
        self.tool("apt-get", "exit 1")
        self.tool("dpkg-query", 'printf "install ok installed"')
        self.tool("cmake", 'echo "cmake $@"')
        self.ctest(0)

    def ctest(self, code):
        write = 'while [ "$1" != --output-junit ]; do shift; done'
        self.tool("ctest", f"{write}\ncat > \"$2\" <<'E'\n{JUNIT}\nE\ncat <<'E'\n{CLOSING}\nE\nexit {code}")

    def run_gate(self, **environment):
        env = {"PATH": f"{self.tools}:{os.environ['PATH']}", "CUDACXX": "", **environment}
        done = subprocess.run([self.root / ".ci/run"], env=env, capture_output=True, check=False, timeout=60)
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    def without_nvcc(self):
        """The machine's own nvcc, where it has one, is no part of these tests: all files that it would compile are."""
        for name in ("kernels.cu", "attention.cpp"):
            (self.root / "exec/cuda" / name).write_text("")
            (self.root / f"build-ci/{name}.o").write_text("")
        commands = ", ".join(f'{{"file": "{self.root}/exec/cuda/{n}", "command": "c -o {n}.o"}}' for n in ("kernels.cu", "attention.cpp"))
        (self.root / "build-ci/compile_commands.json").write_text(f"[{commands}]")

    def test_it_ends_with_times_the_slowest_tests_and_the_closing_lines_of_ctest(self):
        self.without_nvcc()
        code, out = self.run_gate()
        self.assertEqual(code, 0, out)
        self.assertTrue(out.endswith(CLOSING + "\n"), out)
        for line in ("configuring: 0 min ", "compiling: 0 min ", "testing: 0 min ", "slowest tests:\n      1.5 s  sim: a\n      0.2 s  sim: b\n"):
            self.assertIn(line, out)
        self.assertIn("CUDA files: ", out)

    def test_a_failed_test_fails_it_and_is_reported_all_the_same(self):
        self.without_nvcc()
        self.ctest(8)
        code, out = self.run_gate()
        self.assertEqual(code, 8)
        self.assertIn("slowest tests:", out)
        self.assertTrue(out.endswith(CLOSING + "\n"), out)

    def test_cuda_files_that_were_not_compiled_fail_it_before_the_tests(self):
        self.tool("nvcc", "exit 0")
        (self.root / "exec/cuda/kernels.cu").write_text("")
        code, out = self.run_gate(CUDACXX=str(self.tools / "nvcc"))
        self.assertEqual(code, 1, out)
        self.assertIn("not compiled were kernels.cu", out)
        self.assertNotIn("tests passed", out)

    def test_a_build_that_fails_fails_it(self):
        self.tool("cmake", 'case "$1" in --build) exit 2;; esac')
        self.assertEqual(self.run_gate()[0], 2)


if __name__ == "__main__":
    unittest.main()
