#pragma once
// The candidates of a search, numbered: every combination of the axes' values, the last axis fastest. A group has those that differ
// only in fields that no computation of a layer depends on.

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/question.hpp"
#include "models/base/held_files.hpp"
#include "models/plan/plan.hpp"

namespace tandem::search {

using CandidateId = std::int64_t;

/// One value for each axis, by its index.
using Choice = std::vector<std::uint16_t>;

class Space {
 public:
  /// Orders the question's axes: those that groups are made of come first. Throws ConfigError where there are too many candidates.
  explicit Space(Question question);

  const Question& question() const { return question_; }
  const std::vector<Axis>& axes() const { return question_.axes; }
  std::int64_t groups() const { return groups_; }
  std::int64_t members() const { return members_; }  ///< candidates of each group
  std::int64_t size() const { return groups_ * members_; }

  Choice choice(CandidateId id) const;
  void choose(CandidateId id, Choice& out) const;
  /// How far two candidates are apart that differ by one value of an axis.
  CandidateId stride(std::size_t axis) const { return strides_[axis]; }
  /// Whether no field that is filled in depends on an axis, so that plan() of two of its values differs in that field alone.
  bool stands_alone(std::size_t axis) const { return alone_[axis]; }
  /// Whether a condition of the stack asks for an axis' field.
  bool asked(std::size_t axis) const { return asked_[axis]; }
  /// The first candidate whose layers do the same.
  CandidateId same_layers(CandidateId id) const;
  /// The candidate that has an axis' first value and all else alike.
  CandidateId first_of(CandidateId id, std::size_t axis) const;
  /// The candidate's plan with every field filled in, nothing checked. Where the devices cannot be shared out, its parallel.data is 0.
  Plan plan(CandidateId id) const;
  /// Whether tensor x pipeline x context (x data) goes into the devices.
  bool divides(CandidateId id) const;
  /// "tensor 8, pipeline 4, ..."
  std::string text(CandidateId id) const;
  /// The same of axes with more than one value.
  std::string short_text(CandidateId id) const;
  /// The candidate as a plan file that names what was varied, parallel.data included.
  std::string document(CandidateId id) const;
  /// The axis of a field, -1 where it has none.
  std::ptrdiff_t axis_of(const std::string& field) const;

 private:
  /// An axis that says how many ranks there are: which of tensor, pipeline, context and data, and its values.
  struct Degree {
    std::size_t axis = 0, which = 0;
    std::vector<std::int64_t> values;
  };

  void set(CandidateId id, PlanDraft& draft) const;
  void order_axes(const std::set<std::string>& asked);
  void count();
  std::string text_of_axes(CandidateId id, std::size_t least_values) const;

  std::shared_ptr<const HeldFiles> held_ = std::make_shared<HeldFiles>();  ///< stacks are read once
  Question question_;
  std::int64_t groups_ = 1, members_ = 1;
  std::size_t outer_ = 0;                  ///< axes that make groups
  std::vector<CandidateId> strides_;       ///< by axis
  std::vector<bool> alone_, asked_;        ///< by axis
  std::vector<Degree> degrees_;
  bool data_said_ = false;                 ///< parallel.data is an axis, or the plan's
  std::vector<bool> of_layers_;            ///< by axis
};

}  // namespace tandem::search
