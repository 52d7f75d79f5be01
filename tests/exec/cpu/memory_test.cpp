// Memory of the CPU backend: its alignment, its books, its bounds.
#include <cstddef>
#include <cstdint>

#include "exec/backend/memory_text.hpp"
#include "exec/cpu/backend.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

namespace tandem::exec {

TEST_CASE("memory is aligned and its live and peak bytes are counted") {
  const auto backend = make_cpu_backend();
  auto a = backend->allocate(1000);
  {
    const auto b = backend->allocate(77);
    CHECK(reinterpret_cast<std::uintptr_t>(b->address()) % kArenaAlignment == 0);
    CHECK(b->size() == 77);
    CHECK(backend->counters().allocated_bytes == 1077);
  }
  CHECK(backend->counters().allocated_bytes == 1000);
  a = backend->allocate(50);  // both live for a moment
  CHECK(backend->counters().allocated_bytes == 50);
  CHECK(backend->counters().peak_bytes == 1077);
}

TEST_CASE("memory may outlive its backend") {
  auto backend = make_cpu_backend();
  const auto memory = backend->allocate(16);
  backend.reset();
  write_value(*memory, 15, std::byte{7});
  CHECK(read_value<std::byte>(*memory, 15) == std::byte{7});
  memory->fill(4, 12, std::byte{9});
  CHECK(read_value<std::uint32_t>(*memory, 12) == 0x09090909);
}

TEST_CASE("bytes outside a memory are a broken promise") {
  const auto memory = make_cpu_backend()->allocate(16);
  CHECK_THROWS_AS(read_value<std::uint64_t>(*memory, 9), ContractError);
  CHECK_THROWS_AS(write_value(*memory, 16, std::byte{1}), ContractError);
  CHECK_THROWS_AS(memory->fill(1, 16, std::byte{1}), ContractError);
  CHECK_NOTHROW(memory->fill(16, 0, std::byte{1}));
}

// Sanitizers end the program on such a request instead of returning null.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TANDEM_SANITIZED_ALLOCATOR
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TANDEM_SANITIZED_ALLOCATOR
#endif
#ifndef TANDEM_SANITIZED_ALLOCATOR
TEST_CASE("more memory than there is gives an error that says how much was wanted") {
  const auto backend = make_cpu_backend();
  CHECK_THROWS_WITH(backend->allocate(std::size_t{1} << 60), "the host has no 1024.0 PiB of memory left");
  CHECK(backend->counters().allocated_bytes == 0);
}
#endif

TEST_CASE("a device without enough memory says how much was wanted and how much is free") {
  CHECK(no_device_memory(std::size_t{85} << 30, std::size_t{12} << 30, (std::size_t{79} << 30) + (std::size_t{100} << 20)) ==
        "the device has no 85.0 GiB of memory left: 12.0 GiB of 79.1 GiB are free; tandem simulate says what the plan needs");
}

}  // namespace tandem::exec
