#pragma once
// Whether the numbers of a timeline file fit each other. Private to reports/timeline.

#include <string>

#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

/// What no timeline may hold: indices of nothing, lanes without ranks, times that no sum could hold. Throws ConfigError.
void require_sound(const SavedTimeline& timeline, const std::string& file);

/// For a file without a checksum: the step ends with its last task, ranks are those of the plan, the kept step is one of the run's.
/// Throws ConfigError.
void require_consistent(const SavedTimeline& timeline, const std::string& file);

/// Throws ConfigError that says where a timeline file is damaged, and what would work.
[[noreturn]] void refuse_timeline(const std::string& file, const std::string& field, const std::string& value,
                                  const std::string& reason);

/// What would work in place of a file that is refused.
extern const char* const kTimelineRemedy;

}  // namespace tandem
