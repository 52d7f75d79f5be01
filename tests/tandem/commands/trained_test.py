#!/usr/bin/env python3
"""Eight steps of training have the losses and gradient norms of transformers, PEFT and torch.optim, under every layout."""
import json
import pathlib
import sys

import tandem
from tandem import SOURCE, WithFolder, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

MODELS = json.loads((SOURCE / "tests" / "fixtures" / "transformers_losses.json").read_text())
ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "training_losses.json").read_text())
LAYOUTS = {"one rank": {}, "sequence parallel, pipeline 2": {"tensor": 2, "pipeline": 2, "sequence_parallel": True},
           "tensor 2, data 2, zero 3": {"tensor": 2, "data": 2, "zero_stage": 3}}
LOSS, NORM = 3e-6, 5e-5  # relative, of fp32 after eight steps; a step without one parameter's decay differs by 1e-4
TARGETS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "proj", "gate_proj": "gate", "up_proj": "up", "down_proj": "fc2"}


class Trained(WithFolder):
    def setUp(self):
        super().setUp()
        self.data = self.folder.file("tokens.bin", formula.llmc_tokens(formula.tokens()))

    def write(self, folder, said, name, shapes):
        """A folder with a configuration and a file of weights."""
        folder.mkdir(exist_ok=True)
        (folder / f"{'adapter_' * ('peft_type' in said)}config.json").write_text(json.dumps(said))
        (folder / name).write_bytes(formula.safetensors(shapes))
        return folder

    def model(self, oracle):
        name = oracle["model"]
        return self.write(self.folder.path / name.replace(" ", "-"), MODELS[name]["config"] | oracle.get("changes", {}), "model.safetensors",
                          oracle.get("tensors", MODELS[name]["shapes"]))

    def train(self, case, layout, model=None, **changes):
        oracle, folder = ORACLE[case], self.model(ORACLE[case])
        training, more = oracle["training"] | changes, []
        if "adapter" in oracle:
            said = oracle["adapter"]
            scale = said["lora_alpha"] / (said["r"] ** 0.5 if said["use_rslora"] else said["r"])
            training["lora"] = {"rank": said["r"], "alpha": scale * said["r"], "targets": [TARGETS[m] for m in said["target_modules"]]}
            more = ["--adapter", self.write(self.folder.path / "adapter", said, "adapter_model.safetensors", oracle["shapes"])]
        ranks = layout.get("tensor", 1) * layout.get("pipeline", 1) * layout.get("data", 1)
        plan = self.folder.plan({"model": {"preset": str(folder / "config.json")} | (model or {}), "parallel": layout,
                                 "training": {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES,
                                              "precision": "fp32", **training},
                                 "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": ranks}}})
        return tandem_json("train", plan, "--data", self.data, "--weights", folder, "--steps", len(oracle["losses"]), *more)["steps"]

    def assert_steps(self, steps, oracle):
        for key, wanted, tolerance in (("loss", oracle["losses"], LOSS), ("grad_norm", oracle["norms"], NORM)):
            off = max(abs(s[key] / w - 1) for s, w in zip(steps, wanted, strict=True))
            self.assertLess(off, tolerance, key)

    def test_losses_and_gradient_norms_of_every_step_are_pytorchs(self):
        for case, oracle in ORACLE.items():
            for label, layout in LAYOUTS.items() if case != "balanced" else ():
                with self.subTest(case=case, layout=label):
                    self.assert_steps(self.train(case, layout), oracle)

    def test_one_layer_of_experts_is_balanced_as_in_transformers_at_its_coefficient_times_a_tokens_experts(self):
        oracle, name = ORACLE["balanced"], ORACLE["balanced"]["model"]
        moe = {"aux_loss": oracle["changes"]["router_aux_loss_coef"] * MODELS[name]["config"]["num_experts_per_tok"]}
        self.assert_steps(self.train("balanced", {}, {"moe": moe}, micro_batch_size=formula.SEQUENCES), oracle)


if __name__ == "__main__":
    tandem.main()
