#include "reports/timeline/json_text.hpp"

#include <nlohmann/json.hpp>

namespace tandem {

std::string quoted(std::string_view s) {
  return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tandem
