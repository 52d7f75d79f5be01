// What a stack's file must have, what it may not have, and which file a device's plans get.

#include "models/stack/stack_file.hpp"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/presets.hpp"
#include "models/stack/default_stack.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/source_dir.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// While it lives the stack "odd" is that file, beside Tandem's own.
class OddFile {
 public:
  explicit OddFile(const std::string& rest, const std::string& read_until = R"({"as_of": "2026-01", "commit": "none"})") {
    std::filesystem::create_directories(folder_.path() / "models/stacks");
    path = folder_.file("models/stacks/odd.json", R"({"read_until": )" + read_until + rest + "}");
    setenv("TANDEM_PRESETS", folder_.path().c_str(), 1);
  }
  ~OddFile() { unsetenv("TANDEM_PRESETS"); }
  OddFile(const OddFile&) = delete;
  OddFile& operator=(const OddFile&) = delete;

  std::string path;

 private:
  tests::TemporaryFolder folder_;
};

template <class Read>
Problem problem_of(const Read& read) {
  try {
    read();
  } catch (const ConfigError& e) {
    return e.problems().front();
  }
  return {};
}

const std::string kFusion = R"(, "fusion": [{"set": "eager", "source": "s", "verified": true}])";
const std::string kTransfers = R"(, "transfers": [{"overlap": [], "scatter": false, "source": "s", "verified": true}])";

Problem of_plan() {
  return problem_of([] { parse_plan(with_top("\"stack\": \"odd\""), "plan.json"); });
}

}  // namespace

TEST_CASE("a stack's file needs the month of its code, a fusion set and, for pipelines, transfers") {
  {
    const OddFile odd(kFusion + kTransfers);
    CHECK(of_plan().message() == Problem{}.message());
  }
  {
    const OddFile odd(kTransfers);
    CHECK(of_plan().field == "fusion");
  }
  {
    const OddFile odd(kFusion);
    CHECK(of_plan().field == "transfers");
  }
  {
    const OddFile odd(R"(, "base": "megatron-core")");
    CHECK(of_plan().message() == Problem{}.message());
  }
  const OddFile odd(kFusion + kTransfers, R"({"as_of": "2026-01"})");
  CHECK(of_plan().field == "read_until");
}

TEST_CASE("a fusion set that holds for some plans only leaves the others without one") {
  const OddFile odd(R"(, "fusion": [{"set": "eager", "until": "2020-01", "source": "s", "verified": true}])" + kTransfers);
  const Problem p = of_plan();
  CHECK(p.field == "fusion");
  CHECK(p.remedy.find("without \"when\", since and until") != p.remedy.npos);
}

TEST_CASE("a stack's file whose name is another one's is refused") {
  const OddFile odd(R"(, "name": "even")" + kFusion + kTransfers);
  CHECK(of_plan().field == "name");
}

TEST_CASE("a key of a stack's file that is unknown may be one of a newer program, or misspelt") {
  const auto refused = [](const std::string& rest) {
    const OddFile odd(rest + kFusion + kTransfers);
    return of_plan();
  };
  const std::string older = "this program is older than the file";
  const Problem top = refused(R"(, "kernel_graphs": [])");
  CHECK(top.field == "kernel_graphs");
  CHECK(top.remedy.find(older) != top.remedy.npos);
  const Problem misspelt = refused(R"(, "deaults": [])");
  CHECK(misspelt.remedy.find("did you mean \"defaults\"?") == 0);
  CHECK(misspelt.remedy.find(older) != misspelt.remedy.npos);
  const Problem entry = refused(R"(, "arena": [{"source": "s", "verified": true, "for_ranks": 3}])");
  CHECK(entry.field == "arena[0]");
  CHECK(entry.remedy.find(older) != entry.remedy.npos);
}

TEST_CASE("a defect of an entry is told with its number and what mends it") {
  const auto refused = [](const std::string& second) {
    const OddFile odd(R"(, "defaults": [{"field": "training.flash_attention", "value": true, "source": "s", "verified": true}, )" + second + "]" +
                      kFusion + kTransfers);
    return of_plan();
  };
  const Problem misspelt = refused(R"({"field": "training.flash_atention", "value": true, "source": "s", "verified": true})");
  CHECK(misspelt.field == "defaults[1]");
  CHECK(misspelt.reason == "is no field of a plan");
  CHECK(misspelt.remedy == "did you mean \"training.flash_attention\"?");
  const Problem without = refused(R"({"field": "training.flash_attention", "value": true, "source": "s"})");
  CHECK(without.field == "defaults[1]");
  CHECK(without.remedy.find("\"verified\": true if its source was read") != without.remedy.npos);
  CHECK(refused(R"({"field": "cluster.preset", "value": "x", "source": "s", "verified": true})").reason.find("has no default") != std::string::npos);
}

TEST_CASE("the README's least file is a stack") {
  std::ifstream in(tests::source_dir() + "/models/stacks/README.md");
  std::string file;
  bool block = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) block = line == "```json";
    else if (block) file += line + "\n";
  }
  REQUIRE(file.starts_with("{"));
  const tests::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "models/stacks");
  folder.file("models/stacks/mine.json", file);
  setenv("TANDEM_PRESETS", folder.path().c_str(), 1);
  const Problem p = problem_of([] { CHECK(parse_plan(with_top("\"stack\": \"mine\""), "plan.json").training.flash_attention); });
  unsetenv("TANDEM_PRESETS");
  CHECK(p.message() == Problem{}.message());
}

TEST_CASE("a generation of devices that two stacks claim is refused with both files, and a plan that names its stack is not") {
  const std::string rest = R"(, "default_on": ["hopper"])" + kFusion + kTransfers;
  const auto chosen = [] { return default_stack("hopper").name; };
  CHECK(chosen() == "megatron-core");
  const OddFile odd(rest);
  const Problem p = problem_of(chosen);
  CHECK(p.field == "default_on");
  CHECK(p.file == odd.path);
  CHECK(p.reason.find("megatron-core.json") != p.reason.npos);
  CHECK(of_plan().message() == Problem{}.message());
  CHECK(default_stack("ampere").name == "megatron-core");
  CHECK(default_stack("unheard of").name == "tandem");
}

TEST_CASE("no generation is claimed by two of Tandem's stacks") {
  std::set<std::string> claimed;
  for (const std::string& name : preset_names("models/stacks"))
    for (const std::string& generation : load_stack(name)->default_on) {
      INFO(name << " " << generation);
      CHECK(claimed.insert(generation).second);
    }
  CHECK(claimed.size() > 10);
}
