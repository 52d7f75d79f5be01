#!/usr/bin/env python3
"""Searches from the command line: rows, counts, exports and refusals."""
import json
import pathlib
import re

import tandem
from searching import AXES, ONE_LAYOUT, Searching
from tandem import SMALL, SOURCE, changed, run, tandem_json


class Search(Searching):
    def test_counts_add_up_and_rows_are_sorted(self):
        answer = self.search(self.small(), *AXES, "--best", 4)
        self.assertEqual(sum(answer["counts"].values()), answer["candidates"])
        times = [row["step_time_s"] for row in answer["best"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(times), 4)

    def test_the_exported_plan_simulates_to_the_time_of_the_first_row(self):
        out = self.folder.path / "best.json"
        answer = self.search(self.small(), *AXES, "--out", out)
        alone = tandem_json("simulate", out)
        self.assertEqual(alone["step_time_s"], answer["best"][0]["step_time_s"])
        self.assertEqual(alone["plan"]["parallel"]["data"], answer["best"][0]["at"]["parallel.data"])
        answer = self.search(self.small(), *AXES, "--stack", "pytorch-ddp@2023-05", "--out", out)
        alone = tandem_json("simulate", out)
        self.assertEqual(alone["step_time_s"], answer["best"][0]["step_time_s"])
        self.assertEqual((alone["plan"]["stack"]["name"], alone["plan"]["stack"]["as_of"]), ("pytorch-ddp", "2023-05"))

    def test_an_exported_plan_has_modules_only_where_they_are_computed_again(self):
        out = self.folder.path / "best.json"
        for recompute in ("none", "selective"):
            layout = [word.replace("recompute=none", f"recompute={recompute}") for word in ONE_LAYOUT]
            self.search(self.small(), *layout, "--axis", 'recompute_modules=["core_attention"]', "--out", out)
            training = json.loads(out.read_text())["training"]
            self.assertEqual((training["recompute"], "recompute_modules" in training), (recompute, recompute == "selective"))
            self.assertFalse([note for note in tandem_json("simulate", out)["notes"] if "changes nothing" in note])

    def test_devices_left_out_are_the_product_of_the_degrees(self):
        answers = [self.search(self.small(**{"cluster.devices": devices}), *AXES) for devices in (None, 8)]
        self.assertEqual(*answers)
        for changes in ({"parallel.tensor": "auto"}, {"parallel.data": None}):
            code, out, err = run("search", self.small(**{"cluster.devices": None, **changes}))
            self.assertEqual((code, out), (3, ""))
            self.assertIn("--devices: is missing", err)

    def test_another_cluster_keeps_the_plans_devices_and_changes(self):
        slow = {"preset": "dgx-h100", "devices": 16, "override": {"scale_out_per_node": "1 MB/s", "devices_per_node": 4}}
        plan = changed(SMALL, **{"cluster": slow, "training.precision": "bf16", "training.global_batch_size": 16})
        named = self.search(self.folder.plan(plan), *ONE_LAYOUT, "--cluster", "dgx-h200")
        written = self.search(self.folder.plan(changed(plan, **{"cluster.preset": "dgx-h200"})), *ONE_LAYOUT)
        self.assertEqual(named["best"], written["best"])
        self.assertEqual(sum("cluster.override on dgx-h200" in text for text in named["chosen"]), 1, named["chosen"])
        self.assertEqual(written["chosen"], [])
        self.assertEqual(self.search(self.folder.plan(plan), *ONE_LAYOUT, "--cluster", "dgx-h100")["chosen"], [])
        fast = self.search(self.folder.plan(changed(plan, **{"cluster.override": None})), *ONE_LAYOUT, "--cluster", "dgx-h200")
        self.assertLess(fast["best"][0]["step_time_s"], named["best"][0]["step_time_s"])
        disturbed = changed(plan, **{"cluster.perturbation": {"slow_devices": [{"rank": 0, "factor": 0.5}]}})
        told = self.search(self.folder.plan(disturbed), *ONE_LAYOUT, "--cluster", "dgx-h200")
        self.assertEqual(sum("cluster.perturbation on dgx-h200" in text for text in told["chosen"]), 1, told["chosen"])

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
        _, out, _ = run("search", self.small(), *AXES, "--why", "tensor=4,pipeline=2,zero=0,micro_batch_size=1,recompute=none,sequence_parallel=false,"
                        "pipeline_split=auto")
        self.assertIn("why tensor=4", out)
        self.assertRegex(out, r"4 candidates\n  same step as another candidate +3\n")  # sets of modules, none of which is computed again

    def test_a_plan_without_names_has_its_files(self):
        plan = self.folder.plan(changed(SMALL, name=None), "mine.json")
        self.assertEqual(self.search(plan, *AXES)["model"], "mine")
        self.assertTrue(run("search", plan, *AXES)[1].startswith("mine on 8 devices of cpu-host, "))
        one = self.folder.plan(changed(SMALL, **{"cluster.devices": 1, "parallel.tensor": 1, "parallel.pipeline": 1, "parallel.data": 1}))
        self.assertIn(" on 1 device of cpu-host, ", run("search", one, *AXES)[1])

    def test_each_column_is_a_plain_word_of_the_legend_or_a_name_of_an_axis(self):
        _, out, err = run("search", "gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024,
                          *AXES[:-2], "--axis", "expert=4,16", "--axis", "micro_batch_size=1,2")
        head = re.search(r"^ +step .*$", out, re.MULTILINE)[0].split()
        self.assertEqual(head[:6], ["step", "80", "%", "range", "memory", "MFU"], out + err)
        for name in head[6:]:
            code, _, err = run("search", self.small(), "--axis", f"{name}=[]")
            self.assertNotIn("is no field", err, name)
        full = dict(word.split() for word in re.search(r"as --axis takes them: (.*)\n", out)[1].split(", "))
        for name in head[6:]:
            if name in full:  # both names are the same axis
                self.assertIn("is given twice", run("search", self.small(), "--axis", f"{name}=1", "--axis", f"{full[name]}=1")[2])
        self.assertLessEqual({"dp", "tp", "pp", "ep", "mbs", "sp", "zero"}, set(full))
        self.assertIn("memory: of the rank that needs most", out)

    def test_the_text_says_how_to_go_on(self):
        out = self.folder.path / "best.json"
        self.assertIn("\nnext: --out best.json writes row 1 as a plan; ", run("search", self.small(), *AXES)[1])
        text = run("search", self.small(), *AXES, "--export", out)[1]
        commands = re.findall(r"`tandem (\w+) (\S+?)(?: --tokens T)?`", text[text.index("next: row 1 is in "):])
        self.assertEqual(commands, [(name, str(out)) for name in ("simulate", "explain", "plan")])
        for name, plan in commands:
            code, _, err = run(name, plan, *(("--tokens", 1e9) if name == "plan" else ()))
            self.assertEqual(code, 0, err)

    def test_rows_tell_modules_only_where_they_are_computed_again(self):
        _, out, err = run("search", "gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024,
                          *ONE_LAYOUT[:14], *ONE_LAYOUT[-2:], "--axis", "expert=16", "--axis", "token_dispatcher=alltoall",
                          "--axis", "overlap_experts=false", "--axis", "recompute=none,selective")
        rows = [tuple(row.split()[-2:]) for row in out.splitlines() if re.match(r" +[1-9] ", row)]
        self.assertEqual([modules for recompute, modules in rows if recompute == "none"], ["-"], out + err)
        self.assertEqual({modules for recompute, modules in rows if recompute == "selective"},
                         {'["core_attention"]', '["norm"]', '["norm","moe_activation"]', '["norm","moe","mlp"]'}, out + err)

    def test_the_help_says_what_an_axis_may_name(self):
        _, out, _ = run("search", "--help")
        for word in ("virtual_pipeline", "flash_attention", "token_dispatcher", "a list as JSON", "widens the search"):
            self.assertIn(word, " ".join(out.split()))

    def test_a_plan_with_a_layout_has_it_beside_the_first_row(self):
        plan = self.small()
        text = run("search", plan, *AXES)[1]
        own = re.search(r"the plan's own layout, (.*), takes (\S+ \S+) and \S+ \S+; row 1 takes (?:as long|(\S+) % (less|more))\n", text)
        self.assertIsNotNone(own, text)
        simulated, answer = tandem_json("simulate", plan), self.search(plan, *AXES)
        self.assertRegex(run("simulate", plan)[1], rf"step time +{own[2]}")
        change = 100 * (1 - answer["best"][0]["step_time_s"] / simulated["step_time_s"])
        self.assertEqual((own[3], own[4]), (f"{abs(change):.1f}", "less" if change > 0 else "more"))
        self.assertIn(own[0].strip(), answer["notes"])
        told = lambda *arguments: [n for n in self.search(*arguments)["notes"] if "own layout" in n]
        self.assertRegex(told(plan, *AXES, "--devices", 6, "--global-batch", 12)[0], "own layout, tensor 2 x pipeline 2 x .*, cannot run here: ")
        self.assertEqual(told(self.small(**{"parallel.tensor": "auto"}), *AXES), [])
        published = SOURCE / "experiments/plans/gpt3-175b-1024.json"  # its preset says the micro-batch
        axes = [w for a in ("tensor=8", "pipeline=16", "schedule=1f1b", "virtual_pipeline=1", "micro_batch_size=1", "recompute=full") for w in ("--axis", a)]
        self.assertRegex(told(published, *axes)[0], "own layout, tensor 8 x pipeline 16 x data 8, micro-batch 1, takes 31.9 s")
        self.assertEqual(told("gpt-1.3b", "--cluster", "dgx-h100", "--devices", 8, *ONE_LAYOUT), [])

    def test_threads_do_not_change_a_byte(self):
        texts = [run("search", self.small(), *AXES, "--json", "--jobs", jobs)[1] for jobs in (1, 2)]
        self.assertEqual(texts[0], texts[1])

    def test_a_name_that_leaves_out_parts_or_dashes_is_recognized(self):
        for said, meant in (("llama8b", '"llama3-8b"'), ("llama-70b", '"llama2-70b" or "llama3-70b"'), ("qwen30b", '"qwen3-30b-a3b"'),
                            ("Llama-3-405B", '"llama3-405b"'), ("gptoss", '"gpt-oss-120b" or "gpt-oss-20b"'), ("deepseekv3", '"deepseek-v3"'),
                            ("mixtral", '"mixtral-8x22b" or "mixtral-8x7b"'), ("lama3-8b", '"llama3-8b"')):
            self.assertIn(f"did you mean {meant}?", run("search", said, "--cluster", "dgx-h100", "--devices", 8)[2])
        self.assertIn('did you mean "dgx-h100"?', run("search", "llama3-8b", "--cluster", "dgxh100", "--devices", 8)[2])

    def test_a_missing_cluster_hides_no_missing_devices(self):
        for arguments, said in (((), "--cluster and --devices: are missing"), (("--devices", 64), "--cluster: is missing"),
                                (("--cluster", "dgx-h100"), "--devices: is missing")):
            code, out, err = run("search", "llama3-8b", *arguments)
            self.assertEqual((code, out), (3, ""))
            self.assertIn(said, err)

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
        for devices, batch in ((4096, 2048), (9000, 2250), (2003 * 2, 2003)):  # more devices than sequences: other degrees take factors of them
            code, out, _ = run("search", "gpt-1.3b", "--cluster", "dgx-h200", "--devices", devices, "--changes", 0,
                               *("--axis=" + axis for axis in ("tensor=1,2,4", "pipeline=1", "context=1", "micro_batch_size=1", "zero=1", "recompute=none",
                                                               "schedule=1f1b", "virtual_pipeline=1", "sequence_parallel=false")))
            self.assertEqual(code, 0, out)
            self.assertIn(f"global batch {batch:,} x", out)
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
        _, out, _ = run("search", *place, *("zero=0" if word == "zero=1" else word for word in layout))
        self.assertIn("training.dtypes of row 1: master bf16 and optimizer_state bf16\n", out)

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
        code, _, err = run("search", plan, *AXES, "--out", plan)
        self.assertEqual(code, 3, err)
        self.assertEqual(pathlib.Path(plan).read_text(encoding="utf-8"), before)


if __name__ == "__main__":
    tandem.main()
