// What users of other systems may ask for and this one does not do, by the names it has there. A planned absence gets its own
// answer instead of "unknown key".

#include <algorithm>
#include <array>

#include "models/planfile/plan_steps.hpp"

namespace tandem {
namespace {

struct Entry {
  std::array<std::string_view, 4> names;  ///< keys, or values of model.family
  UnsupportedFeature what;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {{"nvme", "nvme_path", "offload_nvme", "aio"}, {"states or weights on NVMe", "offload to the host's memory"}},
      {{"partition_activations", "distribute_saved_activations", "", ""},
       {"activations partitioned over tensor ranks", "use sequence_parallel, which keeps only a rank's own rows"}},
      {{"fpdt", "ds_sequence_parallel_fpdt", "fpdt_chunk_size", ""},
       {"fully pipelined distributed attention (FPDT)", "use parallel.context"}},
      {{"pyramid", "pyramid_experts", "residual_moe", "mlp_type"},
       {"pyramid and residual experts", "use the same number of experts in every layer that has some"}},
      {{"vision", "vit", "swin", "dino"}, {"vision models", "use gpt, llama, bloom, bert or t5"}},
      {{"ict", "biencoder", "realm", "retro"}, {"retrieval models (ICT and its kin)", "use gpt, llama, bloom, bert or t5"}},
  };
  return all;
}

}  // namespace

const UnsupportedFeature* unsupported_feature(std::string_view name) {
  for (const Entry& e : entries())
    if (!name.empty() && std::find(e.names.begin(), e.names.end(), name) != e.names.end()) return &e.what;
  return nullptr;
}

}  // namespace tandem
