#pragma once
// What the processes report of a step or of a batch, combined at process 0.

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "exec/process/control.hpp"
#include "exec/run/own_ranks.hpp"
#include "exec/run/run_result.hpp"

namespace tandem::exec {

struct StepReport {
  double loss = std::nan(""), mtp = std::nan("");  ///< `mtp`: the modules' losses with their weights
  bool has_loss = false, stop = false;
};

struct ReportWanted {
  bool modules = false;        ///< the loss of MTP modules, too
  std::function<bool()> stop;  ///< whether the process wants to stop; empty: not asked. Process 0 is asked elsewhere
};

/// At process 0: the losses, from the first process that has them, and whether another process wants to stop. All processes call it.
StepReport collect_reports(const OwnRanks& ranks, const ScheduledSegment& scheduled, Control& control, const ReportWanted& wanted);

/// The mean of the modules' losses. A weight of 0 leaves nothing to read it from.
std::optional<double> mtp_loss(const StepReport& report, const MtpSpec& modules);

/// At process 0: the scores of a batch's sequences from all processes, ascending. Context ranks have parts of the same sequences. `mine`:
/// by rank of this process. All processes call it.
std::vector<SequenceScore> collect_scores(Control& control, const std::vector<std::vector<SequenceScore>>& mine);

}  // namespace tandem::exec
