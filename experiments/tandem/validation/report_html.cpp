#include "experiments/tandem/validation/page.hpp"
#include "experiments/tandem/validation/report.hpp"
#include "models/base/error.hpp"
#include "reports/page/html_page.hpp"

namespace tandem::program {

namespace {

constexpr std::string_view kPlace = "/*TANDEM_DATA*/null";

}  // namespace

std::string to_html(const Summary& summary, const std::vector<JudgedRecord>& records) {
  std::string page = validation_page();
  const std::size_t at = page.find(kPlace);
  require(at != std::string::npos, "the page has no place for its data");
  return page.replace(at, kPlace.size(), embedded_json(to_json(summary, records)));
}

}  // namespace tandem::program
