#include "experiments/tandem/study/report.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/tandem/study/row.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;

json rows_of(const std::string& path) {
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
    rows.push_back(std::move(row));
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
  const json data = {{"what", "tandem study report"},
                     {"schema_version", 1},
                     {"study", std::move(study)},
                     {"rows", rows_of(folder + "/results.jsonl")}};
  return {name, data.dump()};
}

}  // namespace tandem::study
