#include "experiments/tandem/validation/page.hpp"
#include "experiments/tandem/validation/report.hpp"
#include "models/base/error.hpp"

namespace tandem::program {

namespace {

constexpr std::string_view kPlace = "/*TANDEM_DATA*/null";

/// JSON inside a script: nothing in it may end the script.
std::string in_script(std::string json) {
  for (std::size_t at = json.find("</"); at != std::string::npos; at = json.find("</", at + 3)) json.insert(at + 1, "\\");
  return json;
}

}  // namespace

std::string to_html(const Summary& summary, const std::vector<JudgedRecord>& records) {
  std::string page = validation_page();
  const std::size_t at = page.find(kPlace);
  require(at != std::string::npos, "the page has no place for its data");
  return page.replace(at, kPlace.size(), in_script(to_json(summary, records)));
}

}  // namespace tandem::program
