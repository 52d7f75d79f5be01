// A library's calls of flash attention read and write what Tandem's own kernels do.
#include <cmath>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "exec/backend/launch.hpp"
#include "exec/device/works/work.hpp"
#include "tests/catch.hpp"
#include "tests/emulated/perform.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

using device::AttentionCall;
using Bf16Values = std::vector<std::uint16_t>;

/// An attention whose operands lie in memory of their own, as an operation of a plan has them.
struct Case {
  std::int64_t batch, heads, groups, seq;
  bool q_packed, kv_packed, causal;
  std::int64_t dim = 8;

  AttentionDims dims() const {
    AttentionDims d{batch, heads, seq, dim};
    d.kv_heads = groups == heads ? 0 : groups;
    d.q_packed = q_packed, d.kv_packed = kv_packed, d.causal = causal;
    return d;
  }
  std::string text() const {
    return std::to_string(batch) + " sequences, " + std::to_string(heads) + " heads in " + std::to_string(groups) + " groups" +
           (q_packed ? ", packed queries" : "") + (kv_packed ? ", packed keys" : "") + (causal ? ", causal" : "");
  }
};

Bf16Values random_bf16(std::int64_t elements, unsigned seed) {
  Bf16Values operand;
  for (const double v : random_values(elements, seed)) operand.push_back(to_bf16(static_cast<float>(v)));
  return operand;
}

Tensor tensor(Bf16Values& operand) {
  return {reinterpret_cast<std::byte*>(operand.data()), DType::bf16, static_cast<std::int64_t>(operand.size())};
}

float at(const std::byte* operand, std::int64_t element) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, operand + 2 * element, 2);
  return from_bf16(bits);
}

std::int64_t offset(const device::AttentionStrides& s, std::int64_t sequence, std::int64_t head, std::int64_t position) {
  return sequence * s.sequence + head * s.head + position * s.position;
}

/// What every query of a call gives, by plain loops over its strides: elements of the context.
template <class Visit>
void each_context(const AttentionCall& call, Visit visit) {
  const device::AttentionShape& s = call.shape;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t q = 0; q < s.queries; ++q) {
        const std::int64_t group = h / (s.heads / s.groups), seen = s.causal ? q + 1 : s.keys;
        std::vector<double> p(static_cast<std::size_t>(seen)), mixed(static_cast<std::size_t>(s.head_dim), 0.0);
        double sum = 0;
        for (std::int64_t k = 0; k < seen; ++k) {
          double dot = 0;
          for (std::int64_t d = 0; d < s.head_dim; ++d)
            dot += at(call.at.query, offset(s.query, b, h, q) + d) * at(call.at.key, offset(s.key, b, group, k) + d);
          sum += p[static_cast<std::size_t>(k)] = std::exp(s.scale * dot);
        }
        for (std::int64_t k = 0; k < seen; ++k)
          for (std::int64_t d = 0; d < s.head_dim; ++d)
            mixed[static_cast<std::size_t>(d)] +=
                p[static_cast<std::size_t>(k)] / sum * at(call.at.value, offset(s.key, b, group, k) + d);
        for (std::int64_t d = 0; d < s.head_dim; ++d) visit(offset(s.context, b, h, q) + d, mixed[static_cast<std::size_t>(d)]);
        visit(-1, std::log(sum));
      }
}

}  // namespace

