#!/usr/bin/env python3
"""Searches from the command line: rows, counts, exports, shards, refusals."""
import json
import pathlib
import re
import signal
import subprocess
import time

import tandem
from tandem import PROGRAM, SMALL, WithFolder, changed, run, tandem_json

AXES = ("--axis", "virtual_pipeline=1", "--axis", "schedule=1f1b", "--axis", "zero=0,1", "--axis", "context=1")

ONE_LAYOUT = ("--axis", "tensor=1", "--axis", "pipeline=1", "--axis", "context=1", "--axis", "micro_batch_size=1", "--axis", "schedule=1f1b",
              "--axis", "virtual_pipeline=1", "--axis", "zero=1", "--axis", "recompute=none", "--axis", "sequence_parallel=false")

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

    def test_context_ranks_are_offered_where_they_can_share_the_heads_of_recurrences(self):
        for heads, offered in ((8, [1, 2, 4, 8]), (4, [1, 2, 4])):
            answer = self.search(self.folder.plan({
                "model": {"family": "llama", "num_layers": 4, "hidden_size": 256, "num_attention_heads": 8, "ffn_hidden_size": 512,
                          "vocab_size": 256, "recurrence": {"rule": "mamba2", "heads": heads, "key_heads": 2, "layers": "rrra"}},
                "parallel": {"context": "auto"}, "cluster": {"preset": "dgx-h100", "devices": 8},
                "training": {"seq_length": 32768, "micro_batch_size": 1, "global_batch_size": 8, "flash_attention": True}}))
            self.assertEqual(sorted(row["at"]["parallel.context"] for row in answer["best"]), offered)

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

    EXPERTS = ("gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024)

    def test_ways_of_rows_to_experts_are_searched_where_the_stack_has_them(self):
        place, out = (*self.EXPERTS, *ONE_LAYOUT, "--axis", "expert=16"), self.folder.path / "best.json"
        answer = self.search(*place, "--out", out)
        self.assertEqual([row["at"]["parallel.token_dispatcher"] for row in answer["best"]], ["deepep", "deepep"])
        self.assertEqual({row["at"]["parallel.overlap_experts"] for row in answer["best"]}, {False, True})
        self.assertEqual(answer["not_searched"], [])
        written = json.loads(out.read_text())["parallel"]
        self.assertEqual({field: written[field] for field in ("token_dispatcher", "overlap_experts")},
                         {field: answer["best"][0]["at"]["parallel." + field] for field in ("token_dispatcher", "overlap_experts")})
        self.assertEqual(tandem_json("simulate", out)["step_time_s"], answer["best"][0]["step_time_s"])
        text = run("search", *place)[1]
        self.assertIn("token_dispatcher deepep", text)
        self.assertRegex(text, r"\n +step .* overlap_experts")
        # Equal: a token of this model has one expert, so one copy either way.
        rows = self.search(*place, "--axis", "token_dispatcher=alltoall", "--axis", "overlap_experts=false")["best"]
        self.assertLessEqual(answer["best"][0]["step_time_s"], rows[0]["step_time_s"])

    def test_a_stack_before_deepep_and_the_overlap_goes_without(self):
        answer = self.search(*self.EXPERTS, *ONE_LAYOUT, "--axis", "expert=16", "--stack", "megatron-core@2025-04")
        for row in answer["best"]:
            self.assertFalse({"parallel.token_dispatcher", "parallel.overlap_experts"} & set(row["at"]))
        for stack, varied in (("megatron-core@2025-08", False), ("megatron-core@2025-09", True)):
            answer = self.search(*self.EXPERTS, *ONE_LAYOUT, "--axis", "expert=16", "--stack", stack)
            self.assertEqual(answer["best"][0]["at"]["parallel.token_dispatcher"], "deepep")
            self.assertEqual("parallel.overlap_experts" in answer["best"][0]["at"], varied)

    def test_a_stack_before_deepep_tells_which_dispatchers_it_has(self):
        place = ("mixtral-8x7b", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024, *ONE_LAYOUT[:2], "--axis", "pipeline=2",
                 *ONE_LAYOUT[4:], "--axis", "expert=8", "--stack", "megatron-core@2025-04")
        axis = "token_dispatcher=alltoall,allgather"
        self.assertEqual(self.search(*place)["not_searched"], [axis])
        self.assertIn(f"not searched: token_dispatcher; --axis {axis} would search them\n", run("search", *place)[1])
        answer = self.search(*place, "--axis", axis)
        self.assertEqual(answer["not_searched"], [])
        self.assertEqual({row["at"]["parallel.token_dispatcher"] for row in answer["best"]}, {"alltoall", "allgather"})

    def test_each_column_is_a_plain_word_of_the_legend_or_a_name_of_an_axis(self):
        _, out, err = run("search", *self.EXPERTS, *AXES[:-2], "--axis", "expert=4,16", "--axis", "micro_batch_size=1,2")
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

    def test_modules_that_are_computed_again_are_searched_where_there_are_experts(self):
        place = ("gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024, *ONE_LAYOUT[:14], *ONE_LAYOUT[-2:],
                 "--axis", "expert=16", "--axis", "token_dispatcher=alltoall", "--axis", "overlap_experts=false", "--axis", "recompute=selective")
        modules = {json.dumps(row["at"]["training.recompute_modules"]) for row in self.search(*place)["best"]}
        self.assertEqual(modules, {'["core_attention"]', '["norm", "moe_activation"]', '["norm", "moe", "mlp"]'})
        only = self.search(*place, "--axis", 'recompute_modules=["moe"]')["best"]
        self.assertEqual([row["at"]["training.recompute_modules"] for row in only], [["moe"]])

    def test_a_dense_model_that_hardly_fits_computes_modules_again(self):
        place = ("llama2-7b", "--cluster", "hgx-a100-40gb", "--devices", 8, "--axis", "tensor=2", "--axis", "pipeline=2", "--axis", "zero=1",
                 "--axis", "micro_batch_size=1,2", "--axis", "schedule=1f1b", "--axis", "virtual_pipeline=1", "--axis", "sequence_parallel=true")
        best = self.search(*place)["best"][0]
        self.assertEqual(best["at"]["training.recompute"], "selective")
        self.assertEqual(best["at"]["training.recompute_modules"], ["norm"])
        attention = self.search(*place, "--axis", 'recompute_modules=["core_attention"]')["best"][0]
        self.assertLess(best["step_time_s"], attention["step_time_s"])
        none = self.search(*place, "--axis", "recompute=none,full")["best"][0]
        self.assertNotIn("training.recompute_modules", none["at"])
        self.assertLess(best["step_time_s"], none["step_time_s"])

    def test_the_stage_with_most_layers_does_not_bound_the_first_ones_activations(self):
        model = {"family": "llama", "num_layers": 20, "hidden_size": 8192, "num_attention_heads": 64, "num_kv_heads": 8,
                 "ffn_hidden_size": 28672, "vocab_size": 8192}
        plan = {"model": model, "stack": "megatron-core", "parallel": {"tensor": 2, "pipeline": 8, "pipeline_split": [2, 2, 2, 2, 2, 2, 2, 6]},
                "training": {"seq_length": 4096, "micro_batch_size": "auto", "global_batch_size": 256, "recompute": "none"},
                "cluster": {"preset": "dgx-h100", "devices": 16, "override": {"memory_bytes": "72 GiB"}}}
        answer = self.search(self.folder.plan(plan), "--axis", "micro_batch_size=4")
        self.assertLess(answer["best"][0]["needed_bytes"], 71 * 2**30)  # 6 layers' states and 2 layers' activations on one rank would not fit

    def test_layers_that_do_not_divide_are_split_by_their_work_and_exported_so(self):
        model = {"family": "llama", "num_layers": 61, "hidden_size": 2048, "num_attention_heads": 16, "ffn_hidden_size": 5632, "vocab_size": 262144}
        out = self.folder.path / "best.json"
        for stages in (4, 8):
            plan = {"model": model, "stack": "megatron-core", "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 128},
                    "cluster": {"preset": "dgx-h100", "devices": 8}}
            axes = [word.replace("pipeline=1", f"pipeline={stages}") if word == "pipeline=1" else word for word in ONE_LAYOUT]
            rows = self.search(self.folder.plan(plan), *axes, "--out", out)["best"]
            split = rows[0]["at"]["parallel.pipeline_split"]
            self.assertEqual((sum(split), len(split)), (61, stages))
            self.assertLess(split[-1], min(split[1:-1]))  # the head is nine layers' work
            self.assertEqual([row["at"]["parallel.pipeline_split"] for row in rows[1:]], ["auto"])
            self.assertLess(rows[0]["step_time_s"], 0.97 * rows[1]["step_time_s"])
            self.assertEqual(json.loads(out.read_text())["parallel"]["pipeline_split"], split)
            _, text, _ = run("export", out, "--to", "megatron-core")
            layout = re.search(r"--pipeline-model-parallel-layout '([^']*)'", text)[1]
            self.assertEqual([int((re.findall(r"t\*(\d+)", part) or [part.count("t")])[0]) for part in layout.split("|")], split)
            self.assertIn("pipeline_split: layers of each stage", run("search", self.folder.plan(plan), *axes)[1])

    def test_a_framework_that_splits_layers_itself_is_offered_no_other_split(self):
        model = {"family": "llama", "num_layers": 61, "hidden_size": 2048, "num_attention_heads": 16, "ffn_hidden_size": 5632, "vocab_size": 262144}
        plan = {"model": model, "stack": {"name": "megatron-core", "as_of": "2024-03"}, "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 128},
                "cluster": {"preset": "dgx-h100", "devices": 8}}
        axes = [word.replace("pipeline=1", "pipeline=4") if word == "pipeline=1" else word for word in ONE_LAYOUT]
        self.assertNotIn("parallel.pipeline_split", self.search(self.folder.plan(plan), *axes)["best"][0]["at"])

    def test_rows_tell_modules_only_where_they_are_computed_again(self):
        _, out, err = run("search", "gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024,
                          *ONE_LAYOUT[:14], *ONE_LAYOUT[-2:], "--axis", "expert=16", "--axis", "token_dispatcher=alltoall",
                          "--axis", "overlap_experts=false", "--axis", "recompute=none,selective")
        rows = [tuple(row.split()[-2:]) for row in out.splitlines() if re.match(r" +[1-9] ", row)]
        self.assertEqual([modules for recompute, modules in rows if recompute == "none"], ["-"], out + err)
        self.assertEqual({modules for recompute, modules in rows if recompute == "selective"},
                         {'["core_attention"]', '["norm","moe_activation"]', '["norm","moe","mlp"]'}, out + err)

    def test_the_help_says_what_an_axis_may_name(self):
        _, out, _ = run("search", "--help")
        for word in ("virtual_pipeline", "flash_attention", "token_dispatcher", "a list as JSON", "widens the search"):
            self.assertIn(word, " ".join(out.split()))


    def test_a_mixture_behind_a_slow_network_is_estimated_and_answered(self):
        self.folder.file("slow.json", json.dumps(SLOW))
        row = self.search(self.folder.plan(MIXTURE), "--axis", "zero=0")["best"][0]
        self.assertAlmostEqual(row["estimate_s"] / row["step_time_s"], 1, delta=0.01)

    def test_an_estimate_that_is_far_too_long_loses_no_answer(self):
        self.folder.file("slow.json", json.dumps(SLOW))
        plan = self.folder.plan(changed(MIXTURE, model={"family": "llama", "num_layers": 2, "hidden_size": 5120, "num_attention_heads": 32, "ffn_hidden_size": 12288, "vocab_size": 256000},
                                        parallel={"tensor": 2, "pipeline": 2, "data": 2, "sequence_parallel": True, "overlap_grad_reduce": False, "zero_stage": "auto"},
                                        **{"training.micro_batch_size": 4, "training.global_batch_size": 64}))
        row = self.search(plan, "--axis", "zero=1")["best"][0]
        self.assertGreater(row["estimate_s"] / row["step_time_s"], 1.01)  # else take a plan whose estimate still is
        self.assertIn("estimates, which choose the layouts to simulate, are up to 1.2 % wrong here", run("search", plan, "--axis", "zero=1")[1])

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
        code, _, err = run("search", plan, *AXES, "--out", plan)
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

    def test_the_first_simulated_layouts_are_kept_at_once(self):
        file = self.folder.path / "kept.json"
        process = subprocess.Popen([PROGRAM, "search", "llama2-70b", "--cluster", "dgx-h100", "--devices", "256", "--global-batch", "1024",
                                    "--jobs", "1", "--keep", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        while not file.exists() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL, "it ended by itself")
        kept = json.loads(file.read_text(encoding="utf-8"))
        self.assertTrue(kept["spaces"][0]["knowledge"]["simulated"])
        self.assertFalse(kept["finished"])

    def interrupted(self, *arguments):
        """Exit code, stdout and stderr of a search of minutes that is ended when it has said for the first time how far it is."""
        process = subprocess.Popen([PROGRAM, "search", "deepseek-v3", "--cluster", "dgx-h100", "--devices", "1024", "--global-batch", "8192",
                                    "--seq-length", "4096", "--axis", "token_dispatcher=alltoall,deepep,allgather", "--axis",
                                    "overlap_experts=false,true", "--jobs", "1", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        said = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, said + err

    def test_an_interrupted_search_prints_what_it_has_found(self):
        one = "tensor=1,pipeline=16,context=1,expert=64,micro_batch_size=1,zero_stage=1"
        code, out, err = self.interrupted("--why", one)
        self.assertEqual(code, 130, err)
        self.assertRegex(out, rf"why {one}: [\d,]+ candidates\n")
        self.assertRegex(err, r"tandem: searching: [\d,]+ of [\d,]+ groups looked at, bounds of [\d,]+ sharpened, \d+ layouts simulated, 1\d\.\d s\n")
        self.assertRegex(out, r"interrupted: [\d,]+ of [\d,]+ groups looked at; a better layout may be among the others\n")
        self.assertIn("--keep FILE", err)
        self.assertNotIn("keeping", err)
        self.assertNotIn("--events N", out)
        code, out, err = self.interrupted("--json")
        answer = json.loads(out)
        for row in answer["estimated"]:
            self.assertLessEqual(row["needed_bytes"] or 0, answer["device_memory_bytes"])
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


if __name__ == "__main__":
    tandem.main()
