#pragma once
// Strings by their bytes.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "exec/tokenizer/merges.hpp"

namespace tandem::exec {

/// Strings that share their beginnings.
class ByteTrie {
 public:
  /// Room for strings of `bytes` in all.
  explicit ByteTrie(std::size_t bytes) : children_(bytes + 1), values_{-1} {}

  /// A later value replaces an earlier one.
  void add(std::string_view key, std::int32_t value) {
    std::int32_t node = 0;
    for (const char c : key) {
      const std::int32_t label = static_cast<unsigned char>(c);
      const Merge* child = children_.find(node, label);
      if (child == nullptr) {
        children_.add(node, label, {0, static_cast<std::int32_t>(values_.size())});
        node = static_cast<std::int32_t>(values_.size());
        values_.push_back(-1);
      } else {
        node = child->token;
      }
    }
    values_[static_cast<std::size_t>(node)] = value;
  }

  /// Calls `take` with length and value of each string that `text` begins with, shortest first; the empty one is left out.
  template <class Take>
  void prefixes(std::string_view text, const Take& take) const {
    std::int32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Merge* child = children_.find(node, static_cast<unsigned char>(text[i]));
      if (child == nullptr) return;
      node = child->token;
      if (const std::int32_t value = values_[static_cast<std::size_t>(node)]; value >= 0) take(i + 1, value);
    }
  }

 private:
  Merges children_;  ///< of a node and a byte; the rank is not used
  std::vector<std::int32_t> values_;
};

}  // namespace tandem::exec
