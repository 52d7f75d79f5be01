// A broken stack file stops only plans that may need it. Generations and stacks are those of models/stacks/*.json.

#include "models/stack/default_stack.hpp"

#include <cstdlib>

#include "models/stack/generations.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// While it lives, `text` is the stack file of this name in the user's own folder.
class OwnStack {
 public:
  OwnStack(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_.path() / "models/stacks");
    path = folder_.file("models/stacks/" + name + ".json", text);
    setenv("TANDEM_PRESETS", folder_.path().c_str(), 1);
  }
  ~OwnStack() { unsetenv("TANDEM_PRESETS"); }
  OwnStack(const OwnStack&) = delete;
  OwnStack& operator=(const OwnStack&) = delete;

  std::string path;

 private:
  tests::TemporaryFolder folder_;
};

/// The file that an error names; empty without an error.
template <class Read>
std::string blamed(const Read& read) {
  try {
    read();
  } catch (const ConfigError& e) {
    return e.problems().front().file;
  }
  return {};
}

/// A plan on A100 that names no stack.
const std::string kWithoutStack = bent(" \"stack\": \"tandem\",", "");

}  // namespace

TEST_CASE("A stack file that is no JSON stops no plan of another file's generation, and a note names it") {
  const OwnStack own("mine", "{\"default_on\": [\"mine\"");
  const DefaultStack hopper = default_stack("hopper");
  CHECK(hopper.name == "megatron-core");
  REQUIRE(hopper.notes.size() == 1);
  CHECK(hopper.notes.front().find(own.path) != std::string::npos);
  CHECK(blamed([] { parse_plan(kWithoutStack, "plan.json"); }).empty());
  CHECK(blamed([] { default_stack("mine"); }) == own.path);
  CHECK(default_stack("nobody's").name == "tandem");
  CHECK(stack_generations().contains("hopper"));
  CHECK(blamed([] { stack_generations(true); }) == own.path);
}

TEST_CASE("A stack file with a defect stops plans of the generations that it claims, and those that name it") {
  const OwnStack own("mine", R"({"read_until": {"as_of": "2026-01", "commit": "none"}, "default_on": ["mine"], "fusion": 3})");
  CHECK(default_stack("ada").name == "pytorch-fsdp");
  CHECK(default_stack("nobody's").notes.size() == 1);
  CHECK(blamed([] { default_stack("mine"); }) == own.path);
  CHECK(blamed([] { parse_plan(with_top("\"stack\": \"mine\""), "plan.json"); }) == own.path);
  CHECK(blamed([] { parse_plan(with_top("\"stack\": \"megatron-core\""), "plan.json"); }).empty());
}

TEST_CASE("A broken file in place of one of Tandem's stacks stops plans of the generations of that one") {
  const OwnStack own("megatron-core", "");
  CHECK(blamed([] { default_stack("hopper"); }) == own.path);
  CHECK(default_stack("ada").name == "pytorch-fsdp");
}

TEST_CASE("A plan's notes name the broken stack file where the plan names no stack") {
  const OwnStack own("mine", "no JSON");
  const auto notes = [](const std::string& text) {
    const Plan plan = parse_plan(text, "plan.json");
    std::string out;
    for (const std::string& note : plan.stack.facts.notes) out += note + "\n";
    return out;
  };
  CHECK(notes(with_top("\"stack\": \"megatron-core\"")).find(own.path) == std::string::npos);
  CHECK(notes(kWithoutStack).find(own.path) != std::string::npos);
}
