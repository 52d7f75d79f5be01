"""Models of transformers_losses.json as folders of the hub, and plans that train them."""
import json
import struct
import sys

from tandem import SOURCE, WithFolder, run, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "transformers_losses.json").read_text())
LAYOUTS = {"one rank": {}, "tensor 2, pipeline 2": {"tensor": 2, "pipeline": 2},
           "tensor 2, data 2, zero 3": {"tensor": 2, "data": 2, "zero_stage": 3}}
LOSS, NORM = 1e-6, 1e-5  # relative; both sides compute in fp32
TOWERS = [name for name, oracle in ORACLE.items() if "vision_config" in oracle["config"]]


class HubWeights(WithFolder):
    def setUp(self):
        super().setUp()
        self.data = self.folder.file("tokens.bin", formula.llmc_tokens(formula.tokens()))

    def model(self, name, folder=None, dtype="F32", tensors=None, config=True):
        """A folder with the model's config.json and model.safetensors."""
        folder = self.folder.path / (folder or name.replace(" ", "-"))
        folder.mkdir(exist_ok=True)
        if config:
            (folder / "config.json").write_text(json.dumps(ORACLE[name]["config"]))
        (folder / "model.safetensors").write_bytes(formula.safetensors(ORACLE[name]["shapes"] if tensors is None else tensors, dtype))
        return folder

    def plan(self, config, layout=(), file="plan.json", **training):
        """Whose model is that of config.json, and whose one step reads all sequences."""
        parallel = dict(layout)
        ranks = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("data", 1)
        return self.folder.plan({"model": {"preset": str(config)}, "parallel": parallel,
                                 "training": {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES,
                                              "precision": "fp32", "clip_grad": 0, "learning_rate": 0, "weight_decay": 0, **training},
                                 "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": ranks}}}, file)

    def train(self, plan, *more):
        return run("train", plan, "--data", self.data, "--json", *more)

    def first_step(self, plan, *more):
        return tandem_json("train", plan, "--data", self.data, *more)["steps"][0]

    def assert_near(self, found, wanted, tolerance, what):
        self.assertLess(abs(found / wanted - 1), tolerance, f"{what}: {found} against {wanted}")

    def assert_equal_files(self, out, folder):
        """A step moves the biases that balance experts by model.moe.balance_rate, whatever the learning rate."""
        mine, given = (formula.read_safetensors((place / "model.safetensors").read_bytes()) for place in (out, folder))
        for name in [n for n in given if n.endswith("e_score_correction_bias")]:
            moved, before = (struct.unpack(f"<{t[name][1][0]}f", t.pop(name)[2]) for t in (mine, given))
            self.assertTrue(all(abs(abs(a - b) - 0.001) < 1e-6 or a == b for a, b in zip(moved, before)), name)
        self.assertEqual(mine, given)
