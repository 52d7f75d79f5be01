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

/// Refuses fields of which nothing here reads the content. Empty ones say nothing.
void refuse_filled(const Place& object, std::initializer_list<const char*> keys, const std::string& reason) {
  for (const char* key : keys)
    if (const auto said = object.maybe(key); said && !said->json().empty() && said->json() != "")
      said->refuse(reason, "leave such conversations out, or the field");
}

class LineReader {
 public:
  LineReader(Tokenizer& tokenizer, const AnswerOptions& options) : tokenizer_(tokenizer), options_(options) {}

  void read(const Place& line, LineKind kind, Answered& to) {
    const std::size_t before = to.ids.size();
    if (kind == LineKind::messages) {
      std::vector<Message> all;
      refuse_filled(line, {"tools", "functions"}, "describes tools, which no template here writes");
      add_messages(filled(field(line, "messages", "every line has what the first has")), true, all);
      chat(line).write(all, to);
    } else if (kind == LineKind::text) {
      read_last_word(field(line, "text", "every line has what the first has"), to);
    } else {
      read_completion(line, to);
    }
    if (options_.all) std::fill(to.answers.begin() + static_cast<std::ptrdiff_t>(before), to.answers.end(), true);
  }

 private:
  /// As NVIDIA/Megatron-LM's tasks/zeroshot_gpt/datasets.py with --strict-lambada: one space stands before the last word.
  void read_last_word(const Place& text, Answered& to) {
    constexpr std::string_view kSpace = " \t\n\r\f\v";
    const std::string all = text.text();
    const std::size_t end = all.find_last_not_of(kSpace) + 1;
    const std::size_t space = end == 0 ? std::string::npos : all.find_last_of(kSpace, end - 1);
    const std::size_t before = space == std::string::npos ? space : all.find_last_not_of(kSpace, space);
    if (before == std::string::npos) text.refuse("has no word before its last one", "leave such lines out");
    const std::string context = all.substr(0, before + 1), word = all.substr(space + 1, end - space - 1);
    encode_answer(tokenizer_, context + " " + word, context.size(), true, to);
  }

  void read_completion(const Place& line, Answered& to) {
    const Place prompt = field(line, "prompt", "give one, which may be empty");
    const Place completion = field(line, "completion", "give one beside prompt: a string, or a list of messages");
    if (prompt.json().is_array() != completion.json().is_array())
      completion.refuse(completion.json().is_array() ? "is a list, and prompt is none" : "is no list, and prompt is one",
                        "give both as strings, or both as lists of messages");
    if (prompt.json().is_array()) {
      std::vector<Message> all;
      refuse_filled(line, {"tools", "functions"}, "describes tools, which no template here writes");
      add_messages(prompt, false, all);
      add_messages(filled(completion), true, all);
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
      refuse_filled(message, {"tool_calls", "function_call"}, "is a call of a tool, which no template here writes");
      refuse_filled(message, {"reasoning_content"}, "is no part of what the templates here write");
      const Place role = field(message, "role", "give system, user or assistant"), content = field(message, "content", "give a string");
      const auto known = chat(message).roles();
      if (std::find(known.begin(), known.end(), role.text()) == known.end())
        role.refuse("is no role of template " + options_.chat_template, "it has " + list_text(known));
      to.push_back({role.text(), content.text(), answers && role.text() == "assistant" && trained(message)});
    }
  }

  /// Whether a model is trained to say what an assistant says: `weight`, 0 or 1 (OpenAI's format of conversations).
  bool trained(const Place& message) const {
    const auto weight = message.maybe("weight");
    if (!weight || weight->json() == 1) return true;
    if (weight->json() != 0) weight->refuse("is no weight of a message", "give 0 or 1");
    if (options_.all) weight->refuse("leaves the message out of the loss, and --loss-on all trains every token", "give --loss-on completion");
    return false;
  }

  static const Place& filled(const Place& conversation) {
    if (conversation.list().empty()) conversation.refuse("is empty", "give at least one message");
    return conversation;
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

bool holds_conversation(const Place& line) {
  const auto is_list = [&](const char* key) {
    const auto field = line.maybe(key);
    return field && field->json().is_array();
  };
  return is_list("messages") || is_list("prompt") || is_list("completion");
}

LineKind kind_of(const Place& line) {
  if (line.maybe("messages")) return LineKind::messages;
  return line.maybe("completion") || (line.maybe("prompt") && !line.maybe("text")) ? LineKind::completion : LineKind::text;
}

}  // namespace

LineKind kind_of_lines(const std::string& path) {
  LineKind kind = LineKind::text;
  if (is_regular_file(path))
    each_object(path, [&](const Place& line) { return kind = kind_of(line), false; });
  return kind;
}

bool has_conversations(const std::string& path) {
  bool found = false;
  if (is_regular_file(path) && has_object_lines(path))
    each_object(path, [&](const Place& line) { return found = holds_conversation(line), !found; });
  return found;
}

std::shared_ptr<const TokenFile> read_answered(const std::string& path, Tokenizer& tokenizer, const AnswerOptions& options) {
  const LineKind kind = kind_of_lines(path);
  require(kind != LineKind::text || options.last_word, "lines without answers");
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
