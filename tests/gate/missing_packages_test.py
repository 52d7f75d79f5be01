#!/usr/bin/env python3
"""`make` on a machine that lacks packages ends with what to do and the list of what is missing, not with CMake's text."""
import shutil
import subprocess
import unittest

from stand_ins import WithStandIns

TOOLS = ("sh", "make", "sed", "grep", "cat", "mktemp", "rm", "tr", "head", "dirname", "nproc", "printf")
CMAKES_TEXT = "CMake Error at CMakeLists.txt:26 (find_package): By not providing Findnlohmann_json.cmake"


class MissingPackages(WithStandIns):
    """The tools of the machine are those of a folder: programs of the build are stand-ins, which say what real ones would."""

    FILES = ("Makefile", "packages.txt", "cmake/configure.sh", "cmake/install_deps.sh")

    def setUp(self):
        super().setUp()
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.tools / tool).symlink_to(found)

    def debian_without(self, *missing):
        """The package list of a machine that has all packages but these."""
        self.tool("apt-get", "exit 1")
        self.tool("dpkg-query", f'for name; do :; done\ncase " {" ".join(missing)} " in *" $name "*) exit 1;; esac\nprintf "install ok installed"')

    def make(self):
        done = subprocess.run(["make"], cwd=self.root, env={"PATH": str(self.tools)}, capture_output=True, check=False, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        return [line for line in (done.stdout + done.stderr).decode().splitlines() if not line.startswith("make")]

    def test_without_cmake(self):
        self.debian_without("cmake", "catch2")
        lines = self.make()
        self.assertIn("run `make install-deps`", lines[0])
        self.assertEqual(lines[1:], ["  cmake", "  catch2"])

    def test_without_a_library_cmakes_text_is_left_out(self):
        self.debian_without("nlohmann-json3-dev")
        self.tool("cmake", f"echo '{CMAKES_TEXT}' >&2; exit 1")
        lines = self.make()
        self.assertIn("run `make install-deps`", lines[0])
        self.assertEqual(lines[1:], ["  nlohmann-json3-dev"])

    def test_where_no_package_is_missing_cmakes_text_is_the_cause(self):
        self.debian_without()
        self.tool("cmake", f"echo '{CMAKES_TEXT}' >&2; exit 1")
        self.assertEqual(self.make(), [CMAKES_TEXT])

    def test_one_of_several_alternatives_is_enough(self):
        self.debian_without("libboost1.83-dev", "libboost1.81-dev", "cmake")
        self.assertEqual(self.make()[1:], ["  cmake"])

    def test_a_machine_of_another_kind_gets_the_whole_list_and_cmakes_text(self):
        self.tool("cmake", f"echo '{CMAKES_TEXT}' >&2; exit 1")
        lines = self.make()
        self.assertEqual(lines[0], CMAKES_TEXT)
        self.assertIn("  nlohmann-json3-dev", lines)

    def test_what_is_configured_is_built(self):
        self.debian_without("catch2")  # not needed where CMake is content
        self.tool("cmake", 'echo "cmake $@"')
        done = subprocess.run(["make"], cwd=self.root, env={"PATH": str(self.tools)}, capture_output=True, check=True, timeout=60)
        self.assertIn("cmake --preset release", done.stdout.decode())
        self.assertIn("cmake --build build --target tandem", done.stdout.decode())


if __name__ == "__main__":
    unittest.main()
