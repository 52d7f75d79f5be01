#!/usr/bin/env python3
"""What a search turns on, leaves out and advises, checked with plans that are simulated alone."""
import json
import re

import tandem
from tandem import WithFolder, changed, run, tandem_json

FIXED = ("--axis", "context=1", "--axis", "schedule=1f1b", "--axis", "virtual_pipeline=1", "--axis", "recompute=none")
OVERLAPS = ("overlap_grad_reduce", "overlap_param_gather", "tensor_overlap")


def json_value(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


class Advice(WithFolder):
    def simulated(self, question, layout, *options):
        """The prediction of a plan that says a layout: {"parallel.tensor": 2, ...}."""
        model, cluster, devices, batch, length = question
        plan = {"model": {"preset": model}, "cluster": {"preset": cluster, "devices": devices}, "parallel": {},
                "training": {"seq_length": length, "global_batch_size": batch}}
        for path, value in layout.items():
            section, _, field = path.partition(".")
            *parts, last = field.split(".")
            place = plan[section]
            for part in parts:
                place = place.setdefault(part, {})
            place[last] = value
        return tandem_json("simulate", self.folder.plan(plan, "alone.json"), *options)

    def arguments(self, question):
        model, cluster, devices, batch, length = question
        return (model, "--cluster", cluster, "--devices", devices, "--global-batch", batch, "--seq-length", length)

    def test_overlaps_are_on_in_the_exported_plan_and_its_options_and_told_once(self):
        question = self.arguments(("llama3-8b", "dgx-h100", 16, 64, 8192))
        out = self.folder.path / "best.json"
        narrow = (*FIXED, "--axis", "tensor=2", "--axis", "pipeline=1", "--axis", "sequence_parallel=false,true", "--axis", "zero=1", "--axis", "micro_batch_size=1")
        answer = tandem_json("search", *question, *narrow, "--out", out)
        written = json.loads(out.read_text())["parallel"]
        self.assertEqual([written.get(field) for field in OVERLAPS], [True, True, True])
        for field in OVERLAPS:
            self.assertIs(answer["best"][0]["at"]["parallel." + field], True)
        self.assertEqual(tandem_json("simulate", out)["step_time_s"], answer["best"][0]["step_time_s"])
        _, options, _ = run("export", out, "--to", "megatron-core")
        for option in ("--overlap-grad-reduce", "--overlap-param-gather", "--tp-comm-overlap"):
            self.assertIn(option, options)
        _, text, _ = run("search", *question, *narrow)
        said = "switch on what megatron-core has off: overlap_grad_reduce, overlap_param_gather, tensor_overlap (row 1); `tandem export PLAN --to megatron-core` writes the options"
        self.assertEqual(text.count(said + "\n"), 1, text)
        self.assertEqual(answer["notes"], [said])
        plain = tandem_json("search", *question, *narrow, *(word for field in OVERLAPS for word in ("--axis", field + "=false")))
        self.assertEqual(plain["notes"], [])
        self.assertLess(answer["best"][0]["step_time_s"], 0.97 * plain["best"][0]["step_time_s"])

    def test_a_plan_that_says_an_overlap_decides(self):
        plan = {"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-h100", "devices": 16}, "parallel": {"tensor_overlap": False},
                "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 32}}
        at = tandem_json("search", self.folder.plan(plan), *FIXED, "--axis", "tensor=2", "--axis", "sequence_parallel=true")["best"][0]["at"]
        self.assertNotIn("parallel.tensor_overlap", at)
        self.assertIs(at["parallel.overlap_grad_reduce"], True)

    def test_reductions_that_are_faster_behind_chunks_are_told(self):
        question, apart = ("llama3-8b", "dgx-a100-80gb", 64, 64, 4096), ("--stack", "megatron-core@2023-09")  # it aligns them a month later
        chunks = ("--axis", "schedule=interleaved", "--axis", "tensor=1", "--axis", "pipeline=8", "--axis", "virtual_pipeline=2", "--axis", "zero=0",
                  "--axis", "context=1", "--axis", "micro_batch_size=1", "--axis", "recompute=none", "--axis", "sequence_parallel=false", "--axis", "pipeline_split=auto")
        answer = tandem_json("search", *self.arguments(question), *chunks, *apart)
        without = self.simulated(question, {**answer["best"][0]["at"], "parallel.overlap_grad_reduce": False}, *apart)["step_time_s"]
        change = without / answer["best"][0]["step_time_s"] - 1
        self.assertLess(change, -0.001)  # else take a plan where it still is
        told = [note for note in answer["notes"] if note.startswith("row 1 without overlap_grad_reduce: ")]
        self.assertEqual(len(told), 1, answer["notes"])
        self.assertIn(f"({100 * change:.1f} %)", told[0])

    def test_short_sequences_have_large_micro_batches(self):
        question = ("gpt2-124m", "dgx-h100", 8, 512, 1024)
        best = tandem_json("search", *self.arguments(question), "--axis", "tensor=1", "--axis", "pipeline=1", "--best", 1)["best"][0]
        alone = self.simulated(question, {"parallel.data": 8, "parallel.zero_stage": 0, "training.micro_batch_size": 64})
        self.assertLessEqual(best["step_time_s"], alone["step_time_s"])

    def test_long_sequences_have_no_more_micro_batches_than_before(self):
        answer = tandem_json("search", *self.arguments(("llama3-8b", "dgx-h100", 8, 64, 8192)), *FIXED, "--axis", "tensor=1", "--axis", "pipeline=1",
                             "--axis", "sequence_parallel=false", "--axis", "zero=3")
        self.assertEqual(answer["candidates"], 4)  # 1, 2, 4 and 8 sequences

    def test_a_first_row_at_the_largest_micro_batch_names_larger_ones(self):
        question = (*self.arguments(("gpt2-124m", "dgx-h200", 1, 1024, 1024)), *FIXED, "--axis", "sequence_parallel=false", "--axis", "zero=0")
        answer = tandem_json("search", *question)
        self.assertEqual(answer["best"][0]["at"]["training.micro_batch_size"], 64)
        told = "not searched: micro_batch_size above that of row 1; --axis micro_batch_size=64,128,256 would search more"
        self.assertEqual(answer["notes"], [told])
        self.assertIn(told + "\n", run("search", *question)[1])
        said = tandem_json("search", *question, "--axis", "micro_batch_size=32,64")
        self.assertEqual(said["best"][0]["at"]["training.micro_batch_size"], 64)
        self.assertEqual(said["notes"], [])

    def test_a_change_tells_the_whole_layout_and_what_is_doubtful(self):
        question = ("llama3-70b", "dgx-h100", 8, 64, 4096)
        code, out, err = run("search", *self.arguments(question), "--changes", 600, "--json")
        self.assertEqual(code, 5, err)
        answer = json.loads(out)
        _, text, _ = run("search", *self.arguments(question), "--changes", 600)
        rows = re.findall(r"^  +(\d+) +(\S.*?) +[\d.]+ m?s ", text, re.MULTILINE)
        self.assertEqual([int(row) for row, _ in rows], list(range(1, len(answer["changes"]) + 1)), text)
        offloads = 0
        for row, change in enumerate(answer["changes"], 1):
            layout = {field: value for field, value in change["change"].items() if field.startswith(("parallel.", "training."))}
            if list(change["change"]) == ["parallel.offload.optimizer"]:
                offloads += 1  # as fast as the best of a search among such plans
                best = tandem_json("search", *self.arguments(question), "--axis", "offload.optimizer=true", "--best", 1)["best"][0]
                self.assertEqual(change["step_time_s"], best["step_time_s"], text)
            for word in change["layout"].split(", "):
                name, value = word.split(" ", 1)
                section = "training." if name in ("micro_batch_size", "recompute", "recompute_modules", "flash_attention") else "parallel."
                layout[section + name] = json_value(value)
            layout.update({field: True for field in change["switched_on"]})
            alone = self.simulated((question[0], change["cluster"], change["devices"], *question[3:]), layout)
            self.assertEqual(alone["step_time_s"], change["step_time_s"], (change, text))
            self.assertEqual(max(role["needed_bytes"] for role in alone["roles"]), change["needed_bytes"], change)
            tight = change["needed_bytes"] * 1.077 > change["device_memory_bytes"]
            self.assertEqual(any(note.startswith("memory is tight") for note in change["notes"]), tight, change)
            told = re.search(r"memory is tight, rows? ([\d, and]+):", text)
            self.assertEqual(str(row) in re.findall(r"\d+", told[1] if told else ""), tight, text)
            wider = " ".join(re.findall(r"beyond the records, rows? ([\d, and]+):", text))
            self.assertEqual(str(row) in re.findall(r"\d+", wider), change["step_time_wider"] != "", text)
        self.assertGreater(offloads, 0)

    def test_a_plan_of_long_sequences_that_does_not_fit_is_told_context_ranks_with_which_it_does(self):
        plan = {"stack": "megatron-core", "model": {"preset": "llama3-8b"}, "cluster": {"preset": "dgx-h100", "devices": 8},
                "parallel": {"data": 8, "zero_stage": 1},
                "training": {"seq_length": 131072, "micro_batch_size": 1, "global_batch_size": 8, "recompute": "full"}}
        code, _, err = run("simulate", self.folder.plan(plan))
        self.assertEqual(code, 4, err)
        told = re.search(r"; share each sequence among (\d+) ranks \((.*?)\), with which a device needs ([\d.]+) GiB; or ", err)
        self.assertIsNotNone(told, err)
        code, _, of_plan = run("plan", self.folder.plan(plan), "--tokens", "1e9")
        self.assertEqual(code, 4, of_plan)
        self.assertIn(told[0], of_plan)
        fields = dict(word.split(" ") for word in told[2].split(", "))
        self.assertEqual(fields["parallel.context"], told[1])
        for field, value in fields.items():
            section, name = field.split(".")
            plan[section][name] = json_value(value)
        answer = tandem_json("simulate", self.folder.plan(plan))
        self.assertTrue(answer["fits"])
        self.assertAlmostEqual(max(role["needed_bytes"] for role in answer["roles"]) / 2**30, float(told[3]), delta=0.06)
        plan["parallel"].update(context=int(told[1]) // 2, data=16 // int(told[1]))  # fewer do not suffice
        self.assertEqual(run("simulate", self.folder.plan(plan))[0], 4)

    def test_context_ranks_are_not_told_where_a_simpler_change_makes_a_plan_fit_for_less(self):
        for small, simpler, said in (({"parallel.zero_stage": 1, "training.micro_batch_size": 4}, {"training.micro_batch_size": 1}, "take smaller micro-batches"),
                                     ({"parallel.zero_stage": 0}, {"parallel.zero_stage": 1}, "shard more (parallel.zero_stage)")):
            plan = {"stack": "megatron-core", "model": {"preset": "llama3-70b"}, "cluster": {"preset": "dgx-h100", "devices": 512},
                    "parallel": {"tensor": 8, "pipeline": 2, "sequence_parallel": True}, "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 512}}
            code, _, err = run("simulate", self.folder.plan(changed(plan, **small)))
            self.assertEqual(code, 4, err)
            self.assertNotIn("share each sequence", err)
            self.assertIn(said, err)
            self.assertTrue(tandem_json("simulate", self.folder.plan(changed(changed(plan, **small), **simpler)))["fits"])

    def test_context_ranks_are_told_only_where_the_stack_has_them_and_sequences_are_long(self):
        plan = {"stack": "pytorch-ddp", "model": {"preset": "llama3-8b"}, "cluster": {"preset": "dgx-h100", "devices": 8},
                "parallel": {"data": 8}, "training": {"seq_length": 131072, "micro_batch_size": 1, "global_batch_size": 8}}
        for stack, length in (("pytorch-ddp", 131072), ("megatron-core", 4096)):
            plan["stack"], plan["training"]["seq_length"] = stack, length
            code, _, err = run("simulate", self.folder.plan(plan))
            self.assertEqual(code, 4, err)
            self.assertNotIn("share each sequence", err)

    def test_offloading_is_advised_where_only_a_later_schedule_of_the_question_runs(self):
        question = self.arguments(("llama3-8b", "dgx-h100", 1, 8, 4096))
        for schedules, chunks in (("interleaved,1f1b", "2,1"), ("1f1b,interleaved", "1,2")):  # one stage has no chunks
            code, out, err = run("search", *question, "--axis", "schedule=" + schedules, "--axis", "virtual_pipeline=" + chunks, "--changes", 600, "--json")
            self.assertEqual(code, 5, err)
            offloads = [change for change in json.loads(out)["changes"] if "parallel.offload.optimizer" in change["change"]]
            self.assertEqual(len(offloads), 1, out)

    def test_fewer_devices_that_are_faster_are_told(self):
        narrow = (*FIXED[:6], "--axis", "zero=1", "--axis", "micro_batch_size=1,2")
        place = ("llama3-8b", "--cluster", "dgx-h100", "--global-batch", 100, "--seq-length", 4096, *narrow)
        answer = tandem_json("search", *place, "--devices", 13)
        twelve = tandem_json("search", *place, "--devices", 12)
        self.assertLess(twelve["best"][0]["step_time_s"], answer["best"][0]["step_time_s"])
        told = [note for note in answer["notes"] if note.startswith("12 devices are faster: ")]
        self.assertEqual(len(told), 1, answer["notes"])
        self.assertIn(f"({100 * (twelve['best'][0]['step_time_s'] / answer['best'][0]['step_time_s'] - 1):.1f} %)", told[0])
        self.assertFalse([note for note in twelve["notes"] if "devices are faster" in note])


if __name__ == "__main__":
    tandem.main()
