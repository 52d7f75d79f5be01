#pragma once
// A run that goes on with sequences of another length: where it reads its texts, and what it says about that.

#include <cstdint>
#include <optional>

#include "exec/checkpoint/checkpoint.hpp"
#include "experiments/tandem/training/data.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// The sequence of the run that is the first one of its data. A text is cut into sequences of one length and shuffled, so sequences of
/// another length cannot go on where the last ones ended: they begin at the text's beginning.
std::int64_t data_since(const Plan& plan, const std::optional<exec::Checkpoint>& resumed);

/// The texts that a run reads.
struct ReadTexts {
  std::string name;             ///< as messages name them
  const Texts& texts;
  double held_out = 0;          ///< fraction at the end that is not trained on
  std::uint64_t fingerprint = 0;  ///< of the part that is trained on
};

/// Logs, if the length changed, from where on `read` is read and what the saved run had read of it.
void tell_new_length(const Plan& plan, const exec::Checkpoint& resumed, const ReadTexts& read);

}  // namespace tandem::program
