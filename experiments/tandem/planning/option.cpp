#include "experiments/tandem/planning/option.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::planning {
namespace {

template <class Measure>
const PricedPhase& largest_by(const std::vector<PricedPhase>& phases, Measure measure) {
  const auto less = [&](const PricedPhase& a, const PricedPhase& b) { return measure(a) < measure(b); };
  return *std::max_element(phases.begin(), phases.end(), less);
}

}  // namespace

double Sensitivity::days_span() const { return std::abs(high.budget.days.value - low.budget.days.value); }

double Sensitivity::money_span() const {
  return low.budget.money && high.budget.money ? std::abs(high.budget.money->value - low.budget.money->value) : 0;
}

double Option::tokens() const {
  double out = 0;
  for (const PricedPhase& p : phases) out += p.conditions.tokens;
  return out;
}

std::vector<std::string> Option::notes() const {
  std::vector<std::vector<std::string>> said;
  for (const PricedPhase& p : phases) said.push_back(p.assessment.notes());
  return by_phase(said);
}

std::vector<std::string> by_phase(const std::vector<std::vector<std::string>>& said) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < said.size(); ++i)
    for (const std::string& text : said[i]) {
      const auto has = [&](const auto& texts) { return std::find(texts.begin(), texts.end(), text) != texts.end(); };
      const bool of_all = std::all_of(said.begin(), said.end(), has);
      if (!of_all) out.push_back(phase_prefix(i + 1, said.size()) + text);
      else if (i == 0) out.push_back(text);
    }
  return out;
}

const PricedPhase& longest(const std::vector<PricedPhase>& phases) {
  return largest_by(phases, [](const PricedPhase& p) { return p.budget.days.value; });
}

const PricedPhase& neediest(const std::vector<PricedPhase>& phases) { return largest_by(phases, memory_share); }

const PricedPhase& largest(const std::vector<PricedPhase>& phases) {
  return largest_by(phases, [](const PricedPhase& p) { return p.budget.rented.paid(); });
}

double memory_share(const PricedPhase& p) {
  return static_cast<double>(p.assessment.needed_bytes()) / static_cast<double>(p.assessment.prediction.device_memory.count());
}

std::string phase_prefix(std::size_t number, std::size_t phases) { return phases > 1 ? "phase " + std::to_string(number) + ": " : ""; }

bool in_budget(const Option& o) {
  return !o.conditions().budget || (o.budget.money && o.budget.ranked(*o.budget.money) <= *o.conditions().budget);
}

bool in_time(const Option& o) { return !o.conditions().days || o.budget.ranked(o.budget.days) <= *o.conditions().days; }

}  // namespace tandem::planning
