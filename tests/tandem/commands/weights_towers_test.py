#!/usr/bin/env python3
"""Language models beside towers begin with transformers' loss, and are exported alone or with the towers of the user's files."""
import json
import math
import pathlib

import tandem
from hub_weights import LAYOUTS, LOSS, NORM, ORACLE, TOWERS, HubWeights, formula
from tandem import changed, run, tandem_json


class Towers(HubWeights):
    def test_language_models_begin_with_the_loss_of_transformers_under_every_layout(self):
        for name in TOWERS:
            folder = self.model(name)
            for layout, parallel in LAYOUTS.items():
                with self.subTest(model=name, layout=layout):
                    step = self.first_step(self.plan(folder / "config.json", parallel), "--weights", folder)
                    self.assert_near(step["loss"], ORACLE[name]["loss"], LOSS, "loss")
                    self.assert_near(step["grad_norm"], ORACLE[name]["grad_norm"], NORM, "norm of the gradients")

    def test_a_language_model_is_exported_alone_or_with_the_towers_of_the_users_files(self):
        for name in TOWERS:
            with self.subTest(name):
                key, folder = name.replace(" ", "-"), self.model(name)
                saved, alone, whole = self.path(f"saved-{key}"), self.folder.path / f"alone-{key}", self.folder.path / f"whole-{key}"
                code, _, err = self.train(self.plan(folder / "config.json"), "--weights", folder, "--save", saved)
                self.assertEqual(code, 0, err)
                self.assertIn("a tower for pictures: the runtime computes the language model alone", err)
                tandem_json("export", saved, "--out", alone)
                again = self.plan(alone / "config.json", file="again.json")
                self.assert_near(self.first_step(again, "--weights", alone)["loss"], ORACLE[name]["loss"], LOSS, "loss of the language model")
                done = tandem_json("export", saved, "--out", whole, "--config", folder, "--max-shard-size", "60KB")
                self.assertEqual(done["parameters"], sum(math.prod(shape) for shape in ORACLE[name]["shapes"].values()))
                stored = {}
                for file in done["files"]:
                    stored |= formula.read_safetensors((whole / file).read_bytes())
                self.assertEqual(stored, formula.read_safetensors((folder / "model.safetensors").read_bytes()))
                self.assertEqual(json.loads((whole / "config.json").read_text())["text_config"], ORACLE[name]["config"]["text_config"])
                self.assert_near(self.first_step(self.plan(whole / "config.json", file="whole.json"), "--weights", whole)["loss"], ORACLE[name]["loss"], LOSS, "loss of all files")

    def test_towers_that_an_export_cannot_take_are_named(self):
        folder, saved, shapes = self.model("gemma3"), self.path("saved"), ORACLE["gemma3"]["shapes"]
        self.first_step(self.plan(folder / "config.json"), "--weights", folder, "--save", saved)
        code, _, err = run("export", saved, "--out", self.path("out"), "--type", "gemma3")
        self.assertEqual(code, 4, err)
        self.assertIn("--type = gemma3: has towers beside its language model, which a plan does not say; give --config with the folder of the whole model", err)
        self.model("gemma3", tensors={n: s for n, s in shapes.items() if n.startswith("language_model.")})
        code, _, err = run("export", saved, "--out", self.path("out"), "--config", folder)
        self.assertEqual(code, 3, err)
        self.assertIn("model.safetensors: has no tensors that begin with vision_tower. and multi_modal_projector.; give the folder of the whole model", err)
        content = formula.safetensors(dict(reversed(shapes.items())))  # a tower's tensor is the first
        (folder / "model.safetensors").write_bytes(content.replace(b'"dtype": "F32"', b'"dtype": "I32"', 1))
        code, _, err = run("export", saved, "--out", self.path("out"), "--config", folder)
        self.assertEqual(code, 3, err)
        self.assertRegex(err, r"vision_tower\.post_layernorm\.weight = I32: is no type that weights are copied in; give the model before it was quantized")
        self.assertFalse(pathlib.Path(self.path("out")).exists())
        lora = self.plan(folder / "config.json", file="lora.json", lora={"rank": 2, "alpha": 4})
        self.model("gemma3")
        self.first_step(lora, "--weights", folder, "--save", self.path("adapted"))
        code, _, err = run("export", self.path("adapted"), "--out", self.path("out"), "--to", "peft", "--config", folder)
        self.assertEqual(code, 4, err)
        self.assertIn("not implemented: adapters of a model with towers", err)

    def test_modules_of_multi_token_prediction_without_names_are_left_out(self):
        for name in ("qwen3_5_text", "qwen3_next", "qwen3_5"):
            with self.subTest(name):
                folder, config = self.model(name, tensors=ORACLE[name]["shapes"] | {"mtp.fc.weight": [32, 64]}), json.loads(json.dumps(ORACLE[name]["config"]))
                config.get("text_config", config)["mtp_num_hidden_layers"] = 1
                (folder / "config.json").write_text(json.dumps(config))
                plan = self.plan(folder / "config.json")
                if name != "qwen3_next":  # transformers' class has no such field
                    code, _, err = self.train(plan, "--weights", folder)
                    self.assertEqual(code, 4, err)
                    self.assertRegex(err, rf"mtp0.join.weight = 64 x 32: type {name} has no such weights; set model.mtp.num_layers to 0")
                without = self.folder.plan(changed(json.loads(pathlib.Path(plan).read_text()), **{"model.mtp": {"num_layers": 0}}))
                self.assert_near(self.first_step(without, "--weights", folder)["loss"], ORACLE[name]["loss"], LOSS, "loss")


if __name__ == "__main__":
    tandem.main()
