#pragma once
// How a conversation is written as tokens: fixed formats by name, without Jinja.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// One turn of a conversation.
struct Message {
  std::string role, content;
  bool answer = false;  ///< a model is trained to say its content and end
};

/// Token ids, and which of them a model is trained to say.
struct Answered {
  std::vector<std::int32_t> ids;
  std::vector<bool> answers;
};

/// A format that a tokenizer has the tokens for.
class ChatTemplate {
 public:
  struct Format;
  /// Throws ConfigError if no format has the name, or the tokenizer lacks one of its tokens. `file`: the tokenizer, for messages.
  ChatTemplate(const std::string& name, Tokenizer& tokenizer, const std::string& file);

  /// Roles that the format knows.
  std::vector<std::string> roles() const;
  /// Appends a conversation, which has roles that the format knows.
  void write(const std::vector<Message>& conversation, Answered& to) const;

 private:
  void write_turn(const Message& message, Answered& to) const;

  const Format& format_;
  Tokenizer& tokenizer_;
};

/// Names of the formats that a tokenizer has the tokens for.
std::vector<std::string> chat_templates(Tokenizer& tokenizer);

/// Appends the ids of `text`, of which the beginning up to `prompt` bytes is no answer. A token that reaches over the border is one.
void encode_answer(Tokenizer& tokenizer, std::string_view text, std::size_t prompt, bool special, Answered& to);

}  // namespace tandem::exec
