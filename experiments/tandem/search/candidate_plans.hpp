#pragma once
// Completed plans of candidates. Candidates that differ only in fields without influence on defaults share one completion.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "experiments/tandem/search/space.hpp"

namespace tandem::search {

/// For one thread.
class CandidatePlans {
 public:
  /// `space` must outlive the object.
  explicit CandidatePlans(const Space& space) : space_(space) {}

  /// Space::plan(id), except that the stack's notes may be another candidate's. Valid until the next call.
  const Plan& of(CandidateId id);

 private:
  struct Entry {
    Plan plan;
    Choice choice;  ///< values of its fields
  };

  Entry& entry_of(CandidateId first);

  const Space& space_;
  std::unordered_map<CandidateId, Entry> known_;  ///< by the candidate with the first value of every axis that stands alone
  std::vector<CandidateId> order_;                ///< keys of `known_`, a ring
  std::size_t oldest_ = 0;                        ///< its next place
  Choice choice_;                                 // scratch
};

}  // namespace tandem::search
