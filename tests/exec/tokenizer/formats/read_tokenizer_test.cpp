// Tokenizers in the files of other libraries, against the ids of these libraries (other_files.py), and what is refused.

#include "exec/tokenizer/formats/read_tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/tokenizer/formats/fixture_files.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::tests;
using nlohmann::json;

namespace {

Ids encoded(const std::string& path, const std::string& text, bool special = true) {
  Ids ids;
  read_tokenizer(path)->encode(text, special, ids);
  return ids;
}

/// The problem with the tokenizer at a path.
Problem refused(const std::string& path) {
  try {
    read_tokenizer(path);
  } catch (const ConfigError& e) {
    return e.problems().front();
  }
  return {};
}

/// The message about a folder with these files: name and content.
std::string told(const std::vector<std::pair<std::string, std::string>>& files, const std::string& name = "") {
  const tests::TemporaryFolder folder;
  for (const auto& [file, text] : files) folder.file(file, text);
  return refused(folder.path().string() + (name.empty() ? "" : "/" + name)).message();
}

void says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("files of every library give that library's ids of every text") {
  const json expected = json::parse(content("ids.json"));
  const auto texts = expected.at("texts").get<std::vector<std::string>>();
  for (const char* name : {"gpt2", "gpt2-more", "qwen2", "bert", "bert-cased", "bert-accents", "llama3", "cl100k", "o200k"}) {
    const auto tokenizer = read_tokenizer(fixtures() + name);
    const json& lists = expected.at("ids").at(name);
    REQUIRE(lists.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(name << ": " << json(texts[i]).dump(-1, ' ', true));
      Ids ids;
      tokenizer->encode(texts[i], true, ids);
      CHECK(ids == lists[i].get<Ids>());
    }
  }
}

TEST_CASE("a file of a pair names both, under any beginning of their names") {
  const Ids expected = encoded(fixtures() + "gpt2", "the Word was");
  for (const char* name : {"gpt2/vocab.json", "gpt2/merges.txt"}) CHECK(encoded(fixtures() + name, "the Word was") == expected);
  const std::string vocabulary = content("gpt2/vocab.json"), merges = content("gpt2/merges.txt");
  for (const auto& [first, second] : {std::pair("gpt2-vocab.json", "gpt2-merges.txt"), {"encoder.json", "vocab.bpe"}}) {
    const tests::TemporaryFolder folder;
    folder.file(first, vocabulary), folder.file(second, merges);
    CHECK(encoded(folder.path().string(), "the Word was") == expected);
    CHECK(encoded((folder.path() / second).string(), "the Word was") == expected);
  }
}

TEST_CASE("lines may end as on Windows") {
  const auto windows = [](std::string text) {
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 2)) text.insert(at, 1, '\r');
    return text;
  };
  const tests::TemporaryFolder folder;
  folder.file("vocab.json", content("gpt2/vocab.json")), folder.file("merges.txt", windows(content("gpt2/merges.txt")));
  CHECK(encoded(folder.path().string(), "the Word was") == encoded(fixtures() + "gpt2", "the Word was"));
  const tests::TemporaryFolder bert;
  CHECK(encoded(bert.file("vocab.txt", windows(content("bert/vocab.txt"))), "the Word") == encoded(fixtures() + "bert", "the Word"));
}

TEST_CASE("a folder's tokenizer.json comes before its other files, and others must be one tokenizer") {
  std::ostringstream whole;
  whole << std::ifstream(tests::source_dir() + "/tests/fixtures/tokenizers/bert.json").rdbuf();
  const tests::TemporaryFolder folder;
  folder.file("vocab.json", content("gpt2/vocab.json")), folder.file("merges.txt", content("gpt2/merges.txt"));
  folder.file("vocab.txt", content("bert/vocab.txt"));
  says(refused(folder.path().string()).message(), "has several tokenizers");
  says(refused(folder.path().string()).message(), "name one of these files");
  folder.file("tokenizer.json", whole.str());
  CHECK(encoded(folder.path().string(), "x").front() == read_tokenizer(folder.path().string())->id_of("[CLS]"));
}

TEST_CASE("the end of a document is GPT-2's, Llama 3's or what the configuration beside the files says") {
  const auto end = [](const std::string& path) { return end_of_document(path, *read_tokenizer(path)); };
  CHECK(end(fixtures() + "gpt2") == "<|endoftext|>");
  CHECK(end(fixtures() + "gpt2-more") == "</s>");
  CHECK(end(fixtures() + "qwen2/vocab.json") == "<|im_end|>");
  CHECK(end(fixtures() + "llama3") == "<|end_of_text|>");
  CHECK_THROWS_AS(end(fixtures() + "bert"), ConfigError);
}

