#include "experiments/tandem/validation/sites.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"

using namespace tandem::program;
using nlohmann::json;

namespace {

/// Every list of presets in `value` that something is said of.
void collect_presets(const json& value, std::vector<json>& lists) {
  if (value.is_object() && value.contains("cluster.preset") && value["cluster.preset"].contains("allowed"))
    lists.push_back(value["cluster.preset"]["allowed"]);
  for (const json& part : value)
    if (part.is_structured()) collect_presets(part, lists);
}

bool has(const json& list, const std::string& name) { return std::find(list.begin(), list.end(), name) != list.end(); }

}  // namespace

TEST_CASE("what a stack does on a cluster it does on the one of a site that stands in its place") {
  int checked = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TANDEM_SOURCE_DIR) + "/models/stacks")) {
    if (file.path().extension() != ".json") continue;
    std::vector<json> lists;
    collect_presets(json::parse(std::ifstream(file.path())), lists);
    for (const json& list : lists)
      for (const Site& site : load_sites())
        for (const auto& [named, there] : site.clusters) {
          INFO(file.path().filename().string() << ": " << named << " in " << list.dump());
          CHECK(has(list, named) == has(list, there));
          checked += has(list, named);
        }
  }
  CHECK(checked > 0);
}

TEST_CASE("a unit's factor is bytes of the one over bytes of the other") {
  CHECK(MemoryUnit{"GB", "GiB"}.factor() == Approx(0.931322574615478515625));
  CHECK(MemoryUnit{"MiB", "MB"}.factor() == Approx(1.048576));
}

TEST_CASE("what torchtitan logs in GiB is GiB where a record took it for GB") {
  const std::string source = "torchtitan mxfp8 doc; pytorch/torchtitan:torchtitan/components/quantization/mxfp8.md";
  const auto unit = site_memory_unit(load_sites(), source, "Doc gives memory in GB (converted to GiB assuming decimal GB)");
  REQUIRE(unit);
  CHECK(31.39 * unit->factor() == Approx(33.705).epsilon(1e-4));  // what it has, and what its page then says
  CHECK_FALSE(site_memory_unit(load_sites(), source, "GiB"));
}

TEST_CASE("what runs had otherwise are fields of plans, with values that plans take") {
  const auto text = [](const json& plan) { return tandem::to_json(tandem::parse_plan(plan.dump(), "site.json")); };
  const json training{{"seq_length", 128}, {"micro_batch_size", 1}, {"global_batch_size", 128}, {"recompute", "selective"}};
  const json least{{"model", {{"preset", "gpt2-124m"}}},
                   {"parallel", {{"data", 128}}},
                   {"training", training},
                   {"cluster", {{"preset", "dgx-h100"}, {"devices", 128}}}};
  int checked = 0;
  for (const Site& site : load_sites())
    for (const ChangedField& f : site.fields) {
      INFO(site.name << ": " << f.field);
      std::string path = "/" + f.field;
      std::replace(path.begin(), path.end(), '.', '/');
      const json::json_pointer at(path);
      for (const std::string& text_of : {f.named, f.ran}) {
        if (text_of.empty()) continue;  // records do not say it
        const json value = json::parse(text_of);
        json plan = least;
        plan[at] = value;
        CHECK(json::parse(text(plan))[at] == value);
        ++checked;
      }
    }
  CHECK(checked > 0);
}

TEST_CASE("a site may say whose memory was read, and of other sources nothing is said") {
  const std::vector<Site> sites = load_sites();
  CHECK(site_memory_rank(sites, "bigscience 1.3B benchmark; bigscience-workshop/bigscience:experiments/tr3m-1B3.md line 22") == "first_node");
  CHECK(site_memory_rank(sites, "bigscience-workshop/bigscience:train/tr11-176B-ml/chronicles-prequel.md").empty());
  CHECK(site_memory_rank(sites, "").empty());
}

TEST_CASE("a field that runs had otherwise may hang on others of the plan, as it is after those before it") {
  const std::string source = "AWS Neuron SDK 2.24.0 Trn1/Trn1n training benchmark; aws-neuron/aws-neuron-sdk:x.csv";
  const auto changed = [&](const std::string& family, int length, int pipeline, const std::string& recompute = "none") {
    const json model{{"family", family}, {"num_layers", 16}, {"hidden_size", 1024}, {"num_attention_heads", 8}, {"vocab_size", 32000}};
    const json training{{"seq_length", length}, {"micro_batch_size", 1}, {"global_batch_size", 8}, {"recompute", recompute},
                        {"flash_attention", false}};
    std::string plan = json{{"model", model},
                            {"parallel", {{"pipeline", pipeline}}},
                            {"training", training},
                            {"cluster", {{"preset", "trn1.32xlarge"}, {"devices", pipeline}}}}
                           .dump();
    change_fields(load_sites(), source, plan);
    return json::parse(plan)["training"];
  };
  const json core{"core_attention"}, mlp{"mlp"};
  json t = changed("llama", 4096, 4);
  CHECK((t["recompute"] == "selective" && t["recompute_modules"] == core && t["flash_attention"] == false));
  t = changed("llama", 8192, 8);
  CHECK((t["recompute"] == "selective" && t["recompute_modules"] == mlp && t["flash_attention"] == true));
  t = changed("llama", 8192, 1);
  CHECK((t["recompute"] == "none" && !t.contains("recompute_modules") && t["flash_attention"] == true));
  t = changed("llama", 4096, 4, "full");
  CHECK((t["recompute"] == "full" && !t.contains("recompute_modules")));
  t = changed("gpt", 4096, 1);
  CHECK((t["recompute"] == "none" && t["flash_attention"] == false));
  t = changed("llama", 4096, 3);  // 16 layers over 3 stages go, over 17 they do not: such a plan is refused, and left as it is
  CHECK(t["recompute"] == "selective");
  t = changed("llama", 4096, 17);
  CHECK(t["recompute"] == "none");
}

TEST_CASE("PaxML's runs were JAX's, sharded over the devices that the recipe of their size shards over") {
  const auto changed = [](const std::string& size, int data) {
    std::string plan = json{{"model", {{"preset", "gpt2-124m"}}},
                            {"parallel", {{"data", data}, {"zero_stage", 3}}},
                            {"training", {{"seq_length", 128}, {"micro_batch_size", 1}, {"global_batch_size", data}}},
                            {"cluster", {{"preset", "dgx-h100"}, {"devices", data}}},
                            {"stack", "megatron-core"}}
                           .dump();
    change_fields(load_sites(), "recipe; NVIDIA/dgxc-benchmarking:paxml/README_" + size + ".md (tag v24.11.1)", plan);
    const json out = json::parse(plan);
    return std::pair(out["stack"].get<std::string>(), out["parallel"].value("zero_group", 0));
  };
  CHECK(changed("5b", 8) == std::pair(std::string("jax"), 0));
  CHECK(changed("5b", 64) == std::pair(std::string("jax"), 8));
  CHECK(changed("175b", 128) == std::pair(std::string("jax"), 0));
  CHECK(changed("175b", 256) == std::pair(std::string("jax"), 128));
}
