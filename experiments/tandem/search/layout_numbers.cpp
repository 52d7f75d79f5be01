#include "experiments/tandem/search/layout_numbers.hpp"

#include <algorithm>

namespace tandem::search {

LayoutNumbers::LayoutNumbers(const Question& question, const std::vector<std::int64_t>& strides, const Plan& first)
    : model_(first.model),
      ranks_(first.cluster.devices * first.cluster.ranks_per_device),
      length_(first.training.seq_length),
      batch_(first.training.global_batch_size),
      ramps_(first.training.batch_rampup.start > 0) {
  const auto read = [&](const char* field, Reader reader) { return number(question, strides, field, reader); };
  tensor_ = read("parallel.tensor", [](const Plan& p) { return p.parallel.tensor; });
  pipeline_ = read("parallel.pipeline", [](const Plan& p) { return p.parallel.pipeline; });
  context_ = read("parallel.context", [](const Plan& p) { return p.parallel.context; });
  data_ = read("parallel.data", [](const Plan& p) { return p.parallel.data; });
  expert_ = read("parallel.expert", [](const Plan& p) { return p.parallel.expert; });
  micro_batch_ = read("training.micro_batch_size", [](const Plan& p) { return p.training.micro_batch_size; });
  chunks_ = read("parallel.virtual_pipeline", [](const Plan& p) { return p.parallel.virtual_pipeline; });
  schedule_ = read("parallel.schedule", [](const Plan& p) { return static_cast<std::int64_t>(p.parallel.schedule); });
  sequence_parallel_ = read("parallel.sequence_parallel", [](const Plan& p) { return std::int64_t{p.parallel.sequence_parallel}; });
}

LayoutNumbers::Number LayoutNumbers::number(const Question& question, const std::vector<std::int64_t>& strides,
                                            const std::string& field, Reader read) const {
  Number out;
  const auto axis = std::find_if(question.axes.begin(), question.axes.end(), [&](const Axis& a) { return a.field == field; });
  if (axis == question.axes.end()) {
    out.known = question.draft.given.contains(field);
    out.values.push_back(read(question.draft.plan));
    return out;
  }
  out.stride = strides[static_cast<std::size_t>(axis - question.axes.begin())];
  for (const AxisValue& value : axis->values) {
    Plan plan = question.draft.plan;
    value.set(plan);
    out.values.push_back(read(plan));
  }
  return out;
}

std::int64_t LayoutNumbers::data_of(std::int64_t id) const {
  return data_.known ? data_.of(id) : derived_data(ranks_, tensor_.of(id) * pipeline_.of(id) * context_.of(id));
}

bool LayoutNumbers::divides(std::int64_t id) const {
  const std::int64_t data = data_of(id);
  return data > 0 && tensor_.of(id) * pipeline_.of(id) * context_.of(id) * data == ranks_;
}

bool LayoutNumbers::refuses(std::int64_t id) const {
  return refuses_tensor(id) || refuses_chunks(id) || refuses_experts(id) || refuses_batch(id);
}

/// Heads and the sequence are shared.
bool LayoutNumbers::refuses_tensor(std::int64_t id) const {
  const std::int64_t tensor = tensor_.of(id), context = context_.of(id);
  const bool slices = length_ % context == 0 && (context == 1 || length_ % (2 * context) == 0);
  if (model_.num_attention_heads % tensor != 0 || !slices) return true;
  const bool shares = sequence_parallel_.known && sequence_parallel_.of(id) != 0;
  return shares && (tensor == 1 || length_ % (tensor * context) != 0);
}

/// Only some schedules have chunks, and between the first and the last one none is empty, however layers are split.
bool LayoutNumbers::refuses_chunks(std::int64_t id) const {
  if (!schedule_.known || !chunks_.known) return false;
  const auto schedule = static_cast<ScheduleKind>(schedule_.of(id));
  const std::int64_t pipeline = pipeline_.of(id), chunks = chunks_.of(id);
  if (!has_chunks(schedule) && chunks > 1) return true;
  if (has_chunks(schedule) && pipeline == 1) return true;
  if (schedule == ScheduleKind::interleaved && chunks == 1) return true;
  return pipeline * chunks > model_.total_layers() + 2;
}

bool LayoutNumbers::refuses_experts(std::int64_t id) const {
  const std::int64_t expert = expert_.of(id), experts = model_.moe.num_experts;
  if (experts == 0) return expert > 1;
  return experts % expert != 0 || tensor_.of(id) * context_.of(id) * data_of(id) % expert != 0;
}

/// Data ranks take whole micro-batches, and an interleaved pipeline one for each stage at least.
bool LayoutNumbers::refuses_batch(std::int64_t id) const {
  const std::int64_t unit = micro_batch_.of(id) * data_of(id);
  if (unit <= 0) return false;
  if (batch_ % unit != 0) return true;
  const bool interleaved = schedule_.known && static_cast<ScheduleKind>(schedule_.of(id)) == ScheduleKind::interleaved;
  return interleaved && !ramps_ && batch_ / unit < pipeline_.of(id);
}

}  // namespace tandem::search
