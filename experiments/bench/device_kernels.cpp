// Speed of the CUDA backend's memory-bound operations at the sizes of bf16 training: GPT 125M (16 x 1024 tokens, hidden 768,
// vocabulary 50304), GPT 1.3B (hidden 2048), LLaMA-3 8B (hidden 4096, vocabulary 128256). Master weights, moments and main
// gradients are fp32.
//   bench_device_kernels [--out FILE.json] [--only WORD]
// Bytes are those that must move: every operand once, or twice if it is read and written. `copy` is the driver's copy on the
// same card in the same run; `share` is an operation's GB/s divided by the copy's. Operands rotate through more memory than the
// caches hold. Calls are queued behind a long one, so host time does not count. Takes about ten seconds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exec/cuda/device_engine.hpp"
#include "exec/device/cuda.hpp"

namespace {

using namespace tandem;

constexpr std::size_t kPool = std::size_t{12} << 30, kDelay = std::size_t{6} << 30, kAligned = 4096;
constexpr std::int64_t kTokenRoom = 16384, kMostCalls = 400;
constexpr int kBatches = 3;
constexpr double kBusySeconds = 0.02;

/// `like`: index of the input that this output overwrites. Token ids and targets do not come from the pool.
struct Size {
  DType type;
  std::int64_t elements;
  std::optional<std::size_t> like = std::nullopt;
  bool integers() const { return type == DType::int32; }
  std::int64_t bytes() const { return bytes_of(type, elements).count(); }
};

struct Case {
  std::string shape;
  Op op;
  std::vector<Size> in, out;
};

Size bf16(std::int64_t n) { return {DType::bf16, n}; }
Size fp32(std::int64_t n) { return {DType::fp32, n}; }
Size ids(std::int64_t n) { return {DType::int32, n}; }
Size at(Size size, std::size_t input) {
  size.like = input;
  return size;
}

std::int64_t moved(const Case& c) {
  std::int64_t bytes = 0;
  for (const auto* group : {&c.in, &c.out})
    for (const Size& s : *group) bytes += s.bytes();
  return bytes;
}

std::string shape_of(std::int64_t rows, std::int64_t cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

void add_layer(std::vector<Case>& all, std::int64_t rows, std::int64_t h, bool rms) {
  const std::int64_t n = rows * h;
  const std::string shape = shape_of(rows, h);
  const auto site = DropoutSite::mlp_output;
  std::vector<Size> weights{bf16(h)}, gradients{bf16(n), fp32(h)};
  if (!rms) weights.push_back(bf16(h)), gradients.push_back(fp32(h));
  const auto joined = [&](std::vector<Size> first) {
    first.insert(first.end(), weights.begin(), weights.end());
    return first;
  };
  all.push_back({shape, LayerNorm{rows, h, 1e-5, rms}, joined({bf16(n)}), {bf16(n), fp32(2 * rows)}});
  all.push_back({shape,
                 BiasDropoutAddNorm{rows, h, 0, false, site, false, 1e-5, rms},
                 joined({bf16(n), bf16(n)}),
                 {bf16(n), bf16(n), fp32(2 * rows)}});
  all.push_back({shape, LayerNormBackward{rows, h, true, rms}, {bf16(n), bf16(n), fp32(2 * rows), bf16(h), bf16(n)}, gradients});
  all.push_back({shape, BiasGrad{rows, h}, {bf16(n)}, {fp32(h)}});
  all.push_back({shape, BiasDropoutAdd{rows, h, 0, true, site}, {bf16(n), bf16(h), bf16(n)}, {bf16(n)}});
  all.push_back({shape + " p=0.1", BiasDropoutAdd{rows, h, 0.1, true, site}, {bf16(n), bf16(h), bf16(n)}, {bf16(n)}});
  all.push_back({shape + " p=0.1",
                 BiasDropoutAddNorm{rows, h, 0.1, true, site, false, 1e-5, rms},
                 joined({bf16(n), bf16(h), bf16(n)}),
                 {bf16(n), bf16(n), fp32(2 * rows)}});
  all.push_back({shape, Elementwise{rows, h, ElementwiseKind::add}, {bf16(n), bf16(n)}, {bf16(n)}});
}

void add_gelu(std::vector<Case>& all, std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = rows * cols;
  const std::string shape = shape_of(rows, cols);
  all.push_back({shape, Pointwise{n, PointwiseKind::gelu_tanh, cols}, {bf16(n), bf16(cols)}, {bf16(n)}});
  all.push_back({shape, PointwiseBackward{n, PointwiseKind::gelu_tanh}, {bf16(n), bf16(n)}, {bf16(n)}});
  all.push_back({shape, BiasGrad{rows, cols}, {bf16(n)}, {fp32(cols)}});
}

void add_llama(std::vector<Case>& all, std::int64_t rows) {
  constexpr std::int64_t kCols = 14336, kSeq = 4096;
  const std::int64_t n = rows * kCols;
  all.push_back({shape_of(rows, kCols), GatedPointwise{rows, kCols, GateKind::silu}, {bf16(2 * n)}, {bf16(n)}});
  all.push_back(
      {shape_of(rows, kCols), GatedPointwiseBackward{rows, kCols, GateKind::silu}, {bf16(n), bf16(2 * n)}, {bf16(2 * n)}});
  AttentionDims d{rows / kSeq, 32, kSeq, 128};
  d.kv_heads = 8;
  const Rotary rotary{d, 500000};
  const std::int64_t qkv = rows * d.qkv_width();
  Case turn{shape_of(rows, d.qkv_width()), rotary, {bf16(qkv)}, {at(bf16(qkv), 0)}};
  all.push_back(turn);
  all.push_back({shape_of(rows, d.qkv_width()), PackColumns{rows, d.qkv_width(), 2}, {bf16(qkv)}, {bf16(qkv)}});
}

/// A layer with a recurrence, by its operations in order. Their bytes are those of operands, without scratch memory.
void add_recurrence(std::vector<Case>& all, const RecurrenceDims& d) {
  const std::string shape = shape_of(d.rows(), d.mixed());
  const std::int64_t mixed = d.rows() * d.mixed(), values = d.rows() * d.values(), scalars = d.rows() * d.scalars(), taps = 4;
  std::vector<Size> in{bf16(mixed), bf16(scalars), bf16(d.heads), bf16(d.heads)},
      out{bf16(mixed), bf16(scalars), fp32(d.heads), fp32(d.heads)};
  if (d.rule == RecurrenceRule::mamba2) in.push_back(bf16(d.heads)), out.push_back(fp32(d.heads));
  std::vector<Size> back = in;
  back.insert(back.begin(), bf16(values));
  const GatedNorm norm{d.rows(), d.heads, d.value_dim, true, 1e-6};
  all.push_back({shape, ShortConv{d, taps, false}, {bf16(mixed), bf16(d.mixed() * taps)}, {bf16(mixed)}});
  all.push_back({shape, Recurrence{d}, in, {bf16(values)}});
  all.push_back({shape, norm, {bf16(values), bf16(values), bf16(norm.weights())}, {bf16(values), fp32(d.rows() * d.heads)}});
  all.push_back({shape,
                 GatedNormBackward{d.rows(), d.heads, d.value_dim, true},
                 {bf16(values), bf16(values), bf16(values), bf16(norm.weights()), fp32(d.rows() * d.heads)},
                 {bf16(values), bf16(values), fp32(norm.weights())}});
  all.push_back({shape, RecurrenceBackward{d}, back, out});
  all.push_back({shape,
                 ShortConvBackward{d, taps, false},
                 {bf16(mixed), bf16(mixed), bf16(d.mixed() * taps)},
                 {bf16(mixed), fp32(d.mixed() * taps)}});
  all.push_back({shape, SigmoidGate{values}, {bf16(values), bf16(values)}, {bf16(values)}});
  all.push_back({shape, SigmoidGateBackward{values}, {bf16(values), bf16(values), bf16(values)}, {bf16(values), bf16(values)}});
}

void add_ends(std::vector<Case>& all, std::int64_t rows, std::int64_t h, std::int64_t vocab) {
  const std::int64_t n = rows * h, logits = rows * vocab;
  const std::string shape = shape_of(rows, vocab), hidden = shape_of(rows, h);
  const VocabDims dims{rows, vocab, vocab, true};
  all.push_back({shape + " in place",
                 CrossEntropy{dims, rows, true, true},
                 {bf16(logits), ids(rows)},
                 {{DType::fp64, 1}, at(bf16(logits), 0)}});
  all.push_back({shape, VocabMax{dims}, {bf16(logits)}, {fp32(rows)}});
  all.push_back({shape, VocabExpSum{dims}, {bf16(logits), fp32(rows), ids(rows)}, {fp32(2 * rows)}});
  all.push_back({hidden, Embedding{rows, h, vocab, true}, {ids(rows), bf16(vocab * h)}, {bf16(n)}});
  all.push_back({hidden, EmbeddingBackward{rows, h, vocab, true}, {ids(rows), bf16(n)}, {fp32(vocab * h)}});
  all.push_back({hidden, PositionDropout{rows / 1024, 1024, h, 0, true}, {bf16(n), bf16(1024 * h)}, {bf16(n)}});
  all.push_back({hidden, PositionDropoutBackward{rows / 1024, 1024, h, 1024, 0, true}, {bf16(n)}, {bf16(n), fp32(1024 * h)}});
}

void add_update(std::vector<Case>& all, std::int64_t n) {
  const std::string shape = std::to_string(n);
  all.push_back({shape, GradNorm{n}, {fp32(n)}, {{DType::int64, kExactWords}}});
  all.push_back({shape + " bf16", GradNorm{n, DType::bf16}, {bf16(n)}, {{DType::int64, kExactWords}}});
  AdamW adam{n, 0.9, 0.95, 1e-8, 0.1, true};
  adam.weights = DType::bf16;
  all.push_back({shape, adam, {fp32(n)}, {bf16(n), fp32(n), fp32(n), fp32(n)}});
  const std::int64_t m = n / 8;
  all.push_back(
      {std::to_string(m) + " bf16 to fp32", Accumulate{m, DType::bf16, DType::fp32}, {bf16(m), fp32(m)}, {at(fp32(m), 1)}});
  all.push_back({std::to_string(m) + " fp32 to bf16", Accumulate{m, DType::fp32, DType::bf16, true}, {fp32(m)}, {bf16(m)}});
  all.push_back({std::to_string(m) + " bf16", Accumulate{m, DType::bf16, DType::bf16, true}, {bf16(m)}, {bf16(m)}});
  all.push_back({std::to_string(n) + " fp32", Fill{n, DType::fp32}, {}, {fp32(n)}});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  add_layer(all, 16384, 768, false);
  add_layer(all, 8192, 2048, false);
  add_layer(all, 8192, 4096, true);
  add_layer(all, 1024, 768, false);
  add_gelu(all, 16384, 3072);
  add_gelu(all, 8192, 8192);
  add_llama(all, 8192);
  add_recurrence(all, {RecurrenceRule::gated_delta, 1, 32, 4096, 16, 128, 128});  // Qwen3-Next 80B
  add_recurrence(all, {RecurrenceRule::mamba2, 1, 128, 4096, 8, 128, 64});        // Nemotron-H 8B
  add_ends(all, 16384, 768, 50304);
  add_ends(all, 8192, 4096, 128256);
  add_update(all, 124475904);
  return all;
}

/// Bytes that an operation must move beyond its operand sizes: updated operands are also read; of a table only the tokens' rows
/// move.
std::int64_t must_move(const Case& c) {
  std::int64_t bytes = moved(c);
  if (std::holds_alternative<AdamW>(c.op))
    for (const Size& s : c.out) bytes += s.bytes();
  if (const auto* e = std::get_if<Embedding>(&c.op))
    bytes += bytes_of(DType::bf16, (e->tokens - e->vocab_rows) * e->hidden).count();
  return bytes;
}

class Bench {
 public:
  Bench() : queue_(backend_->queue(Stream::compute)) {
    pool_->fill(0, kPool, std::byte{0x3C});  // 0.011 in bf16 and in fp32
    std::vector<std::int32_t> tokens(kTokenRoom);
    for (std::size_t i = 0; i < tokens.size(); ++i)  // as in text: some are frequent, most are rare
      tokens[i] = static_cast<std::int32_t>(std::pow(50000.0, static_cast<double>(i * 7919 % kTokenRoom) / kTokenRoom));
    tokens_->write(0, std::as_bytes(std::span(tokens)));
    write_value(backend_->step_table(), 0,
                exec::StepTable{.learning_rate = 1e-6, .bias_correction1 = 0.5, .bias_correction2 = 0.5});
    context_.table = exec::table_address(*backend_);
    context_.layer = 0;
    context_.seq_length = 1024;
  }

  double seconds(const Case& c) {
    load_pieces(c.op);
    const auto calls = [&](std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) run(c);
    };
    calls(2);
    const double once = timed([&] { calls(3); }) / 3;
    const auto n = std::clamp<std::int64_t>(static_cast<std::int64_t>(kBusySeconds / kBatches / std::max(once, 1e-7)), 3,
                                            kMostCalls / kBatches);
    std::vector<double> times;
    for (int b = 0; b < kBatches; ++b) times.push_back(timed([&] { calls(n); }) / static_cast<double>(n));
    std::sort(times.begin(), times.end());
    return times[kBatches / 2];
  }
  /// GB/s of the driver's copy, counting both reads and writes.
  double copy_speed() {
    constexpr std::int64_t kBytes = std::int64_t{1} << 30, kTimes = 8;
    return 2e-9 * kBytes * kTimes / wall([&](exec::MemoryEngine& engine) {
             for (std::int64_t i = 0; i < kTimes; ++i) engine.copy(place(kBytes), place(kBytes), kBytes);
           });
  }
  /// Seconds to reduce two operands into one.
  double fold_seconds(DType type, std::int64_t bytes) {
    constexpr std::int64_t kTimes = 8;
    return wall([&](exec::MemoryEngine& engine) {
             for (std::int64_t i = 0; i < kTimes; ++i) {
               const std::byte* in[] = {place(bytes), place(bytes)};
               std::byte* out[] = {place(bytes)};
               engine.fold({in, out, 0, bytes * 8 / bits(type), 0, type, Reduce::sum});
             }
           }) /
           kTimes;
  }

 private:
  template <class F>
  double wall(F calls) {
    exec::MemoryEngine& engine = exec::cuda::device_engine();
    double best = 1e30;
    for (int b = 0; b < kBatches; ++b) {
      engine.finish();
      const auto begin = std::chrono::steady_clock::now();
      calls(engine);
      engine.finish();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  }
  std::byte* place(std::int64_t bytes) {
    const auto size = (static_cast<std::size_t>(bytes) + kAligned - 1) / kAligned * kAligned;
    if (next_ + size > kPool) next_ = 0;
    next_ += size;
    return pool_->address() + next_ - size;
  }
  void run(const Case& c) {
    std::vector<exec::Tensor> in, out;
    const auto tensor = [&](const Size& s) {
      std::byte* place_of = s.like ? in[*s.like].address : s.integers() ? tokens_->address() : place(s.bytes());
      return exec::Tensor{place_of, s.type, s.elements};
    };
    for (const Size& s : c.in) in.push_back(tensor(s));
    for (const Size& s : c.out) out.push_back(tensor(s));
    queue_.run({c.op, DType::bf16, in, out, context_});
  }
  /// Device seconds of the calls. They are queued behind a call that takes longer than the host needs to issue them.
  double timed(const std::function<void()>& calls) {
    const Op wait = Fill{static_cast<std::int64_t>(kDelay / 4), DType::fp32};
    const exec::Tensor room{delay_->address(), DType::fp32, static_cast<std::int64_t>(kDelay / 4)};
    const auto begin = backend_->make_mark(), end = backend_->make_mark();
    for (int i = 0; i < 2; ++i) queue_.run({wait, DType::fp32, {}, std::span(&room, 1), context_});
    queue_.mark(*begin);
    calls();
    queue_.mark(*end);
    queue_.finish();
    return std::chrono::duration<double>(end->reached() - begin->reached()).count();
  }
  /// Loads the parameter pieces of twelve layers: alternating matrices and vectors.
  void load_pieces(const Op& op) {
    const auto* norm = std::get_if<GradNorm>(&op);
    const auto* adam = std::get_if<AdamW>(&op);
    if (norm == nullptr && adam == nullptr) return;
    std::vector<exec::PieceRow> rows;
    const std::int64_t all = norm != nullptr ? norm->elements : adam->elements, sizes[] = {768 * 2304, 2304, 768 * 3072, 768};
    for (std::int64_t begin = 0; begin < all; begin += rows.back().count) {
      const std::int64_t count = std::min(sizes[rows.size() % std::size(sizes)], all - begin);
      exec::PieceRow row{begin, begin, begin, count, begin};
      row.decay = row.counted = true;
      rows.push_back(row);
    }
    backend_->load_pieces(rows);
  }

  std::unique_ptr<exec::Backend> backend_ = exec::make_cuda_backend();
  exec::Queue& queue_;
  std::unique_ptr<exec::Memory> pool_ = backend_->allocate(kPool), delay_ = backend_->allocate(kDelay);
  std::unique_ptr<exec::Memory> tokens_ = backend_->allocate(kTokenRoom * sizeof(std::int32_t));
  exec::KernelContext context_;
  std::size_t next_ = 0;
};

struct Row {
  std::string op, shape;
  double seconds, bytes;
};

void print(const Row& r, double copy) {
  const double speed = r.bytes / r.seconds * 1e-9;
  std::printf("%-26s %-24s %9.1f us %9.1f MB %8.0f GB/s %6.1f %%\n", r.op.c_str(), r.shape.c_str(), r.seconds * 1e6, r.bytes * 1e-6,
              speed, 100 * speed / copy);
}

int run(const std::string& file, const std::string& only) {
  Bench bench;
  const double copy = bench.copy_speed();
  std::printf("%-26s %-24s %9s    %9s    %8.0f GB/s\n", "copy", "by the driver", "", "", copy);
  std::vector<Row> rows;
  const auto wanted = [&](std::string_view name) { return name.find(only) != std::string_view::npos; };
  for (const Case& c : cases()) {
    if (!wanted(kind_name(c.op))) continue;
    rows.push_back({std::string(kind_name(c.op)), c.shape, bench.seconds(c), static_cast<double>(must_move(c))});
    print(rows.back(), copy);
  }
  for (const DType type : {DType::bf16, DType::fp32}) {
    constexpr std::int64_t kBytes = std::int64_t{256} << 20;
    if (!wanted("fold of two ranks")) break;
    rows.push_back({"fold of two ranks", std::string(name(type)) + " 256 MiB", bench.fold_seconds(type, kBytes), 3.0 * kBytes});
    print(rows.back(), copy);
  }
  if (file.empty()) return 0;
  nlohmann::json table = nlohmann::json::array();
  for (const Row& r : rows) {
    const double speed = r.bytes / r.seconds * 1e-9;
    table.push_back({{"op", r.op},
                     {"shape", r.shape},
                     {"us", r.seconds * 1e6},
                     {"bytes", r.bytes},
                     {"gb_s", speed},
                     {"of_copy", speed / copy}});
  }
  std::ofstream(file) << nlohmann::json{{"copy_gb_s", copy}, {"kernels", table}}.dump(1) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string file, only;
  for (int i = 1; i + 1 < argc; i += 2) (std::strcmp(argv[i], "--out") == 0 ? file : only) = argv[i + 1];
  try {
    exec::require_cuda_device();
    return run(file, only);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_device_kernels: %s\n", e.what());
    return 7;
  }
}
