#include "exec/tokenizer/split.hpp"

namespace tandem::exec {

SplitBehavior read_behavior(const Place& place) {
  const std::string name = place.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  place.refuse("is no behavior: there are Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

/// Whether a segment becomes one with those before it.
bool SegmentJoiner::joins(const Segment& segment) const {
  switch (behavior_) {
    case SplitBehavior::merged_with_previous: return segment.match && !last_matched_;
    case SplitBehavior::merged_with_next: return last_matched_ && !segment.match;
    case SplitBehavior::contiguous: return segment.match == last_matched_;
    case SplitBehavior::removed:
    case SplitBehavior::isolated: break;
  }
  return false;
}

void SegmentJoiner::add(const Segment& segment) {
  if (behavior_ == SplitBehavior::isolated) return take_(segment.begin, segment.end);
  if (behavior_ == SplitBehavior::removed) return segment.match ? void() : take_(segment.begin, segment.end);
  if (held_ && joins(segment)) held_->end = segment.end;
  else finish(), held_ = segment;
  last_matched_ = segment.match;
}

void SegmentJoiner::finish() {
  if (held_) take_(held_->begin, held_->end);
  held_.reset();
}

}  // namespace tandem::exec
