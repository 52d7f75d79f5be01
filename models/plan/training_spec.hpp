#pragma once
// A plan's training: batch, types, recomputation, optimizer, learning rate.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/plan/adapters.hpp"
#include "models/plan/attention_kernel.hpp"
#include "models/plan/fusion_set.hpp"
#include "models/plan/loss_scale.hpp"

namespace tandem {

enum class Recompute : std::uint8_t { none, selective, full };
enum class OptimizerKind : std::uint8_t { adamw, lans, lamb, sgd, muon };
enum class DecayShape : std::uint8_t { constant, linear, cosine, polynomial };
/// Which parts of a step are captured in CUDA graphs (models/lowering/cuda_graphs.hpp).
enum class CudaGraphs : std::uint8_t { none, layers, iteration };
/// Whether a token attends to the documents before its own in a sequence (joined) or only to its own (separate).
enum class Documents : std::uint8_t { joined, separate };
/// Factor of Muon's update of a matrix with `out` rows and `in` columns, before `scale`. spectral: sqrt(max(out, in)) (Moonlight,
/// arXiv 2502.16982 section 2.2). shape: sqrt(max(1, out / in)). unit_rms: sqrt(out / in).
enum class MuonScale : std::uint8_t { spectral, shape, unit_rms };
/// The spelling of a value in a plan file.
std::string_view name(Recompute v);
std::string_view name(OptimizerKind v);
std::string_view name(DecayShape v);
std::string_view name(CudaGraphs v);
std::string_view name(Documents v);
std::string_view name(MuonScale v);
std::string_view name(AttentionKernel v);

/// Types in which each class of tensor is stored or computed.
struct DTypes {
  DType compute = DType::bf16;
  DType weights = DType::bf16;
  DType gradients = DType::fp32;         ///< the accumulated gradient
  DType gradient_reduce = DType::fp32;   ///< type in the data-parallel reduction
  DType master = DType::fp32;            ///< equal to `weights`: no separate copy
  DType optimizer_state = DType::fp32;
  DType dispatch = DType::bf16;          ///< tokens sent to experts under token_dispatcher deepep
};

struct Dropout {
  double hidden = 0;
  double attention = 0;
};

struct LearningRate {
  double peak = 3e-4;
  double minimum = 0;
  DecayShape decay = DecayShape::constant;
  std::string unit = "steps";            ///< steps, samples or tokens
  std::int64_t warmup = 0;
  std::int64_t decay_over = 0;           ///< 0: length of the run
  std::int64_t decay_start = 0;          ///< the rate stays at its peak until then; 0: end of the warm-up
  double power = 1;                      ///< polynomial
};

/// Muon (arXiv 2502.16982, algorithm 1): the momentum of every hidden matrix is made nearly orthogonal by Newton-Schulz iterations.
/// AdamW updates the other parameters.
struct MuonSpec {
  std::int64_t newton_schulz_steps = 5;
  bool nesterov = true;
  MuonScale scale_mode = MuonScale::spectral;
  double scale = 0.2;                    ///< factor of the update; 0.2 gives the size of AdamW's updates (spectral)
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::adamw;
  LearningRate learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0;                   ///< sgd, muon
  MuonSpec muon;
};

struct BatchRampup {
  std::int64_t start = 0;                ///< 0: none
  std::int64_t increment = 0;
  std::int64_t samples = 0;
};

struct TrainingSpec {
  std::int64_t seq_length = 0;
  std::int64_t decoder_seq_length = 0;   ///< t5 only
  std::int64_t micro_batch_size = 0;     ///< sequences
  std::int64_t global_batch_size = 0;    ///< sequences
  std::string precision = "bf16";
  DTypes dtypes;
  LossScale loss_scale;                  ///< fp16 only
  bool stochastic_rounding = true;       ///< for 16-bit weights and states without a wider copy
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;     ///< 0: all
  std::vector<std::string> recompute_modules;
  bool recompute_products = false;       ///< "operations" also recomputes every second matrix product, but no attention
  bool fp8_activation_inputs = false;    ///< the input of an activation function is stored in 8 bits
  bool recompute_early_stop = false;     ///< full recomputation of a layer stops at the last tensor that its backward pass reads
  bool flash_attention = false;
  AttentionKernel attention_kernel = AttentionKernel::flash2;  ///< only with flash_attention
  FusionSet fusion;                      ///< the named set, resolved
  CudaGraphs cuda_graphs = CudaGraphs::none;
  bool deterministic = false;            ///< only kernels and collectives with bitwise reproducible results
  bool fill_uninitialized_memory = false;///< new tensors are filled before use; needs `deterministic`
  bool launch_blocking = false;          ///< a launch returns when the device has run it, so the host never runs ahead
  bool expandable_segments = false;      ///< PyTorch's allocator extends segments instead of allocating new ones
  std::int64_t loss_chunks = 1;          ///< parts of a micro-batch's tokens that have logits one after the other
  Dropout dropout;
  AdapterSpec lora;                      ///< what is trained instead of the model's own parameters
  OptimizerSpec optimizer;
  BatchRampup batch_rampup;
  Documents documents = Documents::joined;
  double clip_grad = 1.0;                ///< 0: off
  std::uint64_t seed = 1234;
  std::int64_t steps = 1;
  std::string name, notes;

  /// Whether losses are scaled. Small fp16 gradients would underflow otherwise.
  bool scales_loss() const { return dtypes.compute == DType::fp16; }
  /// Whether an update stores some tensor only in 16 bits.
  bool rounds_states() const {
    const DType last = dtypes.master == dtypes.weights ? dtypes.weights : dtypes.master;
    return bits(last) == 16 || bits(dtypes.optimizer_state) == 16;
  }
};

}  // namespace tandem
