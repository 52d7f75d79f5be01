#pragma once
// Base classes that forward every call to another backend or queue. A subclass overrides the calls that it changes.

#include <memory>
#include <utility>

#include "exec/backend/backend.hpp"

namespace tandem::exec {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  bool asynchronous() const override { return inner_->asynchronous(); }
  bool needs_rows() const override { return inner_->needs_rows(); }
  Answer supports(const Op& op, const OperandTypes& types) const override { return inner_->supports(op, types); }
  std::unique_ptr<Memory> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }
  Memory& step_table() override { return inner_->step_table(); }
  Memory& documents(std::size_t bytes) override { return inner_->documents(bytes); }
  void load_pieces(std::span<const PieceRow> rows) override { inner_->load_pieces(rows); }
  void split_updates(std::span<const UpdateRows> updates) override { inner_->split_updates(updates); }
  Queue& queue(Stream stream) override { return inner_->queue(stream); }
  std::unique_ptr<Mark> make_mark() override { return inner_->make_mark(); }
  std::unique_ptr<Replay> capture(const std::function<void()>& issue) override { return inner_->capture(issue); }
  std::vector<std::string> notes() const override { return inner_->notes(); }
  BackendCounters counters() const override { return inner_->counters(); }

 protected:
  Backend& inner() { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

class ForwardingQueue : public Queue {
 public:
  explicit ForwardingQueue(Queue& inner) : inner_(inner) {}

  void prepare(const Launch& launch) override { inner_.prepare(launch); }
  void run(const Launch& launch) override { inner_.run(launch); }
  void upload(std::byte* to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { inner_.download(to, from); }
  void mark(Mark& mark) override { inner_.mark(mark); }
  void wait(const Mark& mark) override { inner_.wait(mark); }
  void finish() override { inner_.finish(); }

 protected:
  Queue& inner() { return inner_; }

 private:
  Queue& inner_;
};

}  // namespace tandem::exec
