// A user's own cluster is treated by a stack as the presets that have its device.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/plan/plan.hpp"
#include "models/stack/cluster_kinship.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Folder : tests::TemporaryFolder {
  std::string file(const std::string& name, const json& content) const { return TemporaryFolder::file(name, content.dump()); }
};

json preset(const std::string& name) { return read_json(find_preset("topology/presets", name)); }

/// What a plan on `cluster` has by default under a stack, without the cluster's name; or why the stack refuses it.
json completed(const std::string& cluster, const std::string& stack) {
  try {
    json plan = json::parse(to_json(parse_plan(bent("dgx-a100-80gb", cluster, with_top("\"stack\": \"" + stack + "\"")), "plan.json")));
    plan["cluster"].erase("preset");
    return plan;
  } catch (const InfeasibleError& e) {
    return e.problems().front().reason;
  }
}

}  // namespace

TEST_CASE("a copy of a cluster preset has the defaults of the preset under every stack") {
  const Folder folder;
  for (const std::string& name : preset_names("topology/presets")) {
    const std::string own = folder.file("own.json", preset(name));
    for (const std::string& stack : preset_names("models/stacks")) {
      INFO(stack << " on " << name);
      CHECK(completed(own, stack) == completed(name, stack));
    }
  }
}

TEST_CASE("a stack tells clusters apart by what they are made of") {
  CHECK(completed("dgx-h100", "megatron-core") != completed("dgx-a100-80gb", "megatron-core"));  // else the case before says nothing
}

TEST_CASE("a cluster counts as one with its device, and where no preset has that as one with its calibration") {
  const Folder folder;
  const json named = {"dgx-a100-80gb", "dgx-h100", "dgx-b200"};
  json own = preset("dgx-h100");
  const auto counted = [&] { return counts_as(folder.file("own.json", own), named); };
  CHECK(counted() == "dgx-h100");
  own["device"] = "a100-sxm4-80gb";
  CHECK(counted() == "dgx-a100-80gb");
  own["device"] = "h200-sxm-141gb";  // of a preset that is not named
  CHECK(fs::path(counted()).filename() == "own.json");
  own["device"] = "h100-pcie-80gb";  // of no cluster preset
  CHECK(counted() == "dgx-h100");
  own["device"] = {{"name", "H800"}, {"calibration", "h100"}};
  CHECK(counted() == "dgx-h100");
  own["device"] = {{"name", "mine"}};
  CHECK(fs::path(counted()).filename() == "own.json");
  folder.file("device.json", {{"calibration", "b200"}});
  own["device"] = "device.json";  // beside the cluster's file
  CHECK(counted() == "dgx-b200");
  own["calibration"] = "a100";
  CHECK(counted() == "dgx-a100-80gb");
  CHECK(counts_as("dgx-h200", named) == "dgx-h200");
  CHECK(counts_as((folder.path() / "absent.json").string(), named) == (folder.path() / "absent.json").string());
  CHECK(counts_as(folder.file("odd.json", json::array({1})), named) == (folder.path() / "odd.json").string());
}

TEST_CASE("a cluster file is found from the plan's folder, else as it stands") {
  const Folder folder;
  const std::string own = folder.file("own.json", preset("dgx-h100"));
  const auto found = [&](const std::string& cluster) {
    return parse_plan(bent("dgx-a100-80gb", cluster), (folder.path() / "plan.json").string()).cluster.preset;
  };
  CHECK(found("own.json") == own);
  CHECK(found("./own.json") == (folder.path() / "./own.json").string());
  CHECK(found(own) == own);
  CHECK(found("absent.json") == "absent.json");
  CHECK(found("dgx-h100") == "dgx-h100");
}
