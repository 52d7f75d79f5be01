#include "sim/result/nccl_note.hpp"

#include <vector>

#include "reports/prediction/text.hpp"

namespace tandem::sim {
namespace {

/// Least share of a step that is worth a note.
constexpr double kWorthTelling = 0.01;

/// How often a program sends each message.
std::vector<std::int64_t> times_sent(const TaskGraph& graph, const Communications& communications, const Program& program) {
  std::vector<std::int64_t> occurs(graph.templates.size()), out(communications.messages.size());
  for (const Instance& i : program.instances) ++occurs[i.tmpl.index()];
  for (std::size_t t = 0; t < occurs.size(); ++t)
    for (std::uint32_t slot = communications.first_slot[t]; slot < communications.first_slot[t + 1]; ++slot)
      if (const std::int32_t message = communications.entries[slot].message; message >= 0)
        out[static_cast<std::size_t>(message)] += occurs[t];
  return out;
}

/// Time that a stage loses in a step if its collectives do not overlap, and the collective that loses most.
struct Loss {
  double seconds = 0, most = 0;
  std::uint32_t message = 0;
};

Loss loss_of(const SlowChoices& slow, const std::vector<std::int64_t>& times) {
  Loss out;
  for (const auto& [message, choice] : slow) {
    const double lost = choice.lost_s() * static_cast<double>(times[message]);
    out.seconds += lost;
    if (lost > out.most) out.most = lost, out.message = message;
  }
  return out;
}

std::string text_of(const Setup& setup, const Message& message, const SlowChoice& choice, const Loss& loss) {
  const Collective& c = std::get<Collective>(message.op);
  return "NCCL chooses " + std::string(name(choice.chosen)) + " for " + std::string(name(c.kind)) + " of " +
         bytes_text(bytes_of(c.dtype, c.elements).count()) + " among " + std::to_string(setup.mesh.group_size(c.group)) + " ranks: " +
         time_text(choice.chosen_s) + "; " + std::string(name(choice.other)) + " would take " + time_text(choice.other_s) +
         " here. NCCL's model of this network differs; this choice costs up to " + time_text(loss.seconds) + " of a step";
}

}  // namespace

std::string nccl_note(const Setup& setup, const SimulatedStep& simulated, Duration step) {
  const auto& slow = simulated.slow_choices;
  if (slow.empty()) return {};
  Loss worst;
  for (const Program& program : setup.graph.programs)
    if (const Loss loss = loss_of(slow, times_sent(setup.graph, simulated.communications, program)); loss.seconds > worst.seconds)
      worst = loss;
  if (worst.seconds < kWorthTelling * step.seconds()) return {};
  return text_of(setup, simulated.communications.messages[worst.message], slow.at(worst.message), worst);
}

}  // namespace tandem::sim
