#!/usr/bin/env python3
"""The comparison of a measured step's kernels with the simulated step: its sums, its classes, and what it refuses."""
import collections
import json
import subprocess
import sys

import tandem
from tandem import PROGRAM, SMALL, SOURCE, WithFolder, changed, run, tandem_json

MEASURED = SOURCE / "experiments" / "corpus" / "measured"
PROFILE, RECORDS = MEASURED / "h100" / "steps_by_kernel.json", MEASURED / "h100" / "train.jsonl"
SMALLEST = "h100-gpt-125m-s1024-b1"
# Names as the profiler gives them, of PyTorch 2.11 on an H100 and (FlashAttention's, CUTLASS') of earlier versions.
CLASS_OF = {
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT": "products",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>": "products",
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8": "products",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t": "attention",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1_kernel0_0": "attention",
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 11, false, false>": "attention",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>": "norms",
    "GammaBetaBackwardCUDAKernelTemplate<BFloat16, float, 32u, 32u, 256u, false, true, false>(long, long": "norms",
    "triton_per_fused_add_embedding_dense_backward_native_layer_norm_native_layer_norm_backward_nll_loss_forward_vi": "norms",
    "multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, (at": "optimizer",
    "unrolled_elementwise_kernel<CUDAFunctor_add<float>, std::array<char*, 3ul>, 4": "gradient sums",
    "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>": "gradient sums",
    "cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>": "loss",
    "unrolled_elementwise_kernel<direct_copy_kernel_cuda(TensorIteratorBase&)::{lambda()#3}": "loss",
    "vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda(TensorIteratorBase&)::{lambda(float)#1}, std::array": "loss",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >": "loss",
    "vectorized_elementwise_kernel<8, FillFunctor<BFloat16>, std::array<char*, 1ul> >(int, FillFunctor<BFloat16>": "pointwise",
    "triton_red_fused__log_softmax__to_copy_prepare_softmax_online_4": "loss",
    "vectorized_elementwise_kernel<8, CUDAFunctor_add<BFloat16>, std::array<char*, 3ul> >": "pointwise",
    "elementwise_kernel<128, 4, gpu_kernel_impl_nocast<direct_copy_kernel_cuda(TensorIteratorBase&)::{lambda()#3}": "pointwise",
    "triton_poi_fused_gelu_gelu_backward_view_5": "pointwise",
    "other": "pointwise",
}


def by_kernel(*arguments, program=PROGRAM):
    """(exit code, stdout, stderr)."""
    command = [sys.executable, MEASURED / "by_kernel.py", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def by_kernel_json(*arguments):
    return tandem.parsed("by_kernel.py", *by_kernel(*arguments, "--json"))


def committed():
    """(profile, {id: record}) of the repository."""
    records = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]
    return json.loads(PROFILE.read_text(encoding="utf-8")), {r["id"]: r for r in records}


