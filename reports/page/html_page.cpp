#include "reports/page/html_page.hpp"

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"

namespace tandem {

namespace {

std::string part(const std::string& file) { return read_text(require_data_file("reports/html", file)); }

/// Escapes text for a page: no character of it begins a tag.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

void fill(std::string& page, const std::string& mark, const std::string& text) {
  const std::size_t at = page.find(mark);
  require(at != page.npos, "a page's template lacks one of its marks");
  page.replace(at, mark.size(), text);
}

}  // namespace

std::string embedded_json(const std::string& json) {
  std::string out;
  for (char c : json) out += c == '<' ? "\\u003c" : std::string(1, c);  // '<' occurs only in strings, where escapes are allowed
  return out;
}

std::string html_page(const std::string& name, const std::string& title, const std::string& data) {
  std::string page = part("page.html");
  require(page.find(kPageMark) != page.npos, "a page's template lacks the mark of pages");
  // From the last mark to the first: filled-in text may contain marks, and lies behind all marks still to fill.
  fill(page, "@script@", part("charts.js") + part("timeline.js") + part(name + ".js"));
  fill(page, "@data@", embedded_json(data));
  fill(page, "@style@", part("style.css"));
  fill(page, "@title@", escaped(title));
  return page;
}

}  // namespace tandem
