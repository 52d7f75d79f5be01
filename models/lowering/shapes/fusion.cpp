#include "models/lowering/shapes/fusion.hpp"

#include <array>

#include "models/stack/dropout_masks.hpp"

namespace tandem::lowering {
namespace {

// PyTorch modules as Hugging Face's modeling_gpt2.py and modeling_llama.py (transformers 4.40) write them, one kernel
// an operation. What PyTorch itself has one kernel for stays one: linear layers with their bias (torch.addmm), layer
// norm, GELU, softmax, scaled_dot_product_attention (here: flash attention). Its layer norm has a kernel for the
// input's gradient and one for the parameters' (aten/src/ATen/native/cuda/layer_norm_kernel.cu), and autograd adds a
// residual's gradient by itself. Autograd keeps operands until their consumers ran: the packed projection lives on through
// the values' view while queries and keys have rotated copies, silu's output is an operand of the product, RMSNorm's are its input made
// fp32 and the normed rows made narrow, but not the narrow input (6 bytes an element for 2), and backward
// through log_softmax and nll_loss in fp32 holds three tensors of logits at once: 12 bytes a logit, before the gradient is made narrow
// (measured, experiments/measured/h200).
constexpr Fusion eager() {
  Fusion f;
  f.scores_scaled_apart = f.mask_apart = f.attention_dropout_apart = f.dropout_apart = true;
  f.gate_apart = f.rms_apart = f.rotary_apart = f.norm_gradients_apart = f.residual_gradient_apart = true;
  f.rotated_copies = f.norm_copies = f.dropout_masks = f.gate_kept = f.loss_copies = true;
  return f;
}

// The same with torch.nn.functional.rms_norm or torch.nn.RMSNorm, one kernel on CUDA since PyTorch 2.9: aten::_fused_rms_norm, which in
// 2.8 only Metal had (aten/src/ATen/native/native_functions.yaml of both; pytorch/pytorch pull request 153666). It is layer norm's
// without a mean, and so are its two of the backward pass: in a profiled step of PyTorch 2.11 on one H100 vectorized_layer_norm_kernel,
// layer_norm_grad_input_kernel_vectorized and GammaBetaBackwardCUDAKernelTemplate each ran once a norm (experiments/measured/train_gpt.py
// with --kernels). Autograd keeps the input, which the residual's sum is anyway, and its second result, a number in fp32 a row
// (tools/autograd/derivatives.yaml, _fused_rms_norm): measured so, 41.9 bytes a layer, token and hidden element of a LLaMA
// (experiments/measured/h200).
constexpr Fusion eager_fused_rmsnorm() {
  Fusion f = eager();
  f.rms_apart = f.norm_copies = false;
  return f;
}

// Megatron-LM's own kernels, all on by default (megatron/training/arguments.py): bias_gelu_fusion and
// bias_swiglu_fusion, bias_dropout_fusion (megatron/core/fusions), masked_softmax_fusion (fused_softmax.py: scale in
// the product, mask and softmax in one kernel; dropout is a module of its own,
// core/transformer/dot_product_attention.py), apply_rope_fusion. Norms are Apex's or Transformer Engine's, with kernels
// apart for the two gradients; autograd adds the residual's. The loss writes over the fp32 copy of the logits
// (bigscience-workshop/Megatron-DeepSpeed, megatron/mpu/cross_entropy.py: sub_, exp with out, div_), which the engine of DeepSpeed, whose
// fork this is of, goes on referring to: the last of its stages returns from a backward pass before the line that lets go of the forward
// pass' outputs, and has two buffers of these however few stages there are (deepspeed/runtime/pipe/engine.py, _exec_backward_pass, and
// schedule.py, TrainSchedule.num_pipe_buffers; alike from v0.3.16 to v0.6.0). DeepSpeed adds bf16 gradients to the fp32 ones when the whole backward pass of a micro-batch has run, each through an fp32 copy
// (deepspeed/runtime/bf16_optimizer.py, commit 56c522386, update_hp_grads: add_(lp.grad.data.to(hp_grad.dtype))). Its collectives
// of ZeRO 1 copy 5e8 elements at a time into one tensor (deepspeed/runtime/zero/constants.py, reduce_bucket_size and
// allgather_bucket_size), which bigscience-workshop/bigscience's train/tr11-176B-ml leaves so; cached_tensors.cpp has the rest. Gates and
// rotations are PyTorch's operations in that fork (megatron/model/transformer.py, swiglu: F.silu(x[0]) * x[1];
// megatron/model/rotary_pos_embedding.py, apply_rotary_pos_emb), as they were in Megatron-LM until the end of 2023.
constexpr Fusion megatron_2021() {
  Fusion f;
  f.bias_activation = true;
  f.attention_dropout_apart = f.norm_gradients_apart = f.residual_gradient_apart = f.rotated_copies = true;
  f.dropout_masks = f.narrow_gradients = f.gradients_cast_apart = true;
  f.gate_apart = f.gate_kept = f.rotary_apart = true;
  f.kept_logits = 2;
  f.collective_elements = 500'000'000;
  return f;
}

// Since 13 February 2022 (commit "gradient accumulation fusion") products add gradients too
// (core/tensor_parallel/layers.py, wgrad_gemm_accum_fp32). DeepSpeed's fork has that commented out
// (deepspeedai/Megatron-DeepSpeed, the same file). Its experts weight their rows before the second product since April 2025 (commit
// 2659630721, "Memory efficient token permutation": core/transformer/moe/experts.py, bias_act_func, and core/transformer/mlp.py,
// per_token_scale): a gated activation does so in its kernel, any other one is an operand of a product of its own and is kept for the
// weights' gradients, which no longer need the rows that come back.
constexpr Fusion megatron() {
  Fusion f = megatron_2021();
  f.accumulating_products = f.weighted_activations = true;
  f.narrow_gradients = f.gradients_cast_apart = f.gate_apart = f.gate_kept = f.rotary_apart = false;
  f.kept_logits = f.collective_elements = 0;
  return f;
}

// The same with --no-masked-softmax-fusion and --apply-query-key-layer-scaling, which puts the softmax in fp32
// (megatron/core/fusions/fused_softmax.py, forward_torch_softmax: float(), times the layer's scale, softmax, half(); autograd keeps the
// softmax's fp32 output, and its backward pass has two more of these beside the narrow gradient).
constexpr Fusion megatron_wide_softmax() {
  Fusion f = megatron();
  f.softmax_widened = true;
  return f;
}

// Transformer Engine's linear layer asks cuBLAS for the bias' gradient with that of the matrix (NVIDIA/TransformerEngine,
// transformer_engine/common/gemm/cublaslt_gemm.cu, CUBLASLT_EPILOGUE_BGRADB), and its attention is cuDNN's
// (transformer_engine/pytorch/attention, backend FusedAttention on Hopper and later). Where products add to the gradients' sums,
// autograd is given another tensor in the gradient's place: of a layer's matrices one of each shape that is kept for good
// (transformer_engine/pytorch/module/base.py, get_dummy_wgrad, since 2.3), of the output matrix, which is Megatron-LM's own, a
// new one each time (megatron/core/tensor_parallel/layers.py, grad_added_to_main_grad). Its products have a workspace beside
// PyTorch's, 32 MiB on Hopper and later, and where they overlap collectives one for each of three streams (base.py, get_workspace
// and initialize_ub). Who runs it with gradients in bf16 is NeMo (stacks/megatron-core.json), whose distributed Adam keeps the lower
// 16 bits of the masters of bf16 weights (NVIDIA/NeMo, nemo/collections/nlp/models/language_modeling/megatron_base_model.py,
// setup_optimization: store_param_remainders; NVIDIA/apex, apex/contrib/optimizers/distributed_fused_adam.py). Its parameters have no
// grad_added_to_main_grad (NVIDIA/NeMo v2.0.0: nemo/core/optim/distributed_adam.py), so nothing stands for their gradients.
constexpr Fusion transformer_engine() {
  Fusion f = megatron();
  f.bias_gradient_in_product = f.gradient_stand_ins = f.master_remainders = true;
  f.product_workspace = 32 << 20;
  return f;
}

// The same with Transformer Engine's cross-entropy, which keeps the 16-bit logits and writes their gradient over them
// (transformer_engine/pytorch/cross_entropy.py and triton/cross_entropy.py), and with Megatron-Core's distributed optimizer, whose
// masters are whole (megatron/core/optimizer/distrib_optimizer.py).
constexpr Fusion megatron_bridge() {
  Fusion f = transformer_engine();
  f.master_remainders = false;
  f.one_kernel_loss = f.loss_in_place = true;
  return f;
}

// A graph compiler puts chains of elementwise work, and the reduction that ends one, into one kernel: TorchInductor
// (Ansel et al., PyTorch 2, ASPLOS 2024, section 4.4), XLA (openxla.org/xla/gpu_architecture, fusion), Gaudi's graph
// compiler and Neuron's.
constexpr Fusion compiled() {
  Fusion f;
  f.residual_norm = f.one_kernel_loss = true;
  return f;
}

// Blocks compiled, the loss outside of them and kept as in the eager set: torchtitan until 2025 (train.py of December 2024:
// F.cross_entropy of pred.float(), "compiling loss function causes CUDA errors, turning off for now"), and fms-fsdp, whose loss stands
// outside of the compiled model (main_training_llama.py, fms_fsdp/utils/train_utils.py).
constexpr Fusion compiled_blocks() {
  Fusion f = compiled();
  f.one_kernel_loss = false;
  f.loss_copies = true;
  return f;
}

// karpathy/llm.c, train_gpt2.cu: matmul_backward adds with beta = 1, fused_residual_forward5 sums and normalises,
// fused_classifier has loss and gradient, layernorm_backward adds to the residual's gradient. Its softmax has no
// dropout; its attention is cuDNN's where it is built with it (Makefile, USE_CUDNN; llmc/cudnn_att.cpp).
constexpr Fusion llm_c() {
  Fusion f;
  f.accumulating_products = f.residual_norm = f.one_kernel_loss = f.loss_in_place = true;
  return f;
}

// PyTorch's modules with the cross-entropy kernel of flash-attn (mosaicml/llm-foundry, llmfoundry/models/mpt/modeling_mpt.py,
// loss_fn: fused_crossentropy by default, without inplace_backward). Two metrics, LanguageCrossEntropy and LanguagePerplexity, are on
// by default (use_train_metrics), and the trainer updates both from the logits after every micro-batch's backward pass
// (mosaicml/composer, composer/trainer/trainer.py, _train_microbatch and _eval_train_metrics): each is PyTorch's cross_entropy,
// which autocast has in fp32 (composer/metrics/nlp.py). Attention is flash-attn's in Triton
// (scripts/train/benchmarking/submit_benchmarks.py, attn_impl is triton by default from 2023-05-03 to 2024-01-06 at least; sweep.py of
// that day, for 128 and more H100, has FlashAttention 2 for 1B to 7B).
constexpr Fusion llm_foundry() {
  Fusion f = eager();
  f.one_kernel_loss = true;
  f.loss_copies = false;
  f.metrics = 2;
  return f;
}

// InternEvo's models with flash-attn's modules, and PyTorch's AdamW on fp32 copies of 16-bit gradients (which the fp32 gradients
// stand for), whose denominator is two tensors at once (torch/optim/adamw.py, 1.13 and 2.0: the root, and its quotient by the
// bias correction or its sum with epsilon). The 16-bit gradients lie apart from those copies; HybridZeroOptimizer has also had an
// fp32 copy of each for the norm and a flat 16-bit one (internlm/solver/optimizer/hybrid_zero_optim.py and utils.py,
// reduce_grads; tag v0.2.1dev20231121), while FSDPadaptOptimizer's copies for the norm have the sizes of the later ones
// (fsdp_optimizer.py). Norms are Apex's, called with what they read made fp32 (internlm/model/modeling_internlm.py,
// _dropout_and_norm_attn and _dropout_and_norm_ffn: norm(_residual.float())). Its sharded weights are FSDP1's
// (internlm/train/training_internlm.py, wrap_FSDP_model). Attention was FlashAttention 1's until 2024-01-29, when flash-attn 1.0.5
// became 2.2.1 (third_party/flash-attention, commit 87445e3).
constexpr Fusion internevo() {
  Fusion f;
  f.norm_widened = true;
  f.step_bytes = 8;
  f.cached_bytes = 8;
  f.cached_sharded_bytes = 2;
  f.sharded_streams = true;
  return f;
}

// In the order of FusionSet.
constexpr std::array<Fusion, 13> kSets{Fusion{},   eager(), megatron_2021(), megatron(),        transformer_engine(),
                                       compiled(), llm_c(), llm_foundry(),   megatron_bridge(), internevo(), compiled_blocks(),
                                       megatron_wide_softmax(), eager_fused_rmsnorm()};

constexpr bool masks_agree() {
  for (std::size_t i = 0; i < kSets.size(); ++i)
    if (kSets[i].dropout_masks != keeps_dropout_masks(static_cast<FusionSet>(i))) return false;
  return true;
}
static_assert(masks_agree());

}  // namespace

const Fusion& fusion_of(FusionSet set) { return kSets.at(static_cast<std::size_t>(set)); }

DType held_master(const Fusion& set, const DTypes& types) {
  const bool narrow = types.weights == DType::bf16 && types.gradients == DType::bf16;
  return set.master_remainders && narrow && types.master == DType::fp32 ? DType::bf16 : types.master;
}

bool has_stand_ins(const Fusion& set, const DTypes& types) {
  return set.gradient_stand_ins && !(set.master_remainders && types.gradients == DType::bf16);
}

}  // namespace tandem::lowering
