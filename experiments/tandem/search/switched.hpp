#pragma once
// What a search says about fields that its candidates turn on (Question::switches).

#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// Fields that a plan turns on, for people: "overlap_grad_reduce", "token_dispatcher deepep".
std::vector<std::string> switched_words(const Plan& plan, const std::vector<std::string>& fields);

/// Rows of a report with the fields that they turn on, one line for each stack.
class SwitchedOn {
 public:
  /// Call it for every row, also for those that turn on nothing. `words`: switched_words().
  void add(std::size_t row, const std::string& stack, const std::vector<std::string>& words);
  void add(std::size_t row, const Space& space, CandidateId id);
  std::string text() const;

 private:
  using Rows = std::vector<std::string>;
  std::size_t rows_ = 0;
  std::map<std::string, std::map<std::string, Rows>> by_stack_;  ///< rows by stack and field
};

/// If the fastest row reduces gradients beside the passes of chunks, which can slow a step: how fast it is without, if that is faster;
/// else empty. Simulates that step.
std::string faster_without_overlap(const Judge& judge, const Answer& answer);

}  // namespace tandem::search
