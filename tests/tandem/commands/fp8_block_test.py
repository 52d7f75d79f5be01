#!/usr/bin/env python3
"""Products in 8 bits with scales by blocks: plans that say so are read, and refused where a stack, a device or the runtime has none."""
import json

import tandem
from tandem import SMALL, TEXT, WithFolder, changed, run

INFEASIBLE = 4
LLAMA = {"model": {"preset": "llama3-8b"}, "parallel": {"tensor": 2, "data": 4, "zero_stage": 1, "sequence_parallel": True},
         "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 32, "precision": "fp8_block"},
         "cluster": {"preset": "dgx-h100", "devices": 8}}


class Blocks(WithFolder):
    def simulated(self, code=0, **changes):
        done = run("simulate", self.folder.plan(changed(LLAMA, **changes)), "--json")
        self.assertEqual(done[0], code, done)
        return json.loads(done[1]) if code == 0 else done[2]

    def test_a_plan_is_read_and_printed_back(self):
        training = self.simulated()["plan"]["training"]
        self.assertEqual((training["precision"], training["dtypes"]["compute"], training["dtypes"]["weights"]),
                         ("fp8_block", "fp8_block", "bf16"))
        self.assertNotIn("fp8_activation_inputs", training)
        self.assertIs(self.simulated(**{"training.fp8_activation_inputs": True})["plan"]["training"]["fp8_activation_inputs"], True)

    def test_it_takes_longer_than_a_scale_for_each_tensor_and_less_than_16_bits(self):
        blocks, tensors, wide = (self.simulated(**{"training.precision": p})["step_time_s"] for p in ("fp8_block", "fp8", "bf16"))
        self.assertGreater(blocks, tensors)
        self.assertLess(blocks, wide)

    def test_stacks_that_have_it_take_it_from_the_month_they_have_it(self):
        for stack in ("megatron-core", "nemo"):
            self.simulated(stack=stack)
            self.simulated(stack={"name": stack, "as_of": "2025-04"})
            err = self.simulated(INFEASIBLE, stack={"name": stack, "as_of": "2025-03"})
            self.assertIn("scales 8 bits by blocks since April 2025", err)

    def test_other_stacks_refuse_it_by_name(self):
        for stack in ("pytorch-fsdp", "torchtitan", "jax", "maxtext", "megatron-deepspeed", "aleph-scaling", "internevo", "llm.c"):
            with self.subTest(stack):
                plan = changed(LLAMA, stack=stack, **{"parallel.tensor": 1, "parallel.data": 8, "parallel.sequence_parallel": None})
                code, _, err = run("simulate", self.folder.plan(plan))
                self.assertEqual(code, INFEASIBLE, err)
                self.assertIn("training.precision", err)
                self.assertIn("fp8_block", err)

    def test_activations_inputs_too(self):
        err = self.simulated(INFEASIBLE, stack="torchtitan", **{"training.precision": "bf16", "training.fp8_activation_inputs": True})
        self.assertIn("training.fp8_activation_inputs", err)
        err = self.simulated(INFEASIBLE, stack="megatron-core", model={"preset": "gpt3-175b"},
                             **{"training.precision": "bf16", "training.fp8_activation_inputs": True})
        self.assertIn("inputs of SwiGLU alone", err)

    def test_devices_without_a_rate_refuse_it_by_name(self):
        for preset in ("dgx-a100-80gb", "dgx-b200"):
            err = self.simulated(INFEASIBLE, **{"cluster.preset": preset})
            self.assertIn("there is no published rate", err)
            self.assertIn("fp8_block", err)

    def test_the_runtime_refuses_both_by_name(self):
        for field, value, said in (("training.precision", "fp8_block", "training.dtypes.compute"),
                                   ("training.fp8_activation_inputs", True, "training.fp8_activation_inputs")):
            code, _, err = run("train", self.folder.plan(changed(SMALL, **{field: value})), "--data", TEXT)
            self.assertEqual(code, INFEASIBLE, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    tandem.main()
