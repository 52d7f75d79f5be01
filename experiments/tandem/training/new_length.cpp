#include "experiments/tandem/training/new_length.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

/// How texts are cut.
struct Cut {
  std::int64_t tokens = 0;  ///< of a sequence
  bool separate = false;    ///< documents are kept apart
  bool operator==(const Cut&) const = default;
};

Cut cut_of(const Plan& plan) { return {plan.sequence_tokens(), plan.training.documents == Documents::separate}; }

Cut saved_cut(const exec::Checkpoint& resumed) {
  const nlohmann::json training = parse_json(resumed.run.plan_json, resumed.state->file()).at("training");
  return {training.value("seq_length", std::int64_t{0}) + training.value("decoder_seq_length", std::int64_t{0}),
          training.value("documents", "joined") == "separate"};
}

std::string sequences_text(std::int64_t count, std::int64_t tokens) {
  return count_text(count) + (count == 1 ? " sequence of " : " sequences of ") + count_text(tokens) + " tokens";
}

/// What the saved run had read since it began at the text's beginning. A blend's parts begin anew at different times.
std::string read_before(const exec::Checkpoint& resumed, const ReadTexts& read) {
  const std::int64_t length = saved_cut(resumed).tokens, done = resumed.state->facts().samples - resumed.run.data_since;
  const std::string from = "; the run that was saved had read " + sequences_text(done, length) + " from there on";
  const auto before = cut_as_saved(read.texts, resumed, resumed.run.held_out.value_or(0));
  if (!before || resumed.run.data != before->fingerprint()) return from + " in another text";
  if (read.texts.all().size() > 1) return from;
  const std::int64_t all = before->sequences();
  const std::int64_t left = (all - done % all) % all;
  if (left == 0) return from + ", the whole text " + (done == all ? "once" : count_text(done / all) + " times");
  return from + " and leaves " + count_text(left) + " of the text's " + count_text(all) + " unread" +
         (done < all ? "" : " in reading " + count_text(done / all + 1));
}

}  // namespace

std::int64_t data_since(const Plan& plan, const std::optional<exec::Checkpoint>& resumed) {
  if (!resumed) return 0;
  return saved_cut(*resumed) == cut_of(plan) ? resumed->run.data_since : resumed->state->facts().samples;
}

std::unique_ptr<exec::TokenSource> cut_as_saved(const Texts& texts, const exec::Checkpoint& resumed, double held_out) {
  const Cut cut = saved_cut(resumed);
  try {
    return texts.cut(cut.tokens, cut.separate).part({0, 1 - held_out});
  } catch (const ConfigError&) {  // for example, they are shorter than a sequence
    return nullptr;
  }
}

void tell_new_length(const Plan& plan, const exec::Checkpoint& resumed, const ReadTexts& read) {
  const Cut saved = saved_cut(resumed), own = cut_of(plan);
  if (saved == own) return;
  std::string changes;
  if (saved.tokens != own.tokens) changes = "sequences have " + count_text(own.tokens) + " tokens";
  if (saved.separate != own.separate)
    changes += std::string(changes.empty() ? "" : " and ") + "documents are " + (own.separate ? "separate" : "joined");
  log(resumed.state->file() + ": " + changes + " from here on, also in evaluations. " + read.name +
      " is cut anew and read from its beginning" + read_before(resumed, read));
}

}  // namespace tandem::program
