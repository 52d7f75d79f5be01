#include <nlohmann/json.hpp>

#include "models/arguments/interpolation.hpp"
#include "models/arguments/yaml_text.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using arguments::parse_yaml;
using nlohmann::json;

namespace {

json resolved(const std::string& text, const std::string& mounted = "") {
  json out = parse_yaml(text, "run.yaml");
  arguments::resolve_interpolations(out, mounted);
  return out;
}

Problem refused(const std::string& text) {
  try {
    parse_yaml(text, "run.yaml");
  } catch (const ConfigError& e) {
    return e.problems().front();
  }
  FAIL("not refused: " << text);
  return {};
}

}  // namespace

TEST_CASE("YAML's scalars are those that OmegaConf reads") {
  // OmegaConf 2.4.0, run on these texts: its numbers may have an exponent without a point, its booleans are YAML 1.1's.
  CHECK(parse_yaml("[1e-5, 2e-4, 1.0e-05, 4294967296, 1_000, 0x10, 010, -3, +2, .5]", "f") ==
        json{1e-5, 2e-4, 1e-5, 4294967296, 1000, 16, 8, -3, 2, 0.5});
  CHECK(parse_yaml("[yes, No, ON, off, True, false]", "f") == json{true, false, true, false, true, false});
  CHECK(parse_yaml("[null, ~, Null]", "f") == json{nullptr, nullptr, nullptr});
  CHECK(parse_yaml("{a: , b: '', c: \"1e-5\", d: 'yes', e: bf16, f: 16-mixed, g: 1.2.3, h: y}", "f") ==
        json{{"a", nullptr}, {"b", ""}, {"c", "1e-5"}, {"d", "yes"}, {"e", "bf16"}, {"f", "16-mixed"}, {"g", "1.2.3"}, {"h", "y"}});
  CHECK(parse_yaml("a: [1, {b: 2}]\nc:\n  - d\n", "f") == json{{"a", {1, {{"b", 2}}}}, {"c", {"d"}}});
}

TEST_CASE("anchors and merges of YAML are written out, and own keys count before merged ones") {
  const json read = parse_yaml("base: &b {x: 1, y: 2}\nother: &o {y: 7, z: 8}\none: {<<: *b, y: 3}\ntwo:\n  <<: [*b, *o]\nthree: *b\n", "f");
  CHECK(read["one"] == json{{"x", 1}, {"y", 3}});
  CHECK(read["two"] == json{{"x", 1}, {"y", 2}, {"z", 8}});
  CHECK(read["three"] == read["base"]);
}

TEST_CASE("a text that is no YAML, or more than data, is told by its line") {
  CHECK(refused("a: 1\nb: [1, 2\n").field.starts_with("line 3"));
  CHECK(refused("a: 1\nb: 2\na: 3\n").field == "line 3, column 1");
  CHECK(refused("a: !!python/object:os.system x\n").reason.find("python") != std::string::npos);
  CHECK(refused("a: 1\n---\nb: 2\n").reason.find("several documents") != std::string::npos);
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += last + (k < 9 ? ", " : "]\n");
  }
  CHECK(refused(bomb).reason.find("expand to too much") != std::string::npos);
}

TEST_CASE("interpolations are what they name, with its type") {
  const json read = resolved("model: {h: 64, pos: '${.h}', up: '${..top}', text: 'n${.h}_${model.pos}', ffn: '${multiply:4, ${.h}}'}\n"
                             "top: 1.5\nlist: [3, '${list[0]}']\nfloor: '${divide_floor:7,2}'\nceil: '${divide_ceil:${top},1}'\nsum: '${sum:${model.h},-1}'\n");
  CHECK(read["model"] == json{{"h", 64}, {"pos", 64}, {"up", 1.5}, {"text", "n64_64"}, {"ffn", 256}});
  CHECK(read["list"] == json{3, 3});
  CHECK(read["floor"] == 3);
  CHECK(read["ceil"] == 2);
  CHECK(read["sum"] == 63);
  CHECK(resolved("a: '${training.b}'\nb: 4\n", "training")["a"] == 4);
}

TEST_CASE("what stands for nothing stays open, and circles end") {
  const json read = resolved("a: '${b}'\nb: '${a}'\nc: '${data_dir}/x'\nd: '${oc.env:HOME}'\ne: '${multiply:${c},2}'\nf: ???\ng: '${f}'\n");
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g"}) {
    CAPTURE(key);
    CHECK(arguments::is_open(read[key]));
  }
  CHECK(read["c"] == "${data_dir}/x");
  CHECK_FALSE(arguments::is_open("plain"));
}

TEST_CASE("an object is written as YAML that reads the same") {
  const nlohmann::ordered_json object = {{"name", "a run"}, {"yes", "on"}, {"number", "12"}, {"empty", ""}, {"rate", 1e-5}, {"whole", 3}, {"off", false},
                                         {"none", nullptr}, {"list", {"a.b", "it's", 1e-8}}, {"group", {{"inner", {{"x", 1}}}, {"nothing", nlohmann::ordered_json::object()}}},
                                         {"lines", "a\nb"}, {"flags", "--model-type transformer"}};
  const std::string text = arguments::yaml_text(object);
  CHECK(arguments::parse_yaml(text, "a.yaml") == nlohmann::json(object));
  CHECK(text.find("rate: 1.0e-05\n") != std::string::npos);  // PyYAML takes 1e-05 for a word
  CHECK(text.find("number: '12'\n") != std::string::npos);
}
