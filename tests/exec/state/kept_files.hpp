#pragma once
// Checkpoints that tests write.

#include <exception>
#include <string>
#include <utility>

#include "exec/checkpoint/file_keeper.hpp"

namespace tandem::exec::test {

/// Keeps every state, and throws what one could not be written for.
inline KeeperOptions always(std::string path, SavedRun run, std::int64_t keep = 100) {
  return {std::move(path), std::move(run), keep, [] { return true; }, [](std::int64_t) {},
          [](std::exception_ptr error) { std::rethrow_exception(error); }, [](const std::string&) {}};
}

}  // namespace tandem::exec::test
