#include "sim/network/fair_share.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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
  const Work time = (work + rate - 1) / rate;
  if (time > kLongestPicoseconds) refuse_message();
  return Duration::picoseconds(static_cast<std::int64_t>(time));
}

FairShare::FairShare(std::vector<Capacity> links) : capacities_(std::move(links)), left_(capacities_.size()) {}

void FairShare::open(std::span<const LinkUses> bundles) {
  touched_.clear();
  for (const LinkUses& bundle : bundles)
    for (const LinkUse& use : bundle) {
      Left& left = left_[use.link];
      if (left.end++ == 0) touched_.push_back(use.link);
      left.users += use.flows;
    }
  std::uint32_t at = 0;
  for (const std::uint32_t link : touched_) {
    Left& left = left_[link];
    left.rate = capacities_[link].with(left.users);
    left.first = at;
    at += std::exchange(left.end, at);
  }
  on_.resize(at);
  for (std::uint32_t i = 0; i < bundles.size(); ++i)
    for (const LinkUse& use : bundles[i]) on_[left_[use.link].end++] = i;
  open_ = touched_;
}

/// Returns the least share of a flow on any link, and sets `tight_` to the links with it. Drops links that limit nobody any more.
Rate FairShare::tightest() {
  Rate least = kUnlimited;
  std::size_t kept = 0;
  for (const std::uint32_t link : open_) {
    Left& left = left_[link];
    if (left.users == 0 || left.rate == kUnlimited) continue;
    open_[kept++] = link;
    if (std::exchange(left.changed, false)) left.share = left.rate / left.users;
    if (left.share > least) continue;
    if (left.share < least) tight_.clear();
    least = left.share;
    tight_.push_back(link);
  }
  open_.resize(kept);
  return least;
}

void FairShare::fix(LinkUses bundle, Rate rate) {
  for (const LinkUse& use : bundle) {
    Left& left = left_[use.link];
    left.users -= use.flows;
    if (left.rate != kUnlimited) left.rate -= rate * use.flows;
    left.changed = true;
  }
}

// All bundles of all tightest links are fixed in one round, before any share is worked out anew: the result cannot depend on
// the order in which they are listed.
void FairShare::solve(std::span<const LinkUses> bundles, std::span<Rate> rates) {
  if (bundles.size() == 1) {
    rates[0] = alone(bundles[0]);
    return;
  }
  open(bundles);
  constexpr Rate kOpen = -1;
  std::fill(rates.begin(), rates.end(), kOpen);
  for (Rate share = tightest(); share != kUnlimited; share = tightest())
    for (const std::uint32_t link : tight_)
      for (std::uint32_t i = left_[link].first; i < left_[link].end; ++i)
        if (Rate& rate = rates[on_[i]]; rate == kOpen) {
          rate = std::max<Rate>(share, 1);
          fix(bundles[on_[i]], share);
        }
  std::replace(rates.begin(), rates.end(), kOpen, kUnlimited);
  for (const std::uint32_t link : touched_) left_[link] = {};
}

}  // namespace tandem::sim
