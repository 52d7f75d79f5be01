#pragma once
// Checks whether the numbers of a timeline file are consistent. Private to reports/timeline.

#include <string>

#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// Throws ConfigError on invalid values: indices out of range, lanes without ranks, times whose sum could overflow.
void require_sound(const SavedTimeline& timeline, const std::string& file);

/// For a file without a checksum: throws ConfigError unless the step ends with its last task, ranks are the plan's, and the kept
/// step is one of the run's.
void require_consistent(const SavedTimeline& timeline, const std::string& file);

/// Throws ConfigError that names the damaged place of a timeline file and a remedy.
[[noreturn]] void refuse_timeline(const std::string& file, const std::string& field, const std::string& value,
                                  const std::string& reason);

/// The remedy in messages about refused files.
extern const char* const kTimelineRemedy;

}  // namespace tandem
