#include <nlohmann/json.hpp>
#include <set>

#include "models/base/presets.hpp"
#include "tests/catch.hpp"
#include "tests/models/huggingface/configs.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;
using huggingface::ImportedModel;
using nlohmann::json;
using tests::Configs;
using tests::refused;
using tests::with;

namespace {

/// What transformers builds of each type's empty configuration, and all fields of its class (huggingface_defaults.py).
const json& classes() {
  static const json all = read_json(tests::source_dir() + "/tests/fixtures/huggingface_defaults.json");
  return all;
}

// An empty configuration is no model: these classes leave out how many experts there are, or how many a token has.
const std::set<std::string> kUnread = {"deepseek_v2", "dots1"};

// Values that no expression says: windows of Flint (none in the first two layers, every fourth and the last) and MiMo (none in the first
// and then every sixth), and Youtu's root of a size.
const std::set<std::string> kUnsaid = {"flint", "mimo_v2_flash", "youtu"};

/// The empty configuration of a type and the one that says all; the latter alone for a document whose class has its own language model.
std::vector<json> both(const json& c) {
  const json empty = {{"model_type", c["type"]}}, full = with(c["config"], empty);
  return c["config"].contains("text_config") || kUnread.contains(c["type"].get<std::string>()) ? std::vector<json>{full} : std::vector<json>{empty, full};
}

}  // namespace

TEST_CASE("an empty configuration has the parameters of its class, and so has one that says all of them") {
  Configs configs;
  REQUIRE(classes().size() > 180);
  int compared = 0;
  for (const json& c : classes()) {
    const auto type = c["type"].get<std::string>();
    for (const json& config : both(c)) {
      INFO(config.dump());
      const ImportedModel model = configs.import(config);
      if (!model.counts.text_complete) continue;
      CHECK(model.counts.text_parameters == c["parameters"].get<std::int64_t>());
      ++compared;
    }
  }
  CHECK(compared > 200);
}

TEST_CASE("an empty configuration gives the section of one that says all that its class has") {
  Configs configs;
  for (const json& c : classes()) {
    const auto type = c["type"].get<std::string>();
    INFO(type);
    if (kUnread.contains(type)) {
      CHECK_FALSE(configs.refusal({{"model_type", type}}).empty());
      continue;
    }
    const std::vector<json> said = both(c);
    if (said.size() < 2) continue;
    const ImportedModel read = configs.import(said.front()), full = configs.import(said.back());
    const bool same = refused(read) == refused(full) && (!refused(read).empty() || read.section() == full.section());
    CHECK(same != kUnsaid.contains(type));
  }
}
