#include "exec/measure/op_timer.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "exec/cpu/backend.hpp"
#include "models/graph/memory_plan.hpp"

namespace tandem::exec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostSets = 64;
constexpr double kShortestGroup = 50e-6;  // some hundred times the cost of reading the thread's clock

std::size_t bytes_of(const OperandSize& o) {
  return static_cast<std::size_t>(arena_aligned(tandem::bytes_of(o.dtype, o.elements).count()));
}

template <class Keep>
std::size_t total(const std::vector<OperandSize>& list, Keep keep) {
  std::size_t sum = 0;
  for (const auto& o : list)
    if (keep(o)) sum += bytes_of(o);
  return sum;
}

template <class T>
void fill(std::byte* begin, std::size_t bytes) {
  auto* values = reinterpret_cast<T*>(begin);
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i)
    values[i] = static_cast<T>(0.5) + static_cast<T>((i * 7919) % 4096) / static_cast<T>(8193);
}

/// Fills 16-bit numbers from 1/2 (bits `half`) to 1, `steps` of them. Read as fp32, pairs are no (slow) denormals.
void fill_narrow(std::byte* begin, std::size_t bytes, std::uint16_t half, std::uint16_t steps) {
  auto* values = reinterpret_cast<std::uint16_t*>(begin);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint16_t); ++i) values[i] = static_cast<std::uint16_t>(half + (i * 7919) % steps);
}

void fill(std::byte* begin, std::size_t bytes, DType dtype) {
  switch (dtype) {
    case DType::fp64: return fill<double>(begin, bytes);
    case DType::bf16: return fill_narrow(begin, bytes, 0x3f00, 128);
    case DType::fp16: return fill_narrow(begin, bytes, 0x3800, 1024);
    default: return fill<float>(begin, bytes);
  }
}

/// Token ids spread like those of text: printable bytes, as far as the vocabulary has them.
std::int32_t id(std::size_t i, std::int64_t vocabulary) {
  return static_cast<std::int32_t>((32 + static_cast<std::int64_t>(i * 7919 % 91)) % vocabulary);
}

std::int64_t vocabulary(const Op& op) {
  return std::visit(overloaded{
                        [](const Embedding& o) { return o.vocab_rows; },
                        [](const EmbeddingBackward& o) { return o.vocab_rows; },
                        [](const VocabExpSum& o) { return o.dims.vocab_size; },
                        [](const CrossEntropy& o) { return o.dims.vocab_size; },
                        [](const auto&) { return std::int64_t{256}; },
                    },
                    op);
}

bool is_integer(const OperandSize& o) { return o.dtype == DType::int32 || o.dtype == DType::int64; }

/// The row that a choice takes, in order; -1 beyond the experts' capacity.
std::int32_t slot(std::size_t choice, std::int64_t rows) {
  return static_cast<std::int64_t>(choice) < rows ? static_cast<std::int32_t>(choice) : -1;
}

/// Number of rows of an expert if rows are distributed as evenly as possible.
std::int32_t share(std::size_t expert, std::int64_t rows, std::int64_t experts) {
  return static_cast<std::int32_t>(rows / experts + (static_cast<std::int64_t>(expert) < rows % experts ? 1 : 0));
}

/// An entry in the list of a query's chosen keys: as many as it may have, spread evenly (models/ops/indexer.hpp).
std::int32_t listed_key(std::size_t place, std::int64_t listed, std::int64_t queries) {
  const std::int64_t at = static_cast<std::int64_t>(place) % listed, seen = static_cast<std::int64_t>(place) / listed % queries + 1;
  const std::int64_t chosen = std::min(seen, listed);
  return static_cast<std::int32_t>(at < chosen ? at * seen / chosen : -1);
}

/// A valid value for element `i` of an integer operand.
std::int32_t integer(const Op& op, const OperandSize& operand, std::size_t i) {
  return std::visit(
      [&](const auto& o) -> std::int32_t {
        if constexpr (requires { o.ragged; })
          return share(i, o.m, o.experts);
        else if constexpr (requires { o.dims.top_k; o.members; })  // equal operands of each member
          return operand.elements == o.members * o.dims.experts
                     ? share(i % static_cast<std::size_t>(o.dims.experts), o.dims.tokens * o.dims.top_k, o.dims.experts)
                     : slot(i % static_cast<std::size_t>(o.dims.tokens * o.dims.top_k), o.dims.tokens * o.dims.top_k);
        else if constexpr (requires { o.dims.top_k; })
          return operand.elements == o.dims.experts ? share(i, o.dims.tokens * o.dims.top_k, o.dims.experts)
                                                    : slot(i, o.dims.rows());
        else if constexpr (requires { o.dims.listed(); })
          return listed_key(i, o.dims.listed(), o.dims.seq);
        else if constexpr (requires { o.dims.listed_keys(); })
          return listed_key(i, o.dims.listed_keys(), o.dims.seq);
        else
          return id(i, vocabulary(op));
      },
      op);
}

