// Arithmetic that CUDA's compiler takes, beside what the CPU's kernels draw and add.
#include <random>

#include "exec/cpu/exact_sum.hpp"
#include "exec/data/random.hpp"
#include "exec/device/norm_sum.hpp"
#include "exec/device/piece_ranges.hpp"
#include "exec/shared/philox.hpp"
#include "tests/catch.hpp"

namespace tandem::exec::test {
namespace {

PieceRow piece(std::int64_t flat, std::int64_t count) {
  PieceRow row;
  row.flat = flat;
  row.count = count;
  row.counted = true;
  return row;
}

}  // namespace

TEST_CASE("random bits one at a time are those of the CPU's streams, for every site, step and index") {
  const std::uint64_t seed = 0x123456789abcdefULL;
  for (const auto site : {DropoutSite::embedding, DropoutSite::attention, DropoutSite::cross_attention_output})
    for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{77}, (std::uint64_t{1} << 40) - 1})
      for (const std::int32_t layer : {-1, 0, 4711}) {
        const RandomStream stream = RandomStream::dropout(seed, site, step, layer);
        for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{1} << 33, ~std::uint64_t{0} / 5})
          CHECK(random_bits(seed, dropout_name(site, step, layer), index) == stream.bits(index));
      }
  const RandomStream rounding = RandomStream::rounding(seed, 12, 345, 2);
  for (std::uint64_t i = 0; i < 40; ++i) CHECK(random_bits(seed, rounding_name(12, 345, 2), i) == rounding.bits(i));
}

TEST_CASE("words of terms that are added in any order are those of the CPU's exact sum") {
  std::mt19937_64 random(7);
  std::vector<double> terms;
  for (int i = 0; i < 500; ++i) {
    const auto mantissa = static_cast<double>(random() >> 11);
    terms.push_back(std::ldexp(mantissa, static_cast<int>(random() % 1900) - 1100));
  }
  cpu::ExactSum expected;
  std::vector<std::int64_t> words(kExactWords, 0);
  for (const double x : terms) expected.add(x);
  std::shuffle(terms.begin(), terms.end(), random);
  for (const double x : terms) {
    const ExactTerm term = exact_term(x);
    for (std::int64_t w = 0; w < 3; ++w) words[static_cast<std::size_t>(term.at + w)] += term.words[w];
  }
  carry_exact(words.data());
  CHECK(std::equal(words.begin(), words.end(), expected.words().begin()));
}

TEST_CASE("ranges hold every element once, and are cut only where blocks of a norm end") {
  const std::vector<PieceRow> rows{piece(0, 5000), piece(5000, 1), piece(5001, 0), piece(5001, 4096), piece(9097, 130)};
  const auto all = device::piece_ranges(rows);
  std::vector<std::int64_t> next(rows.size(), 0);
  for (const device::PieceRange& s : all) {
    const auto p = static_cast<std::size_t>(s.piece);
    CHECK(s.first == next[p]);
    CHECK((s.count > 0 && s.count <= device::kRangeElements));
    next[p] += s.count;
    CHECK((next[p] == rows[p].count || (rows[p].flat + next[p]) % device::kNormBlock == 0));
    const std::int64_t flat = rows[p].flat + s.first, last = flat + s.count - 1;
    CHECK(last / device::kNormBlock - flat / device::kNormBlock < device::NormSumKernel::kBlocks);
  }
  for (std::size_t p = 0; p < rows.size(); ++p) CHECK(next[p] == rows[p].count);
}

}  // namespace tandem::exec::test
