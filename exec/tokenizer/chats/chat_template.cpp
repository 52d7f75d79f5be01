#include "exec/tokenizer/chats/chat_template.hpp"

#include <algorithm>
#include <array>

#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::exec {

/// A turn is opens, role, behind_role, content, closes, behind_turn. A conversation begins with `begin`, if it is not empty.
struct ChatTemplate::Format {
  std::string_view name, begin, opens, behind_role, closes, behind_turn;
  bool trims;                  ///< contents lose space around them
  std::string_view assistant;  ///< what the role assistant is written as
  bool system;                 ///< there is a role system
  std::string_view inner;      ///< the token in behind_role, if there is one
};

namespace {

// chatml: openai/openai-python, chatml.md at v0.27; without the system message that Qwen's own templates add.
// llama3: meta-llama/llama3, llama/tokenizer.py, ChatFormat. gemma: google-deepmind/gemma, docs on formatting of dialogs.
constexpr std::array<ChatTemplate::Format, 3> kFormats{{
    {"chatml", "", "<|im_start|>", "\n", "<|im_end|>", "\n", false, "assistant", true, ""},
    {"llama3", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "", true, "assistant", true,
     "<|end_header_id|>"},
    {"gemma", "<bos>", "<start_of_turn>", "\n", "<end_of_turn>", "\n", true, "model", false, ""},
}};

bool has(Tokenizer& tokenizer, std::string_view token) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(token, false, ids);
  return ids.size() == 1 && tokenizer.id_of(token) == ids.front();
}

std::vector<std::string> lacking(const ChatTemplate::Format& format, Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (const std::string_view token : {format.begin, format.opens, format.inner, format.closes})
    if (!token.empty() && !has(tokenizer, token)) tokens.emplace_back(token);
  return tokens;
}

std::string remedy(Tokenizer& tokenizer) {
  const auto fitting = chat_templates(tokenizer);
  return fitting.empty() ? "write the conversations as prompt and completion"
                         : "this tokenizer has the tokens of " + list_text(fitting);
}

const ChatTemplate::Format& format_of(const std::string& name, Tokenizer& tokenizer, const std::string& file) {
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), [&](const auto& f) { return f.name == name; });
  if (found == kFormats.end())
    throw ConfigError(Problem{"", "--chat-template", name, "is no template of this version (chatml, llama3, gemma)", remedy(tokenizer)});
  if (const auto tokens = lacking(*found, tokenizer); !tokens.empty())
    throw ConfigError(Problem{file, "--chat-template", name, "needs tokens that the tokenizer lacks: " + list_text(tokens), remedy(tokenizer)});
  return *found;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& name, Tokenizer& tokenizer, const std::string& file)
    : format_(format_of(name, tokenizer, file)), tokenizer_(tokenizer) {}

std::vector<std::string> ChatTemplate::roles() const {
  std::vector<std::string> all{"user", "assistant"};
  if (format_.system) all.insert(all.begin(), "system");
  return all;
}

void ChatTemplate::write(const std::vector<Message>& conversation, Answered& to) const {
  if (!format_.begin.empty()) to.ids.push_back(*tokenizer_.id_of(format_.begin)), to.answers.push_back(false);
  for (const Message& message : conversation) write_turn(message, to);
}

/// A turn begins with a token that is found before all else, so its ids do not depend on the turns before it.
void ChatTemplate::write_turn(const Message& message, Answered& to) const {
  std::string text(format_.opens);
  text += message.role == "assistant" ? format_.assistant : std::string_view(message.role);
  text += format_.behind_role;
  const std::size_t header = text.size(), first = to.ids.size();
  text += format_.trims ? trimmed(message.content) : std::string_view(message.content);
  text += format_.closes;
  text += format_.behind_turn;
  encode_answer(tokenizer_, text, message.answer ? header : text.size(), false, to);
  const std::int32_t end = *tokenizer_.id_of(format_.closes);
  for (std::size_t i = to.ids.size(); i > first && to.ids[i - 1] != end; --i) to.answers[i - 1] = false;
}

std::vector<std::string> chat_templates(Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const auto& format : kFormats)
    if (lacking(format, tokenizer).empty()) names.emplace_back(format.name);
  return names;
}

void encode_answer(Tokenizer& tokenizer, std::string_view text, std::size_t prompt, bool special, Answered& to) {
  const auto first = static_cast<std::ptrdiff_t>(to.ids.size());
  tokenizer.encode(text, special, to.ids);
  auto border = to.ids.end();
  if (prompt < text.size()) {
    std::vector<std::int32_t> before;
    tokenizer.encode(text.substr(0, prompt), special, before);
    border = std::mismatch(to.ids.begin() + first, to.ids.end(), before.begin(), before.end()).first;
  }
  to.answers.resize(static_cast<std::size_t>(border - to.ids.begin()), false);
  to.answers.resize(to.ids.size(), true);
}

}  // namespace tandem::exec
