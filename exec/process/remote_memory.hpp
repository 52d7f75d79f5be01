#pragma once
// Lets process 0 read the memory of ranks in other processes.

#include <map>
#include <vector>

#include "exec/backend/memory.hpp"
#include "exec/process/control.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec {

/// A rank's arena in another process, which must run serve_memory() meanwhile. Only read() works.
class RemoteMemory final : public Memory {
 public:
  RemoteMemory(Control& control, int process, Rank rank, std::size_t size)
      : control_(control), process_(process), rank_(rank), size_(size) {}
  std::byte* address() override { return nullptr; }
  std::size_t size() const override { return size_; }
  void read(std::size_t at, std::span<std::byte> to) const override;
  void write(std::size_t at, std::span<const std::byte> from) override;
  void fill(std::size_t at, std::size_t bytes, std::byte value) override;

 private:
  Control& control_;
  int process_;
  Rank rank_;
  std::size_t size_;
};

/// For every process but 0: answers process 0's reads until it calls end_serving(). `arenas`: this process' arenas, by rank.
void serve_memory(Control& control, const std::map<Rank, const Memory*>& arenas);
/// For process 0: ends serve_memory() in all other processes.
void end_serving(Control& control);

}  // namespace tandem::exec
