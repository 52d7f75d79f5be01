#!/usr/bin/env python3
"""Places that a result cannot go to are refused before the work, devices are written to, and no option is empty by accident."""
import pathlib
import resource
import subprocess
import unittest

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run


class Outputs(WithFolder):
    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(SMALL)

    def test_a_folder_for_a_file_is_refused_before_anything_is_done(self):
        here = str(self.folder.path)
        for arguments in (("train", self.plan, "--data", TEXT, "--steps", 1, "--timeline", here), ("measure", "-o", here),
                          ("simulate", self.plan, "--memory", here)):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (3, ""), arguments)
            self.assertRegex(err, r"\Atandem: error: .+ is a directory, not a file.*\n\Z")

    @unittest.skipUnless(pathlib.Path("/dev/full").is_char_device(), "no /dev/full")
    def test_a_full_disk_is_an_error(self):
        link = self.folder.path / "full"
        link.symlink_to("/dev/full")
        code, _, err = run("simulate", self.plan, "--timeline", link)
        self.assertEqual(code, 3)
        self.assertIn("cannot be written", err)
        self.assertTrue(link.is_symlink())

    def test_an_output_that_is_an_input_or_another_output_is_refused(self):
        before = pathlib.Path(self.plan).read_bytes()
        twice = self.path("twice.json")
        for arguments in (("simulate", self.plan, "--timeline", self.plan), ("report", self.plan, "--out", self.plan),
                          ("simulate", self.plan, "--timeline", twice, "--trace", self.folder.path / "." / "twice.json"),
                          ("train", self.plan, "--data", TEXT, "--steps", 1, "--save", TEXT)):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (3, ""), arguments)
            self.assertRegex(err, r"would be written over|two outputs")
        self.assertEqual(pathlib.Path(self.plan).read_bytes(), before)
        self.assertFalse(pathlib.Path(twice).exists())
        self.assertEqual(run("simulate", self.plan, "--timeline", "/dev/null", "--trace", "/dev/null")[0], 0)

    def test_a_file_at_its_size_limit_is_told_and_leaves_nothing_half_written(self):
        plan, saved = self.folder.plan(changed(SMALL, **{"model.hidden_size": 192})), self.path("a.safetensors")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        done = subprocess.run([tandem.PROGRAM, "train", plan, "--data", str(TEXT), "--steps", "2", "--save", saved, "--save-every", "1"],
                              capture_output=True, preexec_fn=limit, timeout=300, check=False, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("trained 2 steps", done.stdout)  # a lost checkpoint does not end a training
        self.assertIn("cannot be written", done.stderr)
        self.assertEqual([p.name for p in self.folder.path.iterdir()], ["plan.json"])

    def test_an_empty_value_of_an_option_exits_2(self):
        for arguments in (("simulate", self.plan, "--perturb", ""), ("simulate", ""), ("explain", self.plan, "")):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn("is empty", err)

    def test_a_step_too_large_for_a_graph_is_refused(self):
        plan = self.folder.plan(changed(SMALL, **{"training.global_batch_size": 2**31}))
        code, _, err = run("simulate", plan)
        self.assertEqual(code, 4)
        self.assertIn("training.global_batch_size", err)


if __name__ == "__main__":
    tandem.main()
