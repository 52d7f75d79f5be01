#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/fields/fusion_file.hpp"
#include "models/fields/plan_field_makers.hpp"

#define AT(member) ([](auto& p) -> auto& { return p.member; })

namespace tandem {
namespace {

constexpr std::array<std::string_view, 3> kUnits{"steps", "samples", "tokens"};
constexpr std::array<std::string_view, 9> kComputeTypes{"fp64", "fp32",      "tf32",  "bf16", "fp16",
                                                        "fp8",  "fp8_block", "mxfp8", "nvfp4"};
constexpr std::array<std::string_view, 9> kStateTypes{"fp64", "fp32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4", "dynamic8"};
constexpr std::array<std::string_view, 8> kStoredTypes{"fp64", "fp32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4"};

nlohmann::json schema_of_sets() {
  return {{"type", "string"}, {"enum", fusion_set_names()}};
}

/// A file of models/stacks/fusions, or of the same folder of TANDEM_PRESETS.
PlanField fusion() {
  PlanField f{"training.fusion", "Set of fused kernels of a framework.", "that of the stack",
              false, {}, {}, schema_of_sets};
  f.read = [](const nlohmann::json& v, Plan& p) -> std::optional<Refusal> {
    if (!v.is_string()) return Refusal{"must be a string, not " + kind_text(v), "use " + list_text(fusion_set_names(), "or")};
    const std::string name = v.get<std::string>();
    if (find_preset("models/stacks/fusions", name).empty()) return Refusal{"is no fusion set", "use " + list_text(fusion_set_names(), "or")};
    p.training.fusion = fusion_set(name);
    return std::nullopt;
  };
  f.write = [](const Plan& p) { return nlohmann::json(p.training.fusion.name); };
  return f;
}

std::vector<PlanField> size_fields() {
  return {
      integer({"training.seq_length", "Tokens of a sequence; of the encoder for t5."}, AT(training.seq_length),
              {1, kMaxSequence})
          .must(),
      integer({"training.decoder_seq_length", "Tokens of a decoder sequence; t5 only, at least 1."},
              AT(training.decoder_seq_length), {0, kMaxSequence})
          .otherwise("0; t5: training.seq_length"),
      integer({"training.micro_batch_size", "Sequences of one micro-batch, on each data rank."},
              AT(training.micro_batch_size), {1, kMaxDegree})
          .must(),
      integer({"training.global_batch_size", "Sequences of one optimizer step, all data ranks together."},
              AT(training.global_batch_size), {1, kMaxBatch})
          .must(),
  };
}

/// Printed only where tokens travel as copies, so that other plans read as if there were none.
PlanField dispatch_type() {
  PlanField f = element_type({"training.dtypes.dispatch", "Tokens and gradients on their way to experts; token_dispatcher deepep."},
                             AT(training.dtypes.dispatch), kStoredTypes);
  f.write = [write = std::move(f.write)](const Plan& p) { return p.sends_copies() ? write(p) : nlohmann::json(); };
  return std::move(f).otherwise("the type of activations");
}

std::vector<PlanField> precision_fields() {
  return {
      word({"training.precision", "Shorthand that fills dtypes."}, AT(training.precision), kPrecisions),
      element_type({"training.dtypes.compute",
                    "Operands of matrix products. fp8_block has one scale for 1 x 128 elements of activations and gradients, and for 128 x 128 of weights. Not counted: reading scales, gathering them over tensor ranks, and casting weights."},
                   AT(training.dtypes.compute), kComputeTypes),
      element_type({"training.dtypes.weights", "Weights as the forward pass reads them."}, AT(training.dtypes.weights),
                   kStoredTypes),
      element_type({"training.dtypes.gradients", "Accumulated gradients; default: the stack's."}, AT(training.dtypes.gradients),
                   kStoredTypes),
      element_type({"training.dtypes.gradient_reduce", "Gradients in data-parallel reductions; default: the stack's."},
                   AT(training.dtypes.gradient_reduce), kStoredTypes),
      dispatch_type(),
      element_type({"training.dtypes.master", "The optimizer's weights; if equal to training.dtypes.weights, there is no second copy."},
                   AT(training.dtypes.master), kStoredTypes),
      element_type({"training.dtypes.optimizer_state",
                    "The optimizer's moments. dynamic8 is that of 8-bit AdamW: a code for each, and an fp32 scale for 256."},
                   AT(training.dtypes.optimizer_state), kStateTypes),
  };
}

/// Printed only where losses are scaled, so that other plans read as if there were none.
PlanField scaling(PlanField f, const std::string& otherwise) {
  f.write = [write = std::move(f.write)](const Plan& p) { return p.training.scales_loss() ? write(p) : nlohmann::json(); };
  return std::move(f).otherwise(otherwise + "; fp16 only");
}

std::vector<PlanField> rounding_fields() {
  PlanField stochastic =
      flag({"training.stochastic_rounding",
            "Weights and moments stored only in 16 bits are rounded stochastically (unbiased)."},
           AT(training.stochastic_rounding));
  stochastic.write = [](const Plan& p) {
    return p.training.rounds_states() ? nlohmann::json(p.training.stochastic_rounding) : nlohmann::json();
  };
  return {
      scaling(number({"training.loss_scale.initial", "Factor on the loss of the first step; a power of two."},
                     AT(training.loss_scale.initial), {1, 0x1p100}),
              "4294967296"),
      scaling(number({"training.loss_scale.minimum", "Smallest factor; a power of two."}, AT(training.loss_scale.minimum), {0x1p-24, 0x1p100}),
              "1"),
      scaling(integer({"training.loss_scale.window", "Steps in a row with finite gradients after which the factor doubles."},
                      AT(training.loss_scale.window), {1, kMaxCount}),
              "1000"),
      scaling(integer({"training.loss_scale.hysteresis",
                       "Steps with non-finite gradients since the factor last grew, from which on each of them halves it."},
                      AT(training.loss_scale.hysteresis), {1, kMaxCount}),
              "2"),
      std::move(stochastic).otherwise("true"),
  };
}

/// Printed only where it is set, so that other plans read as if there were none.
PlanField fp8_activation_inputs() {
  PlanField f = flag({"training.fp8_activation_inputs",
                      "The kept input of an MLP's or an expert's activation is cast to 8 bits, and back in the backward pass."},
                     AT(training.fp8_activation_inputs));
  f.write = [](const Plan& p) { return p.training.fp8_activation_inputs ? nlohmann::json(true) : nlohmann::json(); };
  return std::move(f).otherwise("false");
}

/// Printed only where there are several, so that other plans read as if there were none.
PlanField loss_chunks() {
  PlanField f = integer({"training.loss_chunks",
                         "Parts of a micro-batch's tokens that have logits, loss and their gradients one after the other, so that no "
                         "rank holds all logits; an evaluation has them whole; default: the stack's."},
                        AT(training.loss_chunks), {1, 1024});
  f.write = [](const Plan& p) { return p.training.loss_chunks > 1 ? nlohmann::json(p.training.loss_chunks) : nlohmann::json(); };
  return std::move(f).otherwise("1");
}

std::vector<PlanField> memory_fields() {
  PlanField modules{
      "training.recompute_modules",
      "What selective recomputation repeats. operations: all but matrix products; block: the whole layer, as recompute full does.",
      "[]; selective: [core_attention]",
      false,
      {},
      {},
      [] {
        return nlohmann::json{{"type", "array"}, {"uniqueItems", true}, {"items", schema_of_choice(kRecomputeModules)}};
      }};
  modules.read = [](const nlohmann::json& v, Plan& p) {
    return read_choices(v, kRecomputeModules, p.training.recompute_modules);
  };
  modules.write = [](const Plan& p) { return nlohmann::json(p.training.recompute_modules); };
  return {
      choice({"training.recompute", "Activations that are computed again in the backward pass."},
             AT(training.recompute)),
      integer({"training.recompute_layers", "Layers of a stage that recompute; 0 is all."},
              AT(training.recompute_layers), {0, kMaxLayers}),
      std::move(modules),
      flag({"training.recompute_every_second_matmul",
            "With recompute_modules operations: every second matrix product is also repeated, attention only if core_attention is listed; default: the stack's."},
           AT(training.recompute_products)),
      fp8_activation_inputs(),
      flag({"training.recompute_early_stop",
            "A layer, MLP or mixture of experts runs again only as far as the backward pass needs its results, without its last product unless a dropout with a mask follows it; default: the stack's."},
           AT(training.recompute_early_stop)),
      flag({"training.flash_attention", "Attention in one kernel that keeps no score matrix; default: the stack's."},
           AT(training.flash_attention)),
      choice({"training.attention_kernel",
              "Kernel of attention without a score matrix: flash1 and flash2 are FlashAttention's versions, triton is flash-attn's in Triton, tuned one for the "
              "device's generation (cuDNN's, FlashAttention 3), own is Tandem's."},
             AT(training.attention_kernel))
          .otherwise("that of training.fusion, or own where libraries have none; default: the stack's"),
      fusion(),
      choice({"training.cuda_graphs",
              "What the host launches as one captured graph: each layer's passes, or a step's whole forward and backward pass."},
             AT(training.cuda_graphs)),
      flag({"training.deterministic", "Only kernels and collectives that give the same bits in every run; on CPUs Tandem's own always do."},
           AT(training.deterministic)),
      flag({"training.fill_uninitialized_memory",
            "With training.deterministic: every tensor is filled before it is written, as PyTorch does by default; default: the stack's."},
           AT(training.fill_uninitialized_memory)),
      flag({"training.launch_blocking",
            "Every launch returns when the device is done (CUDA_LAUNCH_BLOCKING), so a collective's inputs are free at once. Only the reserved memory that validate judges depends on it; its time cost is not simulated."},
           AT(training.launch_blocking)),
      flag({"training.expandable_segments",
            "The framework's allocator expands a segment instead of taking another one (PYTORCH_CUDA_ALLOC_CONF). Only the reserved memory that validate judges depends on it, not what simulate prints. Default: the stack's."},
           AT(training.expandable_segments)),
      loss_chunks(),
      number({"training.dropout.hidden", "Probability after the embedding, attention and MLP; default: the stack's."},
             AT(training.dropout.hidden), {0, 1, false, true}),
      number({"training.dropout.attention", "Probability on attention weights; default: the stack's."}, AT(training.dropout.attention),
             {0, 1, false, true}),
  };
}

/// Printed only where there are adapters, so that other plans read as if there were none.
PlanField of_adapters(PlanField f) {
  f.write = [write = std::move(f.write)](const Plan& p) { return p.training.lora.here() ? write(p) : nlohmann::json(); };
  return f;
}

/// Printed only where it is above 0, as older plans do not have it.
PlanField adapter_dropout() {
  PlanField f = number({"training.lora.dropout",
                        "Probability that an element of an adapter's input is set to 0. The matrix beside it reads all elements. Beside "
                        "routed experts it is simulated only."},
                       AT(training.lora.dropout), {0, 1, false, true});
  f.write = [](const Plan& p) { return p.training.lora.dropout > 0 ? nlohmann::json(p.training.lora.dropout) : nlohmann::json(); };
  return std::move(f).otherwise("0");
}

/// Printed only beside quantized weights.
PlanField of_quantized(PlanField f) {
  f.write = [write = std::move(f.write)](const Plan& p) { return p.training.lora.quantizes() ? write(p) : nlohmann::json(); };
  return f;
}

std::vector<PlanField> adapter_fields() {
  PlanField targets{"training.lora.targets",
                    "Matrices with an adapter: qkv gives queries, keys and values, proj is attention's output, fc1 gives gate and up, fc2 is the output of "
                    "the MLP or shared expert. experts.fc1 and experts.fc2 are those of routed experts: each expert has an adapter of its own. The parts "
                    "of qkv and fc1 share the matrix A. As targets q, k, v, gate, up, experts.gate and experts.up each has its own, as PEFT's have.",
                    "qkv, proj, fc1 and fc2",
                    false,
                    {},
                    {},
                    [] {
                      return nlohmann::json{{"type", "array"}, {"uniqueItems", true}, {"items", schema_of_choice(kAdapterTargets)}};
                    }};
  targets.read = [](const nlohmann::json& v, Plan& p) { return read_choices(v, kAdapterTargets, p.training.lora.targets); };
  targets.write = [](const Plan& p) { return nlohmann::json(p.training.lora.targets); };
  return {
      of_adapters(integer({"training.lora.rank",
                           "Columns between the two matrices of an adapter (LoRA). Above 0 only adapters are trained: all parameters of the "
                           "model are frozen, with no gradient and no optimizer state."},
                          AT(training.lora.rank), {0, kMaxHidden})
                      .otherwise("0: no adapters, everything is trained")),
      of_adapters(number({"training.lora.alpha", "An adapter's output is multiplied by alpha / rank."}, AT(training.lora.alpha), {0, 1e6, true, false})
                      .otherwise("training.lora.rank: a factor of 1")),
      of_adapters(std::move(targets)),
      adapter_dropout(),
      of_quantized(choice({"training.lora.base",
                           "How the frozen matrices of linear layers are stored. nf4: in 4 bits, with an fp32 scale for 64 elements (QLoRA), "
                           "dequantized to dtypes.compute before each product. Embeddings, output matrix, norms and biases stay in dtypes.weights."},
                          AT(training.lora.base))
                       .otherwise("plain: in training.dtypes.weights")),
      of_quantized(flag({"training.lora.double_quantization",
                         "The scales of nf4 are stored in 8 bits, 256 of them with two fp32 numbers. Simulated only."},
                        AT(training.lora.double_quantization))
                       .otherwise("false")),
  };
}

std::vector<PlanField> optimizer_fields() {
  return {
      choice({"training.optimizer", "Update rule."}, AT(training.optimizer.kind)),
      number({"training.learning_rate", "Peak learning rate."}, AT(training.optimizer.learning_rate.peak), {0, 1e6}),
      number({"training.min_learning_rate", "Learning rate at the end of the decay."},
             AT(training.optimizer.learning_rate.minimum), {0, 1e6}),
      choice({"training.learning_rate_decay", "Shape of the decay after the warm-up."},
             AT(training.optimizer.learning_rate.decay)),
      word({"training.learning_rate_unit", "What warmup, decay_start and decay_over count."},
           AT(training.optimizer.learning_rate.unit), kUnits),
      integer({"training.warmup", "Length of the linear warm-up. Its first step has 1 / warmup of the peak rate; Megatron-LM's and transformers' has rate 0."}, AT(training.optimizer.learning_rate.warmup),
              {0, kMaxCount}),
      integer({"training.decay_over", "End of the decay, warm-up included; 0 is the run's length."},
              AT(training.optimizer.learning_rate.decay_over), {0, kMaxCount}),
      integer({"training.decay_start", "Start of the decay, warm-up included; the rate stays at its peak until then; 0 is the warm-up's end."},
              AT(training.optimizer.learning_rate.decay_start), {0, kMaxCount}),
      number({"training.decay_power", "Exponent of the polynomial decay."}, AT(training.optimizer.learning_rate.power),
             {0, 100, true, false}),
      number({"training.beta1", "Decay of the first moment."}, AT(training.optimizer.beta1), {0, 1, false, true}),
      number({"training.beta2", "Decay of the second moment."}, AT(training.optimizer.beta2), {0, 1, false, true}),
      number({"training.epsilon", "Added to the root of the second moment."}, AT(training.optimizer.epsilon), {0, 1}),
      number({"training.weight_decay", "Weight decay. adamw: decoupled; sgd: added to the gradient, as in PyTorch; muon: as adamw; lamb and lans: part of the step that the trust ratio scales. Biases and normalization weights have none."},
             AT(training.optimizer.weight_decay), {0, 1e6}),
      number({"training.momentum", "Momentum of sgd and muon."}, AT(training.optimizer.momentum), {0, 1, false, true})
          .otherwise("0; muon: 0.95"),
  };
}

/// Printed only where Muon updates, so that other plans read as if there were none.
PlanField of_muon(PlanField f, const std::string& otherwise) {
  f.write = [write = std::move(f.write)](const Plan& p) {
    return p.training.optimizer.kind == OptimizerKind::muon ? write(p) : nlohmann::json();
  };
  return std::move(f).otherwise(otherwise);
}

std::vector<PlanField> muon_fields() {
  return {
      of_muon(integer({"training.muon.newton_schulz_steps", "Iterations that make a matrix of momentum nearly orthogonal. Gate and up of an MLP are one matrix, as in Megatron-LM."},
                      AT(training.optimizer.muon.newton_schulz_steps), {1, 100}),
              "5"),
      of_muon(flag({"training.muon.nesterov", "The matrix is gradient + momentum x buffer, not the buffer."},
                   AT(training.optimizer.muon.nesterov)),
              "true"),
      of_muon(choice({"training.muon.scale_mode",
                      "Factor of a matrix' update by its outputs and inputs: spectral is sqrt(max(out, in)), shape sqrt(max(1, out / in)), "
                      "unit_rms sqrt(out / in)."},
                     AT(training.optimizer.muon.scale_mode)),
              "spectral"),
      of_muon(number({"training.muon.scale", "One more factor of a matrix' update; with spectral, 0.2 gives it the size of AdamW's."},
                     AT(training.optimizer.muon.scale), {0, 1e6, true, false}),
              "0.2"),
  };
}

/// Printed only when there is a ramp-up, so that a plan without one reads like one.
PlanField rampup(Place place, std::int64_t BatchRampup::*member) {
  const auto get = [member](auto& p) -> auto& { return p.training.batch_rampup.*member; };
  PlanField f = integer(std::move(place), get, {0, kMaxCount});
  f.write = [member](const Plan& p) {
    const BatchRampup& r = p.training.batch_rampup;
    return r.start == 0 ? nlohmann::json() : nlohmann::json(r.*member);
  };
  return std::move(f).otherwise("no ramp-up");
}

/// Printed only where documents are separate, so that other plans read as if there were none.
PlanField documents() {
  PlanField f = choice({"training.documents",
                        "Whether a token attends to the documents before its own in a sequence (joined), or only to its own, with positions from its beginning (separate: Megatron-LM's --reset-attention-mask, --reset-position-ids and --eod-mask-loss). In predictions it changes only the attention kernel of stack tandem."},
                       AT(training.documents));
  f.write = [write = std::move(f.write)](const Plan& p) {
    return p.training.documents == Documents::separate ? write(p) : nlohmann::json();
  };
  return std::move(f).otherwise("joined");
}

std::vector<PlanField> run_fields() {
  return {
      documents(),
      rampup({"training.batch_rampup.start", "First global batch; 0 is no ramp-up."}, &BatchRampup::start),
      rampup({"training.batch_rampup.increment", "Added to the global batch at every ramp step."},
             &BatchRampup::increment),
      rampup({"training.batch_rampup.samples", "Samples over which the whole ramp runs."}, &BatchRampup::samples),
      number({"training.clip_grad", "Largest global norm of the gradient; 0 is off, but the norm is still computed."}, AT(training.clip_grad),
             {0, 1e300}),
      integer({"training.seed", "Seed of all random numbers of the run."}, AT(training.seed), {0, kMaxCount}),
      integer({"training.steps", "Optimizer steps of a run."}, AT(training.steps), {1, std::int64_t{1} << 40}),
  };
}

void append(std::vector<PlanField>& to, std::vector<PlanField> more) {
  for (PlanField& f : more) to.push_back(std::move(f));
}

}  // namespace

std::vector<PlanField> training_fields() {
  std::vector<PlanField> all{
      directive({"training.preset", "A preset of models/presets/training that the other fields override."}),
      text({"training.name", "For people."}, AT(training.name)),
      text({"training.notes", "For people."}, AT(training.notes)),
  };
  append(all, size_fields());
  append(all, precision_fields());
  append(all, rounding_fields());
  append(all, memory_fields());
  append(all, adapter_fields());
  append(all, optimizer_fields());
  append(all, muon_fields());
  append(all, run_fields());
  return all;
}

}  // namespace tandem
