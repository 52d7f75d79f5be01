// Tokenizers against the ids of Hugging Face's library (tests/fixtures/tokenizers), and what is refused.

#include "exec/tokenizer/formats/read_tokenizer.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;
using nlohmann::json;

namespace {

using Ids = std::vector<std::int32_t>;

std::string fixture(const std::string& name) { return tests::source_dir() + "/tests/fixtures/tokenizers/" + name + ".json"; }

json document(const std::string& name) { return json::parse(std::ifstream(fixture(name))); }

Ids encoded(Tokenizer& tokenizer, const std::string& text, bool special = true) {
  Ids ids;
  tokenizer.encode(text, special, ids);
  return ids;
}

/// The problem with a tokenizer of which `changed` replaces parts.
Problem refused(const std::string& name, const json& changed) {
  const tests::TemporaryFolder folder;
  json whole = document(name);
  whole.merge_patch(changed);
  try {
    read_tokenizer(folder.file("tokenizer.json", whole.dump()));
  } catch (const ConfigError& e) {
    return e.problems().front();
  }
  return {};
}

/// A byte-level tokenizer that splits at an expression.
json split_at(const std::string& expression) {
  json step{{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
  for (const char* other : {"add_prefix_space", "trim_offsets", "use_regex"}) step[other] = nullptr;  // takes away what it replaces
  return {{"pre_tokenizer", step}};
}

}  // namespace

TEST_CASE("every tokenizer makes the library's ids of every text") {
  const json expected = document("ids");
  const auto texts = expected.at("texts").get<std::vector<std::string>>();
  REQUIRE(expected.at("ids").size() == 17);
  for (const auto& [name, lists] : expected.at("ids").items()) {
    const auto tokenizer = read_tokenizer(fixture(name));
    REQUIRE(lists.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(name << ": " << json(texts[i]).dump(-1, ' ', true));
      CHECK(encoded(*tokenizer, texts[i]) == lists[i].get<Ids>());
    }
  }
}

TEST_CASE("a text's ids do not depend on texts before it") {
  const json expected = document("ids");
  const auto texts = expected.at("texts").get<std::vector<std::string>>();
  for (const char* name : {"gpt2", "mistral", "t5"}) {
    const auto tokenizer = read_tokenizer(fixture(name));
    for (std::size_t i = texts.size(); i-- > 0;) CHECK(encoded(*tokenizer, texts[i]) == expected.at("ids").at(name)[i].get<Ids>());
  }
}

TEST_CASE("special tokens around a text can be left out") {
  const auto tokenizer = read_tokenizer(fixture("bert"));
  const Ids with = encoded(*tokenizer, "the Word"), without = encoded(*tokenizer, "the Word", false);
  CHECK(with.front() == tokenizer->id_of("[CLS]"));
  CHECK(with.back() == tokenizer->id_of("[SEP]"));
  CHECK(Ids(with.begin() + 1, with.end() - 1) == without);
}

TEST_CASE("a vocabulary counts added tokens") {
  const json gemma = document("gemma");
  const auto tokenizer = read_tokenizer(fixture("gemma"));
  std::int64_t largest = 0;
  for (const auto& [token, id] : gemma.at("model").at("vocab").items()) largest = std::max(largest, id.get<std::int64_t>());
  for (const json& added : gemma.at("added_tokens")) largest = std::max(largest, added.at("id").get<std::int64_t>());
  CHECK(tokenizer->vocab_size() == largest + 1);
  CHECK(tokenizer->id_of("\n\n").has_value());
  CHECK_FALSE(tokenizer->id_of("no such token").has_value());
}

TEST_CASE("a text that is not UTF-8 is refused") {
  const auto tokenizer = read_tokenizer(fixture("gpt2"));
  for (const char* text : {"a\xFF", "a\xC3", "a\xC0\x80", "a\xED\xA0\x80", "a\xF4\x90\x80\x80", "a\xE2\x28\xA1"}) {
    Ids ids;
    CHECK_THROWS_AS(tokenizer->encode(text, true, ids), ConfigError);
  }
}

TEST_CASE("what a tokenizer.json asks for and is not known is refused by its field") {
  CHECK(refused("gpt2", {{"model", {{"type", "Wonder"}}}}).field == "model.type");
  CHECK(refused("gpt2", {{"model", {{"dropout", 0.1}}}}).field == "model.dropout");
  CHECK(refused("gpt2", {{"model", {{"future", true}}}}).field == "model.future");
  CHECK(refused("gpt2", {{"version", "2.0"}}).field == "version");
  CHECK(refused("gpt2", {{"normalizer", {{"type", "Wonder"}}}}).field == "normalizer.type");
  CHECK(refused("gpt2", {{"pre_tokenizer", {{"type", "UnicodeScripts"}}}}).field == "pre_tokenizer.type");
  CHECK(refused("gpt2", {{"post_processor", {{"type", "Wonder"}}}}).field == "post_processor.type");
  CHECK(refused("qwen2", {{"pre_tokenizer", {{"pretokenizers", {{{"type", "Wonder"}}}}}}}).field == "pre_tokenizer.pretokenizers[0].type");
  CHECK(refused("bert", {{"model", {{"vocab", {{"the", -1}}}}}}).field == "model.vocab.the");
  CHECK(refused("gpt2", {{"model", {{"merges", {"only"}}}}}).field == "model.merges[0]");
  CHECK(refused("mistral", {{"normalizer", {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}}, {"added_tokens", {{
      {"id", 560}, {"content", "x y"}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", true}, {"special", false}}}}}).field ==
        "pre_tokenizer");
}

TEST_CASE("an added token whose id is not the library's is refused") {
  json added = document("gpt2").at("added_tokens");
  added[0]["id"] = 7;
  const Problem problem = refused("gpt2", {{"added_tokens", added}});
  CHECK(problem.field == "added_tokens[0].id");
  CHECK(problem.value == "7");
}

TEST_CASE("expressions that are not known are refused, with what stands where") {
  for (const char* expression : {R"(\p{Han}+)", R"((?<n>a))", R"((?>a))", R"(\bx)", R"([a&&b])", R"([[:alpha:]])", R"((?i:é))", R"((?i:ss))", R"(a{3,2})",
                                 R"((a|)+)", R"((?<=ab)c)", R"(a**)", R"((a)", R"(a))", R"(\1)", R"((?i)a)", R"((ab)++)", R"(*a)", R"([b-a])"}) {
    const Problem problem = refused("gpt2", split_at(expression));
    INFO(expression);
    CHECK(problem.field == "pre_tokenizer.pattern.Regex");
    CHECK(problem.reason.find("at byte") != std::string::npos);
  }
}

TEST_CASE("the token that ends a document comes from the configuration beside a tokenizer") {
  const tests::TemporaryFolder folder;
  const std::string file = folder.file("tokenizer.json", document("gpt2").dump());
  const auto tokenizer = read_tokenizer(file);
  CHECK_THROWS_AS(end_of_document(file, *tokenizer), ConfigError);
  folder.file("special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})");
  CHECK(end_of_document(file, *tokenizer) == "</s>");
  folder.file("tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  CHECK(end_of_document(folder.path().string(), *tokenizer) == "<|endoftext|>");
}
