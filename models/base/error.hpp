#pragma once
// Three kinds of failure, three types: wrong input, a plan that cannot be, a broken world.
// Libraries throw; only the program turns an error into an exit code and a message.

#include <stdexcept>
#include <string>
#include <vector>

namespace tandem {

/// One thing wrong with an input, in the parts a person needs.
struct Problem {
  std::string file;   ///< file name, or empty when the input is not a file
  std::string field;  ///< dotted path, e.g. "parallel.tensor"
  std::string value;  ///< the offending value as written, may be empty
  std::string reason; ///< why it is refused
  std::string remedy; ///< a fix that would work, may be empty

  /// "file: field = value: reason; remedy" on one line.
  std::string message() const;
};

/// Wrong input: exit code 3. Holds every problem found, at least one.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  explicit ConfigError(Problem problem) : ConfigError(std::vector<Problem>{std::move(problem)}) {}
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// A well-formed plan that cannot be run (does not divide, is not implemented): exit code 4.
class InfeasibleError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// A device or backend failed: exit code 7.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A communicator or peer rank failed: exit code 7. The message names the first failing rank and its cause.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken promise between parts of Tandem: exit code 1. Thrown by `TaskGraph::check` and by contract checks.
class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws ContractError(what) unless `ok`. Always on; keep it out of inner loops.
inline void require(bool ok, const char* what) {
  if (!ok) throw ContractError(what);
}

}  // namespace tandem
