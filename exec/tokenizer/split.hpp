#pragma once
// How a pre-tokenizer joins matches with what lies between them.

#include <functional>
#include <optional>
#include <string_view>

#include "exec/tokenizer/pattern.hpp"

namespace tandem::exec {

/// SplitDelimiterBehavior of the tokenizers library.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Reads a behavior by its name in tokenizer.json.
SplitBehavior read_behavior(const Place& place);

/// Joins segments as they come. Segments are passed on as soon as nothing can join them, so no list is kept.
class SegmentJoiner {
 public:
  using Take = std::function<void(std::size_t begin, std::size_t end)>;
  SegmentJoiner(SplitBehavior behavior, const Take& take) : behavior_(behavior), take_(take) {}
  void add(const Segment& segment);
  /// Passes on what is left. Call it once, last.
  void finish();

 private:
  bool joins(const Segment& segment) const;

  SplitBehavior behavior_;
  const Take& take_;
  std::optional<Segment> held_;
  bool last_matched_ = false;
};

}  // namespace tandem::exec
