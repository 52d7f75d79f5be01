#pragma once
// Reads data files as if some sources of measurements did not exist.

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Sources of measured runs, and where they were published.
struct Sources {
  std::vector<std::string> sets;      ///< names of measurement sets
  std::vector<std::string> evidence;  ///< repositories as OWNER/NAME, papers as arXiv numbers
};

/// While this object exists, its thread reads stacks and fusion sets without entries that rest on these sources. It
/// reads calibrated numbers as fitted without them if the file gives those. Of nested objects the inner one counts.
class LeftOut {
 public:
  explicit LeftOut(const Sources& sources);
  ~LeftOut();
  LeftOut(const LeftOut&) = delete;
  LeftOut& operator=(const LeftOut&) = delete;

  /// The sources that this thread leaves out; empty if none.
  static const Sources& now();

 private:
  const Sources* before_;
};

/// Repositories (OWNER/NAME) and papers (arXiv numbers) in a text, each once, in order.
std::vector<std::string> named_evidence(std::string_view text);

/// Whether a text names evidence from a source that is left out.
bool rests_on_left_out(std::string_view source);

/// Chooses among `choices`, names of sets that a number was fitted without ("a", "a+b": without both). The choice covers
/// every left-out set that any name covers, with the fewest others. Empty: none fits, or no name covers a left-out set.
std::string choice_without(const std::vector<std::string>& choices);

}  // namespace tandem