TEST_CASE("a library's calls of attention lie where the operation's heads do") {
  const Case c =
      GENERATE(Case{2, 4, 4, 5, true, true, true}, Case{2, 4, 2, 5, true, true, true}, Case{1, 4, 2, 6, true, true, false},
               Case{2, 4, 2, 5, false, false, true}, Case{2, 6, 2, 4, false, true, true}, Case{3, 4, 1, 5, true, true, true},
               Case{2, 1, 1, 5, true, true, true});
  INFO(c.text());
  AttentionDims d = c.dims();
  d.score_scale = c.groups == 1 ? 0.7 : 0;  // 0: the root
  Bf16Values packed = random_bf16(c.batch * c.seq * d.qkv_width(), 1), queries = random_bf16(c.batch * c.seq * d.q_width(), 2),
       keys = random_bf16(c.batch * c.seq * d.kv_width(), 3), context(static_cast<std::size_t>(c.batch * c.seq * d.q_width()));
  std::vector<float> stats(static_cast<std::size_t>(c.batch * c.heads * c.seq));
  const Tensor in[] = {c.q_packed ? tensor(packed) : tensor(queries), c.kv_packed ? tensor(packed) : tensor(keys)};
  const Tensor out[] = {tensor(context),
                        {reinterpret_cast<std::byte*>(stats.data()), DType::fp32, static_cast<std::int64_t>(stats.size())}};
  const KernelContext place;
  const Op op = FlashAttention{d, 0, false};
  const auto works = device::works_of({op, DType::bf16, in, out, place}, {});
  REQUIRE(works.size() == 1);
  const auto& kernel = std::get<device::FlashKernel>(works[0]);
  REQUIRE(device::beyond_libraries(kernel).empty());
  tests::make_emulated_backend()->queue(Stream::compute).run({op, DType::bf16, in, out, place});
  std::size_t seen = 0;
  for (const AttentionCall& call : device::calls_of(kernel)) {
    const auto* lse = reinterpret_cast<const float*>(call.at.stats);
    each_context(call, [&](std::int64_t element, double value) {
      if (element < 0) {
        CHECK(*lse++ == Approx(value).epsilon(1e-5).margin(1e-5));  // sums in fp32
        return;
      }
      CHECK(at(call.at.context, element) == Approx(value).epsilon(8e-3).margin(1e-3));  // bf16 rounds to 1 in 256
      ++seen;
    });
  }
  CHECK(seen == context.size());
}

TEST_CASE("gradients of attention lie as what they are gradients of") {
  const Case c{2, 4, 2, 5, true, true, true};
  const AttentionDims d = c.dims();
  Bf16Values qkv = random_bf16(c.batch * c.seq * d.qkv_width(), 1), dqkv = qkv;
  Bf16Values context = random_bf16(c.batch * c.seq * d.q_width(), 2), dcontext = context;
  std::vector<float> stats(static_cast<std::size_t>(c.batch * c.heads * c.seq));
  const Tensor statistics{reinterpret_cast<std::byte*>(stats.data()), DType::fp32, static_cast<std::int64_t>(stats.size())};
  const Tensor in[] = {tensor(dcontext), tensor(qkv), tensor(qkv), tensor(context), statistics},
               out[] = {tensor(dqkv), tensor(dqkv)};
  const KernelContext place;
  const Op op = FlashAttentionBackward{d, 0, false};
  const auto works = device::works_of({op, DType::bf16, in, out, place}, {});
  const auto calls = device::calls_of(std::get<device::FlashGradKernels>(works.at(0)));
  REQUIRE(calls.size() == 2);  // a sequence each: packed heads of two groups
  for (const AttentionCall& call : calls) {
    const auto from = [](const std::byte* a, const Bf16Values& operand) {
      return a - reinterpret_cast<const std::byte*>(operand.data());
    };
    CHECK(from(call.at.dquery, dqkv) == from(call.at.query, qkv));
    CHECK(from(call.at.dkey, dqkv) == from(call.at.key, qkv));
    CHECK(from(call.at.dvalue, dqkv) == from(call.at.value, qkv));
    CHECK(from(call.at.dcontext, dcontext) == from(call.at.context, context));
  }
}

namespace {

/// The operands of one rank's step of a ring of two or three.
struct RingCase {
  Case attention;
  std::int64_t ranks, rank;
  int step;

