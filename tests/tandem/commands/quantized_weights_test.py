#!/usr/bin/env python3
"""Quantized weights: FP8 by blocks is read as its product with the scales, MXFP4 is refused by name."""
import json
import struct
import sys

import tandem
from tandem import SOURCE, WithFolder, run, tandem_json

sys.path.insert(0, str(SOURCE / "tests" / "fixtures"))
import formula_weights as formula  # noqa: E402

ORACLE = json.loads((SOURCE / "tests" / "fixtures" / "transformers_losses.json").read_text())
BLOCK = 16
BALANCE = "e_score_correction_bias"  # a step moves it by model.moe.balance_rate, whatever the learning rate
QUANTIZED = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}


def e4m3(code):
    """Value of an E4M3 number: the table of arXiv 2209.05433, section 3."""
    exponent, mantissa = code >> 3 & 15, code & 7
    size = mantissa / 8 * 2.0 ** -6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -size if code & 128 else size


def codes(name, count):
    """Bytes of a matrix: values from -0.47 to 0.47, those with the least exponent among them."""
    return [k | (128 if k & 1 else 0) for k in (n % 48 for n in formula.steps(name, count))]


def scale(name, row, col):
    return (1 + (len(name) + 3 * row + 5 * col) % 7) / 8


def narrow(name, shape):
    """Whether DeepSeek-V3's files have such a tensor in 8 bits."""
    return len(shape) == 2 and ".layers." in name and not name.endswith("gate.weight")


def whole(name, shape):
    """The values that a matrix in 8 bits stands for."""
    rows, cols = shape
    numbers = [e4m3(c) for c in codes(name, rows * cols)]
    return [v * scale(name, i // cols // BLOCK, i % cols // BLOCK) for i, v in enumerate(numbers)]


def quantized(shapes):
    """A file's bytes with 8-bit matrices and their scales."""
    tensors, body = {}, b""
    for name, shape in shapes.items():
        parts = {name: ("F32", shape, formula.packed(formula.values(name, shape), "F32"))}
        if narrow(name, shape):
            across = [-(-n // BLOCK) for n in shape]
            scales = [scale(name, r, c) for r in range(across[0]) for c in range(across[1])]
            parts = {name: ("F8_E4M3", shape, bytes(codes(name, shape[0] * shape[1]))),
                     name + "_scale_inv": ("F32", across, formula.packed(scales, "F32"))}
        for key, (dtype, size, data) in parts.items():
            tensors[key] = {"dtype": dtype, "shape": list(size), "data_offsets": [len(body), len(body) + len(data)]}
            body += data
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header)) + header + body


class QuantizedWeights(WithFolder):
    def setUp(self):
        super().setUp()
        self.data = self.folder.file("tokens.bin", formula.llmc_tokens(formula.tokens()))

    def model(self, name, content, **config):
        folder = self.folder.path / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(dict(ORACLE[name.split("-")[0]]["config"], **config)))
        (folder / "model.safetensors").write_bytes(content)
        return folder

    def train(self, folder, tensor=1, **training):
        plan = self.folder.plan({"model": {"preset": str(folder / "config.json")}, "parallel": {"tensor": tensor},
                                 "training": {"seq_length": formula.LENGTH, "micro_batch_size": 1, "global_batch_size": formula.SEQUENCES,
                                              "precision": "fp32", "learning_rate": 0, "weight_decay": 0, "clip_grad": 0, **training},
                                 "cluster": {"preset": "cpu-host", "devices": 1, "override": {"ranks_per_device": tensor}}})
        return ("train", plan, "--data", self.data, "--weights", folder)

    def test_numbers_of_8_bits_are_multiplied_with_the_scales_of_their_blocks(self):
        shapes = ORACLE["deepseek_v3"]["shapes"]
        value = lambda name, shape: whole(name, shape) if narrow(name, shape) else formula.values(name, shape)
        wide = self.model("deepseek_v3-wide", formula.safetensors(shapes, value=value))
        folder = self.model("deepseek_v3-narrow", quantized(shapes), quantization_config=QUANTIZED)
        for tensor in (1, 2):
            self.assertEqual(tandem_json(*self.train(folder, tensor))["steps"][0]["loss"], tandem_json(*self.train(wide, tensor))["steps"][0]["loss"])
        saved, out = self.path("saved"), self.folder.path / "out"
        tandem_json(*self.train(folder), "--save", saved)
        tandem_json("export", saved, "--out", out, "--config", folder)
        files = [formula.read_safetensors((place / "model.safetensors").read_bytes()) for place in (out, wide)]
        self.assertEqual(*({k: v for k, v in file.items() if not k.endswith(BALANCE)} for file in files))
        self.assertNotIn("quantization_config", json.loads((out / "config.json").read_text()))

    def test_numbers_of_8_bits_without_scales_are_refused(self):
        shapes = ORACLE["deepseek_v3"]["shapes"]
        folder = self.model("deepseek_v3-alone", quantized(shapes).replace(b"q_a_proj.weight_scale_inv", b"q_a_proj.weight_scale_not"),
                            quantization_config=QUANTIZED)
        code, _, err = run(*self.train(folder))
        self.assertEqual(code, 3)
        self.assertRegex(err, r"layers.0.self_attn.q_a_proj.weight = F8_E4M3: is no type that weights are read from")
        folder = self.model("deepseek_v3-other", quantized(shapes), quantization_config={"quant_method": "awq", "bits": 4})
        code, _, err = run(*self.train(folder))
        self.assertEqual(code, 4)
        self.assertRegex(err, r"weights quantized for serving; give the weights of the model before it was quantized")

    def test_numbers_of_4_bits_are_refused_by_name_with_advice(self):
        shapes = dict(ORACLE["gpt_oss"]["shapes"])
        for layer in (0, 1):
            name = f"model.layers.{layer}.mlp.experts.gate_up_proj"
            shapes.pop(name)
            shapes |= {name + "_blocks": [4, 96, 1, 16], name + "_scales": [4, 96, 1]}
        folder = self.model("gpt_oss", formula.safetensors(shapes))
        code, _, err = run(*self.train(folder, flash_attention=True))
        self.assertEqual(code, 3)
        self.assertRegex(err, r"experts.gate_up_proj_blocks = F32: is quantized \(MXFP4\); load the model in transformers with Mxfp4Config\(dequantize=True\)")
        self.assertNotIn("unexpected", err)


if __name__ == "__main__":
    tandem.main()
