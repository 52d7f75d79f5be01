#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/tandem/study/results.hpp"
#include "reports/prediction/csv.hpp"

namespace tandem::study {

namespace {

using nlohmann::ordered_json;

std::string cell(const ordered_json& value) {
  return csv_cell(value.is_string() ? value.get<std::string>() : value.is_null() ? std::string() : value.dump());
}

/// Flattens one level: {"layout": {"tensor": 4}} becomes layout.tensor.
ordered_json flat(const ordered_json& row) {
  ordered_json out = ordered_json::object();
  for (const auto& [key, value] : row.items()) {
    if (!value.is_object())
      out[key] = value;
    else
      for (const auto& [inner, leaf] : value.items()) out[key == "at" ? inner : key + "." + inner] = leaf;
  }
  return out;
}

}  // namespace

std::string csv_of(const Study& study, const std::vector<std::string>& lines) {
  std::vector<std::string> columns;
  for (const Axis& a : study.axes) columns.push_back(a.name);
  std::vector<ordered_json> rows;
  for (const std::string& line : lines) {
    rows.push_back(flat(ordered_json::parse(line)));
    for (const auto& [key, unused] : rows.back().items())
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
  }
  std::string out;
  for (const std::string& c : columns) out += (out.empty() ? "" : ",") + csv_cell(c);
  for (const ordered_json& row : rows) {
    out += "\r\n";
    for (std::size_t i = 0; i < columns.size(); ++i)
      out += (i ? "," : "") + (row.contains(columns[i]) ? cell(row[columns[i]]) : std::string());
  }
  return out + "\r\n";
}

}  // namespace tandem::study
