#include "exec/data/masked_example.hpp"

#include <algorithm>
#include <numeric>

#include "exec/data/data.hpp"
#include "exec/data/random.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using Tokens = std::vector<std::int32_t>;

// Uses of a sequence's random numbers, by index: the label, other sequences to try, then two per position.
constexpr std::uint64_t kLabel = 0, kOthers = 1, kPositions = 16;
constexpr std::uint64_t kTries = 8;

std::int64_t below(double uniform, std::int64_t n) {
  return std::min(static_cast<std::int64_t>(uniform * static_cast<double>(n)), n - 1);
}

Tokens read(const TokenSource& source, std::int64_t index, const Masking& masking) {
  Tokens tokens(static_cast<std::size_t>(masking.seq_length) + 1);
  source.sequence(index, tokens);
  tokens.pop_back();
  return tokens;
}

/// Replaces the second half by another sequence's. Returns false if no different one was found.
bool exchange_half(const TokenSource& source, const Masking& masking, const RandomStream& random, Tokens& tokens) {
  const auto half = masking.seq_length / 2;
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const Tokens other = read(source, below(random.uniform(kOthers + i), source.sequences()), masking);
    if (std::equal(other.begin() + half, other.end(), tokens.begin() + half)) continue;
    std::copy(other.begin() + half, other.end(), tokens.begin() + half);
    return true;
  }
  return false;
}

/// `count` different positions in random order: a partial Fisher-Yates shuffle.
std::vector<std::size_t> hidden_positions(const Masking& masking, const RandomStream& random) {
  std::vector<std::size_t> order(static_cast<std::size_t>(masking.seq_length));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::int64_t i = 0; i < masking.masked; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const auto other = i + below(random.uniform(kPositions + at), masking.seq_length - i);
    std::swap(order[at], order[static_cast<std::size_t>(other)]);
  }
  order.resize(static_cast<std::size_t>(masking.masked));
  return order;
}

/// The token shown at a hidden position. Uses random numbers `first` and `first` + 1.
std::int32_t shown(std::int32_t token, const Masking& masking, const RandomStream& random, std::uint64_t first) {
  const double u = random.uniform(first);
  if (u < 0.8) return masking.mask_token;
  if (u < 0.9) return static_cast<std::int32_t>(below(random.uniform(first + 1), masking.mask_token));
  return token;
}

}  // namespace

Example mask_sequence(const TokenSource& source, std::int64_t index, const Masking& masking) {
  require(masking.masked >= 0 && masking.masked <= masking.seq_length && masking.mask_token >= 1,
          "more positions to hide than a sequence has, or no token below the mask");
  const auto random = RandomStream::example(masking.seed, index);
  const auto size = static_cast<std::size_t>(masking.seq_length), half = size / 2;
  Example e{read(source, index, masking), Tokens(size, -1), Tokens(size, 0), 0};
  if (random.uniform(kLabel) < 0.5) e.label = exchange_half(source, masking, random, e.tokens) ? 1 : 0;
  if (masking.segments) std::fill(e.types.begin() + static_cast<std::ptrdiff_t>(half), e.types.end(), 1);
  auto draw = kPositions + size;
  for (const auto at : hidden_positions(masking, random)) {
    e.targets[at] = e.tokens[at];
    e.tokens[at] = shown(e.tokens[at], masking, random, draw);
    draw += 2;
  }
  return e;
}

Example next_sequence(const TokenSource& source, std::int64_t index, std::int64_t seq_length) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq_length) + 1);
  source.sequence(index, tokens);
  Example e;
  e.targets.assign(tokens.begin() + 1, tokens.end());
  e.types.resize(e.targets.size());
  tokens.pop_back();
  e.tokens = std::move(tokens);
  return e;
}

Example prefix_sequence(const TokenSource& source, std::int64_t index, const PrefixLengths& lengths) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(lengths.encoder + lengths.decoder) + 1);
  source.sequence(index, tokens);
  const auto decoder = tokens.begin() + lengths.encoder;
  Example e;
  e.tokens.assign(tokens.begin(), decoder);
  e.decoder_tokens.assign(decoder, tokens.end() - 1);
  e.targets.assign(decoder + 1, tokens.end());
  return e;
}

}  // namespace tandem::exec