  AttentionDims dims() const {
    AttentionDims d = attention.dims();
    d.share = AttentionShare::queries;
    d.score_scale = 0.6;
    return d;
  }
  KernelContext place() const {
    KernelContext c;
    c.context_size = ranks, c.context_rank = rank;
    return c;
  }
};

void put(std::byte* operand, std::int64_t element, double value) {
  const std::uint16_t bits = to_bf16(static_cast<float>(value));
  std::memcpy(operand + 2 * element, &bits, 2);
}

/// Does a call by plain loops.
void perform_call(const AttentionCall& call) {
  auto* lse = reinterpret_cast<float*>(call.at.stats);
  each_context(call, [&](std::int64_t element, double value) {
    if (element < 0) *lse++ = static_cast<float>(value);
    else put(call.at.context, element, value);
  });
}

/// Gradients of a call by plain loops, from the finished context and statistics.
void perform_gradients(const AttentionCall& call) {
  const device::AttentionShape& s = call.shape;
  const double scale = s.scale;
  std::map<std::pair<std::byte*, std::int64_t>, double> sums;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t q = 0; q < s.queries; ++q)
        for (std::int64_t k = 0; k < (s.causal ? q + 1 : s.keys); ++k) {
          const std::int64_t query = offset(s.query, b, h, q), key = offset(s.key, b, h / (s.heads / s.groups), k),
                             context = offset(s.context, b, h, q);
          double score = 0, dp = 0, total = 0;
          for (std::int64_t d = 0; d < s.head_dim; ++d) {
            score += scale * at(call.at.query, query + d) * at(call.at.key, key + d);
            dp += at(call.at.dcontext, context + d) * at(call.at.value, key + d);
            total += at(call.at.dcontext, context + d) * at(call.at.context, context + d);
          }
          const double stat = reinterpret_cast<const float*>(call.at.stats)[(b * s.heads + h) * s.stats_rows + q];
          const double p = std::exp(score - stat), ds = p * (dp - total) * scale;
          for (std::int64_t d = 0; d < s.head_dim; ++d) {
            sums[{call.at.dquery, query + d}] += ds * at(call.at.key, key + d);
            sums[{call.at.dkey, key + d}] += ds * at(call.at.query, query + d);
            sums[{call.at.dvalue, key + d}] += p * at(call.at.dcontext, context + d);
          }
        }
  for (const auto& [cell, sum] : sums) put(cell.first, cell.second, sum);
}

void check_near(const Bf16Values& one, const Bf16Values& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    CHECK(from_bf16(one[i]) == Approx(from_bf16(other[i])).epsilon(1.6e-2).margin(4e-3));  // both round twice to 1 in 256
}

}  // namespace

