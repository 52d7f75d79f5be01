#include "sim/memory/caching_allocator.hpp"

#include <algorithm>
#include <random>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// Every 512 bytes of every segment: the number of the tensor that has it, 0 where it is free. Found by looking at all of it.
class Map {
 public:
  explicit Map(bool expandable = false) : expandable_(expandable) {}
  /// Number of a new tensor.
  int allocate(std::int64_t bytes) {
    const std::size_t units = std::max<std::size_t>(1, static_cast<std::size_t>((bytes + 511) / 512));
    const bool small = units <= 2048;
    std::size_t best_segment = segments_.size(), best_from = 0, best = 0, best_room = 0;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (small_[s] != small) continue;
      for (const auto& [from, free] : holes(segments_[s]))
        if (free >= units && (best == 0 || room(s, from, free) < best_room))
          best_segment = s, best_from = from, best = free, best_room = room(s, from, free);
    }
    if (best == 0 && expandable_) {
      best_segment = static_cast<std::size_t>(std::find(small_.begin(), small_.end(), small) - small_.begin());
      if (best_segment == segments_.size()) segments_.emplace_back(), small_.push_back(small);
      auto& all = segments_[best_segment];
      const auto last_used = std::find_if(all.rbegin(), all.rend(), [](int t) { return t != 0; });
      best_from = static_cast<std::size_t>(all.rend() - last_used);
      while (all.size() < best_from + units) all.resize(all.size() + (small ? 4096 : 40960), 0);
      best = all.size() - best_from;
    }
    if (best == 0) {
      best = small ? 4096 : units < 20480 ? 40960 : (units + 4095) / 4096 * 4096;
      segments_.emplace_back(best, 0);
      small_.push_back(small);
    }
    const std::size_t rest = best - units, taken = (small || expandable_ ? rest >= 1 : rest > 2048) ? units : best;
    std::fill_n(segments_[best_segment].begin() + static_cast<std::ptrdiff_t>(best_from), taken, ++tensors_);
    return tensors_;
  }
  void release(int tensor) {
    for (auto& s : segments_) std::replace(s.begin(), s.end(), tensor, 0);
  }
  void give_back() {
    for (auto& s : segments_)
      if (std::count(s.begin(), s.end(), 0) == static_cast<std::ptrdiff_t>(s.size())) s.clear();
  }
  std::int64_t reserved() const {
    std::int64_t sum = 0;
    for (const auto& s : segments_) sum += static_cast<std::int64_t>(s.size()) * 512;
    return sum;
  }
  std::int64_t allocated() const {
    std::int64_t sum = 0;
    for (const auto& s : segments_) sum += (static_cast<std::int64_t>(s.size()) - std::count(s.begin(), s.end(), 0)) * 512;
    return sum;
  }

 private:
  /// What a hole can become: one at the end of an expandable segment is as large as a tensor may ask for.
  std::size_t room(std::size_t segment, std::size_t from, std::size_t free) const {
    return expandable_ && from + free == segments_[segment].size() ? SIZE_MAX : free;
  }
  static std::vector<std::pair<std::size_t, std::size_t>> holes(const std::vector<int>& segment) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (std::size_t i = 0; i < segment.size(); ++i) {
      if (segment[i] != 0) continue;
      if (i == 0 || segment[i - 1] != 0) out.emplace_back(i, 0);
      ++out.back().second;
    }
    return out;
  }

  bool expandable_;
  std::vector<std::vector<int>> segments_;
  std::vector<bool> small_;
  int tensors_ = 0;
};

}  // namespace

TEST_CASE("small tensors share segments of 2 MiB, middling ones of 20, and large ones have their own in steps of 2") {
  CachingAllocator a;
  const auto reserved = [&](std::int64_t bytes) {
    a.allocate(Bytes(bytes));
    return a.reserved().count() / kMiB;
  };
  CHECK(reserved(1) == 2);
  CHECK(a.allocated() == Bytes(512));
  CHECK(reserved(kMiB) == 2);
  CHECK(reserved(kMiB) == 4);           // 512 bytes are missing
  CHECK(reserved(kMiB + 1) == 24);
  CHECK(reserved(10 * kMiB - 1) == 24);
  CHECK(reserved(10 * kMiB) == 34);
  CHECK(reserved(31 * kMiB) == 66);
}

TEST_CASE("a rest of more than 1 MiB is another block, a smaller one goes with its tensor") {
  CachingAllocator a;
  a.release(a.allocate(Bytes(30 * kMiB)));
  a.allocate(Bytes(29 * kMiB));
  CHECK(a.allocated() == Bytes(30 * kMiB));
  CachingAllocator b;
  b.release(b.allocate(Bytes(30 * kMiB)));
  b.allocate(Bytes(28 * kMiB));
  CHECK(b.allocated() == Bytes(28 * kMiB));
}

TEST_CASE("a tensor that stays between others that have gone costs what lies free beside it") {
  CachingAllocator a;
  const auto wide = a.allocate(Bytes(100 * kMiB));
  a.release(wide);
  const auto left = a.allocate(Bytes(40 * kMiB));
  a.allocate(Bytes(20 * kMiB));  // stays
  a.release(left);
  a.allocate(Bytes(60 * kMiB));  // 80 MiB are free, in two parts of 40
  CHECK(a.reserved() == Bytes(160 * kMiB));
}

