#include "reports/compare/cancelling.hpp"

#include <algorithm>
#include <cmath>

#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

/// Least share of a step that is reported.
constexpr double kNews = 0.1;

std::vector<CompareLine> parts(const Comparison& c) {
  std::vector<CompareLine> out = c.kinds;
  out.push_back(c.waiting);
  return out;
}

std::string told(const Comparison& c, const std::string& what) {
  for (const CompareLine& line : parts(c))
    if (line.what == what) return what + " " + percent_text(line.error) + " (" + percent_text(line.share) + " of the step)";
  return what;
}

}  // namespace

std::optional<Cancelling> cancelling(const Comparison& c) {
  Cancelling out;
  double most = 0, least = 0;
  for (const CompareLine& line : parts(c)) {
    (line.share > 0 ? out.over_share : out.under_share) += std::abs(line.share);
    if (line.share > most) most = line.share, out.over = line.what;
    if (line.share < least) least = line.share, out.under = line.what;
  }
  const double hidden = std::min(out.over_share, out.under_share);
  if (hidden < kNews || hidden <= std::abs(c.step.error)) return std::nullopt;
  return out;
}

std::string to_text(const Cancelling& cancelling, const Comparison& c) {
  const std::string errors = of_one_performer(c) ? "changes" : "errors";
  return errors + " of single operations cancel: " + told(c, cancelling.over) + ", " + told(c, cancelling.under) + ", the step " +
         percent_text(c.step.error);
}

}  // namespace tandem
