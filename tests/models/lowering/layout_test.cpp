// Layouts of random tensors, by comparing each with each; and who touched bytes last, against a map of them.

#include "models/lowering/program/layout.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "models/lowering/program/arena.hpp"
#include "models/lowering/program/last_touches.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::lowering;

namespace {

std::int64_t end_of(const std::vector<Lifetime>& tensors) {
  std::int64_t end = 0;
  for (const Lifetime& t : tensors) end = std::max(end, t.offset + t.bytes);
  return end;
}

/// Tensors that share a moment and bytes.
int collisions(const std::vector<Lifetime>& tensors) {
  int n = 0;
  for (std::size_t a = 0; a < tensors.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const Lifetime &x = tensors[a], &y = tensors[b];
      if (x.first <= y.last && y.first <= x.last && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes) ++n;
    }
  return n;
}

/// The bytes of all that live at a moment, moment by moment.
std::int64_t counted_alive(const std::vector<Lifetime>& tensors) {
  std::int32_t end = 0;
  for (const Lifetime& t : tensors) end = std::max(end, t.last + 1);
  std::int64_t most = 0;
  for (std::int32_t m = 0; m < end; ++m) {
    std::int64_t sum = 0;
    for (const Lifetime& t : tensors) sum += t.first <= m && m <= t.last ? t.bytes : 0;
    most = std::max(most, sum);
  }
  return most;
}

/// Gives every tensor, as it comes, the lowest free bytes: where an arena puts it.
void fit_first(std::vector<Lifetime>& tensors) {
  std::int32_t end = 0;
  for (const Lifetime& t : tensors) end = std::max(end, t.last + 1);
  Arena arena;
  for (std::int32_t m = 0; m < end; ++m) {
    for (Lifetime& t : tensors)
      if (t.first == m) t.offset = arena.allocate(Bytes(t.bytes)).offset;
    for (const Lifetime& t : tensors)
      if (t.last == m) arena.release(t.offset, Bytes(t.bytes), {});
  }
}

/// A move a moment, so that what goes may be followed by what takes its place. `stacked`: the share in percent of those that go in the
/// reverse order that they came in.
std::vector<Lifetime> random_tensors(std::mt19937& random, std::size_t count, unsigned stacked) {
  std::vector<Lifetime> tensors;
  std::vector<std::size_t> there;
  const unsigned sizes = 1 + random() % 7, scale = 1 + random() % 9;
  for (std::int32_t moment = 0; tensors.size() < count || !there.empty(); ++moment) {
    const bool comes = tensors.size() < count && (there.empty() || random() % 100 < (moment / 50 % 2 == 0 ? 40U : 60U));
    if (comes) {
      there.push_back(tensors.size());
      const std::int64_t units = (1 + random() % sizes) * (random() % 4 == 0 ? scale : 1);
      tensors.push_back({units * kArenaAlignment, moment, moment, 0});
      continue;
    }
    const std::size_t k = random() % 100 < stacked ? there.size() - 1 : random() % there.size();
    tensors[there[k]].last = moment;
    there.erase(there.begin() + static_cast<std::ptrdiff_t>(k));
  }
  fit_first(tensors);
  return tensors;
}

}  // namespace

TEST_CASE("no two tensors that live at once share bytes, and they end no higher than before and no lower than what lives at once") {
  int lower = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    std::vector<Lifetime> tensors = random_tensors(random, 2 + seed * 3, seed % 4 * 33);
    const std::int64_t before = end_of(tensors), most = counted_alive(tensors);
    REQUIRE(most_alive(tensors) == most);
    lay_out(tensors);
    REQUIRE(collisions(tensors) == 0);
    REQUIRE(end_of(tensors) <= before);
    REQUIRE(end_of(tensors) >= most);
    for (const Lifetime& t : tensors) REQUIRE((t.offset >= 0 && t.offset % kArenaAlignment == 0));
    if (end_of(tensors) < before) ++lower;
  }
  CHECK(lower > 60);
}

TEST_CASE("the same tensors get the same places, whatever lies around them in memory") {
  std::mt19937 random(7);
  const std::vector<Lifetime> tensors = random_tensors(random, 300, 50);
  std::vector<Lifetime> first = tensors, second;
  second.reserve(1000);
  second.assign(tensors.begin(), tensors.end());
  lay_out(first);
  lay_out(second);
  for (std::size_t i = 0; i < tensors.size(); ++i) REQUIRE(first[i].offset == second[i].offset);
}

TEST_CASE("states that stay for the backward pass and weights that come and go leave no holes") {
  // A state of 3 units a layer, and weights of 70 that are there while two layers run, gathered again in the backward pass.
  constexpr std::int32_t kLayers = 60, kSteps = 2 * kLayers;
  std::vector<Lifetime> tensors;
  for (std::int32_t step = 0; step < kSteps; ++step) {
    tensors.push_back({70 * kArenaAlignment, 2 * step, std::min(2 * step + 3, 2 * kSteps - 1), 0});
    if (step < kLayers) tensors.push_back({3 * kArenaAlignment, 2 * step + 1, 2 * (kSteps - 1 - step), 0});
  }
  fit_first(tensors);
  const std::int64_t most = counted_alive(tensors);
  lay_out(tensors);
  CHECK(collisions(tensors) == 0);
  CHECK(end_of(tensors) == most);
}

TEST_CASE("passes that are alike and share nothing get the same places") {
  std::mt19937 random(11);
  const std::vector<Lifetime> pass = random_tensors(random, 80, 50);
  const std::int32_t moments = 160;
  std::vector<Lifetime> tensors;
  for (std::int32_t n = 0; n < 5; ++n)
    for (Lifetime t : pass) {
      t.first += n * moments, t.last += n * moments;
      tensors.push_back(t);
    }
  const std::int64_t before = end_of(tensors);
  lay_out(tensors);
  REQUIRE(collisions(tensors) == 0);
  REQUIRE(end_of(tensors) < before);
  for (std::size_t i = 0; i < tensors.size(); ++i) CHECK(tensors[i].offset == tensors[i % pass.size()].offset);
}

TEST_CASE("whoever touched any byte of a place last is known, as from a list of all bytes") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    constexpr std::size_t kUnits = 60;
    std::vector<Frontier> last(kUnits);
    std::vector<bool> taken(kUnits, false);
    std::vector<std::pair<std::size_t, std::size_t>> tensors;
    LastTouches touches;
    for (int i = 0; i < 2000; ++i) {
      const std::size_t first = random() % kUnits, count = 1 + random() % std::min<std::size_t>(12, kUnits - first);
      const auto begin = taken.begin() + static_cast<std::ptrdiff_t>(first);
      const bool free = std::none_of(begin, begin + static_cast<std::ptrdiff_t>(count), [](bool t) { return t; });
      if (free) {
        Frontier expected{};
        for (std::size_t u = first; u < first + count; ++u) {
          merge(expected, last[u]);
          last[u] = {};
          taken[u] = true;
        }
        REQUIRE(touches.take(static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)) == expected);
        tensors.emplace_back(first, count);
      } else if (!tensors.empty()) {
        const std::size_t k = random() % tensors.size();
        const auto [from, n] = tensors[k];
        Frontier by;
        for (Point& p : by) p = Point(i + static_cast<int>(random() % 5), static_cast<std::uint16_t>(random() % 9));
        touches.release({static_cast<std::int64_t>(from), static_cast<std::int64_t>(n), by});
        for (std::size_t u = from; u < from + n; ++u) last[u] = by, taken[u] = false;
        tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(k));
      }
    }
  }
}
