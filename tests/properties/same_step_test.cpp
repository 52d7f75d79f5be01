// The step time depends on shapes and hardware, not on names: of models, families, clusters and devices.

#include "tests/properties/findings.hpp"
#include "tests/properties/own_presets.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

using nlohmann::json;

/// FLOPs and bytes grow at most linearly with the padded vocabulary.
double growth(const Plan& from, const Plan& to) {
  return static_cast<double>(to.padded_vocab_size()) / static_cast<double>(from.padded_vocab_size()) - 1;
}

json with_vocabulary(json document, std::int64_t words) {
  document["model"]["vocab_size"] = words;
  return document;
}

void add_words(const StackPlan& of, Findings& findings) {
  const json changed = with_vocabulary(of.document, of.plan.model.vocab_size + 128);
  findings.compare(of, changed, "128 more words", growth(of.plan, parsed(changed)));
  for (const std::int64_t words : kVocabularies)
    findings.compare_defaults(of, with_vocabulary(of.document, words), with_vocabulary(of.document, words + 128),
                              "128 words more than " + std::to_string(words), {"/model/vocab_size"});
}

void rename_model(const StackPlan& of, Findings& findings) {
  for (const char* name : {"Llama 3 8B", "MPT-7B", "Nemotron-4 340B", "Mixtral 8x7B"}) {
    json changed = of.document;
    changed["model"]["name"] = changed["name"] = name;
    findings.compare_defaults(of, of.document, changed, "model.name " + std::string(name), {"/model/name", "/name"});
  }
  json changed = of.document;
  changed["model"]["name"] = changed["name"] = "GPT-3 175B";
  findings.compare(of, changed, "model.name GPT-3 175B");
}

/// Copies of `whole` with other families. BERT and T5 are left out: their layers differ beyond the fields of a plan.
std::vector<json> of_other_families(const StackPlan& of, json whole) {
  std::vector<json> out;
  for (const Family family : {Family::gpt, Family::llama, Family::bloom}) {
    if (of.plan.model.family == Family::bert || of.plan.model.family == family) continue;
    whole["model"]["family"] = name(family);
    if (legal(whole)) out.push_back(whole);  // a stack may refuse a family
  }
  return out;
}

void change_family(const StackPlan& of, Findings& findings) {
  for (const json& changed : of_other_families(of, json::parse(to_json(of.plan, -1))))
    findings.compare(of, changed, "every field written out, family " + changed["model"]["family"].dump());
}

/// Writes out what a family has defaults for: the model and, in the recipes of LLaMA models, no dropout.
void change_family_of_whole_model(const StackPlan& of, Findings& findings) {
  const json whole = json::parse(to_json(of.plan, -1));
  json before = of.document;
  before["model"] = whole.at("model");
  before["training"]["dropout"] = whole.at("training").at("dropout");
  for (const json& changed : of_other_families(of, before)) {
    const std::string what = "model and dropout written out, family " + changed["model"]["family"].dump();
    findings.compare(of, changed, what);
    findings.compare_defaults(of, before, changed, what, {"/model/family"});
  }
}

/// A completed plan names the stack with the date that was left out.
void date_stack(const StackPlan& of, Findings& findings) {
  json changed = of.document;
  changed["stack"] = json::parse(to_json(of.plan, -1)).at("stack");
  findings.compare(of, changed, "stack " + changed["stack"].dump());
  findings.compare_defaults(of, of.document, changed, "stack " + changed["stack"].dump(), {});
}

void rename_files(const StackPlan& of, Findings& findings) {
  const OwnPresets own(of.plan.cluster.preset);
  json changed = of.document;
  changed["cluster"]["preset"] = "own-cluster";
  findings.compare(of, changed, "files under other names");
  findings.compare_defaults(of, of.document, changed, "defaults with files under other names", {"/cluster/preset"});
}

}  // namespace

TEST_CASE("128 more words of vocabulary change no step by more than its work grows") {
  check_plans(kPlans, kPlans, add_words);
}

TEST_CASE("the name of a model changes no step") {
  check_plans(kPlans, kPlans, rename_model);
}

TEST_CASE("the family changes no step of a plan with every field written out") {
  check_plans(kPlans, kPlans / 2, change_family);
}

TEST_CASE("the family changes no step of a plan with its model and dropout written out") {
  check_plans(kPlans, kPlans / 2, change_family_of_whole_model);
}

TEST_CASE("the newest date of a stack changes no step of a plan without a date") {
  check_plans(kPlans, kPlans, date_stack);
}

TEST_CASE("the same device and cluster under other names change no step") {
  check_plans(kPlans, kPlans, rename_files);
}

TEST_CASE("128 more words of vocabulary change no step of many plans by more than its work grows", "[.nightly]") {
  check_plans(kNightlyPlans, kNightlyPlans, add_words);
}

TEST_CASE("the name of a model changes no step of many plans", "[.nightly]") {
  check_plans(kNightlyPlans, kNightlyPlans, rename_model);
}

TEST_CASE("the family changes no step of many plans with every field written out", "[.nightly]") {
  check_plans(kNightlyPlans, kNightlyPlans / 2, change_family);
}

TEST_CASE("the family changes no step of many plans with models and dropout written out", "[.nightly]") {
  check_plans(kNightlyPlans, kNightlyPlans / 2, change_family_of_whole_model);
}

TEST_CASE("the newest date of a stack changes no step of many plans without a date", "[.nightly]") {
  check_plans(kNightlyPlans, kNightlyPlans, date_stack);
}

TEST_CASE("the same device and cluster under other names change no step of many plans", "[.nightly]") {
  check_plans(kNightlyPlans, kNightlyPlans, rename_files);
}
