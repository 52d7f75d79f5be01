#pragma once
// .jsonl files whose lines hold prompts and completions, or conversations, for fine-tuning.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/data/token_file.hpp"
#include "exec/tokenizer/tokenizer.hpp"

namespace tandem::exec {

/// Fields of a line (the data set formats of huggingface/trl: docs/source/dataset_formats.md).
enum class LineKind : std::uint8_t {
  text,        ///< text
  completion,  ///< prompt and completion: two strings, or two lists of messages
  messages,    ///< messages: a list of {role, content}
};

/// What the first line of a .jsonl file has; text for a pipe, which can be read only once.
LineKind kind_of_lines(const std::string& path);

/// Whether some line of a .jsonl file holds a conversation, which a template writes. False for a pipe.
bool has_conversations(const std::string& path);

struct AnswerOptions {
  std::string tokenizer;            ///< its path, for messages
  std::string chat_template;        ///< of conversations; empty: none was named
  bool all = false;                 ///< a model is trained to say prompts, too
  std::optional<std::int32_t> end;  ///< follows a completion that is a string
  bool last_word = false;           ///< of lines with text: the last word is the answer to what stands before it
};

/// Reads lines of kind `completion` or `messages` as documents with `answers`: the tokens of completions, or what the role assistant
/// says, with the token that ends it. Lines of kind `text` have answers only if their last words are asked for. Throws ConfigError that names line and field.
std::shared_ptr<const TokenFile> read_answered(const std::string& path, Tokenizer& tokenizer, const AnswerOptions& options);

}  // namespace tandem::exec
