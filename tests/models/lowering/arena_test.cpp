// The arena against a map of its units of alignment and a list of what was freed, each looked at one by one.

#include "models/lowering/program/arena.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::lowering;

namespace {

/// Who touched each unit last, and whether it is free. What was freed stays a place of its size until there is no other room.
class Units {
 public:
  struct Found {
    std::int64_t first;
    Frontier prior;
  };

  Found allocate(std::int64_t count) {
    for (std::size_t p = places_.size(); p-- > 0;)
      if (places_[p].count == count) {
        const std::size_t first = places_[p].first;
        places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(p));
        return take(first, count);
      }
    Run run = first_fit(count);
    if (run.count < count) {
      give_up_places();
      run = first_fit(count);
    }
    return take(run.first, count);
  }
  Found append(std::int64_t count) { return take(free_.size(), count); }
  void release(std::int64_t first, std::int64_t count, const Frontier& last) {
    for (std::int64_t u = first; u < first + count; ++u) last_[static_cast<std::size_t>(u)] = last;
    places_.push_back({static_cast<std::size_t>(first), count});
    if (!keeps_) give_up_places();
  }
  void keep_places() { keeps_ = true; }
  std::int64_t size() const { return static_cast<std::int64_t>(free_.size()); }

 private:
  struct Run {
    std::size_t first;
    std::int64_t count;
  };
  void give_up_places() {
    for (const Run& p : places_)
      for (std::size_t u = p.first; u < p.first + static_cast<std::size_t>(p.count); ++u) free_[u] = true;
    places_.clear();
  }
  /// The first run of so many free units, or the one at the end, which may be shorter.
  Run first_fit(std::int64_t count) const {
    Run run{0, 0};
    for (std::size_t u = 0; u < free_.size() && run.count < count; ++u) {
      run.count = free_[u] ? run.count + 1 : 0;
      run.first = u + 1 - static_cast<std::size_t>(run.count);
    }
    return run.count > 0 ? run : Run{free_.size(), 0};
  }
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

  std::vector<bool> free_;         ///< of no tensor, and no place
  std::vector<Frontier> last_;
  std::vector<Run> places_;        ///< as they were freed
  bool keeps_ = false;
};

struct Live {
  std::int64_t first, count;
};

}  // namespace

TEST_CASE("the arena finds the last place of a size, else what looking at every byte finds, with who touched it") {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    Arena arena;
    Units units;
    std::vector<Live> live;
    const unsigned most = 1 + seed % 9, growing = 52 + seed % 20;  // sizes in units, and a share in percent
    for (int i = 0; i < 3000; ++i) {
      if (i == 1200 + static_cast<int>(seed % 3) * 900) {
        arena.keep_places();
        units.keep_places();
      }
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