TEST_CASE("a library's steps of a ring, added to the earlier ones, give what Tandem's kernels give") {
  const bool causal = GENERATE(true, false), kv_packed = GENERATE(true, false);
  const RingCase c =
      GENERATE(RingCase{{2, 4, 2, 6, true, true, true}, 2, 0, 1}, RingCase{{1, 4, 4, 4, true, true, true}, 2, 1, 1},
               RingCase{{2, 2, 1, 4, false, true, true}, 3, 1, 1}, RingCase{{1, 2, 2, 6, true, true, true}, 3, 1, 2});
  AttentionDims d = c.dims();
  d.causal = causal, d.kv_packed = kv_packed;
  const std::int64_t q_width = d.q_packed ? d.qkv_width() : d.q_width(), kv_width = d.kv_packed ? d.qkv_width() : d.kv_width();
  const std::int64_t rows = d.batch * d.seq;
  Bf16Values q = random_bf16(rows * q_width, 1), kv = random_bf16(rows * kv_width, 2);
  Bf16Values context = random_bf16(rows * d.context_width(), 3);
  Bf16Values dcontext = random_bf16(rows * d.context_width(), 4), dq = random_bf16(rows * q_width, 5);
  Bf16Values dkv = random_bf16(rows * kv_width, 6);
  std::vector<float> stats;
  for (const double v : random_values(d.batch * d.heads * d.seq, 7)) stats.push_back(static_cast<float>(1 + v));
  const auto statistics = [](std::vector<float>& of) {
    return Tensor{reinterpret_cast<std::byte*>(of.data()), DType::fp32, static_cast<std::int64_t>(of.size())};
  };
  const KernelContext place = c.place();
  const auto own = tests::make_emulated_backend();
  INFO(c.attention.text() << (causal ? "" : " not") << " causal, rank " << c.rank << " of " << c.ranks << ", step " << c.step);

  SECTION("forward") {
    Bf16Values merged = context;
    std::vector<float> merged_stats = stats;
    const Op op = FlashAttention{d, 0, false, c.step};
    const Tensor in[] = {tensor(q), tensor(kv), tensor(context), statistics(stats)}, out[] = {tensor(context), statistics(stats)};
    const Tensor to[] = {tensor(merged), statistics(merged_stats)};
    std::vector<std::byte> scratch(static_cast<std::size_t>(device::scratch_bytes({op, DType::bf16, in, to, place})));
    const auto works = device::works_of({op, DType::bf16, in, to, place}, {{}, nullptr, scratch.data()});
    const auto& kernel = std::get<device::FlashKernel>(works.at(0));
    REQUIRE(device::beyond_libraries(kernel).empty());
    for (const AttentionCall& call : device::calls_of(kernel)) perform_call(call);
    tests::perform_kernel(device::merge_of(kernel));
    own->queue(Stream::compute).run({op, DType::bf16, in, out, place});
    check_near(merged, context);
    for (std::size_t i = 0; i < stats.size(); ++i) CHECK(merged_stats[i] == Approx(stats[i]).epsilon(1e-5).margin(1e-5));
  }
  SECTION("backward") {
    Bf16Values added_q = dq, added_kv = dkv;
    const Op op = FlashAttentionBackward{d, 0, false, c.step};
    const Tensor in[] = {tensor(dcontext), tensor(q), tensor(kv), tensor(context), statistics(stats), tensor(dq), tensor(dkv)};
    const Tensor out[] = {tensor(dq), tensor(dkv)}, to[] = {tensor(added_q), tensor(added_kv)};
    std::vector<std::byte> scratch(static_cast<std::size_t>(device::scratch_bytes({op, DType::bf16, in, to, place})));
    const auto works = device::works_of({op, DType::bf16, in, to, place}, {{}, nullptr, scratch.data()});
    const auto& kernels = std::get<device::FlashGradKernels>(works.at(0));
    std::uintptr_t addresses = 0;
    for (const AttentionCall& call : device::calls_of(kernels)) {
      perform_gradients(call);
      CHECK(reinterpret_cast<std::uintptr_t>(call.at.stats) % static_cast<std::uintptr_t>(call.shape.stats_alignment) == 0);
      addresses |= reinterpret_cast<std::uintptr_t>(call.at.stats);
    }
    for (const AttentionCall& call : device::calls_of(kernels))  // no less than there is
      CHECK((call.shape.stats_alignment == 16 || (addresses & static_cast<std::uintptr_t>(call.shape.stats_alignment)) != 0));
    for (const device::RingAddKernel& add : device::adds_of(kernels)) tests::perform_kernel(add);
    own->queue(Stream::compute).run({op, DType::bf16, in, out, place});
    check_near(added_q, dq);
    check_near(added_kv, dkv);
  }
}

TEST_CASE("attention that no library does is told by its reason") {
  device::FlashKernel kernel{};
  kernel.q.type = kernel.kv.type = kernel.context.type = DType::bf16;
  kernel.place.head_dim = 64;
  CHECK(device::beyond_libraries(kernel) == "");
  kernel.place.alibi = true;
  CHECK(device::beyond_libraries(kernel) == "scores have ALiBi");
  const std::int32_t documents = 0;
  kernel.place.documents.starts = &documents;
  CHECK(device::beyond_libraries(kernel) == "documents are kept apart");
  kernel.place.documents = {};
  kernel.place.alibi = false, kernel.place.dropout.threshold = 1;
  CHECK(device::beyond_libraries(kernel) == "masks of dropout are by global index");
  kernel.place.dropout.threshold = 0, kernel.place.head_dim = 12;
  CHECK(device::beyond_libraries(kernel) == "heads of 12 dimensions");
  kernel.q.type = DType::fp32;
  CHECK(device::beyond_libraries(kernel) == "operands are not of 16 bits");
}

}  // namespace tandem::exec::test
