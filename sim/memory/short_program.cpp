#include "sim/memory/short_program.hpp"

#include <algorithm>
#include <numeric>

namespace tandem::sim {

namespace {

bool alike(const Allocation& a, const Allocation& b) {
  return a.last - a.first == b.last - b.first && a.bytes == b.bytes && a.kind == b.kind && a.pool == b.pool && a.name == b.name;
}

/// Instances of a program and the allocations that begin with them.
class Instances {
 public:
  explicit Instances(const Program& program) : program_(program), begins_(program.instances.size() + 2, 0) {
    for (const Allocation& a : program.memory.allocations) ++begins_[a.first + 2];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    order_.resize(program.memory.allocations.size());
    for (std::uint32_t a = 0; a < order_.size(); ++a) order_[begins_[program.memory.allocations[a].first + 1]++] = a;
  }

  bool alike(std::size_t i, std::size_t j) const {
    const Instance &x = program_.instances[i], &y = program_.instances[j];
    if (x.tmpl != y.tmpl || x.layer != y.layer || x.chunk != y.chunk || x.phase != y.phase) return false;
    const std::size_t comes = begins_[i + 1] - begins_[i];
    if (comes != begins_[j + 1] - begins_[j]) return false;
    for (std::size_t k = 0; k < comes; ++k)
      if (!sim::alike(allocation(begins_[i] + k), allocation(begins_[j] + k))) return false;
    return true;
  }

 private:
  const Allocation& allocation(std::size_t place) const { return program_.memory.allocations[order_[place]]; }

  const Program& program_;
  std::vector<std::size_t> begins_;   ///< by instance: place of its first allocation
  std::vector<std::uint32_t> order_;  ///< allocations by their first instance
};

/// The part of [begin, end) that any `copied` consecutive instances in it contain.
std::optional<Repetition> surely_copied(std::size_t begin, std::size_t end, std::size_t period, std::size_t copied) {
  const Repetition sure{end - copied, begin + copied, period};
  if (copied > end - begin || sure.begin + 2 * period > sure.end) return std::nullopt;
  return sure;
}

}  // namespace

std::optional<Repetition> find_repetition(const Program& program) {
  const auto copied = static_cast<std::size_t>(program.copied);
  if (copied == 0) return std::nullopt;
  const Instances all(program);
  const std::size_t middle = program.instances.size() / 2;
  for (std::size_t period = 1; 2 * period < copied; ++period) {
    if (copied % period != 0 || period > middle || !all.alike(middle, middle - period)) continue;
    std::size_t begin = middle, end = middle + 1;
    while (begin > period && all.alike(begin - 1, begin - 1 - period)) --begin;
    while (end < program.instances.size() && all.alike(end, end - period)) ++end;
    if (const auto sure = surely_copied(begin, end, period, copied)) return sure;
  }
  return std::nullopt;
}

ShortProgram::ShortProgram(const Program& program) : program_(&program), cut_(program.instances.size()) {
  if (const auto repetition = find_repetition(program)) shorten(*repetition);
}

void ShortProgram::shorten(const Repetition& r) {
  std::size_t longest = 0;  // instances that a repeated allocation lives
  for (const Allocation& a : program_->memory.allocations)
    if (a.first >= r.begin && a.first < r.end) longest = std::max<std::size_t>(longest, a.last - a.first + 1);
  const std::size_t cut = r.begin + ((longest + r.period - 1) / r.period + 1) * r.period;
  if (cut + r.period > r.end) return;
  const std::size_t left_out = (r.end - cut) / r.period * r.period;
  // An allocation from before the repetition must end a period before the cut, or live beyond what is left out.
  for (const Allocation& a : program_->memory.allocations)
    if (a.first < r.begin && a.last >= cut - r.period && a.last < cut + left_out) return;
  cut_ = cut, period_ = r.period;
  if (leave_out(left_out, r.begin)) return;
  cut_ = program_->instances.size(), period_ = left_out_ = 0;
  moved_.clear();
}

/// Leaves `instances` out. Returns whether the allocations that live across the cut are alike on both sides.
bool ShortProgram::leave_out(std::size_t instances, std::size_t begin) {
  left_out_ = instances;
  const auto cut = static_cast<std::uint32_t>(cut_), out = static_cast<std::uint32_t>(instances);
  std::vector<const Allocation*> behind;
  for (const Allocation& a : program_->memory.allocations) {
    const bool inside = a.first >= cut && a.first < cut + out;
    if (inside && a.last >= cut + out) behind.push_back(&a);
    if (inside) continue;
    if (a.first >= begin && a.first < cut && a.last >= cut) moved_.push_back({allocations_.size(), 0});
    Allocation& kept = allocations_.emplace_back(a);
    if (a.first >= cut) kept.first -= out, kept.last -= out;
    else if (a.last >= cut + out) kept.last -= out;
  }
  if (behind.size() != moved_.size()) return false;
  for (std::size_t i = 0; i < behind.size(); ++i) {
    const Allocation& before = allocations_[moved_[i].allocation];
    if (!alike(before, *behind[i]) || before.first + out != behind[i]->first) return false;
    moved_[i].offset = behind[i]->offset;
  }
  return true;
}

}  // namespace tandem::sim
