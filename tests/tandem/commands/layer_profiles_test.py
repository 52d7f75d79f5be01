#!/usr/bin/env python3
"""What a source's runs say of a layer: composed times are taken apart into what they were composed of, and predictions likewise."""
import json
import subprocess
import sys

import tandem
from tandem import PROGRAM, SMALL, SOURCE, WithFolder, changed, tandem_json

TOOL = SOURCE / "experiments" / "tandem" / "validation" / "layer_profiles.py"
LAYER, REST, EACH_LAYER, ONCE = 2e-3, 5e-3, 1e-3, 2e-2


class LayerProfiles(WithFolder):
    def tool(self, records):
        done = subprocess.run([sys.executable, TOOL, PROGRAM, records], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def records(self, *shapes, noise=0.0):
        lines = []
        for i, (layers, micro_batches) in enumerate(shapes):
            plan = changed(SMALL, **{"model.num_layers": layers, "training.global_batch_size": 2 * micro_batches})
            step = micro_batches * (LAYER * layers + REST) + EACH_LAYER * layers + ONCE
            lines.append(json.dumps({"id": str(i), "plan": plan, "measured": {"step_time_s": step * (1 + noise * (-1) ** i)}}))
        return self.folder.file("some-set.jsonl", "\n".join(lines))

    def test_composed_times_are_taken_apart_and_predictions_by_the_same_law(self):
        shapes = [(2, 4), (4, 4), (2, 8), (4, 8), (8, 4), (8, 16)]
        code, out, err = self.tool(self.records(*shapes))
        self.assertEqual((code, err), (0, ""))
        row = out.splitlines()[1].split()
        self.assertEqual(row[:7], ["24", "16", "2", "1", "2", "2", "6"])
        measured, predicted, rest, off = float(row[7]), float(row[8]), float(row[9]), float(row[11])
        self.assertEqual((measured, rest, off), (4.0, 5.0, 0.0))  # two stages: a layer's time over all devices is twice its share
        steps = {}
        for layers, micro_batches in ((4, 16), (4, 32), (8, 16), (8, 32)):
            plan = changed(SMALL, **{"model.num_layers": layers, "training.global_batch_size": 2 * micro_batches})
            steps[layers, micro_batches] = tandem_json("simulate", self.folder.plan(plan))["step_time_s"]
        mixed = steps[8, 32] - steps[8, 16] - steps[4, 32] + steps[4, 16]
        self.assertAlmostEqual(predicted, 2 * 1e3 * mixed / (4 * 16), delta=0.02 * predicted)

    def test_noise_is_seen_and_too_few_records_say_nothing(self):
        out = self.tool(self.records((2, 4), (4, 4), (2, 8), (4, 8), (8, 4), (8, 16), noise=0.01))[1]
        self.assertGreater(float(out.splitlines()[1].split()[11]), 0.1)
        self.assertEqual(len(self.tool(self.records((2, 4), (4, 4), (2, 8), (4, 8)))[1].splitlines()), 1)
        self.assertEqual(len(self.tool(self.records(*[(2, m) for m in (4, 8, 12, 16, 20)]))[1].splitlines()), 1)

    def test_a_file_that_is_none_is_named_and_exits_3(self):
        for records in (self.path("nowhere.jsonl"), self.folder.file("odd.jsonl", "{\n"), self.folder.file("list.jsonl", "[1]\n"),
                        self.folder.file("preset.jsonl", json.dumps({"id": "a", "plan": {"model": {"preset": "llama3-8b"}}}))):
            code, out, err = self.tool(records)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn(records, err)


if __name__ == "__main__":
    tandem.main()
