#!/usr/bin/env python3
"""Places that a result cannot go to are refused before the work, devices are written to, and no option is empty by accident."""
import pathlib
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