TEST_CASE("vocabularies have the sizes of the libraries") {
  CHECK(read_tokenizer(fixtures() + "gpt2")->vocab_size() == 420);
  CHECK(read_tokenizer(fixtures() + "gpt2-more")->vocab_size() == 424);
  // tiktoken: Encoding.n_vocab is the largest id + 1
  CHECK(read_tokenizer(fixtures() + "cl100k")->vocab_size() == 100277);
  const std::string ranks = content("llama3/tokenizer.model");
  CHECK(read_tokenizer(fixtures() + "llama3")->vocab_size() == std::count(ranks.begin(), ranks.end(), '\n') + 256);
}

TEST_CASE("what ranks do not say is said") {
  const auto notes = read_tokenizer(fixtures() + "llama3")->notes();
  REQUIRE(notes.size() == 1);
  says(notes.front(), "those of Llama 3 are used");
  const std::string ranks = content("llama3/tokenizer.model");
  says(told({{"p50k_base.tiktoken", ranks}}), "its name is not cl100k_base, o200k_base or qwen");
  CHECK(told({{"qwen.tiktoken", ranks}}) == Problem{}.message());
  says(told({{"tokenizer.model", ranks}, {"tokenizer_config.json", R"({"tokenizer_class": "TikTokenTokenizer"})"}}), "TikTokenTokenizer");
  says(told({{"tokenizer.model", ranks}, {"tokenizer_config.json", R"({"added_tokens_decoder": {"9000": {"content": "[EOS]"}}})"}}),
       "only Llama 3's are read");
}

TEST_CASE("half of a tokenizer is refused with the other half's name") {
  says(told({{"vocab.json", "{}"}}), "merges.txt is not there");
  says(told({{"gpt2-merges.txt", ""}}), "gpt2-vocab.json is not there");
  says(told({{"gpt2-vocab.json", "{}"}}, "gpt2-vocab.json"), "gpt2-merges.txt is not there");
  says(told({{"readme.md", ""}}), "has no tokenizer; known are tokenizer.json");
  says(told({{"words.json", R"({"a": 0})"}}, "words.json"), "is a vocabulary without merges");
  says(told({{"spiece.vocab", "a\t0\n"}}, "spiece.vocab"), "give the .model beside it");
}

TEST_CASE("damaged merges are refused by their line") {
  const std::string vocabulary = R"({"a": 0, "b": 1, "c": 2, "ab": 3})";
  const auto line = [&](const std::string& merges) { return told({{"vocab.json", vocabulary}, {"merges.txt", merges}}); };
  says(line("#version: 0.2\na b\na\n"), "merges.txt: line 3 = a: is no pair");
  says(line("a b c\n"), "merges.txt: line 1 = a b c: is no pair");
  says(line("a b\n\na b\n"), "merges.txt: line 2: is no pair");
  says(line("a b\nab c\n"), "line 2 = ab c: needs the token abc");
  says(told({{"vocab.json", R"({"a": -1})"}, {"merges.txt", ""}}), "vocab.json: a = -1: is no id");
  says(told({{"vocab.json", "[]"}, {"merges.txt", ""}}), "vocab.json: []: is no object");
}

TEST_CASE("a vocabulary of words must be BERT's, and say whether it has upper case") {
  says(told({{"vocab.txt", "[PAD]\n[UNK]\nthe\n"}}), "has no token [CLS] (cls_token)");
  says(told({{"vocab.txt", "a\xFF\n"}}), "line 1 = byte 1: is not UTF-8");
  says(told({{"notes.txt", "#version: 0.2\na b\n"}}, "notes.txt"), "holds merges");
  const std::string cased = content("bert-cased/vocab.txt");
  says(told({{"vocab.txt", cased}}), "has tokens in upper case");
  const tests::TemporaryFolder folder;
  folder.file("tokenizer_config.json", R"({"do_lower_case": false})");
  CHECK(encoded(folder.file("bert-large-cased-vocab.txt", cased), "The LORD") == encoded(fixtures() + "bert-cased", "The LORD"));
}

