#pragma once
// The CPU backends. Their memory is host memory.

#include "exec/backend/backend.hpp"

namespace tandem::exec {

/// "cpu": synchronous, runs on the issuing thread with `threads` threads. Results do not depend on their number.
std::unique_ptr<Backend> make_cpu_backend(std::int64_t threads = 1);
/// As above, but shares even the smallest loops between threads (for tests).
std::unique_ptr<Backend> make_eager_cpu_backend(std::int64_t threads);

/// Delays for tests: for a stream, what its queue calls around every operation; for Stream::host, what the host calls after waits.
using Disturbance = std::function<std::function<void()>(Stream)>;

/// "NAME-async": the kernels of `inner` behind queues with a thread each. Streams overlap and only marks order them, as on a
/// device. `inner` must be synchronous and allow one thread per queue. `disturbance` may be empty.
std::unique_ptr<Backend> make_async_backend(std::unique_ptr<Backend> inner, Disturbance disturbance = {});

/// "cpu-async". One stream at a time computes with all threads; other streams then use only their own.
std::unique_ptr<Backend> make_async_cpu_backend(std::int64_t threads = 1);

}  // namespace tandem::exec
