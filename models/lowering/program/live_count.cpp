#include "models/lowering/program/live_count.hpp"

#include <algorithm>
#include <numeric>

namespace tandem::lowering {
namespace {

constexpr std::size_t kMostSlots = 64;  ///< slots checked; with more, bound buffers count for the whole instance

std::size_t at(MemoryKind k) { return static_cast<std::size_t>(k); }
std::size_t at(Pool p) { return static_cast<std::size_t>(p); }
std::uint64_t bit(std::size_t slot) { return slot < kMostSlots ? std::uint64_t{1} << slot : 0; }

Bytes total(const BytesByKind& live) { return std::accumulate(live.begin(), live.end(), Bytes(0)); }

}  // namespace

TemplateTensors::TemplateTensors(const Template& t)
    : scratch(t.tasks.size(), 0), ahead(t.tasks.size(), 0), slots(slot_tensors(t)) {
  std::vector<bool> any(t.tasks.size(), false);
  for (const ScratchTensor& s : t.scratch) {
    if (s.ahead) any[static_cast<std::size_t>(s.first)] = true;
    for (std::int32_t k = s.first; k <= s.last; ++k) {
      if (!s.ahead) scratch[static_cast<std::size_t>(k)] += s.bytes.count();
      if (s.ahead || k > s.first) ahead[static_cast<std::size_t>(k)] += s.bytes.count();
    }
  }
  for (std::size_t k = 0; k < any.size(); ++k)
    if (!any[k]) ahead[k] = 0;
  for (const auto* bytes : {&scratch, &ahead})
    for (const std::int64_t b : *bytes) most_scratch = std::max(most_scratch, b);
}

std::int64_t TemplateTensors::before(std::size_t s, std::int64_t task) const {
  std::int64_t sum = 0;
  for (const TensorSpan& t : slots[s])
    if (task < t.first) sum += t.bytes();
  return sum;
}

std::int64_t TemplateTensors::behind(std::size_t s, std::int64_t task) const {
  std::int64_t sum = 0;
  for (const TensorSpan& t : slots[s])
    if (t.last < task) sum += t.bytes();
  return sum;
}

void LiveCount::add(MemoryKind kind, Pool pool, Bytes bytes) {
  live_[at(kind)] += bytes;
  in_pool_[at(pool)] += bytes;
}

void LiveCount::remove(BufferId buffer, MemoryKind kind, Pool pool, Bytes bytes) {
  live_[at(kind)] -= bytes;
  in_pool_[at(pool)] -= bytes;
  if (!tensors_) return;
  for (std::size_t s = 0; s < slots_.size(); ++s)
    if (slots_[s].buffer == buffer && alone(s)) going_ |= bit(s + 1);
}

bool LiveCount::next(const TemplateTensors& tensors) {
  settle();
  const auto own = static_cast<std::size_t>(Pool::computation);
  for (std::size_t p = 0; p < kPools; ++p)
    if (p != own) pool_peaks_[p] = std::max(pool_peaks_[p], in_pool_[p]);
  const Bytes scratch(tensors.most_scratch);
  return total(live_) + scratch > peak_ || in_pool_[own] + scratch > pool_peaks_[own];
}

void LiveCount::instance(TemplateId id, const TemplateTensors& tensors, std::vector<Bound>& slots) {
  id_ = id;
  tensors_ = &tensors;
  slots_.swap(slots);
  live_then_ = live_;
  in_pool_then_ = in_pool_;
  coming_ = going_ = 0;
  for (std::size_t s = 0; s < slots_.size(); ++s)
    if (slots_[s].comes && alone(s)) coming_ |= bit(s + 1);
}

/// Whether no other slot of the instance shares bytes with it.
inline bool LiveCount::alone(std::size_t slot) const {
  const Bound& one = slots_[slot];
  return std::none_of(slots_.begin(), slots_.end(), [&](const Bound& o) {
    return &o != &one && o.buffer == one.buffer && o.offset < one.offset + one.bytes.count() &&
           one.offset < o.offset + o.bytes.count();
  });
}

void LiveCount::settle() {
  if (!tensors_) return;
  const Most all = most(coming_, going_);
  note(all, coming_, going_);
  // Bytes on other streams' pools are as between instances.
  Slots here = 0;
  for (std::size_t s = 0; s < slots_.size(); ++s)
    if (slots_[s].pool == Pool::computation) here |= bit(s + 1);
  const bool whole = (coming_ & ~here) == 0 && (going_ & ~here) == 0;
  const Most own = whole ? all : most(coming_ & here, going_ & here);
  Bytes& peak = pool_peaks_[at(Pool::computation)];
  peak = std::max(peak, in_pool_then_[at(Pool::computation)] + Bytes(own.bytes));
  tensors_ = nullptr;
}

void LiveCount::show(RepeatDetector& r) const {
  const auto all = [&](const auto& list) {
    for (const Bytes b : list) r.number(b.count());
  };
  all(live_);
  all(in_pool_);
  r.number(tensors_ != nullptr ? id_.value() : -1);
  if (tensors_ == nullptr) return;
  for (const Bound& b : slots_) {
    r.number(b.buffer == kNoBuffer ? -1 : b.offset);
    r.number(b.bytes.count());
    r.number(static_cast<std::int64_t>(at(b.kind)));
    r.number(static_cast<std::int64_t>(at(b.pool)));
    r.number(b.comes ? 1 : 0);
  }
  all(live_then_);
  all(in_pool_then_);
  r.number(static_cast<std::int64_t>(coming_));
  r.number(static_cast<std::int64_t>(going_));
}

inline LiveCount::Most LiveCount::most(Slots coming, Slots going) {
  if (known_.size() <= id_.index()) known_.resize(id_.index() + 1);
  for (const Known& k : known_[id_.index()])
    if (k.coming == coming && k.going == going) return k.most;
  known_[id_.index()].push_back({coming, going, search(coming, going)});
  return known_[id_.index()].back().most;
}

LiveCount::Most LiveCount::search(Slots coming, Slots going) const {
  Most most{-1, 0};
  bool none = true;
  for (std::size_t k = 0; k < tensors_->scratch.size(); ++k) {
    const auto task = static_cast<std::int64_t>(k);
    for (const bool ahead : {false, true}) {
      if (ahead && tensors_->ahead[k] == 0) continue;
      std::int64_t bytes = ahead ? tensors_->ahead[k] : tensors_->scratch[k];
      for (std::size_t s = 1; s < std::min(kMostSlots, tensors_->slots.size()); ++s) {
        if (coming & bit(s)) bytes -= tensors_->before(s, ahead ? task - 1 : task);
        if (going & bit(s)) bytes -= tensors_->behind(s, task);
      }
      if (none || bytes > most.bytes) most = {bytes, k, ahead};
      none = false;
    }
  }
  return none ? Most{} : most;
}

inline void LiveCount::note(const Most& most, Slots coming, Slots going) {
  const Bytes now = total(live_then_) + Bytes(most.bytes);
  if (now <= peak_) return;
  peak_ = now;
  at_peak_ = live_then_;
  if (tensors_->scratch.empty()) return;
  at_peak_[at(MemoryKind::workspace)] += Bytes(most.ahead ? tensors_->ahead[most.task] : tensors_->scratch[most.task]);
  const auto task = static_cast<std::int64_t>(most.task), there = most.ahead ? task - 1 : task;
  for (std::size_t s = 1; s <= std::min(kMostSlots - 1, slots_.size()); ++s) {
    Bytes& kind = at_peak_[at(slots_[s - 1].kind)];
    if (coming & bit(s)) kind -= Bytes(tensors_->before(s, there));
    if (going & bit(s)) kind -= Bytes(tensors_->behind(s, task));
  }
}

Bytes LiveCount::apart_in_pools() const { return std::accumulate(pool_peaks_.begin(), pool_peaks_.end(), Bytes(0)) - peak_; }

}  // namespace tandem::lowering