TEST_CASE("rules that files do not say are refused by the class that has them") {
  const std::string vocabulary = content("gpt2/vocab.json"), merges = content("gpt2/merges.txt");
  const auto of_class = [&](const std::string& name) {
    return told({{"vocab.json", vocabulary}, {"merges.txt", merges}, {"tokenizer_config.json", json{{"tokenizer_class", name}}.dump()}});
  };
  says(of_class("CodeGenTokenizer"), "tokenizer_class = \"CodeGenTokenizer\": has rules");
  CHECK(of_class("GPT2TokenizerFast") == Problem{}.message());
  says(told({{"vocab.txt", content("bert/vocab.txt")}, {"tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizer"})"}}), "BertTokenizer");
}

TEST_CASE("a damaged tekken.json is refused by its field") {
  json good{{"config", {{"pattern", "."}, {"default_vocab_size", 260}, {"default_num_special_tokens", 4}, {"version", "v11"}}},
            {"vocab", json::array()},
            {"special_tokens", json::array()}};
  const auto base64 = [](int byte) {  // of one byte
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return std::string{kLetters[static_cast<std::size_t>(byte >> 2)], kLetters[static_cast<std::size_t>((byte & 3) << 4)], '=', '='};
  };
  for (int byte = 0; byte < 256; ++byte) good["vocab"].push_back({{"rank", byte}, {"token_bytes", base64(byte)}});
  for (const char* name : {"<unk>", "<s>", "</s>"}) good["special_tokens"].push_back({{"rank", good["special_tokens"].size()}, {"token_str", name}});
  const tests::TemporaryFolder folder;
  CHECK(encoded(folder.file("tekken.json", good.dump()), "a<s>") == Ids{1, 4 + 'a', 4 + '<', 4 + 's', 4 + '>'});
  CHECK(read_tokenizer(folder.path().string())->vocab_size() == 260);
  const auto with = [&](const char* place, const json& value) {
    json bad = good;
    bad[json::json_pointer(place)] = value;
    return told({{"tekken.json", bad.dump()}});
  };
  says(with("/config/default_vocab_size", 261), "config.default_vocab_size = 261: needs 257 ranks, and vocab has 256");
  says(with("/config", {{"pattern", "."}, {"default_vocab_size", 258}, {"default_num_special_tokens", 2}}), "is less than the 3 special tokens");
  for (const std::int64_t huge : {1'000'001, 2'000'000'000})
    says(with("/config", {{"pattern", "."}, {"default_vocab_size", huge + 256}, {"default_num_special_tokens", huge}}),
         "config.default_num_special_tokens = " + std::to_string(huge) + ": is more than the 1,000,000 that are read");
  says(with("/vocab/7/rank", 8), "vocab[7].rank = 8: is not its place in the list");
  says(with("/vocab/7/token_bytes", "!"), "vocab[7].token_bytes = \"!\": is no base64");
  says(with("/vocab/7/token_bytes", base64(6)), "has the token of a smaller rank");
  says(with("/special_tokens/1/token_str", "</s>"), "special_tokens[2].token_str = \"</s>\": is there twice");
  says(with("/special_tokens/1/token_str", "<b>"), "lacks <s>");
  says(with("/special_tokens", json()), "config.version = \"v11\": has special tokens in its files");
}

TEST_CASE("damaged ranks are refused by their line or rank") {
  const std::string ranks = content("llama3/tokenizer.model");
  const auto model = [](const std::string& text) { return told({{"tokenizer.model", text}}); };
  const std::size_t first = ranks.find('\n') + 1, second = ranks.find('\n', first) + 1;
  says(model(ranks.substr(0, first) + "!!! 1\n"), "line 2 = !!! 1: is no token in base64");
  says(model(ranks.substr(0, first) + "QQ== x\n"), "line 2 = QQ== x: is no token");
  says(model(ranks + "QUFBQUFB 3\n"), "has a rank that an earlier line has");
  says(model(ranks + "QUFBQUFB 9999\n"), "is missing, and larger ones are there");
  says(model(ranks + ranks.substr(0, ranks.find(' ')) + " " + std::to_string(std::count(ranks.begin(), ranks.end(), '\n')) + "\n"),
       "has the token of a smaller rank");
  says(model(ranks.substr(0, second)), "is no token, so some texts have no tokens");
  says(model(""), "is empty");
  says(model("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull");
  says(model("hello"), "is neither a model of sentencepiece nor BPE ranks of tiktoken");
}

TEST_CASE("a configuration beside a tokenizer that is damaged is refused by its field") {
  const auto with = [](const std::string& configuration) {
    return told({{"vocab.json", content("gpt2/vocab.json")}, {"merges.txt", content("gpt2/merges.txt")}, {"tokenizer_config.json", configuration}});
  };
  says(with("[]"), "tokenizer_config.json: []: is no object");
  says(with(R"({"added_tokens_decoder": {"x": {"content": "a"}}})"), "stands under a key that is no id");
  says(with(R"({"added_tokens_decoder": {"999": {"content": "<a>"}}})"), "is not the id that the tokenizers library gives <a>: 420");
  says(with(R"({"add_prefix_space": 3})"), "add_prefix_space = 3");
}
