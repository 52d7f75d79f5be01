#pragma once
// A rank's states when some of them are offloaded to host memory.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/backend/memory.hpp"
#include "exec/backend/update_rows.hpp"
#include "models/graph/host_arena.hpp"

namespace tandem::exec {

/// An address space for states: each offloaded buffer seems to lie whole after the arena. So readers need not know about units.
class StateLayout {
 public:
  struct Part {
    std::int64_t at, bytes;  ///< position in this address space
    bool host;               ///< in the host arena; else in the device arena
    std::int64_t offset;     ///< position in that arena
  };
  StateLayout(const Program& program, HostArena host, std::int64_t arena_bytes);

  const HostArena& host() const { return host_; }
  std::int64_t bytes() const { return end_; }
  /// Where a buffer begins in this address space; -1 if it is not offloaded.
  std::int64_t offset(std::string_view buffer) const;
  /// In ascending order; the device arena comes first.
  const std::vector<Part>& parts() const { return parts_; }
  std::vector<std::string> buffers() const;
  /// The piece rows of each update, split from the rows of all pieces.
  std::vector<UpdateRows> updates(const Program& program, std::span<const PieceRow> rows) const;

 private:
  struct Buffer { std::string name; std::int64_t offset; };

  void add_buffer(const Program& program, const HostTensor& like);

  HostArena host_;
  std::vector<Buffer> buffers_;
  std::vector<Part> parts_;
  std::int64_t end_;
};

/// Access to a StateLayout's bytes on device and host. address() is the device arena's.
class StateMemory final : public Memory {
 public:
  StateMemory(std::shared_ptr<const StateLayout> layout, std::shared_ptr<Memory> device, std::shared_ptr<Memory> host)
      : layout_(std::move(layout)), device_(std::move(device)), host_(std::move(host)) {}

  const StateLayout& layout() const { return *layout_; }
  Memory& host() const { return *host_; }
  std::byte* address() override { return device_->address(); }
  std::size_t size() const override { return static_cast<std::size_t>(layout_->bytes()); }
  void read(std::size_t at, std::span<std::byte> to) const override;
  void write(std::size_t at, std::span<const std::byte> from) override;
  void fill(std::size_t at, std::size_t bytes, std::byte value) override;

 private:
  template <class F>
  void each(std::size_t at, std::size_t bytes, F f) const;

  std::shared_ptr<const StateLayout> layout_;
  std::shared_ptr<Memory> device_, host_;
};

}  // namespace tandem::exec
