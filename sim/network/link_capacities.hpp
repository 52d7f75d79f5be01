#pragma once
// Capacities of millions of links with few distinct values.

#include <cstdint>
#include <map>
#include <vector>

#include "sim/network/fair_share.hpp"

namespace tandem::sim {

class LinkCapacities {
 public:
  /// Adds `count` links behind the existing ones.
  void add(const Capacity& capacity, std::size_t count = 1) {
    const auto [at, fresh] = known_.try_emplace({capacity.rate, capacity.by_users}, static_cast<std::uint32_t>(kinds_.size()));
    if (fresh) kinds_.push_back(capacity);
    kind_of_.insert(kind_of_.end(), count, at->second);
  }
  void reserve(std::size_t links) { kind_of_.reserve(links); }

  std::size_t size() const { return kind_of_.size(); }
  const Capacity& operator[](std::size_t link) const { return kinds_[kind_of_[link]]; }
  /// By link: index of its distinct capacity, numbered by first links.
  const std::vector<std::uint32_t>& kind_of() const { return kind_of_; }
  std::size_t kinds() const { return kinds_.size(); }

 private:
  std::vector<Capacity> kinds_;
  std::vector<std::uint32_t> kind_of_;
  std::map<std::pair<Rate, std::vector<Rate>>, std::uint32_t> known_;
};

}  // namespace tandem::sim
