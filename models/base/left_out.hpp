#pragma once
// Data files read as if some sources of measurements had never been seen.

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Sources of measured runs, and where they were published.
struct Sources {
  std::vector<std::string> sets;      ///< names of measurement sets
  std::vector<std::string> evidence;  ///< repositories as OWNER/NAME, papers as arXiv numbers
};

/// While one lives, its thread reads stacks and fusion sets without entries whose evidence is of these sources, and numbers of
/// calibrations as fitted without them where the file says how. Of two the inner one counts.
class LeftOut {
 public:
  explicit LeftOut(const Sources& sources);
  ~LeftOut();
  LeftOut(const LeftOut&) = delete;
  LeftOut& operator=(const LeftOut&) = delete;

  /// Those that this thread reads without; empty where it reads all.
  static const Sources& now();

 private:
  const Sources* before_;
};

/// Repositories (OWNER/NAME) and papers (arXiv numbers) that a text names, each once, in its order.
std::vector<std::string> named_evidence(std::string_view text);

/// Whether a text names evidence of a source that is left out now.
bool rests_on_left_out(std::string_view source);

/// Of names of what a number was fitted without ("a", "a+b": without both) the one that has every set that is left out now and that any
/// of them has, and the fewest others. Empty: there is none, or none of the sets is named.
std::string choice_without(const std::vector<std::string>& choices);

}  // namespace tandem
