#include "exec/data/random.hpp"

#include <algorithm>
#include <cmath>

#include "exec/shared/philox.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr int kRounds = 10;
// Blocks generated together to fill vector registers, for long fills and for their ends. `omp simd` keeps g++ from unrolling these
// loops into scalar code first.
constexpr std::size_t kManyBlocks = 32, kFewBlocks = 16;

constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr PhiloxKey kWeyl = {0x9E3779B9, 0xBB67AE85};

constexpr std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
constexpr std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }

constexpr std::uint32_t product_high(std::uint32_t a, std::uint32_t b) { return high(std::uint64_t{a} * b); }

void round(PhiloxBlock& c, const PhiloxKey& key) {
  c = {product_high(c[2], kMultiplier1) ^ c[1] ^ key[0], c[2] * kMultiplier1,
       product_high(c[0], kMultiplier0) ^ c[3] ^ key[1], c[0] * kMultiplier0};
}

template <std::size_t Blocks>
struct Lanes {
  std::array<std::uint32_t, Blocks> c0, c1, c2, c3;
};

// The two halves of each product are separate, so that compilers vectorise the loop.
template <std::size_t Blocks>
void round(Lanes<Blocks>& s, const PhiloxKey& key) {
#pragma omp simd
  for (std::size_t l = 0; l < Blocks; ++l) {
    const std::uint32_t c0 = s.c0[l], c1 = s.c1[l], c2 = s.c2[l], c3 = s.c3[l];
    s.c0[l] = product_high(c2, kMultiplier1) ^ c1 ^ key[0];
    s.c1[l] = c2 * kMultiplier1;
    s.c2[l] = product_high(c0, kMultiplier0) ^ c3 ^ key[1];
    s.c3[l] = c0 * kMultiplier0;
  }
}

template <class State>
void rounds(State& state, PhiloxKey key) {
  for (int r = 0; r < kRounds; ++r) {
    round(state, key);
    key[0] += kWeyl[0];
    key[1] += kWeyl[1];
  }
}

// The words of blocks first_block ... first_block + Blocks - 1, in order.
template <std::size_t Blocks>
void fill_blocks(std::uint64_t first_block, const std::array<std::uint32_t, 2>& name, const PhiloxKey& key,
                 std::uint32_t* out) {
  Lanes<Blocks> s;
#pragma omp simd
  for (std::size_t l = 0; l < Blocks; ++l) {
    s.c0[l] = low(first_block + l);
    s.c1[l] = high(first_block + l);
    s.c2[l] = name[0];
    s.c3[l] = name[1];
  }
  rounds(s, key);
#pragma omp simd
  for (std::size_t l = 0; l < Blocks; ++l) {
    out[4 * l] = s.c0[l];
    out[4 * l + 1] = s.c1[l];
    out[4 * l + 2] = s.c2[l];
    out[4 * l + 3] = s.c3[l];
  }
}

}  // namespace

PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  rounds(counter, key);
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::uint32_t name_low, std::uint32_t name_high)
    : key_{low(seed), high(seed)}, name_{name_low, name_high} {}

RandomStream RandomStream::dropout(std::uint64_t seed, DropoutSite site, std::uint64_t step, std::int32_t layer) {
  require(layer >= -1 && layer < 0xFFFF && step >> 40 == 0, "layer or step beyond the random streams' range");
  const RandomName name = dropout_name(site, step, layer);
  return {seed, name.low, name.high};
}

RandomStream RandomStream::initial(std::uint64_t seed, std::int32_t init_id) {
  return {seed, static_cast<std::uint32_t>(init_id), kInitialValues << 24};
}

RandomStream RandomStream::example(std::uint64_t seed, std::int64_t sequence) {
  require(sequence >= 0 && sequence >> 56 == 0, "a sequence beyond the random streams' range");
  const auto number = static_cast<std::uint64_t>(sequence);
  return {seed, low(number), kExamples << 24 | high(number)};
}

RandomStream RandomStream::rounding(std::uint64_t seed, std::uint64_t step, std::int32_t init_id, std::uint32_t buffer) {
  const auto id = static_cast<std::uint32_t>(init_id);
  require(step >> 32 == 0 && id >> 22 == 0 && buffer < 4, "a rounding beyond the random streams' range");
  const RandomName name = rounding_name(step, id, buffer);
  return {seed, name.low, name.high};
}

PhiloxBlock RandomStream::block(std::uint64_t index) const {
  return philox({low(index), high(index), name_[0], name_[1]}, key_);
}

std::uint32_t RandomStream::bits(std::uint64_t index) const { return block(index / 4)[index % 4]; }

void RandomStream::fill_bits(std::uint64_t first, std::span<std::uint32_t> out) const {
  constexpr std::size_t many = kManyBlocks * 4, few = kFewBlocks * 4;
  std::array<std::uint32_t, few> words;
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t index = first + done, skip = index % 4;
    const std::size_t wanted = out.size() - done;
    if (skip == 0 && wanted >= many) {
      fill_blocks<kManyBlocks>(index / 4, name_, key_, out.data() + done);
      done += many;
      continue;
    }
    fill_blocks<kFewBlocks>(index / 4, name_, key_, words.data());
    const std::size_t count = std::min<std::size_t>(wanted, few - skip);
    std::copy_n(words.data() + skip, count, out.data() + done);
    done += count;
  }
}

double RandomStream::uniform(std::uint64_t index) const {
  const PhiloxBlock b = block(index / 2);
  return index % 2 == 0 ? fraction(b[0], b[1]) : fraction(b[2], b[3]);
}

std::uint32_t drop_threshold(double rate) {
  require(rate >= 0 && rate < 1, "dropout rate outside [0, 1)");
  return static_cast<std::uint32_t>(std::min(std::floor(rate * 0x1p32 + 0.5), 0x1p32 - 1));
}

}  // namespace tandem::exec
