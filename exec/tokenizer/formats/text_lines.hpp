#pragma once
// The lines of a vocabulary's file.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tandem::exec {

/// Calls `take` with each line of a text, without its end, and the number of the line from 1 on. Text behind the last end is a line.
void each_text_line(std::string_view text, const std::function<void(std::string_view line, std::size_t number)>& take);

/// Throws ConfigError about a line of a file; `line` is the offending text.
[[noreturn]] void refuse_line(const std::string& file, std::size_t number, std::string_view line, const std::string& reason);

}  // namespace tandem::exec
