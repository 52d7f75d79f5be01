#include "exec/tokenizer/chats/answered_text.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "exec/tokenizer/chats/chat_template.hpp"
#include "exec/tokenizer/documents.hpp"
#include "exec/tokenizer/place.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"

namespace tandem::exec {
namespace {

Place field(const Place& object, const std::string& key, const std::string& remedy) {
  if (const auto found = object.maybe(key)) return *found;
  throw ConfigError(Problem{object.file(), object.field().empty() ? key : object.field() + "." + key, "", "is missing", remedy});
}

class LineReader {
 public:
  LineReader(Tokenizer& tokenizer, const AnswerOptions& options) : tokenizer_(tokenizer), options_(options) {}

  void read(const Place& line, LineKind kind, Answered& to) {
    const std::size_t before = to.ids.size();
    if (kind == LineKind::messages) {
      std::vector<Message> all;
      add_messages(field(line, "messages", "every line has what the first has"), true, all);
      chat(line).write(all, to);
    } else {
      read_completion(line, to);
    }
    if (options_.all) std::fill(to.answers.begin() + static_cast<std::ptrdiff_t>(before), to.answers.end(), true);
  }

 private:
  void read_completion(const Place& line, Answered& to) {
    const Place prompt = field(line, "prompt", "give one, which may be empty");
    const Place completion = field(line, "completion", "every line has what the first has");
    if (prompt.json().is_array() || completion.json().is_array()) {
      std::vector<Message> all;
      add_messages(prompt, false, all);
      add_messages(completion, true, all);
      return chat(line).write(all, to);
    }
    const std::string before = prompt.text();
    encode_answer(tokenizer_, before + completion.text(), before.size(), true, to);
    if (!options_.end || (!to.ids.empty() && to.ids.back() == *options_.end)) return;
    to.ids.push_back(*options_.end);
    to.answers.push_back(true);
  }

  void add_messages(const Place& list, bool answers, std::vector<Message>& to) {
    for (const Place& message : list.list()) {
      for (const char* key : {"tool_calls", "function_call"})
        if (const auto call = message.maybe(key)) call->refuse("is a call of a tool, which no template here writes", "leave such conversations out");
      const Place role = field(message, "role", "give system, user or assistant"), content = field(message, "content", "give a string");
      const auto known = chat(message).roles();
      if (std::find(known.begin(), known.end(), role.text()) == known.end())
        role.refuse("is no role of template " + options_.chat_template, "it has " + list_text(known));
      to.push_back({role.text(), content.text(), answers && role.text() == "assistant"});
    }
  }

  /// The template, read when the first conversation comes.
  const ChatTemplate& chat(const Place& of) {
    if (options_.chat_template.empty()) {
      const auto fitting = chat_templates(tokenizer_);
      throw ConfigError(Problem{of.file(), "--chat-template", "", "is not given, and the line holds a conversation",
                                fitting.empty() ? "no template of this version has only tokens of this tokenizer; write prompt and completion as strings"
                                                : "this tokenizer has the tokens of " + list_text(fitting)});
    }
    if (!chat_) chat_.emplace(options_.chat_template, tokenizer_, options_.tokenizer);
    return *chat_;
  }

  Tokenizer& tokenizer_;
  const AnswerOptions& options_;
  std::optional<ChatTemplate> chat_;
};

LineKind kind_of(const Place& line) {
  if (line.maybe("messages")) return LineKind::messages;
  return line.maybe("completion") ? LineKind::completion : LineKind::text;
}

}  // namespace

LineKind kind_of_lines(const std::string& path) {
  LineKind kind = LineKind::text;
  if (is_regular_file(path))
    each_object(path, [&](const Place& line) { return kind = kind_of(line), false; });
  return kind;
}

std::shared_ptr<const TokenFile> read_answered(const std::string& path, Tokenizer& tokenizer, const AnswerOptions& options) {
  const LineKind kind = kind_of_lines(path);
  LineReader reader(tokenizer, options);
  Answered all;
  TokenFile file;
  each_object(path, [&](const Place& line) {
    file.documents.push_back(static_cast<std::int64_t>(all.ids.size()));
    reader.read(line, kind, all);
    return true;
  });
  file.path = path, file.type = TokenType::int32;
  file.bytes.resize(all.ids.size() * sizeof(std::int32_t));
  if (!all.ids.empty()) std::memcpy(file.bytes.data(), all.ids.data(), file.bytes.size());
  file.vocab_size = all.ids.empty() ? 0 : std::int64_t{*std::max_element(all.ids.begin(), all.ids.end())} + 1;
  file.answers = std::move(all.answers);
  return std::make_shared<const TokenFile>(std::move(file));
}

}  // namespace tandem::exec
