#include "exec/gather.hpp"

#include <map>

#include "exec/param_layout.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

GatheredTensor gather_one(const StageArenas& stage, const Param& p, std::int64_t offset, DType dtype) {
  GatheredTensor whole{p.name, p.full_rows, p.full_cols, {}};
  whole.values.resize(static_cast<std::size_t>(p.full_rows * p.full_cols));
  for (std::size_t t = 0; t < stage.by_tensor_rank.size(); ++t)
    for_each_element(p, static_cast<std::int64_t>(t), [&](std::int64_t full, std::int64_t local) {
      whole.values[static_cast<std::size_t>(full)] = load(stage.by_tensor_rank[t] + offset, dtype, p.offset + local);
    });
  return whole;
}

}  // namespace

std::vector<GatheredTensor> gather(std::span<const StageArenas> stages, std::string_view allocation, DType dtype) {
  std::map<std::int32_t, GatheredTensor> by_index;
  for (const auto& stage : stages) {
    const auto offset = state_offset(*stage.program, allocation);
    require(offset >= 0 || stage.program->params.empty(), "a program without the flat buffer that is gathered");
    for (const auto& p : stage.program->params)
      if (p.in_norm) by_index[p.global_index] = gather_one(stage, p, offset, dtype);
  }
  std::vector<GatheredTensor> all;
  for (auto& [index, tensor] : by_index) all.push_back(std::move(tensor));
  return all;
}

}  // namespace tandem::exec
