#!/usr/bin/env python3
"""`plan --search`: each price is that of the plan that `search --out` writes for the same cluster and size."""
import json
import math
import pathlib
import signal
import subprocess
import time

import tandem
from tandem import PROGRAM, WithFolder, changed, run, tandem_json

MODEL, TOKENS, BATCH, LENGTH, PRICE = "llama3-8b", 10**11, 64, 4096, 2
NARROW = ("--axis", "context=1", "--axis", "schedule=1f1b", "--axis", "virtual_pipeline=1", "--axis", "recompute=none,full")
AXES = (*NARROW, "--axis", "zero=1")
WORK = ("--global-batch", BATCH, "--seq-length", LENGTH)
PRICED = ("--tokens", TOKENS, "--goodput", 1, "--price", PRICE)
PLACES = [(cluster, devices) for cluster in ("dgx-h100", "dgx-a100-80gb") for devices in (8, 16)]
COMPARED = ("--cluster", "dgx-h100,dgx-a100-80gb", "--devices", "8,16")

GIVEN = {"stack": "megatron-core", "model": {"preset": MODEL}, "parallel": {"data": 8, "tensor": 2, "zero_stage": 1, "sequence_parallel": True},
         "training": {"seq_length": LENGTH, "micro_batch_size": 1, "global_batch_size": BATCH, "recompute": "full"},
         "cluster": {"preset": "dgx-h100", "devices": 16}}


def label(cluster, devices):
    return f"cluster {cluster}, devices {devices}"


