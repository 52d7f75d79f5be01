#include "exec/data/blend.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostParts = 255;

/// A sequence's part, and its number within the part.
struct Chosen {
  std::size_t part = 0;
  std::int64_t index = 0;
};

/// The part of each sequence, found in order and remembered: one byte each, and counts at every kStride-th.
class Choices {
 public:
  explicit Choices(std::vector<double> shares) : shares_(std::move(shares)), counts_(shares_.size()) {}

  Chosen of(std::int64_t index) {
    const std::lock_guard guard(mutex_);
    while (static_cast<std::int64_t>(parts_.size()) <= index) choose();
    const auto at = static_cast<std::size_t>(index);
    const std::size_t part = parts_[at], block = at / kStride;
    const auto begin = parts_.begin() + static_cast<std::ptrdiff_t>(block * kStride);
    const auto before = std::count(begin, parts_.begin() + static_cast<std::ptrdiff_t>(at), parts_[at]);
    return {part, marks_[block * shares_.size() + part] + before};
  }

 private:
  static constexpr std::size_t kStride = 1024;

  void choose() {
    if (parts_.size() % kStride == 0) marks_.insert(marks_.end(), counts_.begin(), counts_.end());
    const double done = std::max(1.0, static_cast<double>(parts_.size()));
    std::size_t best = 0;
    for (std::size_t p = 1; p < shares_.size(); ++p)
      if (behind(p, done) > behind(best, done)) best = p;
    parts_.push_back(static_cast<std::uint8_t>(best));
    ++counts_[best];
  }

  double behind(std::size_t part, double done) const { return shares_[part] * done - static_cast<double>(counts_[part]); }

  std::mutex mutex_;
  std::vector<double> shares_;
  std::vector<std::int64_t> counts_;  ///< sequences chosen so far, by part
  std::vector<std::uint8_t> parts_;
  std::vector<std::int64_t> marks_;   ///< counts before every kStride-th sequence
};

class Blend final : public TokenSource {
 public:
  Blend(std::vector<BlendPart> parts, const std::vector<double>& shares)
      : parts_(std::move(parts)), shares_(shares), choices_(shares) {}

  std::int64_t vocab_size() const override {
    std::int64_t most = 0;
    for (const BlendPart& p : parts_) most = std::max(most, p.source->vocab_size());
    return most;
  }

  std::int64_t sequences() const override {
    std::int64_t all = 0;
    for (const BlendPart& p : parts_) all += p.source->sequences();
    return all;
  }

  double epochs(double samples) const override {
    double most = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) most = std::max(most, parts_[p].source->epochs(samples * shares_[p]));
    return most;
  }

  std::uint64_t fingerprint() const override {
    std::string text;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      text += std::to_string(parts_[p].source->fingerprint()) + " " + std::to_string(shares_[p]) + " ";
    return fnv1a(text);
  }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(index >= 0, "sequences are counted from zero");
    const Chosen chosen = choices_.of(index);
    parts_[chosen.part].source->sequence(chosen.index, tokens);
  }

  Example next_example(std::int64_t index, std::int64_t seq_length) const override {
    const Chosen chosen = choices_.of(index);
    return parts_[chosen.part].source->next_example(chosen.index, seq_length);
  }

  std::int64_t targets(std::int64_t index, std::int64_t seq_length) const override {
    const Chosen chosen = choices_.of(index);
    return parts_[chosen.part].source->targets(chosen.index, seq_length);
  }

 private:
  std::vector<BlendPart> parts_;
  std::vector<double> shares_;
  mutable Choices choices_;
};

}  // namespace

std::unique_ptr<TokenSource> blend(std::vector<BlendPart> parts) {
  if (parts.empty() || parts.size() > kMostParts)
    throw ConfigError(Problem{"", "data", std::to_string(parts.size()) + " texts", "a blend has 1 to " + std::to_string(kMostParts) + " texts", ""});
  double sum = 0;
  for (const BlendPart& p : parts) {
    if (!(p.weight > 0) || !std::isfinite(p.weight))
      throw ConfigError(Problem{"", "data", std::to_string(p.weight), "a text's weight is a finite number above 0", "give weights such as 0.3 and 0.7"});
    sum += p.weight;
  }
  std::vector<double> shares;
  for (const BlendPart& p : parts) shares.push_back(p.weight / sum);
  return std::make_unique<Blend>(std::move(parts), shares);
}

}  // namespace tandem::exec
