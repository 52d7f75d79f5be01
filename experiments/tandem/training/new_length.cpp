#include "experiments/tandem/training/new_length.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/tandem/base/terminal.hpp"
#include "models/base/json.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

/// Tokens of the saved run's sequences.
std::int64_t saved_length(const exec::Checkpoint& resumed) {
  const nlohmann::json training = parse_json(resumed.run.plan_json, resumed.state->file()).at("training");
  return training.value("seq_length", std::int64_t{0}) + training.value("decoder_seq_length", std::int64_t{0});
}

std::string sequences_text(std::int64_t count, std::int64_t tokens) {
  return count_text(count) + (count == 1 ? " sequence of " : " sequences of ") + count_text(tokens) + " tokens";
}

/// What the saved run had read since it began at the text's beginning. A blend's parts begin anew at different times.
std::string read_before(const exec::Checkpoint& resumed, const ReadTexts& read) {
  const std::int64_t length = saved_length(resumed), done = resumed.state->facts().samples - resumed.run.data_since;
  const std::string from = "; the run that was saved had read " + sequences_text(done, length) + " from there on";
  if (resumed.run.data != read.fingerprint) return from + " in another text";
  if (read.texts.all().size() > 1) return from;
  const std::int64_t all = read.texts.with_length(length).part({0, 1 - read.held_out})->sequences();
  const std::int64_t left = (all - done % all) % all;
  if (left == 0) return from + ", the whole text " + (done == all ? "once" : count_text(done / all) + " times");
  return from + " and leaves " + count_text(left) + " of the text's " + count_text(all) + " unread" +
         (done < all ? "" : " for the " + count_text(done / all + 1) + ". time");
}

}  // namespace

std::int64_t data_since(const Plan& plan, const std::optional<exec::Checkpoint>& resumed) {
  if (!resumed) return 0;
  return saved_length(*resumed) == plan.sequence_tokens() ? resumed->run.data_since : resumed->state->facts().samples;
}

void tell_new_length(const Plan& plan, const exec::Checkpoint& resumed, const ReadTexts& read) {
  if (saved_length(resumed) == plan.sequence_tokens()) return;
  log(resumed.state->file() + ": sequences have " + count_text(plan.sequence_tokens()) + " tokens from here on, also in evaluations. " + read.name +
      " is cut anew and read from its beginning" + read_before(resumed, read));
}

}  // namespace tandem::program
