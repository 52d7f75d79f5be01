#!/usr/bin/env python3
"""Readers of stdout and stderr that go away lose lines, never work."""
import json
import os
import pathlib
import signal
import subprocess

import tandem
from tandem import NOTHING_MEASURED, PROGRAM, SMALL, TEXT, WithFolder, changed, run


class ClosedPipes(WithFolder):
    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(SMALL)

    def start(self, *arguments, **streams):
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
                                   env=dict(os.environ, TANDEM_MEASURED=NOTHING_MEASURED, NO_COLOR="1"))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def unread(self, *arguments):
        """Exit code and stderr of a command whose stdout nobody reads."""
        reader, writer = os.pipe()
        os.close(reader)
        process = self.start(*arguments, stdout=writer)
        os.close(writer)
        err = process.stderr.read().decode()
        return process.wait(timeout=60), err

    def test_a_closed_standard_output_ends_quietly_with_141(self):
        for arguments in (("simulate", self.plan), ("simulate", self.plan, "--json"), ("schema",), ("--help",), ("train", "--help"),
                          ("--version",)):
            self.assertEqual(self.unread(*arguments), (141, ""), arguments)

    def test_other_exit_codes_stay_where_standard_output_is_closed(self):
        code, err = self.unread("simulate", self.path("missing.json"))
        self.assertEqual(code, 3, err)
        large = changed(SMALL, **{"model.hidden_size": 4096, "model.vocab_size": 2**24})
        code, err = self.unread("simulate", self.folder.plan(large, "large.json"))
        self.assertEqual(code, 4, err)
        self.assertIn("does not fit", err)

    def test_files_are_written_though_nobody_reads_standard_output(self):
        saved, timeline = self.path("saved"), self.path("timeline.json")
        code, err = self.unread("train", self.plan, "--data", TEXT, "--steps", 2, "--save", saved, "--timeline", timeline)
        self.assertEqual(code, 141, err)
        self.assertTrue(json.loads(pathlib.Path(timeline).read_text(encoding="utf-8"))["lanes"])
        self.assertEqual(run("train", self.plan, "--data", TEXT, "--steps", 3, "--resume", saved)[0], 0)

    def test_a_training_whose_log_is_read_no_more_goes_on_to_its_end(self):
        saved = self.path("saved")
        process = self.start("train", self.plan, "--data", TEXT, "--steps", 60, "--save", saved, "--json")
        process.stderr.readline()
        process.stderr.close()
        out = process.stdout.read()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(len(json.loads(out)["steps"]), 60)
        self.assertTrue(pathlib.Path(saved, "step-00000060").is_dir())

    def test_an_interrupted_training_without_a_log_saves_its_checkpoint(self):
        saved = self.path("saved")
        process = self.start("train", self.plan, "--data", TEXT, "--steps", 1000000, "--save", saved, "--json")
        while not process.stderr.readline().startswith(b"step"):
            self.assertIsNone(process.poll())
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        out = process.stdout.read()
        self.assertEqual(process.wait(timeout=60), 130)
        steps = len(json.loads(out)["steps"])
        self.assertTrue(pathlib.Path(saved, f"step-{steps:08}").is_dir())


if __name__ == "__main__":
    tandem.main()
