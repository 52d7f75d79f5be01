// Models of sentencepiece against its Python package (other_files.py). Left out where the library was not found.

#include "exec/tokenizer/formats/sentences.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/tokenizer/formats/read_tokenizer.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/tokenizer/formats/fixture_files.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::tests;
using nlohmann::json;

namespace {

Ids encoded(Tokenizer& tokenizer, const std::string& text, bool special = true) {
  Ids ids;
  tokenizer.encode(text, special, ids);
  return ids;
}

/// The ids of "the Word" by a model with a configuration beside it.
Ids configured(const std::string& model, const std::string& configuration) {
  const tests::TemporaryFolder folder;
  folder.file("tokenizer_config.json", configuration);
  return encoded(*read_tokenizer(folder.file("a.model", content(model))), "the Word");
}

}  // namespace

TEST_CASE("a model of sentencepiece gives its ids of every text") {
  const json expected = json::parse(content("ids.json"));
  const auto texts = expected.at("texts").get<std::vector<std::string>>();
  for (const char* name : {"llama2", "t5"}) {
    const auto tokenizer = read_tokenizer(fixtures() + name);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(name << ": " << json(texts[i]).dump(-1, ' ', true));
      CHECK(encoded(*tokenizer, texts[i]) == expected.at("ids").at(name)[i].get<Ids>());
    }
  }
}

TEST_CASE("<s> before a text, or </s> behind it, follows the model and the configuration beside it") {
  const Ids plain = encoded(*read_tokenizer(fixtures() + "llama2"), "the Word", false);
  const auto around = [&](bool begin, bool end) {
    Ids ids = plain;
    if (begin) ids.insert(ids.begin(), 1);
    if (end) ids.push_back(2);
    return ids;
  };
  CHECK(configured("llama2/tokenizer.model", "{}") == around(true, false));
  CHECK(configured("llama2/tokenizer.model", R"({"tokenizer_class": "LlamaTokenizerFast", "add_eos_token": true})") == around(true, true));
  CHECK(configured("llama2/tokenizer.model", R"({"add_bos_token": false})") == around(false, false));
  CHECK(configured("llama2/tokenizer.model", R"({"tokenizer_class": "T5Tokenizer"})") == around(false, true));
  CHECK_THROWS_AS(configured("llama2/tokenizer.model", R"({"tokenizer_class": "XLMRobertaTokenizer"})"), ConfigError);
}

TEST_CASE("a model of sentencepiece names its tokens, their number and its end of a document") {
  const std::string path = fixtures() + "t5/spiece.model";
  const auto tokenizer = read_tokenizer(path);
  CHECK(tokenizer->vocab_size() == 500);
  CHECK(tokenizer->id_of("</s>") == 1);
  CHECK_FALSE(tokenizer->id_of("no such piece").has_value());
  CHECK(tokenizer->id_of("<unk>") == 2);
  CHECK(end_of_document(path, *tokenizer) == "</s>");
  REQUIRE(tokenizer->notes().size() == 1);
  CHECK(tokenizer->notes().front().find("</s> ends each text") != std::string::npos);
}

TEST_CASE("tokens that a configuration adds to a model's pieces are known, and refused in a text, which would be cut") {
  const std::string added = R"({"added_tokens_decoder": {"600": {"content": "<|im_end|>", "special": true}}})";
  const tests::TemporaryFolder folder;
  folder.file("tokenizer_config.json", added);
  const auto tokenizer = read_tokenizer(folder.file("a.model", content("llama2/tokenizer.model")));
  CHECK(tokenizer->vocab_size() == 601);
  CHECK(tokenizer->id_of("<|im_end|>") == 600);
  CHECK(encoded(*tokenizer, "the Word") == encoded(*read_tokenizer(fixtures() + "llama2"), "the Word"));
  CHECK_THROWS_WITH(encoded(*tokenizer, "the Word<|im_end|>"), Catch::Contains("<|im_end|>") && Catch::Contains("tokenizer.json"));
}

TEST_CASE("a damaged model of sentencepiece is refused") {
  const std::string model = content("llama2/tokenizer.model");
  for (const std::string& damaged : {model.substr(0, model.size() / 2), model.substr(0, 100), std::string("\n\n\n")}) {
    const tests::TemporaryFolder folder;
    try {
      read_tokenizer(folder.file("tokenizer.model", damaged));
      FAIL("was read");
    } catch (const ConfigError& e) {
      CHECK(e.problems().front().reason.find("is no model that sentencepiece can read") != std::string::npos);
      CHECK(e.problems().front().file.find("tokenizer.model") != std::string::npos);
    }
  }
}

TEST_CASE("a text that is not UTF-8 is refused before sentencepiece replaces it") {
  CHECK_THROWS_AS(encoded(*read_tokenizer(fixtures() + "llama2"), "a\xFF"), ConfigError);
}
