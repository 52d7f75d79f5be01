#include "sim/fair_share.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

constexpr double kRatePerByte = 1000;                         // thousandths of a byte per second
constexpr std::int64_t kWorkPerByte = 1'000'000'000'000'000;  // kRatePerByte x picoseconds per second

}  // namespace

Rate rate_of(Bandwidth bandwidth) {
  const double rate = bandwidth.bytes_per_second() * kRatePerByte;
  require(rate > 0, "a link has no bandwidth");
  return rate < 9.2e18 ? std::max<Rate>(1, std::llround(rate)) : kUnlimited;
}

Work work_of(Bytes bytes) { return static_cast<Work>(bytes.count()) * kWorkPerByte; }

Duration time_of(Work work, Rate rate) {
  if (work <= 0 || rate == kUnlimited) return {};
  return Duration::picoseconds(static_cast<std::int64_t>((work + rate - 1) / rate));
}

Rate rate_alone(LinkUses bundle, std::span<const Capacity> links) {
  Rate rate = kUnlimited;
  for (const LinkUse& use : bundle) {
    const Rate all = links[use.link].with(use.flows);
    if (all != kUnlimited) rate = std::min(rate, all / use.flows);
  }
  return rate;
}

FairShare::FairShare(std::vector<Capacity> links) : capacities_(std::move(links)), left_(capacities_.size()) {}

void FairShare::open(std::span<const LinkUses> bundles) {
  touched_.clear();
  for (const LinkUses& bundle : bundles)
    for (const LinkUse& use : bundle) {
      Left& left = left_[use.link];
      if (left.users == 0) touched_.push_back(use.link);
      left.users += use.flows;
    }
  for (const std::uint32_t link : touched_) {
    left_[link].rate = capacities_[link].with(left_[link].users);
    left_[link].divide();
  }
}

Rate FairShare::tightest() {
  Rate least = kUnlimited;
  for (const std::uint32_t link : touched_) least = std::min(least, left_[link].share);
  return least;
}

bool FairShare::saturated(LinkUses bundle, Rate share) const {
  return std::any_of(bundle.begin(), bundle.end(), [&](const LinkUse& use) { return left_[use.link].share == share; });
}

void FairShare::fix(LinkUses bundle, Rate rate) {
  for (const LinkUse& use : bundle) {
    Left& left = left_[use.link];
    left.users -= use.flows;
    if (left.rate != kUnlimited && rate != kUnlimited) left.rate -= rate * use.flows;
    left.divide();
  }
}

// All bundles of all tightest links are fixed in one round, before any capacity is taken: the result cannot depend on
// the order in which they are listed.
void FairShare::solve(std::span<const LinkUses> bundles, std::span<Rate> rates) {
  if (bundles.size() == 1) {
    rates[0] = alone(bundles[0]);
    return;
  }
  open(bundles);
  open_.resize(bundles.size());
  std::iota(open_.begin(), open_.end(), std::size_t{0});
  while (!open_.empty()) {
    const Rate share = tightest();
    round_.clear();
    std::erase_if(open_, [&](std::size_t i) {
      const bool fixed = share == kUnlimited || saturated(bundles[i], share);
      if (fixed) round_.push_back(i);
      return fixed;
    });
    for (const std::size_t i : round_) {
      rates[i] = std::max<Rate>(share, 1);
      fix(bundles[i], share);
    }
  }
  for (const std::uint32_t link : touched_) left_[link] = {};
}

Duration time_alone(const std::array<std::vector<Segment>, 2>& chains, const std::vector<std::vector<LinkUse>>& uses,
                    std::span<const Capacity> links) {
  Duration longest;
  for (const auto& chain : chains) {
    Duration sum;
    for (const Segment& s : chain) sum += time_of(s.work, rate_alone(uses[s.uses], links));
    longest = std::max(longest, sum);
  }
  return longest;
}

}  // namespace tandem::sim
