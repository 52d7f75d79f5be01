// The arena against a map of its units of alignment: first fit by looking at every one of them.

#include "models/lowering/arena.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::lowering;

namespace {

/// Who touched each unit last, and whether it is free.
class Units {
 public:
  struct Found {
    std::int64_t first;
    Frontier prior;
  };

  Found allocate(std::int64_t count) {
    std::size_t first = 0, free = 0;
    for (std::size_t u = 0; u < free_.size() && free < static_cast<std::size_t>(count); ++u) {
      free = free_[u] ? free + 1 : 0;
      first = u + 1 - free;
    }
    if (free == 0) first = free_.size();
    return take(first, count);
  }
  Found append(std::int64_t count) { return take(free_.size(), count); }
  void release(std::int64_t first, std::int64_t count, const Frontier& last) {
    for (std::int64_t u = first; u < first + count; ++u) {
      free_[static_cast<std::size_t>(u)] = true;
      last_[static_cast<std::size_t>(u)] = last;
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(free_.size()); }

 private:
  Found take(std::size_t first, std::int64_t count) {
    const std::size_t end = first + static_cast<std::size_t>(count);
    if (free_.size() < end) free_.resize(end), last_.resize(end);
    Found found{static_cast<std::int64_t>(first), {}};
    for (std::size_t u = first; u < end; ++u) {
      for (std::size_t s = 0; s < kStreams; ++s) found.prior[s] = std::max(found.prior[s], last_[u][s]);
      free_[u] = false;
      last_[u] = {};
    }
    return found;
  }

  std::vector<bool> free_;
  std::vector<Frontier> last_;
};

struct Live {
  std::int64_t first, count;
};

}  // namespace

TEST_CASE("the arena finds what looking at every byte from the first one on finds, with who touched it") {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    Arena arena;
    Units units;
    std::vector<Live> live;
    const unsigned most = 1 + seed % 9, growing = 52 + seed % 20;  // sizes in units, and a share in percent
    for (int i = 0; i < 3000; ++i) {
      const bool allocates = live.empty() || random() % 100 < (i / 400 % 2 == 0 ? growing : 100 - growing);
      if (allocates) {
        const std::int64_t count = (1 + random() % most) * (random() % 20 == 0 ? 30 : 1);
        const Bytes bytes(count * kArenaAlignment - static_cast<std::int64_t>(random() % kArenaAlignment));
        const bool apart = random() % 50 == 0;
        const Arena::Block block = apart ? arena.append(bytes) : arena.allocate(bytes);
        const Units::Found expected = apart ? units.append(count) : units.allocate(count);
        REQUIRE(block.offset == expected.first * kArenaAlignment);
        REQUIRE(block.bytes == Bytes(count * kArenaAlignment));
        REQUIRE(block.prior == expected.prior);
        live.push_back({expected.first, count});
      } else {
        const std::size_t k = random() % 3 == 0 ? live.size() - 1 : random() % live.size();
        Frontier last;
        for (Point& p : last) p = Point(i + static_cast<int>(random() % 5), static_cast<std::uint16_t>(random() % 9));
        arena.release(live[k].first * kArenaAlignment, Bytes(live[k].count * kArenaAlignment), last);
        units.release(live[k].first, live[k].count, last);
        live[k] = live.back();
        live.pop_back();
      }
      REQUIRE(arena.high_water() == Bytes(units.size() * kArenaAlignment));
    }
  }
}
