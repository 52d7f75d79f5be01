#pragma once
// Pages that need nothing but themselves: template, style, script and data in one file.

#include <string>
#include <string_view>

namespace tandem {

/// Stands in every page before its data, and in no other file.
inline constexpr std::string_view kPageMark = "<script type=\"application/json\" id=\"data\">";

/// The page `name` of reports/html ("plan", "run", "study") with `data` (JSON text) in it. It asks no server for anything.
/// Throws ConfigError when the files of the page are not found.
std::string html_page(const std::string& name, const std::string& title, const std::string& data);

/// JSON text as it may stand inside a script element: nothing in it begins a tag, a comment or the script's end.
std::string embedded_json(const std::string& json);

}  // namespace tandem
