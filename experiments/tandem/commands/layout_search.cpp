#include "experiments/tandem/commands/layout_search.hpp"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/tandem/base/error_report.hpp"
#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/waiting.hpp"
#include "experiments/tandem/planning/answer_text.hpp"
#include "experiments/tandem/search/report.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "experiments/tandem/search/switched.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

using planning::Assessment;
using planning::Combination;

/// What there is to search for a phase of a combination, or why there is nothing.
struct Place {
  std::string refusal;
  std::optional<search::Space> space;
};

/// A combination, its places by phase.
struct Places {
  std::string label;
  std::vector<Place> phases;
};

/// Lines as parts of one sentence.
std::string joined_lines(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t word = std::min(text.find_first_not_of(' ', begin), end);
    if (word < end) out += (out.empty() ? "" : out.ends_with(':') ? " " : "; ") + text.substr(word, end - word);
    begin = end + 1;
  }
  return out;
}

std::vector<std::int64_t> devices_of(const std::vector<Combination>& all) {
  std::vector<std::int64_t> out;
  for (const Combination& c : all)
    for (const auto& [field, value] : c.fields)
      if (field == "cluster.devices") out.push_back(nlohmann::json::parse(value).get<std::int64_t>());
  return out;
}

search::Request question_of(const planning::PlanChoice& choice, const Combination& combination, std::int64_t sequences_per_device) {
  search::Request out;
  out.subject = choice.plan, out.stack = choice.stack, out.sequences_per_device = sequences_per_device;
  for (const auto& [field, value] : combination.fields) {
    const nlohmann::json json = nlohmann::json::parse(value);
    if (field == "cluster.preset" && json.is_string()) out.cluster = json.get<std::string>();
    else if (field == "cluster.devices" && json.is_number_integer() && json.get<std::int64_t>() > 0) out.devices = json.get<std::int64_t>();
    else out.set.emplace_back(field, value);
  }
  return out;
}

/// Why a search has found nothing.
std::string nothing_found(const search::Search& search, const search::Answer& answer) {
  if (const std::string text = search::devices_text(search, answer); !text.empty()) return joined_lines(text);
  if (!answer.complete) return "no simulated layout fits; `tandem search --events N` simulates more";
  if (at(answer.counts, search::Outcome::too_large) == 0)
    return joined_lines("no layout could run, whatever the memory:\n" + search::obstacles_text(search, answer));
  return "no layout fits the " + bytes_text(search.judge().room()) + " of " + search.judge().topology().device().name +
         "; `tandem search` finds changes with which one fits";
}

class LayoutSearcher {
 public:
  LayoutSearcher(const planning::Request& request, const LayoutOptions& layouts) : request_(request) {
    options_.any_stack = layouts.any_stack;
    const std::vector<Combination> all = planning::combinations(request.choice, request.phases);
    const std::vector<std::int64_t> devices = devices_of(all);
    for (const Combination& c : all) {
      Places& places = places_.emplace_back(Places{c.label, std::vector<Place>(request.phases.size())});
      for (std::size_t i = 0; i < request.phases.size(); ++i) {
        const std::int64_t sequences = planning::sequences_per_device(request.choice, request.phases[i]);
        search::Request question = question_of(request.choice, planning::in_phase(c, request.phases, i), sequences);
        question.axes = layouts.axes, question.compared = devices;
        try {
          places.phases[i].space.emplace(search::read_question(question));
        } catch (const InfeasibleError& e) {
          places.phases[i].refusal = reasons(e);
        } catch (const ConfigError& e) {
          throw ConfigError(planning::problems_in(request.phases[i], e.problems()));
        }
      }
    }
  }

