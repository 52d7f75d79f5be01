#pragma once
// The backends of this machine's processors. Their memory is the host's.

#include "exec/backend/backend.hpp"

namespace tandem::exec {

/// "cpu": performs on the thread that issues, with `threads` in all. Their number changes no bit of a result.
std::unique_ptr<Backend> make_cpu_backend(std::int64_t threads = 1);
/// The same that shares every loop, however small (tests).
std::unique_ptr<Backend> make_eager_cpu_backend(std::int64_t threads);

/// What a stream's queue calls around every operation; of Stream::host, the host behind waits, a thread at a time. May be empty.
using Disturbance = std::function<std::function<void()>(Stream)>;

/// "NAME-async": the kernels of `inner`, which must be synchronous and let its queues be used by a thread each, behind queues that
/// have a thread each. Streams overlap, and nothing orders them but marks, as on a device. `disturbance` may be empty.
std::unique_ptr<Backend> make_async_backend(std::unique_ptr<Backend> inner, Disturbance disturbance = {});

/// "cpu-async". One stream at a time computes with all threads, others meanwhile with their own.
std::unique_ptr<Backend> make_async_cpu_backend(std::int64_t threads = 1);

}  // namespace tandem::exec
