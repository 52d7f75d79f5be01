#include "experiments/tandem/search/switched.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/tandem/search/report_parts.hpp"
#include "models/arguments/table.hpp"
#include "models/base/text.hpp"
#include "reports/prediction/text.hpp"
#include "sim/result/simulate.hpp"

namespace tandem::search {

namespace {

constexpr const char* kReduce = "parallel.overlap_grad_reduce";

std::string last_word(const std::string& field) { return field.substr(field.rfind('.') + 1); }

/// Whether `tandem export` writes the options of a stack.
bool is_exported(const std::string& stack) {
  const std::vector<std::string> known = arguments::known_frameworks();
  return std::find(known.begin(), known.end(), stack) != known.end() && arguments::read_table(stack).writes();
}

/// The plan without reductions beside passes, and without gathers that need them.
Plan without_overlap(Plan plan) {
  plan.parallel.overlap_grad_reduce = plan.parallel.overlap_param_gather = false;
  return plan;
}

}  // namespace

std::vector<std::string> switched_words(const Plan& plan, const std::vector<std::string>& fields) {
  std::vector<std::string> out;
  for (const std::string& field : fields) {
    const nlohmann::json value = find_field(field)->write(plan);
    out.push_back(last_word(field) + (value.is_string() ? " " + value.get<std::string>() : ""));
  }
  return out;
}

void SwitchedOn::add(std::size_t row, const std::string& stack, const std::vector<std::string>& words) {
  ++rows_;
  for (const std::string& word : words) by_stack_[stack][word].push_back(std::to_string(row));
}

void SwitchedOn::add(std::size_t row, const Space& space, CandidateId id) {
  const Plan plan = space.plan(id);
  add(row, plan.stack.name, switched_words(plan, space.switched_on(id)));
}

std::string SwitchedOn::text() const {
  std::string out;
  for (const auto& [stack, words] : by_stack_) {
    std::string list;
    for (const auto& [word, rows] : words)
      list += (list.empty() ? "" : ", ") + word + (rows.size() == rows_ ? "" : " (" + rows_text(rows) + ")");
    out += "switch on what " + stack + " has off: " + list +
           (is_exported(stack) ? "; `tandem export PLAN --to " + stack + "` writes the options\n" : "\n");
  }
  return out;
}

constexpr double kTold = 0.005;  // a smaller gain is less than what a row of the table shows

std::string faster_without_overlap(const Judge& judge, const Answer& answer) {
  if (answer.best.empty()) return "";
  const Simulated& first = answer.best.front();
  const Space& space = judge.space();
  const Plan plan = space.plan(first.id);
  const std::vector<std::string> on = space.switched_on(first.id);
  const bool beside_chunks = has_chunks(plan.parallel.schedule) && plan.parallel.pipeline > 1;
  if (!beside_chunks || std::find(on.begin(), on.end(), kReduce) == on.end()) return "";
  const Plan without = without_overlap(plan);
  sim::SimulateOptions options;
  options.seeds_at_once = 1;
  options.every_breakdown = false;
  const double step = sim::simulate(without, lower(without), judge.topology(), options).step_time.seconds();
  const double change = step / seconds(first.time_ps) - 1;
  if (change > -kTold) return "";
  return "row 1 without " + last_word(kReduce) + ": " + time_text(step) + " (" + percent_text(change) +
         "), because reductions beside a chunk's passes make other stages wait; --axis overlap_grad_reduce=false,true searches both\n";
}

}  // namespace tandem::search
