#include "tests/emulated/delegating_backend.hpp"

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/cpu/backend.hpp"

namespace tandem::tests {
namespace {

/// Calls of the whole program.
class Tally {
 public:
  ~Tally() {
    std::fprintf(stderr, "backend under test: %lld operations done, %lld by the CPU instead", static_cast<long long>(done_.load()),
                 static_cast<long long>(delegated_.load()));
    for (const auto& [kind, n] : kinds_) std::fprintf(stderr, ", %s %lld", kind.c_str(), static_cast<long long>(n));
    std::fprintf(stderr, "\n");
  }
  void done() { ++done_; }
  void delegated(const Op& op) {
    ++delegated_;
    std::lock_guard lock(mutex_);
    ++kinds_[std::string(kind_name(op))];
  }

 private:
  std::atomic<std::int64_t> done_ = 0, delegated_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::int64_t> kinds_;
};

Tally& tally() {
  static Tally all;
  return all;
}

class DelegatingQueue final : public exec::ForwardingQueue {
 public:
  DelegatingQueue(exec::Backend& inner, exec::Backend& cpu, Stream stream)
      : ForwardingQueue(inner.queue(stream)), inner_(inner), cpu_(cpu), stream_(stream) {}

  void run(const exec::Launch& launch) override {
    if (can(launch)) {
      tally().done();
      return inner().run(launch);
    }
    if (!cpu_.supports(launch.op, {launch.compute, {}, {}}).possible) return inner().run(launch);  // which refuses it
    tally().delegated(launch.op);
    delegate(launch);
  }

 private:
  bool can(const exec::Launch& launch) const {
    std::vector<DType> in, out;
    for (const exec::Tensor& t : launch.in) in.push_back(t.dtype);
    for (const exec::Tensor& t : launch.out) out.push_back(t.dtype);
    return inner_.supports(launch.op, {launch.compute, in, out}).possible;
  }
  static std::size_t bytes(const exec::Tensor& t) { return static_cast<std::size_t>(bytes_of(t.dtype, t.elements).count()); }

  void delegate(const exec::Launch& launch) {
    std::map<std::byte*, std::vector<std::byte>> host;  // operands at one address are one
    const auto here = [&](std::span<const exec::Tensor> tensors) {
      for (const exec::Tensor& t : tensors)
        if (auto& scratch = host[t.address]; scratch.size() < bytes(t)) scratch.resize(bytes(t));
    };
    here(launch.in), here(launch.out);
    for (auto& [address, scratch] : host) inner().download(scratch, address);
    inner().finish();
    const auto moved = [&](std::span<const exec::Tensor> tensors) {
      std::vector<exec::Tensor> all(tensors.begin(), tensors.end());
      for (exec::Tensor& t : all) t.address = host[t.address].data();
      return all;
    };
    const auto in = moved(launch.in), out = moved(launch.out);
    exec::KernelContext context = launch.context;
    if (context.table != nullptr) {
      write_value(cpu_.step_table(), 0, read_value<exec::StepTable>(inner_.step_table(), 0));
      context.table = table_address(cpu_);
    }
    cpu_.queue(stream_).run({launch.op, launch.compute, in, out, context});
    if (context.table != nullptr) write_value(inner_.step_table(), 0, read_value<exec::StepTable>(cpu_.step_table(), 0));
    for (const exec::Tensor& t : launch.out) inner().upload(t.address, std::span(host[t.address]).first(bytes(t)));
    inner().finish();
  }

  exec::Backend &inner_, &cpu_;
  Stream stream_;
};

class DelegatingBackend final : public exec::ForwardingBackend {
 public:
  explicit DelegatingBackend(std::unique_ptr<exec::Backend> inner) : ForwardingBackend(std::move(inner)) {
    for (std::size_t s = 0; s < kStreams; ++s)
      queues_.push_back(std::make_unique<DelegatingQueue>(ForwardingBackend::inner(), *cpu_, static_cast<Stream>(s)));
  }
  exec::Answer supports(const Op& op, const exec::OperandTypes& types) const override {
    const exec::Answer answer = ForwardingBackend::supports(op, types);
    return answer.possible || !cpu_->supports(op, types).possible ? answer : exec::Answer{};
  }
  void load_pieces(std::span<const exec::PieceRow> rows) override {
    cpu_->load_pieces(rows);
    ForwardingBackend::load_pieces(rows);
  }
  void split_updates(std::span<const exec::UpdateRows> updates) override {
    cpu_->split_updates(updates);
    ForwardingBackend::split_updates(updates);
  }
  exec::Queue& queue(Stream stream) override { return *queues_[static_cast<std::size_t>(stream)]; }
  exec::BackendCounters counters() const override {
    exec::BackendCounters all = ForwardingBackend::counters();
    all.gemm_flops += cpu_->counters().gemm_flops;
    return all;
  }

 private:
  std::unique_ptr<exec::Backend> cpu_ = exec::make_cpu_backend();
  std::vector<std::unique_ptr<DelegatingQueue>> queues_;
};

}  // namespace

std::unique_ptr<exec::Backend> delegate_missing(std::unique_ptr<exec::Backend> inner) {
  return std::make_unique<DelegatingBackend>(std::move(inner));
}

}  // namespace tandem::tests
