#include "exec/op_timer.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "models/memory_plan.hpp"

namespace tandem::exec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostSets = 64;
constexpr double kShortestGroup = 50e-6;  // some hundred times what reading the thread's clock takes

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

/// Tokens as spread as those of a text: the printable bytes, as far as the vocabulary holds them.
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

std::int64_t flat_elements(const Op& op) {
  if (const auto* o = std::get_if<GradNorm>(&op)) return o->elements;
  if (const auto* o = std::get_if<AdamW>(&op)) return o->elements;
  return 0;
}

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Processor time of this thread: what else the machine does in between does not count.
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
  dtype == DType::fp64 ? fill<double>(memory_.data(), bytes) : fill<float>(memory_.data(), bytes);
}

OpTimer::OpTimer(DType dtype, std::size_t pool_bytes)
    : dtype_(dtype), pool_bytes_(pool_bytes), backend_(make_cpu_backend()) {
  context_.scalars = &scalars_;
  context_.seq_length = 128;
  params_.push_back({"flat", 0, 0, 0, 1, 0, 1, -1, true, true, Param::Init::normal, 0});
}

void OpTimer::prepare(const Op& op) {
  scalars_ = {};
  scalars_.learning_rate = 1e-4;
  params_[0].rows = params_[0].full_rows = flat_elements(op);
  context_.params = params_;
  const auto sizes = operand_sizes(op, dtype_);
  std::int64_t most_ids = 0;
  for (const auto& o : sizes.inputs)
    if (o.dtype == DType::int32) most_ids = std::max(most_ids, o.elements);
  ids_.resize(static_cast<std::size_t>(most_ids));
  for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = id(i, vocabulary(op));
  lay_out(sizes);
}

void OpTimer::lay_out(const OperandSizes& sizes) {
  const auto in = total(sizes.inputs, [](const OperandSize& o) { return o.dtype != DType::int32; });
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
  for (const auto& o : sizes.inputs)
    call.inputs.push_back(o.dtype == DType::int32 ? reinterpret_cast<const std::byte*>(ids_.data())
                                                  : reading_.next(bytes_of(o)));
  for (const auto& o : sizes.outputs) {
    call.outputs.push_back(writing_.next(bytes_of(o)));
    if (o.same_as_input >= 0) call.inputs[static_cast<std::size_t>(o.same_as_input)] = call.outputs.back();
  }
  return call;
}

double OpTimer::time_group(const Op& op, int calls) {
  const double begin = thread_seconds();
  for (int i = 0; i < calls; ++i) {
    const auto& at = sets_[set_];
    set_ = set_ + 1 == sets_.size() ? 0 : set_ + 1;
    backend_->run(op, dtype_, at.inputs, at.outputs, context_);
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
