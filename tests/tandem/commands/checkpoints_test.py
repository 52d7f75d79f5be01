#!/usr/bin/env python3
"""Folders of checkpoints: a killed run leaves one that loads, whenever it was killed; other layouts go on from it."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run, tandem_json

POINTS, MOMENTS = 20, 10
LAYOUTS = ({"tensor": 1}, {"tensor": 4, "data": 2}, {"pipeline": 2, "data": 4}, {"data": 8, "zero_stage": 3},
           {"tensor": 2, "data": 4, "zero_stage": 1})


def files_of(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in pathlib.Path(path).rglob("*") if f.is_file()}


class Checkpoints(WithFolder):
    def setUp(self):
        super().setUp()
        self.plan = self.folder.plan(SMALL)

    def train(self, steps, *more, environment=None):
        return run("train", self.plan, "--data", TEXT, "--steps", steps, *more, environment=environment)

    @unittest.skipUnless(tandem.plain_program(), "a sanitizer wants to be preloaded first")
    def test_a_run_killed_at_any_point_of_a_save_goes_on_bit_for_bit(self):
        shim, count = self.path("kill_at.so"), self.path("count")
        source = pathlib.Path(__file__).with_name("kill_at.c")
        subprocess.run([shutil.which("gcc") or "cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
        whole, begun = self.path("whole"), self.path("begun")
        self.assertEqual(self.train(5, "--save", whole)[0], 0)
        self.assertEqual(self.train(2, "--save", begun)[0], 0)
        expected = files_of(pathlib.Path(whole, "step-00000005"))

        def saving(folder, at):
            """Goes on from two steps, saving behind each of three more."""
            shutil.copytree(begun, folder)
            environment = {"LD_PRELOAD": shim, "TANDEM_KILL_AT": str(at), "TANDEM_KILL_COUNT": count}
            return self.train(5, "--resume", folder, "--save", folder, "--save-every", 1, "--keep", 1, environment=environment)

        code, _, err = saving(self.path("counted"), 0)
        self.assertEqual(code, 0, err)
        calls = int(pathlib.Path(count).read_text())
        self.assertGreater(calls, 3 * POINTS)
        steps = set()
        for i in range(POINTS):
            at = 1 + i * (calls - 1) // POINTS
            with self.subTest(at=at, of=calls):
                folder = self.path(f"killed{at}")
                self.assertEqual(saving(folder, at)[0], -signal.SIGKILL)
                code, out, err = self.train(6, "--resume", folder, "--json")
                self.assertEqual(code, 0, err)
                steps.add(json.loads(out)["steps"][0]["step"])
                if json.loads(out)["steps"][0]["step"] < 5:
                    self.assertEqual(self.train(5, "--resume", folder, "--save", folder)[0], 0)
                self.assertEqual(files_of(pathlib.Path(folder, "step-00000005")), expected)
        self.assertGreaterEqual(len(steps), 3, "saves of several steps were hit")

    def test_a_run_killed_at_any_moment_goes_on_bit_for_bit(self):
        draw = random.Random(4)
        losses = {s["step"]: s["loss"] for s in tandem_json("train", self.plan, "--data", TEXT, "--steps", 40)["steps"]}
        for i in range(MOMENTS):
            folder = self.path(f"moment{i}")
            process = subprocess.Popen([tandem.PROGRAM, "train", self.plan, "--data", str(TEXT), "--steps", "1000000", "--save", folder,
                                        "--save-every", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            last = f"step {draw.randint(2, 6):5d}"
            for line in process.stderr:
                if line.startswith(last):
                    break
            time.sleep(draw.uniform(0, 0.03))
            process.kill()
            process.communicate(timeout=60)
            steps = int(pathlib.Path(folder, "latest").read_text().removeprefix("step-"))
            rest = tandem_json("train", self.plan, "--data", TEXT, "--steps", steps + 2, "--resume", folder)["steps"]
            self.assertEqual([s["step"] for s in rest], [steps, steps + 1])
            for s in rest:
                if s["step"] in losses:
                    self.assertEqual(s["loss"], losses[s["step"]])

    def test_five_other_layouts_go_on_from_a_folder(self):
        folder = self.path("run")
        self.assertEqual(self.train(3, "--save", folder)[0], 0)
        whole = tandem_json("train", self.plan, "--data", TEXT, "--steps", 6)["steps"][3:]
        for shape in LAYOUTS:
            with self.subTest(shape=shape):
                ranks = shape.get("tensor", 1) * shape.get("pipeline", 1) * shape.get("data", 1)
                other = self.folder.plan(changed(SMALL, **{"parallel": shape, "cluster.devices": ranks}), "other.json")
                rest = tandem_json("train", other, "--data", TEXT, "--steps", 6, "--resume", folder)["steps"]
                for a, b in zip(rest, whole, strict=True):
                    self.assertLess(abs(a["loss"] - b["loss"]), 1e-5 * b["loss"])  # fp32: sums in another order

    def test_a_run_replaces_only_what_it_goes_on_from(self):
        folder, file = self.path("run"), self.path("run.safetensors")
        for place in (folder, file):
            self.assertEqual(self.train(2, "--save", place)[0], 0)
            before = files_of(self.folder.path)
            code, out, err = self.train(1, "--save", place)
            self.assertEqual((code, out), (3, ""), err)
            self.assertIn("--resume", err)
            self.assertEqual(files_of(self.folder.path), before)
            self.assertEqual(self.train(3, "--resume", place, "--save", place)[0], 0)
        self.assertEqual(self.train(4, "--resume", pathlib.Path(folder, "step-00000002"), "--save", folder)[0], 0)
        code, _, err = self.train(1, "--save", self.folder.file("thesis.tex", "words"))
        self.assertEqual((code, pathlib.Path(self.path("thesis.tex")).read_text()), (3, "words"), err)
        pathlib.Path(folder, "step-00000006").mkdir()
        pathlib.Path(folder, "step-00000006", "mine.txt").write_text("mine")
        code, _, err = self.train(6, "--resume", folder, "--save", folder)
        self.assertEqual(code, 3, err)
        self.assertIn("has the name of a checkpoint but is none; move it away", err)
        self.assertEqual(pathlib.Path(folder, "step-00000006", "mine.txt").read_text(), "mine")

    def saving(self, place, *more):
        """A long run that saves behind every step, once a step and a checkpoint are done. The next steps begin while ranks still write."""
        process = subprocess.Popen([tandem.PROGRAM, "train", self.plan, "--data", str(TEXT), "--steps", "1000000", "--save", place,
                                    "--save-every", "1", *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        saved = place if place.endswith(".safetensors") else os.path.join(place, "latest")
        for line in process.stderr:
            if line.startswith("step ") and os.path.exists(saved):
                return process
        self.fail("the run has ended")

    def test_a_place_has_one_run_at_a_time_and_a_killed_one_gives_it_free(self):
        for place, lock in ((self.path("run"), self.path("run/lock")), (self.path("run.safetensors"), self.path("run.safetensors.lock"))):
            with self.subTest(place=place):
                first = self.saving(place)
                for more in ((), ("--resume", place)):
                    code, out, err = self.train(1000000, "--save", place, *more)
                    self.assertEqual((code, out), (3, ""), err)
                    self.assertIn(f"{place}: is in use: process {first.pid} on ", err)
                first.kill()
                first.communicate(timeout=60)
                self.assertTrue(os.path.exists(lock))
                second = self.saving(place, "--resume", place)
                second.send_signal(signal.SIGTERM)
                second.communicate(timeout=60)
                self.assertEqual(second.returncode, 130)
                self.assertFalse(os.path.exists(lock))

    def test_runs_begun_at_once_save_into_one_place_one_after_the_other(self):
        for place in (self.path("both"), self.path("both.safetensors")):
            runs = [subprocess.Popen([tandem.PROGRAM, "train", self.plan, "--data", str(TEXT), "--steps", "40", "--save", place,
                                      "--save-every", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
            said = [process.communicate(timeout=120)[1] for process in runs]
            self.assertEqual(sorted(process.returncode for process in runs), [0, 3], said)
            self.assertEqual(self.train(41, "--resume", place)[0], 0)

    def test_a_run_whose_experts_get_more_rows_than_planned_for_saves_its_last_step(self):
        """As long as it takes untrained routers to crowd a rank: dropless experts with the room of an even share."""
        moe = {"num_experts": 4, "experts_per_token": 2, "rows_bound": 1.5}
        plan = changed(SMALL, **{"model.moe": moe, "parallel": {"data": 4, "expert": 4}, "cluster.devices": 4,
                                 "training.learning_rate": 0.01})
        file, place = self.folder.plan(plan, "crowded.json"), self.path("crowded")
        codes, said = zip(*((code, err) for code, _, err in (run("train", file, "--data", TEXT, "--steps", 200, "--save", self.path(f"crowded{i}"))
                                                             for i in range(2))))
        self.assertEqual(codes, (7, 7), said)
        failures = [re.search(r"rank \d failed in step (\d+): \S*crowded.json: model.moe.rows_bound = 1.5: the step needs at least [\d.]+; "
                              r"4 \(the number of expert ranks\) never fails\n", err) for err in said]
        self.assertTrue(all(failures), said)
        self.assertEqual(failures[0][0], failures[1][0])
        steps = int(failures[0][1])
        roomy = self.folder.plan(changed(plan, **{"model.moe.rows_bound": None}), "roomy.json")  # has the room that is always enough
        self.assertEqual(tandem_json("simulate", roomy)["plan"]["model"]["moe"]["rows_bound"], 4)
        if steps == 0:
            return self.assertFalse(os.path.exists(self.path("crowded0/latest")))
        self.assertEqual(run("train", roomy, "--data", TEXT, "--steps", steps, "--save", place)[0], 0)
        name = f"step-{steps:08d}"
        for rank in range(4):
            part = f"{name}/rank-{rank:05d}.safetensors"
            self.assertEqual(*(pathlib.Path(folder, part).read_bytes() for folder in (self.path("crowded0"), place)))
        self.assertEqual(run("train", roomy, "--data", TEXT, "--steps", steps + 1, "--resume", self.path("crowded0"))[0], 0)

    def test_another_precision_begins_anew_with_the_saved_weights(self):
        whole = {"model.pad_vocab_to": 1, "parallel": {"data": 2}, "cluster.devices": 2, "model.ffn_hidden_size": None}
        wide = self.folder.plan(changed(SMALL, **whole), "wide.json")
        narrow = self.folder.plan(changed(SMALL, **whole, **{"training.precision": "bf16"}), "narrow.json")
        adapted = self.folder.plan(changed(SMALL, **whole, **{"training.lora": {"rank": 2}}), "adapted.json")
        place, weights = self.path("run"), self.path("weights")
        self.assertEqual(run("train", wide, "--data", TEXT, "--steps", 2, "--save", place)[0], 0)
        for plan, field in ((narrow, "training.precision = \"fp32\""), (adapted, "training.lora")):
            code, _, err = run("train", plan, "--data", TEXT, "--steps", 3, "--resume", place)
            self.assertEqual(code, 3, err)
            self.assertIn(f"{place}/step-00000002: {field}", err)
            self.assertIn(f"begin a run with its weights: tandem export {place}/step-00000002 --out DIR, then train with --weights DIR", err)
        code, _, err = run("export", f"{place}/step-00000002", "--out", weights)
        self.assertEqual(code, 0, err)
        for plan in (narrow, adapted):
            code, _, err = run("train", plan, "--data", TEXT, "--steps", 1, "--weights", weights)
            self.assertEqual(code, 0, err)

    def test_an_older_checkpoint_is_not_taken_in_silence(self):
        place = self.path("run")
        self.assertEqual(self.train(2, "--save", place, "--save-every", 1)[0], 0)
        os.remove(pathlib.Path(place, "step-00000002", "manifest.json"))
        said = f"{place}: latest names step-00000002, which is incomplete: step-00000001 is taken\n"
        self.assertIn(said, self.train(2, "--resume", place)[2])

    def test_what_holds_no_checkpoint_is_refused_and_what_is_in_the_way_told(self):
        empty = self.path("empty")
        os.mkdir(empty)
        code, out, err = self.train(2, "--resume", empty)
        self.assertEqual((code, out), (3, ""), err)
        self.assertIn("holds no complete checkpoint", err)
        code, out, err = self.train(2, "--save", self.path("plan.json/run"))
        self.assertEqual((code, out), (3, ""), err)
        for more in ((), ("--save", self.path("one.safetensors"))):
            code, out, err = self.train(2, "--keep", 3, *more)
            self.assertEqual((code, out), (2, ""), err)
        self.assertIn("--keep: needs a folder in --save", err)
        lines = self.folder.file("metrics.jsonl", '{"step": 0}\n{"step": 1}\n')
        code, out, err = run("export", lines, "--out", self.path("out"))
        self.assertEqual((code, out), (3, ""), err)
        self.assertIn(f"{lines}: is neither a plan, which is one JSON object, nor a checkpoint", err)
        self.assertIn("--to: is needed for a plan", run("export", self.plan)[2])


if __name__ == "__main__":
    tandem.main()
