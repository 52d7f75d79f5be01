#pragma once
// Self-contained pages: template, style, script and data in one file.

#include <string>
#include <string_view>

namespace tandem {

/// Marks the data of a page; no other file contains it.
inline constexpr std::string_view kPageMark = "<script type=\"application/json\" id=\"data\">";

/// The page `name` of reports/html ("plan", "run", "losses", "study", "trace") with `data` (JSON text) in it. It needs no server.
/// Throws ConfigError if the files of the page are not found.
std::string html_page(const std::string& name, const std::string& title, const std::string& data);

/// Escapes JSON text for a script element: nothing in it begins a tag, a comment or the script's end.
std::string embedded_json(const std::string& json);

}  // namespace tandem