  FoundPlans find(const planning::Facts& facts) {
    require_conditions(facts);
    const InterruptWatch watch;
    Waiting waiting("searching", Elsewhere::lines);
    options_.best = 1, options_.jobs = interruptible(request_.jobs);
    for (const Places& places : places_) {
      const std::string count = std::to_string(out_.trainings.size() + unended_.size() + 1) + " of " + std::to_string(places_.size());
      const std::string what = "searching layouts, " + count + (places.label.empty() ? "" : ": " + places.label);
      planning::Assessments phases;
      for (const Place& place : places.phases) {
        waiting.at(what + (places.phases.size() > 1 ? ", phase " + std::to_string(phases.size() + 1) : ""));
        std::optional<Assessment> found = place.space ? search(place, places.label) : refused(places.label, place.refusal);
        if (!found) break;
        phases.push_back(std::move(*found));
        if (!phases.back().refusal.empty()) break;
      }
      keep(places, std::move(phases));
    }
    tell_unended();
    return std::move(out_);
  }

 private:
  void require_conditions(const planning::Facts& facts) const {
    std::vector<Assessment> known;
    for (const Places& places : places_)
      for (const Place& place : places.phases) {
        if (!place.space) continue;
        Assessment& a = known.emplace_back();
        a.candidate.file = request_.choice.plan, a.plan = place.space->plan(0);
        planning::find_place(a);
      }
    if (!known.empty()) planning::require_conditions(request_, facts, known);
  }

  /// Takes the phases that were searched. One that was interrupted leaves the training without an answer. Those after one that is
  /// impossible were not searched.
  void keep(const Places& places, planning::Assessments phases) {
    const bool impossible = !phases.empty() && !phases.back().refusal.empty();
    if (impossible || phases.size() == places.phases.size()) out_.trainings.push_back(std::move(phases));
  }

  Assessment refused(const std::string& label, const std::string& reason) const {
    Assessment out;
    out.candidate = {"", request_.choice.plan, label, reason, {}};
    out.refusal = reason;
    return out;
  }

  /// The fastest layout, or why there is none. Nothing if the search was interrupted before it found one.
  std::optional<Assessment> search(const Place& place, const std::string& label) {
    search::Search search(*place.space, options_);
    search::Answer answer;
    try {
      search.explore();
      answer = search.answer();
    } catch (const Interrupted&) {
      answer = search.answer_so_far(1);
      out_.interrupted = true;
      if (unended_.empty() || unended_.back() != label) unended_.push_back(label);
    }
    if (!answer.best.empty()) return assessed(place, label, answer);
    if (answer.interrupted) return std::nullopt;
    return refused(label, nothing_found(search, answer));
  }

  Assessment assessed(const Place& place, const std::string& label, const search::Answer& answer) {
    const search::Space& space = *place.space;
    const search::CandidateId id = answer.best.front().id;
    planning::FoundLayout found{space.short_text(id), search::at_json(space, id).dump(), {}};
    search::SwitchedOn on;
    on.add(1, space, id);
    if (const std::string text = joined_lines(on.text()); !text.empty()) found.remarks.push_back(text);
    if (!answer.complete && !answer.interrupted)
      found.remarks.emplace_back("a faster layout may exist: not all that could be faster were simulated; `tandem search --events N` simulates more");
    tell(search::question_text(space.question()));
    return planning::assess({space.document(id), request_.choice.plan, label, "", std::move(found)}, request_.choice.stack);
  }

  /// Passes on lines that were not told before.
  void tell(const std::string& lines) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = std::min(lines.find('\n', begin), lines.size());
      const std::string text = lines.substr(begin, end - begin);
      if (std::find(out_.told.begin(), out_.told.end(), text) == out_.told.end()) out_.told.push_back(text);
      begin = end + 1;
    }
  }

  void tell_unended() {
    if (!out_.interrupted) return;
    const std::string which = planning::labels_text(unended_);
    out_.told.push_back("interrupted: the search " + (which.empty() ? "" : "of " + which + " ") + "did not end, so a better layout may be among the others");
  }

  const planning::Request& request_;
  std::deque<Places> places_;
  search::SearchOptions options_;
  std::vector<std::string> unended_;  ///< labels of searches that were interrupted
  FoundPlans out_;
};

}  // namespace

FoundPlans search_layouts(const planning::Request& request, const planning::Facts& facts, const LayoutOptions& layouts) {
  return LayoutSearcher(request, layouts).find(facts);
}

}  // namespace tandem::program