class PlanSearch(WithFolder):
    def plan(self, *arguments, code=0):
        done = run("plan", *arguments, "--search", "--json")
        self.assertEqual(done[0], code, done[2])
        return json.loads(done[1])

    def refused(self, code, said, *arguments):
        done = run("plan", *arguments)
        self.assertEqual((done[0], done[1]), (code, ""), done[2])
        self.assertIn(said, done[2])
        self.assertEqual(done[2].count("\n"), 1, done[2])

    def searched(self, subject, cluster, devices, *arguments):
        """The answer of `search`, and that of `plan` for the plan that it exports."""
        out = self.path("best.json")
        found = tandem_json("search", subject, "--cluster", cluster, "--devices", devices, *WORK, *arguments, "--best", 1, "--out", out)
        return found["best"][0], tandem_json("plan", out, *PRICED)["best"]

    def test_each_price_is_that_of_the_layout_that_search_exports(self):
        out = self.path("winner.json")
        answer = self.plan(MODEL, *COMPARED, *WORK, *AXES, *PRICED, "--out", out)
        self.assertEqual({o["label"] for o in answer["options"]}, {label(*place) for place in PLACES})
        steps = math.ceil(TOKENS / (BATCH * LENGTH))
        for o in answer["options"]:
            devices = o["layout"]["devices"]
            row, alone = self.searched(MODEL, o["layout"]["cluster"], devices, *AXES)
            self.assertEqual((o["at"], o["step_time_s"]["value"]), (row["at"], row["step_time_s"]))
            self.assertEqual([o[key] for key in ("days", "money", "energy", "memory", "notes")],
                             [alone[key] for key in ("days", "money", "energy", "memory", "notes")])
            hours = steps * row["step_time_s"] / 3600 * devices
            self.assertAlmostEqual(o["money"]["value"] / (hours * PRICE), 1, places=6)
        cheapest = min(answer["options"], key=lambda o: o["money"]["value"])
        self.assertEqual(answer["best"]["label"], cheapest["label"])
        self.assertEqual(tandem_json("plan", out, *PRICED)["best"]["money"], cheapest["money"])
        self.assertFalse(answer["interrupted"])

    def test_the_text_has_the_layouts(self):
        code, text, error = run("plan", MODEL, *COMPARED, *WORK, *AXES, *PRICED, "--search")
        self.assertEqual(code, 0, error)
        best = self.plan(MODEL, *COMPARED, *WORK, *AXES, *PRICED)["best"]
        at = best["at"]
        self.assertIn(f"  layout      tensor {at['parallel.tensor']}, pipeline {at['parallel.pipeline']}, ", text)
        self.assertRegex(text, r"\nplans, best first .*  layout\n")
        row = next(line for line in text.splitlines() if line.startswith("  " + best["label"]))
        self.assertIn(f"  dp {at['parallel.data']}, ", row)
        self.assertIn("warning: switch on what megatron-core has off: overlap_grad_reduce", text)

    def test_fields_that_are_set_are_combined_and_not_searched(self):
        place = ("--cluster", "dgx-h100", "--devices", 16, "--seq-length", LENGTH)
        answer = self.plan(MODEL, *place, *NARROW, *PRICED, "--set", "parallel.zero_stage=1", "--set", "parallel.tensor=1,4", "--global-batch", BATCH)
        self.assertEqual({o["label"]: o["layout"]["tensor"] for o in answer["options"]}, {"parallel.tensor 1": 1, "parallel.tensor 4": 4})
        for o in answer["options"]:
            row, alone = self.searched(MODEL, "dgx-h100", 16, *AXES, "--axis", f"tensor={o['layout']['tensor']}")
            self.assertEqual((o["step_time_s"]["value"], o["layout"]["zero_stage"]), (row["step_time_s"], 1))
            self.assertEqual(o["days"], alone["days"])
        grown = self.plan(MODEL, "--cluster", "dgx-h100", "--devices", "8,16", "--seq-length", LENGTH, *AXES, *PRICED, "--sequences-per-device", 4)
        self.assertEqual({o["layout"]["devices"]: o["steps"] for o in grown["options"]},
                         {n: math.ceil(TOKENS / (4 * n * LENGTH)) for n in (8, 16)})

    def test_a_plan_file_and_a_configuration_are_searched_as_search_does(self):
        config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                  "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
                  "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False}
        auto = changed(GIVEN, **{"parallel.tensor": "auto", "parallel.data": None})
        for subject in (self.folder.file("config.json", json.dumps(config)), self.folder.plan(GIVEN), self.folder.plan(auto, "auto.json")):
            with self.subTest(subject=pathlib.Path(subject).name):
                axes = () if subject.endswith("auto.json") else AXES
                best = self.plan(subject, "--cluster", "dgx-h100", "--devices", 16, *WORK, *axes, *PRICED)["best"]
                row, alone = self.searched(subject, "dgx-h100", 16, *axes)
                self.assertEqual((best["at"], best["days"], best["money"]), (row["at"], alone["days"], alone["money"]))

    def test_places_where_nothing_fits_say_why_and_the_others_are_priced(self):
        large = ("llama3-70b", "--cluster", "dgx-h100", *WORK, *AXES, *PRICED)
        answer = self.plan(*large, "--devices", "4,64")
        self.assertEqual([o["layout"]["devices"] for o in answer["options"]], [64])
        (refused,) = answer["refused"]
        self.assertEqual(refused["labels"], ["devices 4"])
        self.assertIn("no layout fits the 79.1 GiB of H100", refused["reason"])
        self.refused(5, "nothing found: no layout fits the 79.1 GiB of H100", *large, "--devices", 4, "--search")
        self.assertEqual(run("search", "llama3-70b", "--cluster", "dgx-h100", "--devices", 4, *WORK, *AXES)[0], 5)
        self.refused(5, "tensor 3 needs a multiple of 3 devices", MODEL, "--cluster", "dgx-h100", "--devices", 8, *WORK, *PRICED, "--axis",
                     "tensor=3", "--search")

    def test_layouts_that_the_stack_refuses_are_searched_when_asked(self):
        config = {"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 8, "num_attention_heads": 16,
                  "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
                  "rope_theta": 1000000, "hidden_act": "silu", "tie_word_embeddings": True}
        asked = (self.folder.file("config.json", json.dumps(config)), "--cluster", "hls-gaudi3", "--devices", 8, *WORK, *AXES, *PRICED)
        self.refused(5, "--any-stack ignores what it refuses", *asked, "--search")
        best = self.plan(*asked, "--any-stack")["best"]
        (row,) = tandem_json("search", *asked[:5], *WORK, *AXES, "--any-stack", "--best", 1)["best"]
        self.assertEqual((best["at"], best["step_time_s"]["value"]), (row["at"], row["step_time_s"]))

    def test_a_missed_limit_is_exit_code_5_and_the_answer_comes_all_the_same(self):
        asked = (MODEL, "--cluster", "dgx-h100", "--devices", "8,16", *WORK, *AXES, *PRICED)
        days = sorted(o["days"]["value"] for o in self.plan(*asked)["options"])
        out = self.folder.path / "late.json"
        self.assertEqual(len(self.plan(*asked, "--days", days[0] / 2, "--out", out, code=5)["options"]), 2)
        self.assertTrue(out.exists())
        between = self.plan(*asked, "--days", (days[0] + days[1]) / 2)
        self.assertEqual(between["best"]["days"]["value"], days[0])

    def test_an_interruption_prints_what_was_found(self):
        asked = ("llama3-70b", "--cluster", "dgx-h100,dgx-h200", "--devices", "64,128", *WORK, *PRICED, "--axis", "zero=1", "--jobs", 1)
        started = time.monotonic()
        whole = {o["label"]: o for o in self.plan(*asked)["options"]}
        takes, codes, told = time.monotonic() - started, [], 0
        for share in (0.02, 0.3, 0.5, 0.7):
            out = pathlib.Path(self.folder.file(f"part-{share}.json", "kept"))
            process = subprocess.Popen([PROGRAM, "plan", *map(str, asked), "--search", "--json", "--out", out],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            time.sleep(share * takes)
            process.send_signal(signal.SIGINT)
            text, error = process.communicate(timeout=120)
            codes.append(process.returncode)
            self.assertIn(process.returncode, (0, 130), error)
            if process.returncode == 0 or not text:
                continue
            answer, told = json.loads(text), told + 1
            self.assertTrue(answer["interrupted"])
            unended = next(w for w in answer["warnings"] if w.startswith("interrupted: the search of "))
            for o in answer["options"]:
                if o["label"] not in unended:
                    self.assertEqual(o, whole[o["label"]])
            self.assertEqual(out.read_text(encoding="utf-8"), "kept")
            part = self.folder.path / f"part-{share}.interrupted.json"
            self.assertEqual(tandem_json("simulate", part)["step_time_s"], answer["best"]["step_time_s"]["value"])
        self.assertIn(130, codes)
        self.assertGreater(told, 0, codes)

    def test_bad_input_is_refused_before_the_search(self):
        place = (MODEL, "--cluster", "dgx-h100", "--devices", 16, "--tokens", TOKENS)
        cases = ((2, "--search", ("--axis", "tensor=1")), (2, "--search", ("--out", self.path("x.json"))),
                 (2, "--step-time", ("--search", "--step-time", 3)),
                 (3, "--axis: parallel.tensor: has its value by --set", ("--search", "--axis", "tensor=1", "--set", "parallel.tensor=2")),
                 (3, "no plan is on this cluster", ("--search", "--price", "dgx-h200=2")),
                 (3, "there are on_demand, reserved and spot", ("--search", "--price-kind", "cheap")),
                 (3, 'did you mean "tensor"?', ("--search", "--axis", "tensr=2")),
                 (3, 'did you mean "parallel.tensor"?', ("--search", "--set", "parallel.tensr=2")))
        for code, said, more in cases:
            with self.subTest(more=more):
                self.refused(code, said, *place, *more)
        self.refused(3, "--cluster", MODEL, "--devices", 16, "--tokens", TOKENS, "--search")

    def test_a_group_of_fields_is_no_value(self):
        for how in ((), ("--search",)):
            for group in ("parallel", "training"):
                self.refused(3, f"{group} = 5: is a group of fields; set one of them, such as {group}.FIELD=VALUE",
                             self.folder.plan(GIVEN), "--tokens", TOKENS, "--set", f"{group}=5", *how)


class Note(WithFolder):
    """Without --search, overlaps that only the stack has off are told."""

    def notes(self, plan, *arguments):
        warnings = tandem_json("plan", self.folder.plan(plan), "--tokens", TOKENS, *arguments)["warnings"]
        return [w for w in warnings if w.startswith("the layout is as given")]

    def test_it_names_what_a_search_would_turn_on(self):
        (note,) = self.notes(GIVEN)
        alike = ("--axis", "tensor=2", "--axis", "pipeline=1", "--axis", "sequence_parallel=true")
        found = tandem_json("search", self.folder.plan(GIVEN), *AXES, *alike, "--best", 1)["best"][0]["at"]
        switched = [field for field in found if field.startswith("parallel.") and "overlap" in field]
        self.assertTrue(switched)
        for field in switched:
            self.assertIn(field.split(".")[-1], note)
        self.assertIn("without what shortens steps and megatron-core has off by default", note)

    def test_it_is_silent_where_it_does_not_hold(self):
        out = self.path("best.json")
        tandem_json("search", self.folder.plan(GIVEN), *AXES, "--best", 1, "--out", out)
        self.assertEqual(self.notes(json.loads(pathlib.Path(out).read_text(encoding="utf-8"))), [])
        overlaps = {field: True for field in ("overlap_grad_reduce", "overlap_param_gather", "tensor_overlap")}
        self.assertEqual(self.notes(changed(GIVEN, parallel={**GIVEN["parallel"], **{field: False for field in overlaps}})), [])
        sharded = changed(GIVEN, stack="pytorch-fsdp", parallel={"data": 16, "zero_stage": 3})
        self.assertEqual(self.notes(sharded), [])
        self.assertEqual(self.notes(GIVEN, "--step-time", 3), [])


if __name__ == "__main__":
    tandem.main()