TEST_CASE("what is freed joins its neighbours, and what is not there is not freed") {
  CachingAllocator a;
  a.release(a.allocate(Bytes(90 * kMiB)));
  const auto x = a.allocate(Bytes(30 * kMiB)), y = a.allocate(Bytes(30 * kMiB)), z = a.allocate(Bytes(30 * kMiB));
  a.release(x), a.release(z), a.release(y);
  a.allocate(Bytes(90 * kMiB));
  CHECK(a.reserved() == Bytes(90 * kMiB));
  CHECK_THROWS_AS(a.release(y), ContractError);
  CHECK_THROWS_AS(a.release({7, 0}), ContractError);
}

TEST_CASE("an expandable segment grows behind what is free at its end, and what is free in it is one whatever it was taken for") {
  CachingAllocator a(true);
  const auto x = a.allocate(Bytes(40 * kMiB)), y = a.allocate(Bytes(40 * kMiB));
  a.release(x), a.release(y);
  const auto both = a.allocate(Bytes(80 * kMiB));  // two segments of 40 MiB would not do
  CHECK(a.reserved() == Bytes(80 * kMiB));
  a.release(both);
  const auto z = a.allocate(Bytes(60 * kMiB));
  a.allocate(Bytes(100 * kMiB));  // 20 are free behind it
  CHECK(a.reserved() == Bytes(160 * kMiB));
  a.release(z);
  a.allocate(Bytes(61 * kMiB));  // in steps of 20 MiB
  CHECK(a.reserved() == Bytes(240 * kMiB));
  a.allocate(Bytes(300));  // small ones in a segment of their own
  CHECK(a.reserved() == Bytes(242 * kMiB));
}

TEST_CASE("the end of an expandable segment is left for what needs it, and no more is mapped than a tensor lacks") {
  CachingAllocator a(true);
  const auto x = a.allocate(Bytes(50 * kMiB));
  a.allocate(Bytes(30 * kMiB));
  const auto y = a.allocate(Bytes(40 * kMiB));
  a.release(x), a.release(y);
  a.allocate(Bytes(35 * kMiB));  // of the 50, not of the 40 at the end
  a.allocate(Bytes(60 * kMiB));  // behind those
  CHECK(a.reserved() == Bytes(140 * kMiB));
  CachingAllocator b(true);
  b.allocate(Bytes(20 * kMiB - 512));
  b.allocate(Bytes(20 * kMiB + 512));  // 512 bytes are free, so 20 MiB are missing, not 22
  CHECK(b.reserved() == Bytes(40 * kMiB));
}

TEST_CASE("segments that hold no tensor are given back, others with all that is free in them are not") {
  CachingAllocator a;
  const auto x = a.allocate(Bytes(40 * kMiB)), y = a.allocate(Bytes(30 * kMiB));
  const auto z = a.allocate(Bytes(1000)), w = a.allocate(Bytes(1000));
  a.release(x), a.release(z);
  const auto part = a.allocate(Bytes(10 * kMiB));  // of the 40
  a.release(y);
  CHECK(a.growth(Bytes(31 * kMiB)) == Bytes(32 * kMiB));
  CHECK(a.growth(Bytes(30 * kMiB)) == Bytes(0));
  CHECK(a.growth(Bytes(500)) == Bytes(0));
  a.give_back();
  CHECK(a.reserved() == Bytes(42 * kMiB));  // the 40, and 2 of small ones
  CHECK(a.growth(Bytes(30 * kMiB)) == Bytes(0));
  CHECK(a.growth(Bytes(31 * kMiB)) == Bytes(32 * kMiB));
  a.release(part), a.release(w);
  a.give_back();
  CHECK(a.reserved() == Bytes(0));
  CHECK(a.allocated() == Bytes(0));
  CHECK_THROWS_AS(a.release(w), ContractError);
  a.allocate(Bytes(40 * kMiB));
  CHECK(a.reserved() == Bytes(40 * kMiB));
  CachingAllocator expandable(true);
  CHECK_THROWS_AS(expandable.give_back(), ContractError);
}

TEST_CASE("segments are as a search through every byte finds them") {
  std::mt19937 random(GENERATE(1u, 2u, 3u, 4u));
  const bool expandable = GENERATE(false, true);
  CachingAllocator a(expandable);
  Map map(expandable);
  std::vector<std::pair<CachingAllocator::Place, int>> alive;
  const std::int64_t sizes[] = {300, 5000, kMiB / 2, kMiB, kMiB + 5, 3 * kMiB, 7 * kMiB, 10 * kMiB, 11 * kMiB + 3, 24 * kMiB};
  for (int n = 0; n < 400; ++n) {
    if (!alive.empty() && random() % 5 < 2) {
      const std::size_t which = random() % alive.size();
      a.release(alive[which].first);
      map.release(alive[which].second);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::int64_t bytes = sizes[random() % std::size(sizes)];
      const Bytes before = a.reserved(), growth = expandable ? Bytes(0) : a.growth(Bytes(bytes));
      alive.emplace_back(a.allocate(Bytes(bytes)), map.allocate(bytes));
      if (!expandable) REQUIRE(a.reserved() == before + growth);
    }
    if (!expandable && random() % 50 == 0) a.give_back(), map.give_back();
    REQUIRE(a.reserved() == Bytes(map.reserved()));
    REQUIRE(a.allocated() == Bytes(map.allocated()));
  }
}
