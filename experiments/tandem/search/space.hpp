#pragma once
// The numbered candidates of a search: all combinations of the axes' values, the last axis fastest. The members of a group differ
// only in fields that affect no computation of a layer.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/layout_numbers.hpp"
#include "experiments/tandem/search/question.hpp"
#include "models/base/held_files.hpp"
#include "models/plan/plan.hpp"

namespace tandem::search {

using CandidateId = std::int64_t;

/// One value index per axis.
using Choice = std::vector<std::uint16_t>;

class Space {
 public:
  /// Moves the axes that form groups to the front. Throws ConfigError if there are too many candidates.
  explicit Space(Question question);

  const Question& question() const { return question_; }
  const std::vector<Axis>& axes() const { return question_.axes; }
  std::int64_t groups() const { return groups_; }
  std::int64_t members() const { return members_; }  ///< candidates per group
  std::int64_t size() const { return groups_ * members_; }

  Choice choice(CandidateId id) const;
  void choose(CandidateId id, Choice& out) const;
  /// Difference between the ids of two candidates that differ by one value of an axis.
  CandidateId stride(std::size_t axis) const { return strides_[axis]; }
  /// True if no default depends on an axis, so that the plans of two of its values differ only in that field.
  bool stands_alone(std::size_t axis) const { return alone_[axis]; }
  /// True if a condition of the stack uses the axis' field.
  bool asked(std::size_t axis) const { return asked_[axis]; }
  /// The first candidate with the same computations per layer.
  CandidateId same_layers(CandidateId id) const;
  /// The first candidate whose computations per layer are the same but for what is computed again.
  CandidateId same_unrepeated_layers(CandidateId id) const;
  /// The candidate with the axis' first value, all else equal.
  CandidateId first_of(CandidateId id, std::size_t axis) const;
  /// The candidate that computes nothing again, all else equal; `id` itself if that is no other, or if defaults depend on it.
  CandidateId unrepeated(CandidateId id) const;
  /// The candidate's completed plan, unchecked. If the devices cannot be divided, its parallel.data is 0.
  Plan plan(CandidateId id) const;
  /// Fields that the candidate's plan turns on although neither the question nor the stack's defaults do (Question::switches).
  std::vector<std::string> switched_on(CandidateId id) const;
  /// True if tensor x pipeline x context (x data) divides the devices.
  bool divides(CandidateId id) const { return numbers_->divides(id); }
  /// True if numbers alone refuse the layout. Only of candidates that divide the devices.
  bool refused_by_numbers(CandidateId id) const { return numbers_->refuses(id); }
  /// The value of an axis as a table shows it. A split shows the layers of its stages or chunks: "12, 2 x 16, 14".
  std::string value_text(CandidateId id, std::size_t axis) const;
  /// "tensor 8, pipeline 4, ..."
  std::string text(CandidateId id) const;
  /// text() with only those axes that have more than one value. Sets of modules are shown only where these are computed again.
  std::string short_text(CandidateId id) const;
  /// The candidate as a plan file that states the varied fields, but for idle_axis(), switched_on() and parallel.data.
  std::string document(CandidateId id) const;
  /// The axis of a field; -1: none.
  std::ptrdiff_t axis_of(const std::string& field) const;
  /// The axis without effect on a candidate's plan: modules, where none are computed again; -1: none.
  std::ptrdiff_t idle_axis(const Plan& plan) const;

 private:
  void set(CandidateId id, PlanDraft& draft) const;
  void order_axes(const std::set<std::string>& asked);
  void count();
  CandidateId first_in(CandidateId id, const std::vector<bool>& kept) const;
  std::string text_of_axes(CandidateId id, std::size_t least_values, std::ptrdiff_t hidden) const;

  std::shared_ptr<const HeldFiles> held_ = std::make_shared<HeldFiles>();  ///< reads each stack once
  Question question_;
  std::int64_t groups_ = 1, members_ = 1;
  std::size_t outer_ = 0;                  ///< number of axes that form groups
  std::vector<CandidateId> strides_;       ///< by axis
  std::vector<bool> alone_, asked_;        ///< by axis
  std::optional<LayoutNumbers> numbers_;
  std::vector<bool> of_layers_, of_first_computation_;  ///< by axis
};

}  // namespace tandem::search
