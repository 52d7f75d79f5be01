#include "reports/prediction/csv.hpp"

#include "models/base/text.hpp"

namespace tandem {

std::string csv_cell(std::string_view text) {
  const std::string shown = printable(text, "\n");
  if (shown.find_first_of(",\"\n\r") == shown.npos) return shown;
  std::string out = "\"";
  for (const char c : shown) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace tandem
