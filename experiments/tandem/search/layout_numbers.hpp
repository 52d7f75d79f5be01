#pragma once
// What the numbers of a layout refuse, without a plan: most candidates of a search. Each rule is one of models/planfile/plan_layout_check.

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/tandem/search/question.hpp"

namespace tandem::search {

class LayoutNumbers {
 public:
  /// `strides`: by axis, the difference between the ids of candidates that differ by one of its values. `first`: a completed candidate.
  LayoutNumbers(const Question& question, const std::vector<std::int64_t>& strides, const Plan& first);

  /// True if tensor x pipeline x context (x data) divides the devices.
  bool divides(std::int64_t id) const;
  /// True if the layout of a candidate that divides the devices surely is refused. False: it may be refused all the same.
  bool refuses(std::int64_t id) const;

 private:
  /// A field as a number, by candidate.
  struct Number {
    bool known = true;               ///< an axis or the plan says it, so no default depends on the candidate
    std::int64_t stride = 1;
    std::vector<std::int64_t> values;

    std::int64_t of(std::int64_t id) const {
      return values.size() == 1 ? values.front() : values[static_cast<std::size_t>(id / stride) % values.size()];
    }
  };

  using Reader = std::int64_t (*)(const Plan&);
  Number number(const Question& question, const std::vector<std::int64_t>& strides, const std::string& field, Reader read) const;
  std::int64_t data_of(std::int64_t id) const;
  bool refuses_tensor(std::int64_t id) const;
  bool refuses_chunks(std::int64_t id) const;
  bool refuses_batch(std::int64_t id) const;
  bool refuses_experts(std::int64_t id) const;

  ModelSpec model_;
  std::int64_t ranks_, length_, batch_;
  bool ramps_;                       ///< the batch grows, so the first one is smaller
  Number tensor_, pipeline_, context_, data_, expert_, micro_batch_, chunks_, schedule_, sequence_parallel_;
};

}  // namespace tandem::search
