#pragma once
// What a judge needs to judge plans. Private to judge.cpp, judge_groups.cpp and own_layout.cpp.

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "experiments/tandem/search/judge.hpp"

namespace tandem::search {

/// A problem's message without its file, which all candidates share.
inline std::string text_of(Problem p) {
  p.file.clear();
  return p.message();
}

/// The tools of one thread, whose caches stay warm.
struct Judge::Tools {
  explicit Tools(const Judge& judge)
      : form(*judge.topology_, *judge.cost_, judge.store_), plans(judge.space_), twins(judge.space_) {
    find_axes_of_no_layout(judge.space_);
  }

  void find_axes_of_no_layout(const Space& space);
  void remember(CandidateId id, bool is_possible) {
    constexpr std::size_t kMost = 65536;
    if (possible.size() > kMost) possible.clear();
    possible[id] = is_possible;
  }
  std::optional<std::string> shared_layout_problem(const Judge& judge, CandidateId id);

  sim::ClosedForm form;
  CandidatePlans plans, twins;
  std::unordered_map<CandidateId, bool> possible;  ///< whether nothing but a field without effect refuses a candidate
  std::vector<std::size_t> of_no_layout;  ///< axes that do not change what is wrong with a layout
  std::unordered_map<CandidateId, std::optional<std::string>> layouts;  ///< what is wrong, by the candidate with their first values
  std::unordered_map<CandidateId, const LayerFloor*> floors;  ///< by the first candidate with the same layers
  std::unordered_map<CandidateId, LayerFloor> unrepeated;     ///< likewise, without what is computed again
};

/// Holds tools while a thread needs them.
class Judge::Lease {
 public:
  explicit Lease(const Judge& judge) : judge_(judge) {
    const std::lock_guard lock(judge.mutex_);
    if (judge.tools_.empty()) {
      tools_ = std::make_unique<Tools>(judge);
      return;
    }
    tools_ = std::move(judge.tools_.back());
    judge.tools_.pop_back();
  }
  ~Lease() {
    const std::lock_guard lock(judge_.mutex_);
    judge_.tools_.push_back(std::move(tools_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Tools* operator->() { return tools_.get(); }
  Tools& operator*() { return *tools_; }

 private:
  const Judge& judge_;
  std::unique_ptr<Tools> tools_;
};

}  // namespace tandem::search
