#include "models/lowering/program/layout.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace tandem::lowering {
namespace {

/// A layout within a thousandth of the live peak is good enough to stop the search.
constexpr std::int64_t kWorth = 1000;

std::vector<std::int64_t> alive(const std::vector<Lifetime>& tensors) {
  std::int32_t end = 0;
  for (const Lifetime& t : tensors) end = std::max(end, t.last + 1);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(end) + 1, 0);
  for (const Lifetime& t : tensors) {
    bytes[static_cast<std::size_t>(t.first)] += t.bytes;
    bytes[static_cast<std::size_t>(t.last) + 1] -= t.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

/// The largest of neighbouring numbers, by the largest of each block of them.
class LargestOf {
 public:
  explicit LargestOf(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      i % kBlock == 0 ? blocks_.push_back(numbers_[i]) : raise(blocks_.back(), numbers_[i]);
  }
  /// `last`: inclusive.
  std::int64_t between(std::int32_t first, std::int32_t last) const {
    auto i = static_cast<std::size_t>(first);
    const std::size_t end = static_cast<std::size_t>(last) + 1;
    std::int64_t most = numbers_[i];
    for (; i < end && i % kBlock != 0; ++i) raise(most, numbers_[i]);
    for (; i + kBlock <= end; i += kBlock) raise(most, blocks_[i / kBlock]);
    for (; i < end; ++i) raise(most, numbers_[i]);
    return most;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  static constexpr std::size_t kBlock = 64;
  static void raise(std::int64_t& most, std::int64_t number) { most = std::max(most, number); }
  std::vector<std::int64_t> numbers_, blocks_;
};

/// Tensors with a place, by offset: all of them, and those alive in each
/// of several periods, so that a short-lived tensor checks few others.
class Placed {
 public:
  explicit Placed(std::size_t moments) : width_(std::max(kLeast, moments / kStretches)), stretches_(moments / width_ + 1) {}

  /// The lowest offset with `bytes` free bytes during the whole lifetime.
  std::int64_t lowest(const Lifetime& t) const {
    const std::size_t first = stretch(t.first), last = stretch(t.last);
    if (last - first >= kFew) return lowest(t, {&all_});
    Lists lists{};
    for (std::size_t s = first; s <= last; ++s) lists[s - first] = &stretches_[s];
    return lowest(t, lists);
  }

  void add(const Lifetime& t) {
    places_.push_back({t.offset, t.offset + t.bytes, t.first, t.last});
    insert(all_);
    for (std::size_t s = stretch(t.first); s <= stretch(t.last); ++s) insert(stretches_[s]);
  }

 private:
  struct Place {
    std::int64_t offset, end;
    std::int32_t first, last;
  };
  using List = std::vector<std::uint32_t>;  ///< indices of places_, by offset
  static constexpr std::size_t kLeast = 32, kStretches = 64, kFew = 4;
  using Lists = std::array<const List*, kFew>;

  std::size_t stretch(std::int32_t moment) const { return static_cast<std::size_t>(moment) / width_; }
  /// The last place.
  void insert(List& list) const {
    const auto below = [this](std::uint32_t a, std::uint32_t b) { return places_[a].offset < places_[b].offset; };
    const auto last = static_cast<std::uint32_t>(places_.size() - 1);
    list.insert(std::upper_bound(list.begin(), list.end(), last, below), last);
  }
  std::int64_t lowest(const Lifetime& t, const Lists& lists) const {
    struct Rest {
      const std::uint32_t *next, *end;
    };
    std::array<Rest, kFew> rests{};
    std::size_t n = 0;
    for (const List* list : lists)
      if (list && !list->empty()) rests[n++] = {list->data(), list->data() + list->size()};
    std::int64_t at = 0;
    while (n > 0) {
      std::size_t k = 0;
      for (std::size_t i = 1; i < n; ++i)
        if (places_[*rests[i].next].offset < places_[*rests[k].next].offset) k = i;
      const Place& p = places_[*rests[k].next];
      if (p.offset - at >= t.bytes) break;  // all further ones lie above
      if (p.first <= t.last && t.first <= p.last) at = std::max(at, p.end);
      if (++rests[k].next == rests[k].end) rests[k] = rests[--n];
    }
    return at;
  }

  std::size_t width_;
  std::vector<Place> places_;
  List all_;
  std::vector<List> stretches_;
};

/// Orders in which tensors are placed, best first.
enum class Order { crowd_then_bytes, bytes_then_length, crowd_then_length };
constexpr Order kOrders[] = {Order::crowd_then_bytes, Order::bytes_then_length, Order::crowd_then_length};

/// A tensor and its sort keys. `crowd`: largest sum of live bytes during its lifetime.
struct Ranked {
  std::int64_t first, second;
  std::size_t tensor;
};

std::vector<Ranked> ranked(const std::vector<Lifetime>& tensors, const std::vector<std::int64_t>& crowd, Order order) {
  std::vector<Ranked> list;
  list.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t length = tensors[i].last - tensors[i].first;
    list.push_back({order == Order::bytes_then_length ? tensors[i].bytes : crowd[i],
                    order == Order::crowd_then_bytes ? tensors[i].bytes : length, i});
  }
  std::sort(list.begin(), list.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(b.first, b.second, a.tensor) < std::tie(a.first, a.second, b.tensor);
  });
  return list;
}

/// Places tensors at their lowest free bytes and returns the end. Stops early once that reaches `end`.
std::int64_t place(std::vector<Lifetime>& tensors, const std::vector<Ranked>& order, std::size_t moments, std::int64_t end) {
  Placed placed(moments);
  std::int64_t high = 0;
  for (const Ranked& r : order) {
    Lifetime& t = tensors[r.tensor];
    t.offset = placed.lowest(t);
    high = std::max(high, t.offset + t.bytes);
    if (high >= end) break;
    placed.add(t);
  }
  return high;
}

std::int64_t end_of(std::span<const Lifetime> tensors) {
  std::int64_t end = 0;
  for (const Lifetime& t : tensors) end = std::max(end, t.offset + t.bytes);
  return end;
}

/// Tries orders until one ends at `enough` or lower, and keeps the lowest.
void improve(std::span<Lifetime> tensors, std::int64_t enough) {
  const std::int32_t start = tensors.front().first;
  std::vector<Lifetime> tried(tensors.begin(), tensors.end());
  for (Lifetime& t : tried) t.first -= start, t.last -= start;
  const LargestOf crowds(alive(tried));
  std::vector<std::int64_t> crowd;
  crowd.reserve(tried.size());
  for (const Lifetime& t : tried) crowd.push_back(crowds.between(t.first, t.last));
  std::int64_t end = end_of(tensors);
  for (const Order order : kOrders) {
    if (end <= enough) return;
    const std::int64_t high = place(tried, ranked(tried, crowd, order), crowds.size(), end);
    if (high >= end) continue;
    end = high;
    for (std::size_t i = 0; i < tried.size(); ++i) tensors[i].offset = tried[i].offset;
  }
}

/// Groups of tensors that live while no tensor of another group does: the passes of a micro-batch that no later one overlaps.
std::vector<std::span<Lifetime>> apart(std::vector<Lifetime>& tensors) {
  std::vector<std::int32_t> next(tensors.size());  // the first moment of any from there on
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = tensors.size(); i-- > 0;) next[i] = least = std::min(least, tensors[i].first);
  std::vector<std::span<Lifetime>> rows;
  std::size_t begin = 0;
  std::int32_t last = -1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i > begin && last < next[i]) rows.push_back({tensors.data() + begin, i - begin}), begin = i;
    last = std::max(last, tensors[i].last);
  }
  if (begin < tensors.size()) rows.push_back({tensors.data() + begin, tensors.size() - begin});
  return rows;
}

bool alike(std::span<const Lifetime> a, std::span<const Lifetime> b) {
  const std::int32_t later = b.front().first - a.front().first;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Lifetime& x, const Lifetime& y) {
    return x.bytes == y.bytes && x.first + later == y.first && x.last + later == y.last;
  });
}

}  // namespace

std::int64_t most_alive(const std::vector<Lifetime>& tensors) {
  const std::vector<std::int64_t> bytes = alive(tensors);
  return *std::max_element(bytes.begin(), bytes.end());
}

void lay_out(std::vector<Lifetime>& tensors) {
  const std::int64_t most = most_alive(tensors), enough = most + most / kWorth;
  if (end_of(tensors) <= enough) return;
  std::vector<std::span<Lifetime>> improved;
  for (const std::span<Lifetime> row : apart(tensors)) {
    if (end_of(row) <= enough) continue;
    const auto same = std::find_if(improved.begin(), improved.end(), [&](const auto& other) { return alike(other, row); });
    if (same == improved.end()) {
      improve(row, enough);
      improved.push_back(row);
      continue;
    }
    for (std::size_t i = 0; i < row.size(); ++i) row[i].offset = (*same)[i].offset;
  }
}

}  // namespace tandem::lowering
