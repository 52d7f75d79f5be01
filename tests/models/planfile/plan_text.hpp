#pragma once
// A small valid plan that tests bend: JSON text with one piece replaced.

#include <stdexcept>
#include <string>

namespace tandem::test {

inline const std::string kGoodPlan = R"({
  "name": "good", "stack": "tandem",
  "model": {"num_layers": 8, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 1000},
  "parallel": {"tensor": 2, "pipeline": 2, "data": 2},
  "training": {"seq_length": 32, "micro_batch_size": 2, "global_batch_size": 16},
  "cluster": {"preset": "dgx-a100-80gb", "devices": 8}
})";

/// `text` with the first `from` replaced by `to`; `from` must occur.
inline std::string bent(const std::string& from, const std::string& to, std::string text = kGoodPlan) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no \"" + from + "\" in the plan");
  return text.replace(at, from.size(), to);
}

/// `text` with `member` added to a part ("model", ...), e.g. "\"num_kv_heads\": 3".
inline std::string with(const std::string& part, const std::string& member, const std::string& text = kGoodPlan) {
  const std::string open = "\"" + part + "\": {";
  return bent(open, open + member + ", ", text);
}

/// `text` with a member added at the top; a stack takes the place of the one that is there.
inline std::string with_top(const std::string& member, const std::string& text = kGoodPlan) {
  const std::string own = " \"stack\": \"tandem\",";
  const bool replaces = member.starts_with("\"stack\"") && text.find(own) != std::string::npos;
  return bent("{", "{" + member + ", ", replaces ? bent(own, "", text) : text);
}

/// `text` under a stack, of a month where one is given: "megatron-core", "2024-07".
inline std::string under(const std::string& stack, const std::string& month = "", const std::string& text = kGoodPlan) {
  const std::string as_of = month.empty() ? "" : ", \"as_of\": \"" + month + "\"";
  return with_top("\"stack\": {\"name\": \"" + stack + "\"" + as_of + "}", text);
}

}  // namespace tandem::test
