#include "experiments/tandem/study/report.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/tandem/study/row.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;

/// An axis value's label as in a sweep: lists and objects by their text.
json label_of(const json& value) {
  if (value.is_object() && value.contains("label")) return value["label"];
  return value.is_structured() ? json(value.dump()) : value;
}

bool has_label(const json& axis, const json& label) {
  const json values = axis.value("values", json::array());
  return std::any_of(values.begin(), values.end(), [&](const json& value) { return label_of(value) == label; });
}

/// True if a row is at a point of the study; the folder also keeps others.
bool in_study(const json& axes, const json& at) {
  if (at.size() != axes.size()) return false;
  return std::all_of(axes.begin(), axes.end(), [&](const json& axis) {
    const json name = axis.is_object() ? axis.value("field", axis.value("name", json())) : json();
    return name.is_string() && at.contains(name.get<std::string>()) && has_label(axis, at[name.get<std::string>()]);
  });
}

json rows_of(const std::string& path, const json& axes) {
  json rows = json::array();
  std::istringstream lines(read_text(path, std::size_t{1} << 32));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string text = unsealed(line);
    if (text.empty())
      throw ConfigError(Problem{path + ":" + std::to_string(number), "", "", "is no row of a sweep, or its checksum does not match",
                                "run tandem sweep again"});
    json row = json::parse(text);
    row.erase("key");
    if (in_study(axes, row["at"])) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

StudyReport read_report(const std::string& folder) {
  if (file_state(folder + "/study.json").kind == FileKind::absent)
    throw ConfigError(
        Problem{folder, "", "", "holds no study.json", "give a plan file, or a folder that tandem sweep has written"});
  json study = read_json(folder + "/study.json");
  if (!study.is_object() || !study.value("axes", json()).is_array())
    throw ConfigError(Problem{folder + "/study.json", "", "", "is no study", "run tandem sweep again"});
  study.erase("base");
  const std::string name = study.value("name", std::filesystem::path(folder).filename().string());
  json rows = rows_of(folder + "/results.jsonl", study["axes"]);
  const json data = {{"what", "tandem study report"},
                     {"schema_version", 1},
                     {"study", std::move(study)},
                     {"rows", std::move(rows)}};
  return {name, data.dump()};
}

}  // namespace tandem::study
