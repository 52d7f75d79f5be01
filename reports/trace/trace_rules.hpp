#pragma once
// Which class device work and simulated tasks belong to, and how frameworks name their collectives (classes.json).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reports/trace/device_trace.hpp"
#include "reports/trace/launch_stacks.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

inline constexpr const char* kUnknownClass = "unknown";
inline constexpr const char* kCommunicationClass = "communication";
inline constexpr const char* kUnknownPhase = "unknown phase";

/// Whether `text` is what `pattern` says: `*` stands for any text, `?` for one letter; letter case is ignored.
bool is_like(std::string_view text, std::string_view pattern);

/// Whether `text` is what one of the patterns says.
bool any_like(std::string_view text, const std::vector<std::string>& patterns);

/// One line of a table: which names get a result. An empty list asks nothing.
struct TraceRule {
  std::string result;
  std::vector<std::string> names;  ///< of a kernel, collective or process group
  std::vector<std::string> under;  ///< of an operation that launched it
  std::vector<std::string> block, task, kind;  ///< of a simulated task
  std::string group;               ///< of a collective whose name tells it; else empty
};

class TraceRules {
 public:
  /// Reads reports/trace/classes.json. Throws ConfigError if it is missing or damaged.
  static TraceRules load();

  const std::vector<TraceRule>& kernels() const { return kernels_; }
  /// What launches the kernels of a phase; what no rule knows is of the forward pass.
  const std::vector<TraceRule>& phases() const { return phases_; }

  /// The class of a simulated computation; without a rule kUnknownClass. Not for communication.
  std::string task_class(const SavedTask& task) const;
  /// The phase in which a framework launches a simulated computation: "forward", "backward" (with recomputation) or "optimizer".
  static std::string task_phase(const std::string& simulated, const std::string& cls);
  /// The rule of a collective by one of its names; null: no rule knows it.
  const TraceRule* collective(std::string_view name) const;
  /// The group of a process group's description ("tensor"); empty if no rule knows it.
  std::string group(std::string_view description) const;
  /// Bytes of one element; 0 for an unknown type.
  std::int64_t bytes_of(const std::string& dtype) const;

 private:
  std::vector<TraceRule> kernels_, phases_, tasks_, collectives_, groups_;
  std::map<std::string, std::int64_t> types_;
};

/// Classes and phases of a trace's device work by its rules. Each name is compared with each rule once.
class KernelClasses {
 public:
  KernelClasses(const TraceRules& rules, const DeviceTrace& trace, const LaunchStacks& stacks);

  /// The class of an event, or kUnknownClass.
  const std::string& of(std::size_t event) const;
  /// The phase of a computation by what launched it; kUnknownPhase if the trace does not tell.
  const std::string& phase(std::size_t event) const;

 private:
  using Matches = std::vector<std::vector<bool>>;  ///< [name][rule]
  bool launched_under(std::int32_t stack, std::size_t rule, const Matches& under) const;

  const TraceRules& rules_;
  const DeviceTrace& trace_;
  const LaunchStacks& stacks_;
  Matches named_, under_, phases_;
};

}  // namespace tandem
