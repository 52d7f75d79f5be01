#pragma once
// Which ranks belong to which process.

#include <cstdint>
#include <vector>

#include "exec/process/carrier.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec {

/// Ranks are distributed in ascending order, as evenly as possible: process p of P has ranks [pW/P, (p+1)W/P) of W.
class Places {
 public:
  Places(std::int64_t ranks, int processes) : ranks_(ranks), processes_(processes) {}

  int process_of(Rank r) const { return static_cast<int>(((static_cast<std::int64_t>(r.value()) + 1) * processes_ - 1) / ranks_); }
  std::int64_t first_of(int process) const { return process * ranks_ / processes_; }
  std::vector<Rank> ranks_of(int process) const {
    std::vector<Rank> all;
    for (std::int64_t r = first_of(process); r < first_of(process + 1); ++r) all.emplace_back(static_cast<std::int32_t>(r));
    return all;
  }
  std::int64_t place_in_process(Rank r) const { return r.value() - first_of(process_of(r)); }
  std::int64_t ranks() const { return ranks_; }
  int processes() const { return processes_; }

 private:
  std::int64_t ranks_;
  int processes_;
};

constexpr std::int64_t kMostRanksHere = 1 << 10;

/// Tags of messages between processes. Tags of messages between ranks contain a channel of 1 or more.
constexpr Tag kFrameTag = 0, kBodyTag = 1, kControlTag = 2;

/// Tag of a message on `channel` (1 to 127) from one rank to another.
inline Tag payload_tag(const Places& places, Rank from, Rank to, std::uint32_t channel) {
  const auto place = [&](Rank r) { return static_cast<Tag>(places.place_in_process(r)); };
  return (channel << 20) | (place(from) << 10) | place(to);
}

}  // namespace tandem::exec
