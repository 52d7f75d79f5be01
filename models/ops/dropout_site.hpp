#pragma once
// Where random masks are drawn. Conventions: models/ops/op.hpp.

#include <cstdint>

namespace tandem {

/// Where a random mask is drawn; with (seed, step, layer, global index) it names every random number of a run.
enum class DropoutSite : std::uint8_t {
  embedding, attention, attention_output, mlp_output, cross_attention, cross_attention_output,
  lora_qkv, lora_proj, lora_fc1, lora_fc2, lora_experts_fc1, lora_experts_fc2, lora_q, lora_k, lora_v, lora_gate, lora_up
};

/// Whether the columns of what is dropped are a tensor rank's share: the input of a matrix that is cut by columns.
constexpr bool cuts_columns(DropoutSite site) { return site == DropoutSite::lora_proj || site == DropoutSite::lora_fc2; }
/// Whether the rows are those of routed experts, whose order depends on the layout. No backend draws such masks.
constexpr bool drops_expert_rows(DropoutSite site) {
  return site == DropoutSite::lora_experts_fc1 || site == DropoutSite::lora_experts_fc2;
}

}  // namespace tandem
