#pragma once
// A model that remembers short pieces.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/tokenizer/model.hpp"

namespace tandem::exec {

/// Words repeat, so most pieces are looked up and not tokenized again. Takes at most about 64 MB.
class CachedModel {
 public:
  /// The model must outlive it.
  explicit CachedModel(TokenModel& model) : model_(model) {}

  /// Appends the ids of a piece.
  void tokenize(std::string_view piece, std::vector<std::int32_t>& ids) {
    if (piece.size() > kLongest) return model_.tokenize(piece, ids);
    const auto found = known_.find(piece);
    if (found != known_.end()) {
      const auto begin = ids_.begin() + found->second.begin;
      return ids.insert(ids.end(), begin, begin + found->second.count), void();
    }
    const std::size_t before = ids.size();
    model_.tokenize(piece, ids);
    if (known_.size() >= kMost) return;
    known_.emplace(piece, Range{static_cast<std::int32_t>(ids_.size()), static_cast<std::int32_t>(ids.size() - before)});
    ids_.insert(ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
  }

 private:
  static constexpr std::size_t kLongest = 64, kMost = 500'000;
  struct Range {
    std::int32_t begin, count;
  };

  TokenModel& model_;
  std::unordered_map<std::string, Range, TextHash, std::equal_to<>> known_;
  std::vector<std::int32_t> ids_;
};

}  // namespace tandem::exec
