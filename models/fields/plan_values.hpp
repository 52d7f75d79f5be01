#pragma once
// Kinds of values of the field table: each knows how it is read, printed and described.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/fields/plan_fields.hpp"

namespace tandem {

struct IntRange {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

/// Interval of finite doubles; an open end excludes its bound.
struct NumberRange {
  double min = 0;
  double max = 1e300;
  bool open_min = false;
  bool open_max = false;
};

using Names = std::span<const std::string_view>;

// Readers: the value, or why not.
std::optional<Refusal> read_value(const nlohmann::json& v, IntRange range, std::int64_t& out);
std::optional<Refusal> read_value(const nlohmann::json& v, NumberRange range, double& out);
std::optional<Refusal> read_value(const nlohmann::json& v, bool& out);
std::optional<Refusal> read_value(const nlohmann::json& v, std::string& out);
/// "160 MB" or a count of bytes, `range` in bytes.
std::optional<Refusal> read_value(const nlohmann::json& v, IntRange range, Bytes& out);
std::optional<Refusal> read_value(const nlohmann::json& v, Bandwidth& out);  ///< "400 Gb/s"
/// One of `names`; `out` is its index.
std::optional<Refusal> read_choice(const nlohmann::json& v, Names names, std::size_t& out);
/// A list of distinct `names`.
std::optional<Refusal> read_choices(const nlohmann::json& v, Names names, std::vector<std::string>& out);
/// "auto" (an empty list) or a list of whole numbers.
std::optional<Refusal> read_split(const nlohmann::json& v, IntRange range, std::vector<std::int64_t>& out);
/// The five axes joined by '-', each once.
std::optional<Refusal> read_rank_order(const nlohmann::json& v, std::string& out);

// JSON Schema of the same kinds.
nlohmann::json schema_of(IntRange range);
nlohmann::json schema_of(NumberRange range);
nlohmann::json schema_of_choice(Names names);
nlohmann::json schema_of_type(std::string_view type);
nlohmann::json schema_of_size(IntRange range);
nlohmann::json schema_of_bandwidth();

/// 0.0003, 12: as short as it can be.
std::string number_text(double v);

}  // namespace tandem
