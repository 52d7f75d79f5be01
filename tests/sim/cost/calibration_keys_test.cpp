#include <filesystem>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "sim/cost/calibration.hpp"
#include "tests/catch.hpp"
#include "tests/readme_keys.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;

TEST_CASE("the README of calibrations names every key that one may have") {
  const std::string folder = tests::source_dir() + "/topology/calibration/";
  const std::set<std::string> named = tests::keys_named_in(folder + "README.md");
  std::set<std::string> accepted;
  for (const std::string& name : preset_names("topology/calibration"))
    accepted.merge(tests::accepted_keys(read_json(folder + name + ".json"), [](const std::string& path) { sim::load_calibration(path); }));
  for (const char* key : {"caveat", "tile", "fill_k", "own_attention", "head_dims", "nccl_architecture"}) CHECK(accepted.contains(key));
  for (const std::string& key : accepted) {
    INFO(key);
    CHECK(named.contains(key));
  }
}
