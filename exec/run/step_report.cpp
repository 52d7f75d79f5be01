#include "exec/run/step_report.hpp"

#include <map>

#include "exec/process/packing.hpp"
#include "exec/state/gather.hpp"

namespace tandem::exec {
namespace {

/// Only the last virtual stage has the losses. After the step they are already summed over the data group.
StepReport own_report(const OwnRanks& ranks, const RunContext& context, bool with_modules) {
  for (const auto& rank : ranks.sessions()) {
    const RankState state = rank->state(context);
    const auto offset = state_offset(state, "loss");
    if (offset < 0) continue;
    const auto at = static_cast<std::size_t>(offset);
    const double mtp = with_modules ? read_value<double>(*state.arena, at + sizeof(double)) : std::nan("");
    return {read_value<double>(*state.arena, at), mtp, true, false};
  }
  return {};
}

void add(SequenceScore& to, const SequenceScore& part) {
  to.sequence = part.sequence;
  to.loss += part.loss, to.targets += part.targets, to.hits += part.hits;
  to.label_loss += part.label_loss, to.labels += part.labels, to.label_hits += part.label_hits;
}

}  // namespace

StepReport collect_reports(const OwnRanks& ranks, const ScheduledSegment& scheduled, Control& control, const ReportWanted& wanted) {
  StepReport mine = own_report(ranks, *scheduled.context, wanted.modules);
  mine.stop = !control.first() && wanted.stop && wanted.stop();
  StepReport sum;
  for (const Bytestring& bytes : control.gather(Packer().add(mine).take())) {
    const auto one = Unpacker(bytes).get<StepReport>();
    if (one.has_loss && !sum.has_loss) sum.loss = one.loss, sum.mtp = one.mtp, sum.has_loss = true;
    sum.stop = sum.stop || one.stop;
  }
  return sum;
}

std::optional<double> mtp_loss(const StepReport& report, const MtpSpec& modules) {
  if (modules.num_layers == 0 || modules.loss_scale == 0) return std::nullopt;
  return report.mtp / modules.loss_scale;
}

std::vector<SequenceScore> collect_scores(Control& control, const std::vector<std::vector<SequenceScore>>& mine) {
  Packer own;
  for (const auto& scores : mine) own.add(scores);
  std::map<std::int64_t, SequenceScore> all;
  for (const Bytestring& bytes : control.gather(own.take()))
    for (Unpacker from(bytes); !from.empty();)
      for (const SequenceScore& s : from.get_vector<SequenceScore>()) add(all[s.sequence], s);
  std::vector<SequenceScore> batch;
  for (const auto& [sequence, score] : all) batch.push_back(score);
  return batch;
}

}  // namespace tandem::exec
