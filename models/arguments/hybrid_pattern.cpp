#include "models/arguments/hybrid_pattern.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/error.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostLayers = 100'000;

/// The text before the modules of multi-token prediction.
std::string main_part(const json& pattern) {
  const auto& text = pattern.get_ref<const std::string&>();
  return text.substr(0, text.find('/'));
}

std::int64_t layer_count(const json& v) {
  if (v.is_number_integer() && v.get<std::int64_t>() > 0 && v.get<std::int64_t>() <= kMostLayers) return v.get<std::int64_t>();
  throw ConfigError(Problem{"", "", value_text(v), "layers must be a whole number from 1 to 100000", "give --num-layers"});
}

double ratio_of(const json& v) {
  const double ratio = v.is_number() ? v.get<double>() : 0;
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw ConfigError(Problem{"", "", value_text(v), "must be a ratio from 0 to 1", "give a part of the layers"});
}

/// Puts `letter` evenly between the Mamba layers: one before each place where `every` of them were passed.
void spread(std::string& layers, double every, char letter) {
  double left = every;
  for (char& c : layers) {
    if (c != 'M') continue;
    if (left < 0.5) c = letter, left += every;
    else left -= 1;
  }
}

/// The letters with a mark between chunks.
std::string with_marks(const std::string& letters, const json& chunks) {
  std::string out;
  std::size_t at = 0;
  for (const json& layers : chunks) {
    out += letters.substr(at, layers.get<std::size_t>()) + '|';
    at += layers.get<std::size_t>();
  }
  if (!out.empty()) out.pop_back();
  return out;
}

/// Whether a layer is the first or each `frequency`-th behind it.
bool is_nth(std::int64_t layer, std::int64_t first, std::int64_t frequency) {
  return layer >= first && (layer - first) % frequency == 0;
}

/// A letter of a text that is repeated from its first.
char repeated(const std::string& letters, std::int64_t layer) { return letters[static_cast<std::size_t>(layer) % letters.size()]; }

}  // namespace

json layers_of_pattern(const json& pattern) {
  if (!pattern.is_string()) return {};
  std::string out = main_part(pattern);
  std::erase(out, '|');
  return out;
}

json chunks_of_pattern(const json& pattern) {
  if (!pattern.is_string() || main_part(pattern).find('|') == std::string::npos) return {};
  json out = json::array();
  std::int64_t layers = 0;
  for (const char c : main_part(pattern) + "|") {
    if (c != '|') ++layers;
    else out.push_back(std::exchange(layers, 0));
  }
  return out;
}

json prediction_of_pattern(const json& pattern) {
  if (!pattern.is_string()) return {};
  const auto& text = pattern.get_ref<const std::string&>();
  const std::size_t mark = text.find('/');
  if (mark == std::string::npos || mark + 1 == text.size()) return {};
  return text.substr(mark + 1, text.find('/', mark + 1) - mark - 1);
}

json pattern_of_ratios(const json& layers, const json& attention, const json& mlp) {
  const std::int64_t n = layer_count(layers);
  // Half a layer goes to the even number, in Python and here.
  const double attending = std::nearbyint(static_cast<double>(n) * ratio_of(attention));
  const double mlps = std::nearbyint(static_cast<double>(n) * ratio_of(mlp));
  const double mamba = static_cast<double>(n) - attending;
  std::string out(static_cast<std::size_t>(n), 'M');
  spread(out, mamba / (attending + 1), '*');
  if (mlps > 0) spread(out, (mamba - mlps) / mlps, '-');
  return out;
}

json experts_of_pattern(const json& letters) {
  if (!letters.is_string()) return {};
  const auto& text = letters.get_ref<const std::string&>();
  const std::size_t first = text.find('E'), last = text.rfind('-');
  if (first != std::string::npos && last != std::string::npos && last > first) return {};
  const bool any = first != std::string::npos;
  json out = json::array();
  for (std::size_t i = 0; i < text.size(); ++i) out.push_back(any && (last == std::string::npos || i > last) ? 1 : 0);
  return out;
}

json pattern_of_layers(const std::vector<json>& a) {
  const std::int64_t n = layer_count(a[0]);
  const auto sublayers = a[1].get<std::string>(), recurrence = a[2].is_string() ? a[2].get<std::string>() : "a";
  const char recurrent = a[3].get<std::string>().front(), attending = a[4].get<std::string>().front();
  const json &first = a[5], &frequency = a[6], &chunks = a[7];
  std::string out;
  for (std::int64_t l = 0; l < n; ++l) {
    const char kind = repeated(sublayers, l);
    if (kind == 'b') return {};
    const bool experts = first.is_number() && is_nth(l, first.get<std::int64_t>(), frequency.get<std::int64_t>());
    out += kind == 'f' ? (experts ? 'E' : '-') : repeated(recurrence, l) == 'r' ? recurrent : attending;
  }
  return chunks.is_array() ? with_marks(out, chunks) : out;
}

json ones_of_letters(const json& letters, const json& one, const json& layers) {
  std::string out;
  for (std::int64_t l = 0; l < layer_count(layers); ++l)
    out += std::string(l > 0 ? "," : "[") + (repeated(letters.get<std::string>(), l) == one.get<std::string>().front() ? "1" : "0");
  return out + "]";
}

}  // namespace tandem::arguments
