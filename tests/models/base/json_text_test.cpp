// Reading and writing JSON files, and the words for what is wrong with them.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

/// A directory of its own that is gone at the end.
std::vector<Problem> problems_of(const std::string& text, JsonLimits limits = {}) {
  try {
    parse_json(text, "t.json", limits);
  } catch (const ConfigError& e) {
    return e.problems();
  }
  return {};
}

}  // namespace

TEST_CASE("JSON is read as it stands") {
  const nlohmann::json v = parse_json(R"({"a": [1, -2, 2.5, true, null, "\u00e9 ß"], "b": {}})", "t.json");
  CHECK(v["a"][1] == -2);
  CHECK(v["a"][2] == 2.5);
  CHECK(v["a"][5] == "é ß");
  CHECK(v["b"].empty());
  CHECK(parse_json("3", "t.json") == 3);
}

TEST_CASE("nesting is allowed up to the limit and not beyond") {
  CHECK(problems_of("[[[]]]", {100, 3}).empty());
  REQUIRE(problems_of("[[[[]]]]", {100, 3}).size() == 1);
  CHECK(problems_of(std::string(1'000'000, '[')).front().reason == "brackets are nested deeper than 64");
}

TEST_CASE("a text beyond the size limit is refused before it is parsed") {
  const tests::TemporaryFolder folder;
  CHECK(problems_of("[1, 2, 3]", {4, 8}).front().reason.rfind("is larger than", 0) == 0);
  CHECK_THROWS_AS(read_json(folder.file("big.json", std::string(5000, ' ')), {4000, 8}), ConfigError);
}

TEST_CASE("every duplicate key is reported with its path") {
  const std::vector<Problem> p = problems_of(R"({"a": {"b": 1, "c": {"d": 1, "d": 2}, "b": 2}})");
  REQUIRE(p.size() == 2);
  CHECK(p[0].field == "a.c.d");
  CHECK(p[1].field == "a.b");
}

TEST_CASE("numbers that a double cannot hold are refused with their field") {
  CHECK(problems_of(R"({"a": {"b": 1e999}})").front().field == "a.b");
  CHECK(problems_of("[1e999]").front().field == "line 1, column 6");
  CHECK(problems_of("[1e308, -1e308, 1e-999]").empty());
}

TEST_CASE("only UTF-8 is read") {
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    CHECK(problems_of("\"" + bad + "\"").front().reason == "is not UTF-8");
  }
  for (const std::string good :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(problems_of("\"" + good + "\"").empty());
  }
}

TEST_CASE("a message is one line whatever the input held") {
  const Problem p{"f.json", "a\nb", "\x01", "is wrong", "use\tless"};
  CHECK(p.message() == "f.json: a\\x0ab = \\x01: is wrong; use\\x09less");
}

TEST_CASE("the nearest name is the one with the fewest edits") {
  const std::vector<std::string> known{"tensor", "pipeline", "data", "micro_batch_size", "global_batch_size"};
  CHECK(nearest("tensr", known) == "tensor");
  CHECK(nearest("Tensor", known) == "tensor");
  CHECK(nearest("pipelien", known) == "pipeline");
  CHECK(nearest("global_batch", known) == "global_batch_size");
  CHECK(nearest("zzz", known).empty());
  // Who leaves out the end of a name means that one, though another of the same length is fewer edits away.
  CHECK(nearest("dgx-a100", std::vector<std::string>{"dgx-h100", "dgx-a100-80gb", "dgx-a100-80gb-two"}) == "dgx-a100-80gb");
  CHECK(nearest("", known).empty());
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
}

TEST_CASE("lists and cuts read like words") {
  const std::vector<std::string> words{"a", "b", "c"};
  CHECK(list_text(words) == "a, b and c");
  CHECK(use_one_of(divisors(12), 5) == "use 1, 2, 3, 4, 6 or 12");
  CHECK(use_one_of(divisors(5040), 11) == "use 6, 7, 8, 9, 10, 12, 14 or 15");
  CHECK(shortened("ééééé", 8) == "éé...");
}

TEST_CASE("divisors are all of them, ascending") {
  for (std::int64_t n = 1; n <= 200; ++n) {
    std::vector<std::int64_t> expected;
    for (std::int64_t d = 1; d <= n; ++d) {
      if (n % d == 0) expected.push_back(d);
    }
    CHECK(divisors(n) == expected);
  }
}

TEST_CASE("presets are found by name and never outside their folder") {
  CHECK(!find_preset("models/presets", "gpt2-124m").empty());
  CHECK(find_preset("models/presets", "absent").empty());
  for (const char* name :
       {"", ".", "..", "../presets/gpt2-124m", "/etc/passwd", "a/b", "gpt2-124m.json/..", ".hidden"}) {
    CHECK(find_preset("models/presets", name).empty());
  }
  const std::vector<std::string> names = preset_names("models/presets");
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(names.size() >= 28);
  CHECK(unknown_preset("models/presets", "gpt2", "model preset").remedy == "did you mean \"gpt2-124m\" or \"gpt2-345m\"?");
}

TEST_CASE("TANDEM_PRESETS is searched first") {
  const tests::TemporaryFolder folder;
  fs::create_directories(folder.path() / "models/presets");
  const std::string own = folder.file("models/presets/mine.json", "{}");
  setenv("TANDEM_PRESETS", folder.path().c_str(), 1);
  CHECK(find_preset("models/presets", "mine") == own);
  CHECK(!find_preset("models/presets", "gpt2-124m").empty());
  unsetenv("TANDEM_PRESETS");
  CHECK(find_preset("models/presets", "mine").empty());
}
