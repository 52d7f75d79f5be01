// Prompts with completions, and conversations: the ids and masks of transformers (tests/fixtures/chats.py), and what is refused.

#include "exec/tokenizer/chats/answered_text.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/tokenizer/formats/read_tokenizer.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;
using nlohmann::json;

namespace {

json fixture(const std::string& name) { return json::parse(std::ifstream(tests::source_dir() + "/tests/fixtures/" + name + ".json")); }

/// A tokenizer of the fixtures with the tokens of a template.
std::unique_ptr<Tokenizer> tokenizer_of(const json& f) {
  const tests::TemporaryFolder folder;
  json document = fixture("tokenizers/" + f["tokenizer"].get<std::string>());
  if (f.contains("added_tokens")) document["added_tokens"] = f["added_tokens"];
  return read_tokenizer(folder.file("tokenizer.json", document.dump()));
}

struct Document {
  std::vector<std::int32_t> ids;
  std::vector<bool> answers;
};

std::vector<Document> documents(const TokenFile& file) {
  std::vector<Document> all;
  for (std::size_t d = 0; d < file.documents.size(); ++d) {
    const std::int64_t first = file.documents[d], end = d + 1 < file.documents.size() ? file.documents[d + 1] : file.count();
    Document one{std::vector<std::int32_t>(static_cast<std::size_t>(end - first)), {}};
    one.answers.assign(file.answers.begin() + first, file.answers.begin() + end);
    file.read(first, one.ids);
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<Document> read(const std::vector<json>& lines, const json& tokenizer, AnswerOptions options) {
  const tests::TemporaryFolder folder;
  std::string text;
  for (const json& line : lines) text += line.dump() + "\n";
  const auto made = tokenizer_of(tokenizer);
  return documents(*read_answered(folder.file("lines.jsonl", text), *made, options));
}

std::vector<Document> read(const std::vector<json>& lines, const json& tokenizer) {
  return read(lines, tokenizer, {"tokenizer", tokenizer.value("template", ""), false, std::nullopt});
}

void check_equal(const std::vector<Document>& got, const json& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(expected[i].dump());
    CHECK(got[i].ids == expected[i]["ids"].get<std::vector<std::int32_t>>());
    std::vector<bool> answers;
    for (const int answer : expected[i]["answers"]) answers.push_back(answer != 0);
    CHECK(got[i].answers == answers);
  }
}

Problem refused(const std::vector<json>& lines, const json& tokenizer, const std::string& chat_template) {
  try {
    read(lines, tokenizer, {"tokenizer", chat_template, false, std::nullopt});
  } catch (const ConfigError& e) {
    return e.problems().front();
  }
  return {};
}

json chat(const std::string& role, const json& content = "x") { return {{"messages", {{{"role", role}, {"content", content}}}}}; }

}  // namespace

TEST_CASE("conversations have the ids of transformers' templates, and its marks of what an assistant says") {
  const json all = fixture("chats");
  for (const json& f : all["templates"]) {
    INFO(f["template"].get<std::string>());
    std::vector<json> lines;
    for (const json& c : f["chats"]) lines.push_back({{"messages", c["messages"]}});
    check_equal(read(lines, f), f["chats"]);
  }
}

TEST_CASE("a list of messages as prompt is not trained, as completion it is") {
  const json f = fixture("chats")["templates"][0], messages = f["chats"][1]["messages"];
  const json line{{"prompt", json(messages.begin(), messages.begin() + 3)}, {"completion", json(messages.begin() + 3, messages.end())}};
  const std::vector<Document> got = read({line}, f), whole = read({{{"messages", messages}}}, f);
  REQUIRE(got.size() == 1);
  CHECK(got[0].ids == whole[0].ids);
  const auto first = std::find(got[0].answers.begin(), got[0].answers.end(), true) - got[0].answers.begin();
  CHECK(std::equal(got[0].answers.begin() + first, got[0].answers.end(), whole[0].answers.begin() + first));
  CHECK(std::count(whole[0].answers.begin(), whole[0].answers.begin() + first, true) > 0);
}

TEST_CASE("what an assistant says with weight 0 is no answer, and with weight 1 it is") {
  const json f = fixture("chats")["templates"][0];
  json said = f["chats"][1], left_out = said["messages"];
  left_out[1]["weight"] = 0, left_out[3]["weight"] = 1;
  std::size_t at = 0;
  while (said["answers"][at] == 0) ++at;  // the first of two assistants
  for (; said["answers"][at] == 1; ++at) said["answers"][at] = 0;
  check_equal(read({{{"messages", left_out}}}, f), json::array({said}));
  const AnswerOptions all{"tokenizer", f["template"], true, std::nullopt};
  CHECK_THROWS_WITH(read({{{"messages", left_out}}}, f, all), Catch::Contains("messages[1].weight = 0: leaves the message out of the loss"));
}

TEST_CASE("completions are masked as trl masks them, with the token that ends a document") {
  const json all = fixture("chats");
  for (const json& f : all["prompts"]) {
    std::vector<json> lines;
    for (const json& p : f["pairs"]) lines.push_back({{"prompt", p["prompt"]}, {"completion", p["completion"]}});
    const auto end = tokenizer_of(f)->id_of(f["end"].get<std::string>());
    check_equal(read(lines, f, {"tokenizer", "", false, end}), f["pairs"]);
    for (const Document& d : read(lines, f, {"tokenizer", "", true, end}))
      CHECK(std::count(d.answers.begin(), d.answers.end(), true) == static_cast<std::ptrdiff_t>(d.ids.size()));
  }
}

TEST_CASE("a token that reaches from prompt into completion is trained") {
  const json f{{"tokenizer", "gpt2"}};
  const std::vector<Document> got = read({{{"prompt", "the Wor"}, {"completion", "d"}}}, f);
  const std::vector<Document> whole = read({{{"prompt", ""}, {"completion", "the Word"}}}, f);
  CHECK(got[0].ids == whole[0].ids);
  CHECK(got[0].answers.back());
}

TEST_CASE("what no template can write is refused with line and field") {
  const json chatml = fixture("chats")["templates"][0], plain{{"tokenizer", "gpt2"}};
  CHECK(refused({chat("user")}, chatml, "").remedy.find("chatml") != std::string::npos);
  CHECK(refused({chat("user")}, chatml, "llama3").reason.find("<|eot_id|>") != std::string::npos);
  CHECK(refused({chat("user")}, plain, "").remedy.find("prompt and completion") != std::string::npos);
  CHECK(refused({chat("user")}, chatml, "jinja").value == "jinja");
  const Problem role = refused({chat("user"), chat("tool")}, chatml, "chatml");
  CHECK(role.file.find("line 2") != std::string::npos);
  CHECK(role.field == "messages[0].role");
  CHECK(refused({chat("user", 3)}, chatml, "chatml").field == "messages[0].content");
  json call = chat("assistant");
  call["messages"][0]["tool_calls"] = json::array({{{"name", "f"}}});
  CHECK(refused({call}, chatml, "chatml").field == "messages[0].tool_calls");
  for (const auto& [key, value] : {std::pair<const char*, json>{"reasoning_content", "so"}, {"weight", 0.5}, {"function_call", {{"name", "f"}}}}) {
    json message = chat("assistant");
    message["messages"][0][key] = value;
    CHECK(refused({message}, chatml, "chatml").field == std::string("messages[0].") + key);
  }
  json tools = chat("assistant"), nothing = chat("assistant");
  tools["tools"] = json::array({{{"type", "function"}}});
  CHECK(refused({tools}, chatml, "chatml").field == "tools");
  nothing["tools"] = json::array(), nothing["messages"][0]["reasoning_content"] = nullptr;
  CHECK(refused({nothing}, chatml, "chatml").reason.empty());
  CHECK(refused({{{"messages", json::array()}}}, chatml, "chatml").reason == "is empty");
  CHECK(refused({{{"prompt", "a"}, {"completion", "b"}}, {{"prompt", "a"}}}, plain, "").field == "completion");
  CHECK(refused({{{"prompt", "a"}, {"completion", 1}}}, plain, "").field == "completion");
  CHECK(refused({{{"prompt", "a"}, {"completion", {"b"}}}}, plain, "").reason == "is a list, and prompt is none");
  CHECK(refused({{{"prompt", json::array()}, {"completion", "b"}}}, plain, "").reason == "is no list, and prompt is one");
}
