#pragma once
// Low-rank adapters (LoRA, arXiv 2106.09685): the model's own parameters are frozen. Beside a matrix W the layer has A [rank, in]
// and B [out, rank], which are trained: y = W x + (alpha / rank) B (A dropout(x)).

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/dtype.hpp"

namespace tandem {

struct ModelSpec;

/// Linear layers that can have an adapter, in the order of computation. Queries, keys and values are one matrix, gate and up too: as one
/// target (qkv, fc1) they share A, as targets of their own each has its A. fc1 and fc2 are those of an MLP or a shared expert; experts.fc1
/// and experts.fc2 those of routed experts, one for each expert.
inline constexpr std::array<std::string_view, 13> kAdapterTargets{"qkv", "q", "k", "v", "proj", "fc1", "gate", "up", "fc2",
                                                                  "experts.fc1", "experts.gate", "experts.up", "experts.fc2"};
/// The targets of a plan that names none: those of dense layers.
inline constexpr std::array<std::string_view, 4> kDefaultTargets{"qkv", "proj", "fc1", "fc2"};

/// A target that is a part of a matrix, with the part's name there.
struct AdapterPart {
  std::string_view target, matrix, part;
};
inline constexpr std::array<AdapterPart, 7> kAdapterParts{{{"q", "qkv", "q"},
                                                           {"k", "qkv", "k"},
                                                           {"v", "qkv", "v"},
                                                           {"gate", "fc1", "gate"},
                                                           {"up", "fc1", "up"},
                                                           {"experts.gate", "experts.fc1", "gate"},
                                                           {"experts.up", "experts.fc1", "up"}}};

/// Ends of the names of an adapter's two matrices: "layer0.qkv.lora_a", and "layer0.qkv.q.lora_a" for a part.
inline constexpr std::string_view kAdapterA = ".lora_a", kAdapterB = ".lora_b";
inline bool is_adapter_parameter(std::string_view name) { return name.ends_with(kAdapterA) || name.ends_with(kAdapterB); }

/// How the frozen matrices of linear layers are stored. nf4: QLoRA's NormalFloat of 4 bits (arXiv 2305.14314). Embeddings, the output
/// matrix and vectors keep training.dtypes.weights, as in transformers, which leaves out the output embeddings
/// (huggingface/transformers: src/transformers/quantizers/base.py, get_keys_to_not_convert) and replaces nn.Linear alone.
enum class FrozenWeights : std::uint8_t { plain, nf4 };
std::string_view name(FrozenWeights v);

struct AdapterSpec {
  std::int64_t rank = 0;             ///< 0: no adapters, all parameters are trained
  double alpha = 0;                  ///< alpha / rank scales what an adapter adds
  double dropout = 0;                ///< share of an adapter's inputs that is set to 0
  std::vector<std::string> targets;  ///< of kAdapterTargets
  FrozenWeights base = FrozenWeights::plain;
  bool double_quantization = false;  ///< the scales of blocks are quantized, too

  bool quantizes() const { return here() && base != FrozenWeights::plain; }
  /// Type of the frozen matrices of linear layers where the base quantizes().
  DType base_type() const { return double_quantization ? DType::nf4_double : DType::nf4; }
  bool here() const { return rank > 0; }
  double scale() const { return rank > 0 ? alpha / static_cast<double>(rank) : 0; }
  bool on(std::string_view target) const { return here() && std::find(targets.begin(), targets.end(), target) != targets.end(); }
  /// Whether a part of this matrix has an adapter of its own.
  bool on_part_of(std::string_view matrix) const {
    return std::any_of(kAdapterParts.begin(), kAdapterParts.end(),
                       [&](const AdapterPart& p) { return p.matrix == matrix && on(p.target); });
  }
  /// Whether this matrix has an adapter, or a part of it.
  bool on_matrix(std::string_view matrix) const { return on(matrix) || on_part_of(matrix); }
  bool on_experts() const { return on_matrix("experts.fc1") || on("experts.fc2"); }
};

/// Parameters of all adapters of a model.
std::int64_t adapter_parameters(const ModelSpec& model, const AdapterSpec& adapters);

}  // namespace tandem
