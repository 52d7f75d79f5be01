#!/usr/bin/env python3
"""Which layouts searches try: degrees, schedules, experts, modules computed again and splits of layers."""
import json
import re

import tandem
from searching import AXES, ONE_LAYOUT, SLOW, Searching
from tandem import changed, run, tandem_json

MIXTURE = {"model": {"family": "llama", "num_layers": 10, "hidden_size": 5120, "num_attention_heads": 128, "head_dim": 192, "value_dim": 128,
                     "ffn_hidden_size": 12288, "vocab_size": 102400, "latent": {"kv_rank": 512, "query_rank": 1536, "rotary_dim": 64},
                     "moe": {"num_experts": 160, "experts_per_token": 6, "ffn_hidden_size": 1536, "num_shared_experts": 2,
                             "first_dense_layers": 1}},
           "parallel": {"tensor": 4, "pipeline": 2, "expert": 4, "virtual_pipeline": 4, "schedule": "interleaved",
                        "sequence_parallel": True, "zero_stage": "auto"},
           "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 16}, "cluster": {"preset": "slow.json", "devices": 8}}


class Layouts(Searching):
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

    def test_sharding_over_one_rank_is_no_layout_of_its_own(self):
        for training in ({}, {"lora": {"rank": 4}}):  # with a closed form of the step, and without
            answer = self.search(self.folder.plan({
                "stack": "megatron-core", "model": {"preset": "llama3-8b"}, "parallel": {"tensor": 2, "pipeline": 4, "zero_stage": "auto"},
                "training": {"seq_length": 1024, "micro_batch_size": 1, "global_batch_size": 4, **training},
                "cluster": {"preset": "dgx-h100", "devices": 8}}), "--axis", "zero=0,1")
            self.assertEqual([row["at"]["parallel.zero_stage"] for row in answer["best"]], [0])

    def test_sharding_over_one_rank_is_compared_with_each_lower_stage(self):
        place = ("gpt-1.3b", "--cluster", "dgx-h100", "--devices", 8, "--global-batch", 64, "--axis", "tensor=4", "--axis", "pipeline=2",
                 *ONE_LAYOUT[4:12], "--axis", "zero=0,1,2,3", *ONE_LAYOUT[14:16], "--axis", "sequence_parallel=true")
        for stack in ("pytorch-fsdp", "torchtitan"):
            rows = self.search(*place, "--stack", stack)["best"]
            self.assertEqual({row["at"]["parallel.zero_stage"] for row in rows}, {0}, stack)

    def test_context_ranks_are_offered_where_they_can_share_the_heads_of_recurrences(self):
        for heads, offered in ((8, [1, 2, 4, 8]), (4, [1, 2, 4])):
            answer = self.search(self.folder.plan({
                "model": {"family": "llama", "num_layers": 4, "hidden_size": 256, "num_attention_heads": 8, "ffn_hidden_size": 512,
                          "vocab_size": 256, "recurrence": {"rule": "mamba2", "heads": heads, "key_heads": 2, "layers": "rrra"}},
                "parallel": {"context": "auto"}, "cluster": {"preset": "dgx-h100", "devices": 8},
                "training": {"seq_length": 32768, "micro_batch_size": 1, "global_batch_size": 8, "flash_attention": True}}))
            self.assertEqual(sorted(row["at"]["parallel.context"] for row in answer["best"]), offered)

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
            # A model without biases, which this stack's experts did not have in August 2025.
            answer = self.search("qwen3-30b-a3b", *self.EXPERTS[1:], *ONE_LAYOUT, "--axis", "expert=16", "--stack", stack)
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

    def test_modules_that_are_computed_again_are_searched_where_there_are_experts(self):
        place = ("gpt-1.3b-moe128", "--cluster", "dgx-h100", "--devices", 16, "--global-batch", 32, "--seq-length", 1024, *ONE_LAYOUT[:14], *ONE_LAYOUT[-2:],
                 "--axis", "expert=16", "--axis", "token_dispatcher=alltoall", "--axis", "overlap_experts=false", "--axis", "recompute=selective")
        modules = {json.dumps(row["at"]["training.recompute_modules"]) for row in self.search(*place)["best"]}
        self.assertEqual(modules, {'["core_attention"]', '["norm"]', '["norm", "moe_activation"]', '["norm", "moe", "mlp"]'})
        only = self.search(*place, "--axis", 'recompute_modules=["moe"]')["best"]
        self.assertEqual([row["at"]["training.recompute_modules"] for row in only], [["moe"]])

    def test_a_dense_model_that_hardly_fits_computes_modules_again(self):
        place = ("llama2-7b", "--cluster", "hgx-a100-40gb", "--devices", 8, "--axis", "tensor=2", "--axis", "pipeline=2", "--axis", "zero=1",
                 "--axis", "micro_batch_size=2", "--axis", "schedule=1f1b", "--axis", "virtual_pipeline=1", "--axis", "sequence_parallel=true")
        best = self.search(*place)["best"][0]
        self.assertEqual(best["at"]["training.recompute"], "selective")
        self.assertEqual(best["at"]["training.recompute_modules"], ["mlp"])  # its norms have no module of their own
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


if __name__ == "__main__":
    tandem.main()
