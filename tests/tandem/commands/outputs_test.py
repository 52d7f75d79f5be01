#!/usr/bin/env python3
"""Places that a result cannot go to are refused before the work, devices are written to, and no option is empty by accident."""
import json
import os
import pathlib
import resource
import subprocess
import unittest

import tandem
from tandem import PROGRAM, SMALL, TEXT, WithFolder, changed, run


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

    @unittest.skipUnless(pathlib.Path("/proc/self").exists() and pathlib.Path("/dev/full").is_char_device(), "no /proc and /dev/full")
    def test_a_place_that_takes_nothing_is_refused_before_the_first_step(self):
        for option, place in (("--save", "/proc/x"), ("--timeline", "/proc/x"), ("--timeline", "/dev/full"), ("--trace", "/dev/full")):
            code, out, err = run("train", self.plan, "--data", TEXT, "--steps", 1, option, place)
            self.assertEqual((code, out), (3, ""), (option, place))
            self.assertRegex(err, r"\Atandem: error: " + place + r": cannot be written: [^\n]+; give another (file|folder)\n\Z")

    def test_nothing_is_left_where_a_place_was_tried(self):
        self.assertEqual(run("train", self.plan, "--data", TEXT, "--steps", 1, "--timeline", self.path("new.json"))[0], 0)
        self.assertEqual(sorted(p.name for p in self.folder.path.iterdir()), ["new.json", "plan.json"])

    def test_every_file_is_written_behind_a_link_that_stays(self):
        kept = {}
        for arguments, option in ((("simulate", self.plan), "--timeline"), (("simulate", self.plan), "--trace"),
                                  (("simulate", self.plan), "--memory"), (("report", self.plan), "--out"),
                                  (("train", self.plan, "--data", TEXT, "--steps", 1), "--save"),
                                  (("compare", self.path("--timeline.file"), self.path("--timeline.file")), "--html")):
            file, link = self.folder.path / f"{option}.file", self.folder.path / f"{option}.link"
            link.symlink_to(file.name)
            self.assertEqual(run(*arguments, option, link)[0], 0, arguments)
            self.assertTrue(link.is_symlink())
            self.assertFalse(file.is_symlink())
            kept[option] = file.read_bytes()
        self.assertTrue(all(kept.values()))

    @unittest.skipUnless(pathlib.Path("/proc/self/fd").exists(), "no /proc")
    def test_standard_output_in_a_file_holds_what_was_printed_and_the_file_asked_for(self):
        named, out = self.folder.path / "named.json", self.folder.path / "out.txt"
        printed = subprocess.run([PROGRAM, "simulate", "--json", self.plan, "--timeline", named], capture_output=True, check=True).stdout
        for place in filter(os.path.exists, ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1")):
            with open(out, "wb") as file:
                file.write(b"first\n")
                file.flush()
                subprocess.run([PROGRAM, "simulate", "--json", self.plan, "--timeline", place], stdout=file, check=True)
            self.assertTrue(out.read_bytes() == b"first\n" + named.read_bytes() + printed, place)

    @unittest.skipUnless(os.path.exists("/dev/stdout"), "no /dev/stdout")
    def test_a_page_on_standard_output_is_all_that_is_there(self):
        out = run("report", self.plan, "--out", "/dev/stdout")[1]
        self.assertTrue(out.lower().startswith("<!doctype html>") and out.rstrip().endswith("</html>"), out[-80:])

    def test_an_output_that_is_an_input_or_another_output_is_refused(self):
        before = pathlib.Path(self.plan).read_bytes()
        twice, kept = self.path("twice.json"), self.path("kept.safetensors")
        self.assertEqual(run("train", self.plan, "--data", TEXT, "--steps", 1, "--save", kept)[0], 0)
        for arguments in (("simulate", self.plan, "--timeline", self.plan), ("report", self.plan, "--out", self.plan),
                          ("simulate", self.plan, "--timeline", twice, "--trace", self.folder.path / "." / "twice.json"),
                          ("train", self.plan, "--data", TEXT, "--steps", 1, "--save", TEXT),
                          ("train", self.plan, "--data", TEXT, "--steps", 2, "--resume", kept, "--timeline", kept)):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (3, ""), arguments)
            self.assertRegex(err, r"would be written over|two outputs")
        self.assertEqual(pathlib.Path(self.plan).read_bytes(), before)
        self.assertFalse(pathlib.Path(twice).exists())
        self.assertEqual(run("simulate", self.plan, "--timeline", "/dev/null", "--trace", "/dev/null")[0], 0)

    def test_two_names_of_a_file_that_is_not_there_yet_are_one_output(self):
        missing, link, other = (self.folder.path / name for name in ("missing.json", "link.json", "other.json"))
        link.symlink_to(missing.name)
        other.symlink_to(missing)
        for pair in ((link, missing), (missing, link), (link, other)):
            code, out, err = run("simulate", self.plan, "--timeline", pair[0], "--trace", pair[1])
            self.assertEqual((code, out), (3, ""), pair)
            self.assertIn("give another file", err)
        self.assertFalse(missing.exists())

    def test_a_file_at_its_size_limit_is_told_and_leaves_nothing_half_written(self):
        plan, saved = self.folder.plan(changed(SMALL, **{"model.hidden_size": 192})), self.path("a.safetensors")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        done = subprocess.run([tandem.PROGRAM, "train", plan, "--data", str(TEXT), "--steps", "2", "--save", saved, "--save-every", "1"],
                              capture_output=True, preexec_fn=limit, timeout=300, check=False, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("trained 2 steps", done.stdout)  # a lost checkpoint does not end a training
        self.assertIn("cannot be written", done.stderr)
        self.assertEqual([p.name for p in self.folder.path.iterdir()], ["plan.json"])

    def test_metrics_that_find_no_space_end_with_a_whole_line_and_change_the_exit_code(self):
        metrics, arguments = self.folder.path / "m.jsonl", ("train", self.plan, "--data", str(TEXT), "--steps", "12", "--metrics")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
        done = subprocess.run([tandem.PROGRAM, *arguments, str(metrics), "--json"], capture_output=True, preexec_fn=limit, timeout=300, check=False, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        result, text = json.loads(done.stdout), metrics.read_text()
        self.assertEqual(len(result["steps"]), 12)  # the training goes on
        self.assertTrue(text.endswith("}\n"))
        written = [json.loads(line)["step"] for line in text.splitlines()]
        self.assertEqual(written, list(range(len(written))))
        self.assertTrue(0 < len(written) < 12)
        self.assertIn(f"File too large; it lacks the lines from step {len(written)} on", result["metrics_lost"])
        self.assertIn(result["metrics_lost"], done.stderr.splitlines()[-1])
        self.assertIsNone(json.loads(run(*arguments, self.path("all.jsonl"), "--json")[1])["metrics_lost"])

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

    def test_many_micro_batches_of_many_layers_are_too_many(self):
        plan = changed(SMALL, **{"training.global_batch_size": 2**20, "model.num_layers": 80})
        code, _, err = run("simulate", self.folder.plan(plan))
        self.assertEqual(code, 4)
        self.assertIn("passes of a micro-batch", err)

    def test_a_step_that_takes_longer_than_time_is_counted_is_refused(self):
        plan = {"model": {"preset": "gpt3-175b"}, "cluster": {"preset": "cpu-host", "devices": 1},
                "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 512, "precision": "fp32"}}
        code, out, err = run("simulate", self.folder.plan(plan))
        self.assertEqual((code, out), (4, ""))
        self.assertIn("plan.json: training.global_batch_size: a step may take longer", err)

    @unittest.skipUnless(pathlib.Path("/dev/full").is_char_device(), "no /dev/full")
    def test_a_full_standard_output_is_no_internal_error(self):
        with open("/dev/full", "w") as full:
            told = subprocess.run([PROGRAM, "schema"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(told.returncode, 3)
        self.assertEqual(told.stderr, "tandem: error: standard output: cannot be written: No space left on device\n")

    def test_recomputing_flash_attention_alone_is_told_to_save_little(self):
        def simulated(**training):
            plan = changed(SMALL, **{"cluster.preset": "dgx-a100-80gb", "training.precision": "bf16", "training.seq_length": 512})
            plan["training"] |= training
            return json.loads(run("simulate", "--json", self.folder.plan(plan))[1])

        told = lambda result: any("recomputing attention saves little memory here" in note for note in result["notes"])
        none, twice = simulated(flash_attention=True), simulated(flash_attention=True, recompute="selective")
        self.assertTrue(told(twice))
        self.assertGreater(twice["step_time_s"], none["step_time_s"])
        scores = simulated(flash_attention=False), simulated(flash_attention=False, recompute="selective")
        self.assertLess(none["live_peak_bytes"] - twice["live_peak_bytes"], 0.1 * (scores[0]["live_peak_bytes"] - scores[1]["live_peak_bytes"]))
        self.assertFalse(any(map(told, (none, *scores, simulated(flash_attention=True, recompute="full")))))

    def test_a_page_for_people_says_what_a_planner_asks(self):
        plan = self.folder.plan({
            "model": {"num_layers": 8, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 32000,
                      "moe": {"num_experts": 8, "experts_per_token": 2}},
            "parallel": {"data": 4, "context": 2, "expert": 4}, "cluster": {"preset": "dgx-a100-80gb", "devices": 8}, "stack": "tandem",
            "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 32, "flash_attention": True}})
        code, text, _ = run("simulate", plan)
        result = json.loads(run("simulate", "--json", plan)[1])
        self.assertEqual(code, 0)
        lines = text.splitlines()
        self.assertTrue(lines[0].startswith("stack tandem as of 20"), lines[0])
        self.assertTrue(lines[1].startswith("plan, 159,482,880 parameters (58,696,704 active of a token, 42,050,560 without the embedding): "
                                            "tensor 1 x pipeline 1 x data 4 x context 2, experts over 4, 8 ranks"), lines[1])
        self.assertIn(f"({result['tokens_per_s'] / 8:,.0f} per device)", text)
        self.assertIn("% of 312.0 (bf16)", text)
        self.assertIn(" of the device's 79.2 GiB, fits", text)
        self.assertEqual(result["device_memory_bytes"], 85094039552)  # of an A100 of 80 GB
        begin = next(i for i, line in enumerate(lines) if line.startswith("where the time goes"))
        shares = [float(line.split()[-2]) for line in lines[begin + 1:begin + 1 + sum(v > 0 for v in result["time_breakdown_s"].values())]]
        self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertGreater(result["time_breakdown_s"]["expert_comm"], 0)
        self.assertGreater(result["time_breakdown_s"]["context_comm"], 0)
        self.assertEqual(result["time_breakdown_s"]["tensor_comm"], 0)
        told = sum(note.startswith("not verified: ") for note in result["notes"])
        self.assertIn(f"{told} facts in use are not verified in a source (`tandem explain PLAN step_time_s` lists them)", lines)

    def test_the_bubble_is_told_without_waiting_for_launches_where_there_are_any(self):
        told = set()
        for sequence in (64, 8192):  # many small kernels, and large ones
            plan = self.folder.plan({"model": {"preset": "llama3-8b"}, "parallel": {"data": 8, "zero_stage": 3}, "stack": "torchtitan@2025-08",
                                     "training": {"seq_length": sequence, "micro_batch_size": 1, "global_batch_size": 8},
                                     "cluster": {"preset": "dgx-h200", "devices": 8}})
            result = json.loads(run("simulate", "--json", plan)[1])
            launch = result["time_breakdown_s"]["launch"] / result["step_time_s"] >= 0.0005
            line = next(line for line in run("simulate", plan)[1].splitlines() if "pipeline bubble" in line)
            self.assertEqual(line.endswith("% (excluding waits for host launches)"), launch, line)
            told.add(launch)
        self.assertEqual(told, {True, False})


if __name__ == "__main__":
    tandem.main()
