#!/usr/bin/env python3
"""Searches from the command line: rows, counts, exports, refusals."""
import json
import pathlib
import re
import signal
import subprocess
import time

import tandem
from report_test import Page
from tandem import PROGRAM, SMALL, SOURCE, WithFolder, changed, run, tandem_json

AXES = ("--axis", "virtual_pipeline=1", "--axis", "schedule=1f1b", "--axis", "zero=0,1", "--axis", "context=1")

ONE_LAYOUT = ("--axis", "tensor=1", "--axis", "pipeline=1", "--axis", "context=1", "--axis", "micro_batch_size=1", "--axis", "schedule=1f1b",
              "--axis", "virtual_pipeline=1", "--axis", "zero=1", "--axis", "recompute=none", "--axis", "sequence_parallel=false")

class Searching(WithFolder):
    def search(self, *arguments):
        return tandem_json("search", *arguments)

    def small(self, **changes):
        return self.folder.plan(changed(SMALL, **changes))


class Search(Searching):
    def test_counts_add_up_and_rows_are_sorted(self):
        answer = self.search(self.small(), *AXES, "--best", 4)
        self.assertEqual(sum(answer["counts"].values()), answer["candidates"])
        times = [row["step_time_s"] for row in answer["best"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(times), 4)

    def test_the_exported_plan_simulates_to_the_time_of_the_first_row(self):
        out = self.folder.path / "best.json"
        answer = self.search(self.small(), *AXES, "--export", out)
        alone = tandem_json("simulate", out)
        self.assertEqual(alone["step_time_s"], answer["best"][0]["step_time_s"])
        self.assertEqual(alone["plan"]["parallel"]["data"], answer["best"][0]["at"]["parallel.data"])

    def test_only_fields_that_say_auto_are_searched(self):
        answer = self.search(self.small(**{"parallel.tensor": "auto", "parallel.data": None}))
        self.assertEqual({field for field in answer["best"][0]["at"]}, {"parallel.tensor", "parallel.data"})
        tensors = sorted(row["at"]["parallel.tensor"] for row in answer["best"])
        self.assertEqual(tensors, [1, 2, 4])
        for row in answer["best"]:
            self.assertEqual(row["at"]["parallel.tensor"] * 2 * row["at"]["parallel.data"], 8)

    def test_data_ranks_that_say_auto_are_as_where_they_are_left_out(self):
        answers = [self.search(self.small(**{"parallel.data": data}), *AXES) for data in ("auto", None)]
        self.assertEqual(*answers)

    def test_devices_left_out_are_the_product_of_the_degrees(self):
        answers = [self.search(self.small(**{"cluster.devices": devices}), *AXES) for devices in (None, 8)]
        self.assertEqual(*answers)
        for changes in ({"parallel.tensor": "auto"}, {"parallel.data": None}):
            code, out, err = run("search", self.small(**{"cluster.devices": None, **changes}))
            self.assertEqual((code, out), (3, ""))
            self.assertIn("--devices: is missing", err)

    def test_a_row_that_the_host_limits_says_so_as_simulate_does(self):
        plan = self.folder.plan({"model": {"preset": "gpt2-124m"}, "parallel": {"tensor": "auto"}, "cluster": {"preset": "dgx-h100", "devices": 8},
                                 "training": {"seq_length": 128, "micro_batch_size": 1, "global_batch_size": 8}})
        _, text, _ = run("search", plan, "--axis", "tensor=1,2,4")
        rows = self.search(plan, "--axis", "tensor=1,2,4")["best"]
        for row in rows:
            alone = self.folder.plan({**json.loads(pathlib.Path(plan).read_text()), "parallel": {"tensor": row["at"]["parallel.tensor"]}}, "alone.json")
            notes = [n for n in tandem_json("simulate", alone)["notes"] if n.startswith("the host limits")]
            self.assertEqual(len(notes), 1)
            self.assertEqual(row["notes"], notes)
        lines = [line for line in text.splitlines() if line.startswith("the host limits the step, not the device, row")]
        self.assertEqual(len(lines), 2)  # one remedy of rows with one tensor rank, another of the others
        shares = [int(re.search(r"launches tasks for (\d+) %", row["notes"][0]).group(1)) for row in rows]
        for share in (min(shares), max(shares)):
            self.assertIn(f"{share} %", "".join(lines).replace(" to ", " % to "))
        said = {row["at"]["parallel.tensor"]: row["notes"] for row in rows}
        front = self.search(plan, "--axis", "tensor=1,2,4", "--pareto")["pareto"]
        self.assertEqual([p["notes"] for p in front], [said[p["at"]["parallel.tensor"]] for p in front])
        self.assertIn("the host limits the step, not the device, row", run("search", plan, "--axis", "tensor=1,2,4", "--pareto")[1])
        slow = self.folder.plan({**json.loads(pathlib.Path(plan).read_text()), "model": {"preset": "llama3-8b", "num_layers": 4},
                                 "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 8}}, "slow.json")
        self.assertEqual([row["notes"] for row in self.search(slow, "--axis", "tensor=1,2")["best"]], [[], []])
        self.assertNotIn("the host limits", run("search", slow, "--axis", "tensor=1,2")[1])

    def test_why_tells_the_reason_of_a_candidate(self):
        _, out, _ = run("search", self.small(), *AXES, "--why", "tensor=4,pipeline=2,zero=0,micro_batch_size=1,recompute=none,sequence_parallel=false")
        self.assertIn("why tensor=4", out)
        self.assertIn("1 candidate\n", out)

    def test_a_plan_without_names_has_its_files(self):
        plan = self.folder.plan(changed(SMALL, name=None), "mine.json")
        self.assertEqual(self.search(plan, *AXES)["model"], "mine")
        self.assertTrue(run("search", plan, *AXES)[1].startswith("mine on 8 devices of cpu-host, "))
        one = self.folder.plan(changed(SMALL, **{"cluster.devices": 1, "parallel.tensor": 1, "parallel.pipeline": 1, "parallel.data": 1}))
        self.assertIn(" on 1 device of cpu-host, ", run("search", one, *AXES)[1])

    def test_interleaved_candidates_have_chunks(self):
        answer = self.search(self.small(**{"model.num_layers": 8}), "--axis", "schedule=interleaved", "--axis", "virtual_pipeline=1,2", "--axis", "pipeline=2")
        self.assertEqual({row["at"]["parallel.virtual_pipeline"] for row in answer["best"]}, {2})

    def test_layers_that_no_chunks_divide_are_interleaved_where_that_is_fastest(self):
        plan = {"model": {"preset": "llama2-7b", "num_layers": 31}, "cluster": {"preset": "dgx-h100", "devices": 32},
                "training": {"seq_length": 2048, "global_batch_size": 64}}
        answer = self.search(self.folder.plan(plan), "--axis", "pipeline=4", "--axis", "tensor=1", "--axis", "micro_batch_size=1",
                             "--axis", "zero=1", "--axis", "recompute=none")
        best = answer["best"][0]["at"]
        self.assertEqual(best["parallel.schedule"], "interleaved")
        self.assertGreater(best["parallel.virtual_pipeline"], 1)
        plain = self.search(self.folder.plan(plan), *ONE_LAYOUT[:2], "--axis", "pipeline=4", *ONE_LAYOUT[4:])["best"][0]
        self.assertLess(answer["best"][0]["step_time_s"], plain["step_time_s"])

    def test_fields_of_experts_that_are_not_searched_are_named(self):
        place = ("gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024, *ONE_LAYOUT,
                 "--axis", "expert=16")
        _, out, err = run("search", *place)
        self.assertIn("not searched: token_dispatcher, overlap_experts; --axis token_dispatcher=alltoall,deepep --axis overlap_experts=false,true", out + err)
        self.assertEqual(self.search(*place, "--axis", "overlap_experts=false,true")["not_searched"], ["token_dispatcher=alltoall,deepep"])

    def test_the_help_says_what_an_axis_may_name(self):
        _, out, _ = run("search", "--help")
        for word in ("virtual_pipeline", "flash_attention", "token_dispatcher", "a list as JSON", "widens the search"):
            self.assertIn(word, " ".join(out.split()))

    # Nodes of four devices behind one slow NIC, where the last chunk of a mixture's pipeline waits for its experts.
    SLOW = {"name": "slow", "fabric": {"nodes_per_leaf": 32, "oversubscription": 1, "switch_latency_s": "0.33 us"},
            "node": {"kind": "crossbar", "devices": 4, "scale_up": {"device_bytes_per_s": "25 GB/s", "hop_latency_s": "5 us"},
                     "scale_out": {"nics": 1, "nic_bytes_per_s": "12.5 GB/s", "latency_s": "20 us", "rails": False}},
            "device": {"name": "H100 PCIe", "generation": "hopper", "calibration": "h100", "compute_units": 114, "memory_bytes": "900 GiB",
                       "peak_flops_per_s": {"bf16": "756 TFLOP/s", "fp32": "51 TFLOP/s"}, "vector_flops_per_s": "51 TFLOP/s",
                       "memory_bytes_per_s": "2.0 TB/s", "host_launch_s": "5 us"}}
    MIXTURE = {"model": {"family": "llama", "num_layers": 10, "hidden_size": 5120, "num_attention_heads": 128, "head_dim": 192, "value_dim": 128,
                         "ffn_hidden_size": 12288, "vocab_size": 102400, "latent": {"kv_rank": 512, "query_rank": 1536, "rotary_dim": 64},
                         "moe": {"num_experts": 160, "experts_per_token": 6, "ffn_hidden_size": 1536, "num_shared_experts": 2,
                                 "first_dense_layers": 1}},
               "parallel": {"tensor": 4, "pipeline": 2, "expert": 4, "virtual_pipeline": 4, "schedule": "interleaved",
                            "sequence_parallel": True, "zero_stage": "auto"},
               "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 16}, "cluster": {"preset": "slow.json", "devices": 8}}

    def test_a_mixture_behind_a_slow_network_is_estimated_and_answered(self):
        self.folder.file("slow.json", json.dumps(self.SLOW))
        row = self.search(self.folder.plan(self.MIXTURE), "--axis", "zero=0")["best"][0]
        self.assertAlmostEqual(row["estimate_s"] / row["step_time_s"], 1, delta=0.01)

    def test_an_estimate_that_is_far_too_long_loses_no_answer(self):
        self.folder.file("slow.json", json.dumps(self.SLOW))
        plan = self.folder.plan(changed(self.MIXTURE, model={"family": "llama", "num_layers": 2, "hidden_size": 5120, "num_attention_heads": 32, "ffn_hidden_size": 12288, "vocab_size": 256000},
                                        parallel={"tensor": 2, "pipeline": 2, "data": 2, "sequence_parallel": True, "overlap_grad_reduce": False, "zero_stage": "auto"},
                                        **{"training.micro_batch_size": 4, "training.global_batch_size": 64}))
        row = self.search(plan, "--axis", "zero=1")["best"][0]
        self.assertGreater(row["estimate_s"] / row["step_time_s"], 1.01)  # else take a plan whose estimate still is
        self.assertIn("estimates are up to 1.2 % off here", run("search", plan, "--axis", "zero=1")[1])

    def test_threads_do_not_change_a_byte(self):
        texts = [run("search", self.small(), *AXES, "--json", "--jobs", jobs)[1] for jobs in (1, 2)]
        self.assertEqual(texts[0], texts[1])

    def test_bad_questions_are_refused(self):
        for arguments, code, said in (
                (("--axis", "tensr=1"), 3, 'did you mean "tensor"'),
                (("--axis", "parallel.recompute=none"), 3, 'did you mean "training.recompute"'),
                (("--axis", "tensor=1", "--axis", "tp=2"), 3, "given twice"),
                (("--axis", "data=3"), 5, "nothing found"),
                (("--why", "tensor=64"), 3, "is no value of this search")):
            got, _, err = run("search", self.small(), *AXES, *arguments)
            self.assertEqual(got, code, err)
            self.assertIn(said, err)

    def batches(self, *arguments):
        code, out, err = run("search", "gpt-1.3b", "--cluster", "dgx-h200", *ONE_LAYOUT, *arguments)
        self.assertEqual(code, 0, err)
        return {int(batch.replace(",", "")) for batch in re.findall(r"global batch ([\d,]+) x", out)}

    def test_a_batch_that_nobody_said_goes_into_any_number_of_devices(self):
        for devices in (1, 8, 71):  # sequences of 2,048 tokens: 2,048 of them are 4 M tokens
            self.assertEqual(self.batches("--devices", devices), {round(2048 / devices) * devices})
        self.assertEqual(self.batches("--devices", "24,40", "--pareto"), {17 * 120})
        self.assertEqual(self.batches("--devices", 71, "--global-batch", 71), {71})

    def test_a_model_of_a_file_is_called_by_its_file(self):
        config = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 4, "num_attention_heads": 8,
                  "vocab_size": 32000, "max_position_embeddings": 2048, "unused": float("inf")}  # Python writes Infinity, which is no JSON
        path = self.folder.file("small-llama.json", json.dumps(config))
        code, out, err = run("search", path, "--cluster", "dgx-h100", "--devices", 8, *ONE_LAYOUT)
        self.assertEqual(code, 0, err)
        self.assertTrue(out.startswith("small-llama on 8 devices of dgx-h100"), out)

    def test_rows_that_fit_by_less_than_the_error_of_memory_are_told(self):
        question = ("llama2-7b", "--cluster", "dgx-a100-80gb", "--devices", 8, "--global-batch", 64, "--seq-length", 5632,
                    *("recompute=none,full" if word == "recompute=none" else word for word in ONE_LAYOUT))
        rows, (_, out, _) = self.search(*question), run("search", *question)
        tight = [str(i) for i, r in enumerate(rows["best"], 1) if r["needed_bytes"] * 1.077 > rows["device_memory_bytes"]]
        told = re.findall(r"memory is tight, rows? ([\d, and]+): predictions of memory were up to 8 % below", out)
        self.assertTrue(tight and len(tight) < len(rows["best"]), rows["best"])
        self.assertEqual(re.findall(r"\d+", told[0]), tight)

    def test_rows_whose_types_differ_by_the_stack_are_told(self):
        layout = [{"tensor=1": "tensor=8", "sequence_parallel=false": "sequence_parallel=true"}.get(word, word) for word in ONE_LAYOUT]
        place = ("llama2-7b", "--cluster", "trn1.32xlarge", "--devices", 64, "--global-batch", 1024)
        _, out, err = run("search", *place, *("zero=0,1" if word == "zero=1" else word for word in layout))
        told = re.findall(r"training.dtypes of row (\d): gradients (\w+), .*\n", out)
        zero_of = dict(re.findall(r"^ +(\d) .* ([01])$", out, re.MULTILINE))
        self.assertEqual({types: zero_of[row] for row, types in told}, {"bf16": "0", "fp32": "1"}, out + err)
        _, out, _ = run("search", *place, *layout)
        self.assertNotIn("training.dtypes", out)

    def test_what_keeps_every_layout_from_running_is_told(self):
        place = ("--cluster", "dgx-h100", "--devices", 71, "--global-batch", 64)
        code, out, _ = run("search", "gpt-1.3b", *place)
        self.assertEqual(code, 5)
        self.assertRegex(out, r"no layout could run, whatever the memory:\n  layout or batch does not divide, such as .*global_batch_size = 64")
        refused = ["tensor=4" if word == "tensor=1" else word for word in ONE_LAYOUT]  # no tensor group on Trn1
        code, out, _ = run("search", "gpt-1.3b", "--cluster", "trn1.32xlarge", "--devices", 32, *refused)
        self.assertEqual(code, 5)
        self.assertRegex(out, r"refused by the stack, such as .*neuronx")
        self.assertIn("--any-stack", out)

    def test_an_export_never_replaces_the_plan_that_is_read(self):
        plan = self.small()
        before = pathlib.Path(plan).read_text(encoding="utf-8")
        code, _, err = run("search", plan, *AXES, "--export", plan)
        self.assertEqual(code, 3, err)
        self.assertEqual(pathlib.Path(plan).read_text(encoding="utf-8"), before)


class Parts(Searching):
    """Searches that are spread over processes, or over time."""
    def shards(self, plan, count, *arguments):
        files = [self.path(f"part-{i}.json") for i in range(count)]
        for i, file in enumerate(files):
            code, out, err = run("search", plan, *AXES, *arguments, "--shard", f"{i}/{count}", "--keep", file)
            self.assertEqual(code, 0, err)
            self.assertIn(f"shard {i}/{count}", out)
        return files

    def test_shards_merge_to_the_bytes_of_one_process(self):
        plan = self.small()
        for best, events in ((4, 100), (4, 3)):
            options = ("--best", best, "--events", events)
            files = self.shards(plan, 3, *options)
            for form in ((), ("--json",)):
                whole = run("search", plan, *AXES, *options, *form)
                self.assertEqual(run("search", plan, *AXES, *options, *form, "--merge", *files), whole)
            for file in files:
                pathlib.Path(file).unlink()

    def test_a_search_that_is_kept_is_not_done_again(self):
        plan, file = self.small(), self.path("kept.json")
        first = run("search", plan, *AXES, "--keep", file)
        again = run("search", plan, *AXES, "--keep", file)
        self.assertEqual((first[0], first[1]), (0, again[1]))
        self.assertIn(f"goes on from {file}", again[2])

    def test_an_interrupted_search_goes_on_to_the_same_bytes(self):
        question = ("llama2-70b", "--cluster", "dgx-h100", "--devices", 64, "--global-batch", 128, "--axis", "zero=1", "--json")
        whole, file, codes = run("search", *question), self.path("kept.json"), []
        while len(codes) < 50 and (not codes or codes[-1] != 0):
            process = subprocess.Popen([PROGRAM, "search", *map(str, question), "--keep", file], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            time.sleep(0.3 + 0.2 * len(codes))  # each gets further than the one before
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
            codes.append(process.returncode)
            self.assertIn(process.returncode, (0, 130), err)
        self.assertEqual(codes[-1], 0, codes)
        self.assertEqual(out.decode(), whole[1])
        self.assertEqual(codes[0], 130, "it ended before it was interrupted")

    def interrupted(self, *arguments):
        """Exit code, stdout and stderr of a search of minutes that is ended when it has said for the first time how far it is."""
        process = subprocess.Popen([PROGRAM, "search", "deepseek-v3", "--cluster", "dgx-h100", "--devices", "1024", "--global-batch", "8192",
                                    "--seq-length", "4096", "--axis", "token_dispatcher=alltoall,deepep", "--axis",
                                    "overlap_experts=false,true", "--jobs", "1", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, said + err

    def test_an_interrupted_search_prints_what_it_has_found(self):
        code, out, err = self.interrupted()
        self.assertEqual(code, 130, err)
        self.assertRegex(err, r"tandem: searching: [\d,]+ of [\d,]+ groups looked at, bounds of [\d,]+ sharpened, \d+ layouts simulated, 1\d\.\d s\n")
        self.assertRegex(out, r"interrupted: [\d,]+ of [\d,]+ groups looked at; a better layout may be among the others\n")
        self.assertIn("--keep FILE", err)
        self.assertNotIn("keeping", err)
        self.assertNotIn("--events N", out)
        file = self.path("kept.json")
        code, out, err = self.interrupted("--pareto", "--json", "--keep", file)
        self.assertEqual(code, 130, err)
        self.assertIn(f"{file} keeps what is known", err)
        answer = json.loads(out)
        self.assertEqual((answer["interrupted"], answer["complete"]), (True, False))
        space = answer["spaces"][0]
        self.assertEqual(sum(space["counts"].values()), space["candidates"])
        self.assertGreater(space["counts"]["left"], 0)

    def refused(self, *arguments):
        code, out, err = run("search", *arguments)
        self.assertEqual((code, out), (3, ""), err)
        self.assertEqual(err.count("\n"), 1, err)
        return err

    def test_files_of_other_searches_are_refused_by_name(self):
        plan = self.small()
        a, b = self.shards(plan, 2)
        self.assertIn("shard = 1/2: no file has it; run --shard 1/2", self.refused(plan, *AXES, "--merge", a))
        self.assertIn(f"{a}: shard = 0/2: {a} has it, too", self.refused(plan, *AXES, "--merge", a, b, a))
        self.assertIn(f"{a}: axes.parallel.zero_stage", self.refused(plan, *AXES[:4], "--axis", "context=1", "--merge", a, b))
        self.assertIn(f"{a}: any_stack = false: this search has true", self.refused(plan, *AXES, "--any-stack", "--merge", a, b))
        other = self.folder.plan(changed(SMALL, **{"training.global_batch_size": 16}), "other.json")
        self.assertIn(f"{a}: plan.training.global_batch_size = 8: this search has 16", self.refused(other, *AXES, "--merge", a, b))
        self.assertIn(f"{a}: shard = 0/2: this search is shard 0/1", self.refused(plan, *AXES, "--keep", a))
        text = pathlib.Path(b).read_text(encoding="utf-8")
        for damaged, said in ((text.replace('"shard":1', '"shard":0'), "checksum"), (text[:-9], "cut off"), ("{}", "no file of")):
            c = self.folder.file("c.json", damaged)
            self.assertIn(said, self.refused(plan, *AXES, "--merge", a, c))
        code, _, err = run("search", plan, *AXES, "--shard", "0/2")
        self.assertEqual(code, 2, err)
        for shard in ("2/2", "-1/2", "1", "a/b", "0/0"):
            self.assertIn("is no shard", self.refused(plan, *AXES, "--keep", self.path("x"), f"--shard={shard}"))

    def test_shards_of_different_numbers_do_not_mix(self):
        plan = self.small()
        a, rest = self.shards(plan, 2)
        moved = self.path("of-two.json")
        pathlib.Path(a).rename(moved)
        pathlib.Path(rest).unlink()
        b = self.shards(plan, 3)[1]
        self.assertIn(f"{b}: shards = 3: {moved} is one of 2", self.refused(plan, *AXES, "--merge", moved, b))


class Changes(Searching):
    """Where nothing fits, beside every changed plan simulated by itself."""
    AXES = {"parallel.tensor": "1", "parallel.pipeline": "1", "parallel.context": "1", "training.micro_batch_size": "2",
            "parallel.schedule": "1f1b", "parallel.virtual_pipeline": "1", "parallel.sequence_parallel": "false",
            "training.recompute": "none", "parallel.zero_stage": "1"}
    UNTRIED = {"parallel.tensor": (2, 4), "parallel.pipeline": (2, 4), "training.micro_batch_size": (1, 4, 8),
               "parallel.sequence_parallel": (True,), "training.recompute": ("selective", "full"), "parallel.zero_stage": (0, 2, 3),
               "parallel.offload.optimizer": (True,), "parallel.offload.parameters": (True,)}
    QUESTION = ("llama2-7b", "--cluster", "dgx-a100-80gb", "--devices", 4, "--global-batch", 32, "--seq-length", 4096,
                "--stack", "megatron-core")

    def simulated(self, changes):
        """(step time, whether it fits) of the question's plan with these fields, None where it cannot be."""
        plan = {"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-a100-80gb", "devices": 4}, "stack": "megatron-core",
                "training": {"seq_length": 4096, "global_batch_size": 32}, "parallel": {"offload": {}}}
        values = {"parallel.tensor": 1, "parallel.pipeline": 1, "training.micro_batch_size": 2, "parallel.sequence_parallel": False,
                  "training.recompute": "none", "parallel.zero_stage": 1, "cluster.devices": 4, "cluster.preset": "dgx-a100-80gb", **changes}
        values["parallel.data"] = values["cluster.devices"] // (values["parallel.tensor"] * values["parallel.pipeline"])
        code, out, _ = run("simulate", self.folder.plan(changed(plan, **values)), "--json")
        if code not in (0, 4) or not out:
            return None
        whole = json.loads(out)
        return whole["step_time_s"], whole["fits"]

    def fastest(self, field, values):
        """The value of a field with the fastest step that fits, and that step; None where none fits."""
        steps = [(self.simulated({field: value}), value) for value in values]
        fitting = [(step[0], value) for step, value in steps if step is not None and step[1]]
        return min(fitting, key=lambda f: f[0], default=None)

    def test_the_changes_are_those_that_simulating_each_finds(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        code, out, err = run("search", *self.QUESTION, *axes, "--json")
        self.assertEqual(code, 5, err)
        answer = json.loads(out)
        self.assertEqual(answer["best"], [])
        step, fits = self.simulated({})
        self.assertFalse(fits)
        self.assertEqual(answer["unlimited"]["step_time_s"], step)
        found = {next(iter(c["change"])): c for c in answer["changes"] if len(c["change"]) == 1}
        for field, values in self.UNTRIED.items():
            expected = self.fastest(field, values)
            self.assertEqual(field in found, expected is not None, (field, expected))
            if expected is not None:
                self.assertEqual((found[field]["step_time_s"], found[field]["change"][field]), expected)
                self.assertAlmostEqual(found[field]["time_over_unlimited"], expected[0] / step - 1)
        self.assertTrue({"training.recompute", "parallel.tensor"} <= set(found), found)
        more = [(devices, self.simulated({"cluster.devices": devices})) for devices in (8, 16, 32, 64, 128, 256)]
        enough = [(devices, one[0]) for devices, one in more if one is not None and one[1]]
        self.assertEqual("cluster.devices" in found, bool(enough))
        if enough:
            self.assertEqual((found["cluster.devices"]["devices"], found["cluster.devices"]["step_time_s"]), enough[0])
        costs = [c["step_time_s"] * c["devices"] for c in answer["changes"]]
        self.assertEqual(costs, sorted(costs))
        for c in answer["changes"]:
            self.assertLessEqual(c["needed_bytes"], c["device_memory_bytes"])

    def test_attention_without_a_score_matrix_is_a_change(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        plan = self.folder.plan({"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-h100", "devices": 16}, "stack": "tandem",
                                 "training": {"seq_length": 4096, "global_batch_size": 32, "flash_attention": False}})
        answer = json.loads(run("search", plan, *axes, "--json")[1])
        changes = [c for c in answer["changes"] if "training.flash_attention" in c["change"]]
        self.assertTrue(changes, answer["changes"])
        for c in changes:
            self.assertTrue(c["change"]["training.flash_attention"])
            self.assertLessEqual(c["needed_bytes"], c["device_memory_bytes"])

    def test_degrees_that_no_devices_fit_are_told(self):
        place = ("llama3-8b", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 64)
        for axes, said in ((("--axis", "tensor=16"), "tensor 16 needs a multiple of 16 devices"),
                           (("--axis", "pipeline=3,5"), "pipeline 3 or 5 needs a multiple of 3 or 5 devices"),
                           (("--axis", "tensor=4", "--axis", "pipeline=4"), "no tensor x pipeline x context goes into 8 ranks: the least is 16")):
            code, out, _ = run("search", *place, *axes)
            self.assertEqual(code, 5)
            self.assertIn("no layout goes into the number of devices, 8:\n  " + said + "\n", out)
            self.assertNotIn("whatever the memory", out)

    def test_the_text_prices_each_change(self):
        axes = [word for field, value in self.AXES.items() for word in ("--axis", f"{field}={value}")]
        _, out, _ = run("search", *self.QUESTION, *axes)
        self.assertRegex(out, r"nothing fits 79\.\d GiB; were memory no limit: [\d.]+ s a step with [\d.]+ GiB\n")
        self.assertRegex(out, r"recompute full +[\d.]+ s +\+[\d.]+ % +\+[\d.]+ % +[\d.]+ GiB")

    def test_two_changes_are_told_where_one_is_not_enough(self):
        axes = {**self.AXES, "parallel.tensor": "1", "training.micro_batch_size": "8", "parallel.zero_stage": "0"}
        plan = self.folder.plan({"model": {"preset": "llama2-7b"}, "cluster": {"preset": "dgx-a100-80gb", "devices": 1},
                                 "training": {"seq_length": 4096, "global_batch_size": 8, "micro_batch_size": 8}})
        words = [word for field, value in axes.items() for word in ("--axis", f"{field}={value}")]
        code, out, err = run("search", plan, *words, "--json", "--any-stack")
        self.assertEqual(code, 5, err)
        pairs = [c for c in json.loads(out)["changes"] if not next(iter(c["change"])).startswith("cluster.")]
        self.assertTrue(pairs, out)
        self.assertEqual({len(c["change"]) for c in pairs}, {2})


class Pareto(Searching):
    QUESTION = ("gpt-1.3b", "--seq-length", 1024, "--global-batch", 32, "--axis", "schedule=1f1b", "--axis", "virtual_pipeline=1",
                "--axis", "micro_batch_size=1,2", "--axis", "zero=0,1", "--axis", "pipeline=1,2", "--pareto")
    PLACES = ("--cluster", "dgx-h100,dgx-a100-80gb", "--devices", "8,16")

    def test_no_layout_of_the_front_is_beaten(self):
        answer = self.search(*self.QUESTION, *self.PLACES)
        self.assertEqual(answer["objectives"], ["step_time_s", "needed_bytes", "cost", "energy_kwh"])
        front = [tuple(p[o] for o in answer["objectives"]) for p in answer["pareto"]]
        for one in front:
            self.assertFalse([other for other in front if other != one and all(a <= b for a, b in zip(other, one))], one)
        self.assertEqual(len(set(front)), len(front))
        self.assertEqual(len(answer["spaces"]), 4)
        for space in answer["spaces"]:
            self.assertEqual(sum(space["counts"].values()), space["candidates"])

    def test_cost_and_energy_are_those_of_the_price_and_the_watts(self):
        def watts(device):
            facts = power["devices"][device]
            return (facts["busy_w"]["value"] + facts["host_busy_w"]["value"]) * power["pue"]["value"]

        power = json.loads((SOURCE / "topology" / "budget" / "power.json").read_text(encoding="utf-8"))
        answer = self.search(*self.QUESTION, *self.PLACES, "--price", "dgx-h100=4,dgx-a100-80gb=1.5")
        prices = {"dgx-h100": 4, "dgx-a100-80gb": 1.5}
        kilowatts = {"dgx-h100": watts("h100-sxm5-80gb") / 1000, "dgx-a100-80gb": watts("a100-sxm4-80gb") / 1000}
        for p in answer["pareto"]:
            hours = p["step_time_s"] / 3600 * p["devices"]
            self.assertAlmostEqual(p["cost"], hours * prices[p["cluster"]])
            self.assertAlmostEqual(p["energy_kwh"], hours * kilowatts[p["cluster"]])

    def test_the_front_of_places_is_that_of_their_fronts_together(self):
        whole = self.search(*self.QUESTION, *self.PLACES)
        single = [p for cluster in ("dgx-h100", "dgx-a100-80gb") for devices in (8, 16)
                  for p in self.search(*self.QUESTION, "--cluster", cluster, "--devices", devices)["pareto"]]
        figures = {tuple(p[o] for o in whole["objectives"]) for p in single}
        front = {one for one in figures if not any(other != one and all(a <= b for a, b in zip(other, one)) for other in figures)}
        self.assertEqual({tuple(p[o] for o in whole["objectives"]) for p in whole["pareto"]}, front)

    def test_an_objective_that_is_not_known_is_left_out_with_a_word(self):
        answer = self.search(*self.QUESTION[:-1], "--pareto", "--cluster", "dgx-h100", "--devices", 8, "--price-kind", "spot", "--provider", "nobody")
        self.assertEqual(answer["objectives"], ["step_time_s", "needed_bytes", "energy_kwh"])
        self.assertRegex(answer["left_out"][0], "cost is left out: .*no price is known")
        self.assertEqual({p["cost"] for p in answer["pareto"]}, {None})

    def test_a_place_without_a_price_keeps_the_figures_of_the_others(self):
        self.folder.file("slow.json", json.dumps(Search.SLOW))
        question = (*self.QUESTION, "--cluster", f"dgx-h100,{self.folder.path / 'slow.json'}", "--devices", "8")
        code, out, err = run("search", *question, "--json")
        self.assertEqual(code, 0, err)
        answer = json.loads(out)
        self.assertEqual(answer["objectives"], ["step_time_s", "needed_bytes", "cost", "energy_kwh"])
        known = {(p["cluster"] == "dgx-h100", p["cost"] is not None, p["energy_kwh"] is not None) for p in answer["pareto"]}
        self.assertIn((True, True, True), known)
        self.assertLessEqual(known, {(True, True, True), (False, False, False)})
        self.assertEqual(len(answer["left_out"]), 2)
        for line in answer["left_out"]:
            self.assertEqual(err.count(line), 1)
        front = [tuple(float("inf") if p[o] is None else p[o] for o in answer["objectives"]) for p in answer["pareto"]]
        for one in front:  # a place whose cost is not known beats no layout of which it is
            self.assertFalse([other for other in front if other != one and all(a <= b for a, b in zip(other, one))], one)
        alone = self.search(*self.QUESTION, "--cluster", "dgx-h100", "--devices", "8")["pareto"]
        self.assertEqual([p for p in answer["pareto"] if p["cluster"] == "dgx-h100"], alone)
        self.assertNotIn("is left out", run("search", *question)[1])

    def test_the_table_has_the_best_rows_and_counts_the_others(self):
        whole = len(self.search(*self.QUESTION, *self.PLACES)["pareto"])
        self.assertGreater(whole, 2)
        _, out, _ = run("search", *self.QUESTION, *self.PLACES, "--best", 2)
        self.assertRegex(out, r"step +memory +USD a step +Wh a step +devices")
        self.assertRegex(out, r"\n +2 .*\n" + f"and {whole - 2} more, slower")
        self.assertEqual(len(self.search(*self.QUESTION, *self.PLACES, "--best", 2)["pareto"]), whole)
        self.assertRegex(run("search", *self.QUESTION, *self.PLACES, "--price", 3)[1], r"memory +cost a step")

    def test_shards_of_a_front_merge_to_the_bytes_of_one_process(self):
        files = [self.path(f"{i}.json") for i in range(2)]
        for i, file in enumerate(files):
            self.assertEqual(run("search", *self.QUESTION, *self.PLACES, "--shard", f"{i}/2", "--keep", file)[0], 0)
        for form in ((), ("--json",)):
            whole = run("search", *self.QUESTION, *self.PLACES, *form)
            self.assertEqual(whole[0], 0)
            self.assertEqual(run("search", *self.QUESTION, *self.PLACES, *form, "--merge", *files), whole)

    def test_the_page_has_the_figures_of_the_front_and_asks_nothing(self):
        page = self.path("page.html")
        answer = self.search(*self.QUESTION, *self.PLACES, "--page", page)
        made = Page(page)
        self.assertEqual(made.asked, [])
        drawn = json.loads(made.data)
        self.assertEqual(drawn["pareto"], answer["pareto"])
        self.assertTrue(drawn["others"])
        self.assertIn("Pareto front", made.title)

    def test_several_places_need_a_front(self):
        for arguments, code, said in ((self.PLACES, 3, "add --pareto"), (("--cluster", "dgx-h100", "--devices", 8, "--page", "x.html"), 2, "--pareto"),
                                      (("--cluster", "dgx-h100", "--devices", 8, "--price", 3), 2, "--pareto")):
            got, _, err = run("search", *self.QUESTION[:-1], *arguments)
            self.assertEqual(got, code, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    tandem.main()
