#include "sim/cost/time_limit.hpp"

#include <cmath>
#include <limits>

#include "reports/prediction/text.hpp"

namespace tandem::sim {
namespace {

static_assert(kLongestPicoseconds <= std::numeric_limits<std::int64_t>::max() / 2);

std::string too_long() {
  return "longer than is simulated (" + std::to_string(kLongestSeconds) + " s, " + std::to_string(kLongestSeconds / 86400) + " days)";
}

}  // namespace

void refuse_step() {
  throw TimeLimitExceeded(Problem{"", "training.global_batch_size", "", "a step may take " + too_long(),
                                  "use more or faster devices, or a smaller batch"});
}

Duration within_time_limit(double seconds) {
  if (!(seconds <= static_cast<double>(kLongestSeconds))) refuse_step();
  return Duration::seconds(seconds);
}

Duration slowed(Duration full, double share) {
  const double ps = static_cast<double>(full.ps()) / share;
  if (!(ps <= static_cast<double>(kLongestPicoseconds))) refuse_step();
  return Duration::picoseconds(std::llround(ps));
}

void refuse_message() {
  throw TimeLimitExceeded(Problem{"", "cluster", "", "a message alone takes " + too_long(), "give it faster links"});
}

void refuse_perturbation(Duration undisturbed) {
  throw TimeLimitExceeded(Problem{"", "cluster.perturbation", "",
                                  "a step that takes " + time_text(undisturbed.seconds()) + " without it may take " + too_long(),
                                  "use larger factors"});
}

}  // namespace tandem::sim