class ByKernel(WithFolder):
    made = 0

    def given(self, rows, plan=None, name="a"):
        """Arguments of a profile and a record of it, whose step took a second."""
        plan = committed()[1][SMALLEST]["plan"] if plan is None else plan
        record = {"id": name, "plan": plan, "measured": {"step_time_s": 1.0}}
        self.made += 1
        return (self.folder.file(f"profile{self.made}.json", json.dumps({name: rows})),
                self.folder.file(f"records{self.made}.jsonl", json.dumps(record)))

    def test_classes_add_up_to_the_profile_and_to_the_simulated_step(self):
        profile, records = committed()
        found = by_kernel_json(PROFILE, RECORDS, "--only", SMALLEST)["records"]
        self.assertEqual([r["id"] for r in found], [SMALLEST])
        record, timeline = found[0], self.path("timeline.json")
        plan = self.folder.plan(records[SMALLEST]["plan"])
        self.assertEqual(run("simulate", plan, "--timeline", timeline)[0], 0)
        with open(timeline, encoding="utf-8") as file:
            saved = json.load(file)
        spans = saved["lanes"][0]["spans"]
        expected = {
            "measured_s": (sum(row["seconds"] for row in profile[SMALLEST]), records[SMALLEST]["measured"]["step_time_s"]),
            "predicted_s": (1e-12 * sum(span[8] - span[7] for span in spans), tandem_json("simulate", plan)["step_time_s"]),
        }
        for side, (kernels, step) in expected.items():
            self.assertAlmostEqual(sum(c[side] for c in record["classes"].values()), kernels, places=9)
            self.assertAlmostEqual(record["sum"][side], kernels, places=9)
            self.assertAlmostEqual(record["step"][side], step, places=9)
            self.assertAlmostEqual(record["in_no_kernel"][side], step - kernels, places=9)
            self.assertTrue(all(c[side] > 0 for c in record["classes"].values()), record)
        by_kind = collections.Counter()
        for span in spans:
            by_kind[saved["tasks"][span[0]]["kind"]] += 1e-12 * (span[8] - span[7])
        kinds_of = {"products": ["matmul"], "attention": ["flash_attention", "flash_attention_backward"],
                    "norms": ["layernorm", "layernorm_backward"], "optimizer": ["grad_norm", "clip_coefficient", "adamw"]}
        for name, kinds in kinds_of.items():
            self.assertAlmostEqual(record["classes"][name]["predicted_s"], sum(by_kind[k] for k in kinds), places=9, msg=name)

    def test_every_committed_profile_is_compared_and_the_total_is_their_sum(self):
        profile, records = committed()
        self.assertEqual(set(profile), set(records))
        everything = by_kernel_json(PROFILE, RECORDS)
        self.assertEqual([r["id"] for r in everything["records"]], list(records))
        for side in ("measured_s", "predicted_s"):
            for part in ("sum", "step", "in_no_kernel"):
                self.assertAlmostEqual(everything["total"][part][side], sum(r[part][side] for r in everything["records"]), places=9)

    def test_the_text_has_a_line_a_class_in_milliseconds_and_a_summary(self):
        code, out, err = by_kernel(*self.given([{"kernel": "nvjet_a", "calls": 1, "seconds": 0.25}]))
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], "a")
        words = {line[:14].strip(): line[14:].split() for line in lines[1:-2]}
        self.assertEqual(words["products"][0], "250.00")
        self.assertEqual((words["loss"][0], words["loss"][2]), ("0.00", "-"))
        self.assertEqual((words["sum"][0], words["in no kernel"][0], words["step"][0]), ("250.00", "750.00", "1000.00"))
        ratio = float(words["products"][1]) / 250
        self.assertAlmostEqual(float(words["products"][2]), ratio, delta=0.0051)
        start = f"predicted / measured of 1 record: products {words['products'][2]}, sum "
        self.assertEqual(lines[-1][:len(start)], start)

    def test_names_tell_kernels_classes(self):
        for name, expected in CLASS_OF.items():
            record = by_kernel_json(*self.given([{"kernel": name, "calls": 1, "seconds": 0.5}]))["records"][0]
            self.assertEqual([c for c, p in record["classes"].items() if p["measured_s"] > 0], [expected], name)

    def test_what_cannot_be_compared_is_refused_with_its_reason(self):
        good = [{"kernel": "nvjet_a", "calls": 1, "seconds": 0.25}]
        many = changed(SMALL, **{"cluster.preset": "dgx-h100"})
        torn = changed(committed()[1][SMALLEST]["plan"], **{"model.hidden_size": 770})
        missing = self.path("missing.json")
        cases = [
            (3, self.given(good, many), "a: its plan has several devices"),
            (run("simulate", self.folder.plan(torn))[0], self.given(good, torn), "a: tandem simulate exits with "),
            (3, self.given([{"kernel": "nvjet_a", "seconds": -1}]), '{"kernel": "nvjet_a", "seconds": -1}'),
            (3, self.given([]), "a has no kernels"),
            (3, (missing, RECORDS), f"{missing}: No such file"),
            (3, (RECORDS, RECORDS), f"{RECORDS}: not what is expected"),
            (3, (PROFILE, PROFILE), f"{PROFILE}: not what is expected"),
            (3, (PROFILE, RECORDS, "--only", "h100"), "--only h100: not in both"),
            (3, (self.given(good)[0], RECORDS), "no record is in both"),
            (2, (PROFILE,), "records"),
        ]
        for number, (code, arguments, message) in enumerate(cases):
            found, out, err = by_kernel(*arguments)
            self.assertEqual((found, out), (code, ""), f"{number}: {err}")
            self.assertIn(message, err)
            self.assertNotIn("Traceback", err)
        self.assertEqual(by_kernel(PROFILE, RECORDS, program=missing)[0], 2)


if __name__ == "__main__":
    tandem.main()