/// The values of an integer operand. Exact sums are 0.
std::vector<std::int32_t> integers(const Op& op, const OperandSize& o) {
  if (o.dtype == DType::int64) return std::vector<std::int32_t>(static_cast<std::size_t>(2 * o.elements));
  std::vector<std::int32_t> values(static_cast<std::size_t>(o.elements));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = integer(op, o, i);
  return values;
}

std::int64_t flat_elements(const Op& op) {
  return std::visit(
      [](const auto& o) -> std::int64_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(o)>, Muon>) return o.elements();
        else if constexpr (requires { o.gradients; }) return o.elements;
        else return 0;
      },
      op);
}

/// The matrices of the piece that Muon updates.
MatrixParts matrices_of(const Op& op) {
  const auto* o = std::get_if<Muon>(&op);
  if (o == nullptr) return {};
  return {o->matrices, 1, {o->rows, 0, 0}, o->cols, o->whole_rows / o->rows, o->whole_cols / o->cols};
}

Tensor tensor(const OperandSize& o, std::byte* address) { return {address, o.dtype, o.elements}; }

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Processor time of this thread, so that other programs do not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace

std::byte* OpTimer::Pool::next(std::size_t bytes) {
  if (at_ + bytes > memory_.size()) at_ = 0;
  auto* here = memory_.data() + at_;
  at_ += bytes;
  return here;
}

void OpTimer::Pool::reserve(std::size_t bytes, DType dtype) {
  if (bytes <= memory_.size()) return;
  memory_.resize(bytes);
  fill(memory_.data(), bytes, dtype);
}

OpTimer::OpTimer(DType dtype, std::size_t pool_bytes)
    : dtype_(dtype), pool_bytes_(pool_bytes), backend_(make_cpu_backend()) {
  context_.table = table_address(*backend_);
  context_.seq_length = 128;
  piece_.decay = piece_.counted = true;
}

void OpTimer::prepare(const Op& op) {
  StepTable table;
  table.learning_rate = 1e-4;
  write_value(backend_->step_table(), 0, table);
  piece_.count = flat_elements(op);
  piece_.matrices = matrices_of(op);
  backend_->load_pieces({&piece_, 1});
  const auto sizes = operand_sizes(op, dtype_);
  integers_.clear();
  for (const auto& o : sizes.inputs) integers_.push_back(is_integer(o) ? integers(op, o) : std::vector<std::int32_t>{});
  lay_out(sizes);
}

void OpTimer::lay_out(const OperandSizes& sizes) {
  const auto in = total(sizes.inputs, [](const OperandSize& o) { return !is_integer(o); });
  const auto out = total(sizes.outputs, [](const OperandSize&) { return true; });
  reading_.reserve(std::max(in, pool_bytes_), dtype_);
  writing_.reserve(std::max(out, pool_bytes_), dtype_);
  const auto rounds = std::max(pool_bytes_ / std::max<std::size_t>(in, 1), pool_bytes_ / std::max<std::size_t>(out, 1));
  sets_.clear();
  for (std::size_t i = 0; i < std::clamp<std::size_t>(rounds, 1, kMostSets); ++i) sets_.push_back(operands(sizes));
  set_ = 0;
}

OpTimer::CallOperands OpTimer::operands(const OperandSizes& sizes) {
  CallOperands call;
  for (std::size_t i = 0; i < sizes.inputs.size(); ++i)
    call.inputs.push_back(tensor(sizes.inputs[i], is_integer(sizes.inputs[i]) ? reinterpret_cast<std::byte*>(integers_[i].data())
                                                                              : reading_.next(bytes_of(sizes.inputs[i]))));
  for (const auto& o : sizes.outputs) {
    call.outputs.push_back(o.same_as_output >= 0 ? call.outputs[static_cast<std::size_t>(o.same_as_output)]
                                                 : tensor(o, writing_.next(bytes_of(o))));
    if (o.same_as_input >= 0) call.inputs[static_cast<std::size_t>(o.same_as_input)] = call.outputs.back();
  }
  return call;
}

double OpTimer::time_group(const Op& op, int calls) {
  Queue& queue = backend_->queue(Stream::compute);
  const double begin = thread_seconds();
  for (int i = 0; i < calls; ++i) {
    const auto& at = sets_[set_];
    set_ = set_ + 1 == sets_.size() ? 0 : set_ + 1;
    queue.run({op, dtype_, at.inputs, at.outputs, context_});
  }
  return (thread_seconds() - begin) / calls;
}

double OpTimer::seconds(const Op& op, double budget_s) {
  prepare(op);
  time_group(op, 1);
  const double once = time_group(op, 1);
  const int calls = std::max(1, static_cast<int>(kShortestGroup / std::max(once, 1e-9)));
  std::vector<double> groups;
  for (const auto begin = Clock::now(); groups.size() < 3 || seconds_since(begin) < budget_s;)
    groups.push_back(time_group(op, calls));
  return median(std::move(groups));
}

}  // namespace tandem::exec
