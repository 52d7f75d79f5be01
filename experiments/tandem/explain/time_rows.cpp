#include "experiments/tandem/explain/rows.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

const std::vector<std::string> kCosts = {"device:peak_flops_per_s", "device:vector_flops_per_s", "device:memory_bytes_per_s",
                                         "device:host_launch_s", "device:compute_units", "node", "cluster", "calibration",
                                         "measured", "power"};

std::string seconds_text(double s) { return number_text(s, 6) + " s"; }

std::string sum_of_parts(const ExplainedCase& c, std::size_t role) {
  std::string out;
  for (const auto& [what, seconds] : c.prediction.roles[role].time_breakdown_s)
    out += (out.empty() ? "" : " + ") + seconds_text(seconds) + " " + what;
  return out + " = " + seconds_text(c.prediction.step_time.seconds()) + " on rank " +
         std::to_string(c.prediction.roles[role].ranks.front()) + ", of " + std::to_string(c.prediction.roles.size()) + " roles of " +
         count_text(c.prediction.ranks) + " ranks";
}

std::string makespan(const ExplainedCase& c, std::size_t) {
  return "0 s to " + seconds_text(c.prediction.makespan.seconds()) + ", next step " + seconds_text(c.prediction.step_time.seconds()) +
         " later";
}

Row share(const std::string& what, const std::string& formula, std::vector<std::string> facts) {
  const auto filled = [what](const ExplainedCase& c, std::size_t role) {
    const double part = c.prediction.roles[role].time_breakdown_s.at(what), step = c.prediction.step_time.seconds();
    return seconds_text(part) + " of " + seconds_text(step) + ": " + number_text(100 * part / step, 2) + " % of the step of rank " +
           std::to_string(c.prediction.roles[role].ranks.front());
  };
  return {"time_breakdown_s." + what, formula, filled, RangeKind::part, std::move(facts)};
}

Row end_of_range(const std::string& which, const std::string& word, double StepRange::*end) {
  const auto filled = [end](const ExplainedCase& c, std::size_t) {
    const double step = c.prediction.step_time.seconds();
    return seconds_text(step) + " x " + number_text(c.prediction.range.*end / step, 4) + ", from " + c.prediction.range.basis;
  };
  return {"step_time_range." + which,
          "step_time_s x the " + word + " of measured / predicted among earlier predictions on this device in the same situation",
          filled, RangeKind::itself, {}};
}

}  // namespace

std::vector<Row> time_rows() {
  const std::vector<std::string> arithmetic = {"device:peak_flops_per_s", "device:vector_flops_per_s", "device:memory_bytes_per_s",
                                               "device:compute_units", "calibration:matmul", "calibration:memory_share",
                                               "calibration:kernel_s", "calibration:spread", "measured", "power"};
  const std::vector<std::string> network = {"node", "cluster", "calibration:communication"};
  const std::vector<std::string> host = {"device:host_launch_s", "calibration:launch_s"};
  return {
      {"step_time_s",
       "latest end of a task over all roles. A task starts when its launch was issued, its stream is free, its dependencies have ended and its partners have arrived. Durations come from the roofline or a measured table; messages share links by max-min fairness. With parallel.optimizer_sync post_validated: from the end of one step to the end of the next",
       sum_of_parts, RangeKind::grows, kCosts},
      {"makespan_s", "latest end of a task of one step alone", makespan, RangeKind::part, {}},
      {"time_breakdown_s", "every moment of the compute stream, from the start of the step to its end (or for step_time_s before it), assigned to one cause", sum_of_parts,
       RangeKind::part, {}},
      {"step_time_range", "the middle 80 % of measured / predicted among earlier predictions, times step_time_s (topology/errors/README.md)",
       [](const ExplainedCase& c, std::size_t) { return c.prediction.range.basis; }, RangeKind::itself, {}},
      end_of_range("low_s", "10 % quantile", &StepRange::low_s),
      end_of_range("high_s", "90 % quantile", &StepRange::high_s),
      {"step_time_range.share", "share of measured step times that the range is meant to hold",
       [](const ExplainedCase& c, std::size_t) { return number_text(c.prediction.range.share, 2); }, RangeKind::exact, {}},
      {"step_time_range.basis", "records the range was computed from, or why it is a default",
       [](const ExplainedCase& c, std::size_t) { return c.prediction.range.basis; }, RangeKind::exact, {}},
      {"step_time_range.wider", "features of the plan that no record on the device has (topology/errors: like, devices, positions, since) widen the range by the factor wider.unseen; with a situation that the device has too few records of, the situation's errors on all devices count; with a kind of feature that no record has, or without records, the wide default",
       [](const ExplainedCase& c, std::size_t) {
         return c.prediction.range.wider.empty() ? std::string("nothing: the records have all of it") : c.prediction.range.wider;
       },
       RangeKind::exact, {}},
      share("compute", "sum of max(matrix FLOPs / reached rate, bytes / reached bandwidth) + fixed time, or of a product's measured "
                       "time, over the compute stream's tasks except the optimizer's; fills of new tensors (training.fill_uninitialized_memory) are tasks, too", arithmetic),
      share("optimizer", "the same over the tasks of the update", arithmetic),
      share("tensor_comm", "compute stream idle for a sum or gather over tensor ranks (or over those that share experts' matrices) "
                           "while it moves", network),
      share("context_comm", "compute stream idle for keys and values, or heads, of other context ranks while they move", network),
      share("expert_comm", "compute stream idle for tokens on their way to or from the ranks of their experts", network),
      share("pipeline_comm", "compute stream idle for a send or receive while it moves", network),
      share("data_comm", "compute stream idle for a collective of the data stream while it moves", network),
      share("bubble", "compute stream idle because a partner is not ready to send, receive or join; the part in which the partner waits for its own launches counts as launch", {}),
      share("launch", "compute stream idle until its host, or that of a rank it waits for, has issued its next task; tasks of a CUDA graph (training.cuda_graphs) are issued by the graph's launch", host),
      share("host_copy", "compute stream idle for states on their way from or to the host's memory", {"node:scale_out.host_link_bytes_per_s"}),
      {"bubble_fraction", "time_breakdown_s.bubble / step_time_s, of the critical rank",
       [](const ExplainedCase& c, std::size_t) {
         return seconds_text(c.prediction.roles[c.prediction.critical_role].time_breakdown_s.at("bubble")) + " / " +
                seconds_text(c.prediction.step_time.seconds());
       },
       RangeKind::part, {}},
  };
}

}  // namespace tandem::program
