#include "sim/result/own_attention_note.hpp"

#include <string_view>
#include <variant>

#include "models/planfile/attention_kernels.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::sim {
namespace {

/// The task of Tandem's own kernel, forward, with the most FLOPs; null if there is none.
const Task* largest(const TaskGraph& graph) {
  const Task* out = nullptr;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks) {
      const auto* attention = std::get_if<FlashAttention>(&task.op);
      if (attention == nullptr || attention->kernel != AttentionKernel::own) continue;
      if (out == nullptr || matrix_flops(out->op) < matrix_flops(task.op)) out = &task;
    }
  return out;
}

/// Seconds of the same attention with stored scores; 0 if no plan can have that.
double with_scores(const FlashAttention& o, DType compute, const CostModel& cost) {
  if (o.chosen || o.sinks || o.ring_step >= 0) return 0;
  const auto seconds = [&](const Op& op) { return cost.duration(op, compute).seconds(); };
  const std::int64_t scores = o.dims.batch * o.dims.heads * o.dims.seq * o.dims.key_count();
  return seconds(AttentionScores{o.dims}) + (o.soft_cap > 0 ? seconds(SoftCap{scores, o.soft_cap}) : 0) +
         seconds(AttentionSoftmax{o.dims, o.dropout, o.alibi}) + seconds(AttentionContext{o.dims});
}

std::string remedy(double own, double scores) {
  constexpr double kWorth = 1.1;
  if (scores <= 0 || own < kWorth * scores) return "";
  const double times = own / scores;
  return "; training.flash_attention false computes it " + number_text(times, times < 10 ? 1 : 0) + " times as fast, with scores in memory";
}

}  // namespace

std::string own_attention_note(const Plan& plan, const Setup& setup) {
  const Task* task = largest(setup.graph);
  if (task == nullptr) return "";
  const double seconds = setup.cost.duration(task->op, task->dtype).seconds();
  const double rate = static_cast<double>(matrix_flops(task->op).count()) / seconds;
  const std::string_view why = attention_kernels(plan).why_own;
  return "Tandem's own kernel, without tensor cores, computes attention at " + number_text(rate / 1e12, 2) + " TFLOP/s, " +
         (why.empty() ? "as training.attention_kernel says" : "as Tandem calls no library where " + std::string(why)) +
         remedy(seconds, with_scores(std::get<FlashAttention>(task->op), task->dtype, setup.cost));
}

}  // namespace tandem::sim
