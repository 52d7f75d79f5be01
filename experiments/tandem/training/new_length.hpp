#pragma once
// A run that goes on with sequences that are cut otherwise: where it reads its texts, and what it says about that.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "experiments/tandem/training/data.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// The sequence of the run that is the first one of its data. A text is cut into sequences of one length and shuffled, so sequences of
/// another length cannot go on where the last ones ended: they begin at the text's beginning. So do documents that are kept apart now.
std::int64_t data_since(const Plan& plan, const std::optional<exec::Checkpoint>& resumed);

/// All but the held out fraction of the texts, cut as the saved run's were; nullptr if they cannot be: it read other ones.
std::unique_ptr<exec::TokenSource> cut_as_saved(const Texts& texts, const exec::Checkpoint& resumed, double held_out);

/// The texts that a run reads.
struct ReadTexts {
  std::string name;  ///< as messages name them
  const Texts& texts;
};

/// Logs, if the length or the documents changed, from where on `read` is read and what the saved run had read of it.
void tell_new_length(const Plan& plan, const exec::Checkpoint& resumed, const ReadTexts& read);

}  // namespace tandem::program
