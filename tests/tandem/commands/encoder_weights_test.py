#!/usr/bin/env python3
"""Weights of encoders and encoder-decoders in Hugging Face's format. Losses and logits of one batch: tests/agree/pretrained_test.cpp."""
import json
import pathlib
import sys

import tandem
from tandem import SOURCE, WithFolder, changed, run, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "transformers_encoders.json").read_text())
LAYOUTS = {"one rank": {}, "tensor 2, pipeline 2": {"tensor": 2, "pipeline": 2},
           "tensor 2, data 2, zero 3": {"tensor": 2, "data": 2, "zero_stage": 3}}
DOUBLE, SINGLE = 1e-9, 1e-6  # relative, in fp64 and fp32
HEADS = ("bert.pooler.", "cls.seq_relationship.")


def sequences(oracle):
    """The tokens of the oracle's sequences, one behind the other, and the last target."""
    if "decoder_tokens" not in oracle:
        return [t for row in oracle["tokens"][0] for t in row] + [0]
    rows = zip(oracle["tokens"][0], oracle["decoder_tokens"][0])
    return [t for encoder, decoder in rows for t in encoder + decoder] + [oracle["targets"][0][-1][-1]]


class EncoderWeights(WithFolder):
    def model(self, name, folder=None, shapes=None, value=formula.values, **config):
        """A folder with the model's config.json and model.safetensors."""
        folder = self.folder.path / (folder or name.replace(" ", "-"))
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(dict(ORACLE[name]["config"], **config)))
        (folder / "model.safetensors").write_bytes(formula.safetensors(shapes or ORACLE[name]["shapes"], value=value))
        return folder

    def data(self, name):
        words = [t if name != "bert" else t % 31 for t in sequences(ORACLE[name])]  # 31 is the mask
        return self.folder.file(name.replace(" ", "-") + ".bin", formula.llmc_tokens(words))

    def plan(self, name, folder, layout=(), file="plan.json", **more):
        """One step reads all sequences and changes nothing."""
        parallel, oracle = dict(layout), ORACLE[name]
        ranks = parallel.get("tensor", 1) * parallel.get("pipeline", 1) * parallel.get("data", 1)
        training = {"seq_length": len(oracle["tokens"][0][0]), "micro_batch_size": 1, "global_batch_size": 4, "precision": "fp64",
                    "clip_grad": 0, "learning_rate": 0, "weight_decay": 0}
        if "decoder_tokens" in oracle:
            training["decoder_seq_length"] = len(oracle["decoder_tokens"][0][0])
        plan = {"model": {"preset": str(folder / "config.json")}, "parallel": parallel, "training": training,
                "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": ranks}}}
        return self.folder.plan(changed(plan, **more), file)

    def train(self, name, plan, *more):
        return run("train", plan, "--data", self.data(name), "--json", *more)

    def loss(self, name, plan, *more):
        return tandem_json("train", plan, "--data", self.data(name), *more)["steps"][0]["loss"]

    def assert_near(self, found, wanted, tolerance, what):
        self.assertLess(abs(found / wanted - 1), tolerance, f"{what}: {found} against {wanted}")

    def assert_equal_files(self, out, folder):
        mine, given = (formula.read_safetensors((place / "model.safetensors").read_bytes()) for place in (out, folder))
        self.assertEqual(mine, given)

    def refused(self, name, folder, message, code=3, plan=None):
        found, out, err = self.train(name, plan or self.plan(name, folder), "--weights", folder)
        self.assertEqual((found, out), (code, ""), err)
        self.assertRegex(err, message)

    def test_weights_begin_with_one_loss_under_every_layout_and_come_back_byte_for_byte(self):
        for name, oracle in ORACLE.items():
            folder, losses = self.model(name), []
            for number, (layout, parallel) in enumerate(LAYOUTS.items()):
                with self.subTest(model=name, layout=layout):
                    out, saved = self.folder.path / f"out-{name}-{number}", self.path(f"saved-{name}-{number}")
                    losses.append(self.loss(name, self.plan(name, folder, parallel), "--weights", folder, "--save", saved))
                    kind = oracle["config"]["model_type"]
                    done = tandem_json("export", saved, "--out", out, "--dtype", "fp32", "--type", kind)
                    self.assertEqual(done["type"], kind)
                    self.assert_equal_files(out, folder)
                    losses.append(self.loss(name, self.plan(name, out), "--weights", out))
            wanted = losses[0] if name == "bert" else oracle["loss"]  # Tandem hides other tokens than the oracle's batch
            for found in losses:
                self.assert_near(found, wanted, DOUBLE, name)

    def test_weights_are_trained_in_fp32_and_in_bf16_beside_wide_masters(self):
        for name in ("bert", "t5", "t5 gated"):
            folder = self.model(name)
            for precision, tolerance in (("fp32", SINGLE), ("bf16", 0.02)):
                with self.subTest(model=name, precision=precision):
                    out, saved = self.folder.path / f"out-{name}-{precision}", self.path(f"saved-{name}-{precision}")
                    wide = self.loss(name, self.plan(name, folder), "--weights", folder)
                    plan = self.plan(name, folder, {"data": 2, "zero_stage": 2}, **{"training.precision": precision})
                    self.assert_near(self.loss(name, plan, "--weights", folder, "--save", saved), wide, tolerance, "loss")
                    tandem_json("export", saved, "--out", out, "--dtype", "fp32")
                    self.assert_equal_files(out, folder)

    def test_exports_choose_a_type_that_says_the_plan_and_refuse_the_others(self):
        for name, wanted in (("bert", "bert"), ("t5", "t5"), ("t5 gated", "t5"), ("mt5", "t5")):
            folder, saved = self.model(name), self.path("saved-" + name)
            self.loss(name, self.plan(name, folder), "--save", saved)
            self.assertEqual(tandem_json("export", saved, "--out", self.folder.path / ("out-" + name))["type"], wanted)
        code, _, err = run("export", self.path("saved-t5"), "--out", self.path("other"), "--type", "mt5")
        self.assertEqual(code, 4, err)
        self.assertIn("model.tie_embeddings = true: type mt5 cannot say it: it has false", err)
        self.loss("bert", self.plan("bert", self.model("bert"), **{"model.norm_placement": "pre"}), "--save", self.path("pre"))
        code, _, err = run("export", self.path("pre"), "--out", self.path("other"))
        self.assertEqual(code, 4, err)
        self.assertIn("the nearest, bert, cannot say model.norm_placement", err)

    def test_a_padded_vocabulary_of_bert_comes_back_without_padding(self):
        folder, saved, out = self.model("bert"), self.path("saved"), self.folder.path / "out"
        plan = self.plan("bert", folder, {"tensor": 2, "pipeline": 2}, **{"model.pad_vocab_to": 24})  # 48 rows for 32 words
        whole = self.loss("bert", self.plan("bert", folder, file="whole.json"), "--weights", folder)
        self.assert_near(self.loss("bert", plan, "--weights", folder, "--save", saved), whole, DOUBLE, "padded")
        tandem_json("export", saved, "--out", out, "--dtype", "fp32")
        self.assert_equal_files(out, folder)

    def test_names_of_old_files_and_copies_of_tied_tensors_are_read(self):
        shapes = ORACLE["bert"]["shapes"]
        plan = self.plan("bert", self.model("bert"))
        wanted = self.loss("bert", plan, "--weights", self.model("bert"))
        now = lambda name: name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        old = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): s for n, s in shapes.items()}
        first = {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.bias": "cls.predictions.bias"}
        value = lambda name, shape: formula.values(first.get(name, now(name)), shape)
        copies = {"cls.predictions.decoder.weight": shapes[first["cls.predictions.decoder.weight"]], "cls.predictions.decoder.bias": [32],
                  "bert.embeddings.position_ids": [1, 32]}
        for what, tensors in (("old names", old), ("copies", old | copies),
                              ("a copy alone", {n: s for n, s in (shapes | copies).items() if n != "cls.predictions.bias"})):
            with self.subTest(what):
                folder = self.model("bert", "old", tensors, value)
                self.assert_near(self.loss("bert", plan, "--weights", folder), wanted, DOUBLE, what)
        self.refused("bert", self.model("bert", "other", shapes | copies),
                     r"cls.predictions.decoder.(bias|weight) = \[32(, 32)?\]: is not equal to (cls.predictions.bias|bert.embeddings.word)", plan=plan)

        shapes = ORACLE["t5"]["shapes"]
        words = {"encoder.embed_tokens.weight": [32, 64], "decoder.embed_tokens.weight": [32, 64], "lm_head.weight": [32, 64]}
        value = lambda name, shape: formula.values("shared.weight" if name in words else name, shape)
        more = words | {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": [32, 4]}
        folder = self.model("t5", "copied", shapes | more, value)
        self.assert_near(self.loss("t5", self.plan("t5", folder), "--weights", folder), ORACLE["t5"]["loss"], DOUBLE, "copies")
        self.refused("t5", self.model("t5", "other", shapes | words), r"is not equal to shared.weight")

    def test_heads_that_a_masked_language_model_lacks_are_drawn_and_told(self):
        shapes = {n: s for n, s in ORACLE["bert"]["shapes"].items() if not n.startswith(HEADS)}
        folder, saved, out = self.model("bert", shapes=shapes), self.path("saved"), self.folder.path / "out"
        for number, parallel in enumerate(LAYOUTS.values()):
            plan = self.plan("bert", folder, parallel)
            code, _, err = self.train("bert", plan, "--weights", folder, "--save", saved + str(number))
            self.assertEqual(code, 0, err)
            self.assertIn("has no weights of pooler.weight, pooler.bias, nsp.weight and nsp.bias: they begin with the plan's initial values", err)
            tandem_json("export", saved + str(number), "--out", str(out) + str(number), "--dtype", "fp32")
        all_of = [formula.read_safetensors(pathlib.Path(str(out) + str(n), "model.safetensors").read_bytes()) for n in range(len(LAYOUTS))]
        self.assertTrue(all(other == all_of[0] for other in all_of))
        given = formula.read_safetensors((folder / "model.safetensors").read_bytes())
        self.assertEqual({n: t for n, t in all_of[0].items() if not n.startswith(HEADS)}, given)
        self.assertEqual(set(all_of[0]), set(ORACLE["bert"]["shapes"]))
        half = {n: s for n, s in ORACLE["bert"]["shapes"].items() if n != "bert.pooler.dense.bias"}
        self.refused("bert", self.model("bert", "half", half), r"model.safetensors: bert.pooler.dense.bias: is missing: the plan's model wants \[32\]")

    def test_wrong_weights_are_refused_by_file_tensor_and_reason(self):
        key = "decoder.block.1.layer.1.EncDecAttention.k.weight"
        shapes = ORACLE["t5"]["shapes"]
        for what, (tensors, message) in {
                "missing": ({n: s for n, s in shapes.items() if n != key}, rf"model.safetensors: {key}: is missing: the plan's model wants \[64, 64\]"),
                "shape": (shapes | {key: [64, 32]}, rf"model.safetensors: {key} = \[64, 32\]: has another shape"),
                "unexpected": (shapes | {"decoder.block.4.layer.0.layer_norm.weight": [64]}, r"decoder.block.4.layer.0.layer_norm.weight = \[64\]: is unexpected")}.items():
            with self.subTest(what):
                self.refused("t5", self.model("t5", "wrong", tensors), message)
        untied = {n: s for n, s in ORACLE["t5 gated"]["shapes"].items() if n != "lm_head.weight"}
        self.refused("t5 gated", self.model("t5 gated", "tied", untied), r"lm_head.weight: is missing")

    def test_what_the_runtime_computes_otherwise_is_told_or_refused_by_name(self):
        folder = self.model("bert", hidden_act="gelu")
        saved, out = self.path("saved"), self.folder.path / "out"
        code, _, err = self.train("bert", self.plan("bert", folder), "--weights", folder, "--save", saved)
        self.assertEqual(code, 0, err)
        self.assertIn("GELU with the error function: the runtime computes GELU's tanh form", err)
        tandem_json("export", saved, "--out", out, "--config", folder)
        self.assertEqual(json.loads((out / "config.json").read_text())["hidden_act"], "gelu_new")
        for name, fields, message in (("t5", {"relative_attention_max_distance": 64}, "relative positions that are told apart to another distance than 128"),
                                      ("t5", {"relative_attention_num_buckets": 16}, "another number of relative buckets than 32"),
                                      ("mt5", {"tie_word_embeddings": True}, "mT5 with one matrix for words and output"),
                                      ("bert", {"is_decoder": True}, "BERT as a decoder"),
                                      ("bert", {"type_vocab_size": 0}, "an encoder without token types")):
            with self.subTest(fields):
                plan = self.plan(name, self.model(name, "said"))
                self.refused(name, self.model(name, "said", **fields), "not implemented: " + message, 4, plan)
        self.refused("bert", self.model("bert", "other", model_type="roberta"), "not implemented: an encoder without next-sentence prediction", 4)

    def test_the_mask_of_bert_may_be_any_token_of_the_vocabulary(self):
        folder = self.model("bert")
        plan = self.plan("bert", folder)
        every = self.folder.file("every.bin", formula.llmc_tokens([7 * k % 32 for k in range(65)]))
        code, _, err = run("train", plan, "--data", every, "--weights", folder)
        self.assertEqual(code, 3, err)
        self.assertIn("the data's tokens are numbers from 0 to 31, and the mask is one more; set model.vocab_size to at least 33, or --mask-token", err)
        losses = [tandem_json("train", self.plan("bert", folder, layout), "--data", every, "--weights", folder, "--mask-token", 5)["steps"][0]["loss"]
                  for layout in LAYOUTS.values()]
        for found in losses:
            self.assert_near(found, losses[0], DOUBLE, "layouts")
        other = tandem_json("train", plan, "--data", every, "--weights", folder, "--mask-token", 6)["steps"][0]["loss"]
        self.assertGreater(abs(other / losses[0] - 1), 1e-6)
        for name, mask, message in (("bert", 32, "--mask-token = 32: is beyond model.vocab_size 32"),
                                    ("t5", 5, "--mask-token = 5: only models of the bert family are trained on hidden tokens")):
            code, _, err = self.train(name, self.plan(name, self.model(name)), "--mask-token", mask)
            self.assertEqual(code, 3, err)
            self.assertIn(message, err)

    def test_a_new_t5_of_transformers_5_says_by_its_scale_that_it_is_untied(self):
        """T5Config of transformers 5 writes tie_word_embeddings true and keeps what it was in scale_decoder_outputs."""
        folder = self.model("t5 gated", tie_word_embeddings=True, scale_decoder_outputs=False)
        self.assert_near(self.loss("t5 gated", self.plan("t5 gated", folder), "--weights", folder), ORACLE["t5 gated"]["loss"], DOUBLE, "loss")


if __name__ == "__main__":
    tandem.main()
