#pragma once
// Completed plans of a space's candidates. Candidates that differ only in fields that no default depends on share what was filled in.

#include <cstdint>
#include <unordered_map>

#include "experiments/tandem/search/space.hpp"

namespace tandem::search {

/// One thread's.
class CandidatePlans {
 public:
  /// `space` outlives the object.
  explicit CandidatePlans(const Space& space) : space_(space) {}

  /// Space::plan(id), but that the stack's notes may be another candidate's. Holds until the next call.
  const Plan& of(CandidateId id);

 private:
  struct Entry {
    Plan plan;
    Choice choice;  ///< what its fields have
  };

  const Space& space_;
  std::unordered_map<CandidateId, Entry> known_;  ///< by the candidate that has the first value of every axis that stands alone
  Choice choice_;                                 // scratch
};

}  // namespace tandem::search
