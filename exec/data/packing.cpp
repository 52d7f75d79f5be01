#include "exec/data/packing.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "models/base/error.hpp"

namespace tandem::exec {

std::vector<std::vector<std::size_t>> pack(std::span<const std::int64_t> lengths, std::int64_t room) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<std::size_t>> sequences;
  std::multimap<std::int64_t, std::size_t> by_room;  // sequences by the room that is left; equal ones in order of insertion
  for (const std::size_t document : order) {
    require(lengths[document] >= 1 && lengths[document] <= room, "a document that no sequence has room for");
    auto place = by_room.lower_bound(lengths[document]);
    if (place == by_room.end()) {
      place = by_room.emplace(room, sequences.size());
      sequences.emplace_back();
    }
    const auto [left, sequence] = *place;
    sequences[sequence].push_back(document);
    by_room.erase(place);
    by_room.emplace(left - lengths[document], sequence);
  }
  return sequences;
}

}  // namespace tandem::exec
