#include "exec/tokenizer/formats/encodings.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {

// QwenLM/Qwen: Qwen-7B's tokenization_qwen.py; huggingface/transformers: models/qwen2/tokenization_qwen2.py
const char* const kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// meta-llama/llama3: llama/tokenizer.py
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// openai/tiktoken: tiktoken_ext/openai_public.py
constexpr const char* kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string reserved(int number) { return "<|reserved_special_token_" + std::to_string(number) + "|>"; }

std::vector<std::string> llama3_names() {
  std::vector<std::string> names{"<|begin_of_text|>", "<|end_of_text|>"};
  int next = 0;
  const auto reserve = [&](int until) {
    while (next < until) names.push_back(reserved(next++));
  };
  reserve(4);
  names.insert(names.end(), {"<|start_header_id|>", "<|end_header_id|>"});
  reserve(5);
  names.push_back("<|eot_id|>");
  reserve(251);
  return names;
}

Encoding qwen_encoding() {
  constexpr int kFirst = 151'643, kExtras = 205;
  Encoding out{"Qwen", kQwenPattern, {{"<|endoftext|>", kFirst}, {"<|im_start|>", kFirst + 1}, {"<|im_end|>", kFirst + 2}}, "", "<|endoftext|>", true};
  for (int i = 0; i < kExtras; ++i) out.special.emplace_back("<|extra_" + std::to_string(i) + "|>", kFirst + 3 + i);
  return out;
}

}  // namespace

Encoding llama3_encoding(std::int64_t ranks) {
  Encoding out{"Llama 3", kLlama3, {}, "<|begin_of_text|>", "<|end_of_text|>"};
  for (const std::string& name : llama3_names()) out.special.emplace_back(name, ranks++);
  return out;
}

Encoding named_encoding(const std::string& file) {
  if (file.ends_with("cl100k_base.tiktoken"))
    return {"cl100k_base",
            kCl100k,
            {{"<|endoftext|>", 100257}, {"<|fim_prefix|>", 100258}, {"<|fim_middle|>", 100259}, {"<|fim_suffix|>", 100260}, {"<|endofprompt|>", 100276}},
            "",
            "<|endoftext|>"};
  if (file.ends_with("o200k_base.tiktoken"))
    return {"o200k_base", kO200k, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}, "", "<|endoftext|>"};
  if (file.ends_with("qwen.tiktoken")) return qwen_encoding();
  throw ConfigError(Problem{file, "--tokenizer", "", "holds no pattern and no special tokens, and its name is not cl100k_base, o200k_base or qwen",
                            "name it tokenizer.model if texts are cut as Llama 3's are, or write tokenizer.json with transformers"});
}

}  // namespace tandem::exec
