// NCCL for tests: communicators between threads of one process, on the host's memory in the order of streams. Calls that ranks make
// in different orders, or with different sizes, become an error of the communicator, where NCCL would hang or move wrong bytes.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/device/typed.hpp"
#include "tests/hostcuda/runtime/issue.hpp"
#include "tests/hostcuda/runtime/point.hpp"

namespace {

using namespace tandem;
using hostcuda::Point;

enum class What { all_reduce, reduce_scatter, all_gather, broadcast };

/// A collective as one rank calls it; `elements`: of the larger buffer.
struct Collective {
  What what;
  ncclDataType_t type;
  ncclRedOp_t op;
  std::size_t elements;
  int root;
  const std::byte* in;
  std::byte* out;

  bool matches(const Collective& o) const {
    return what == o.what && type == o.type && op == o.op && elements == o.elements && root == o.root;
  }
};

struct Message {
  int peer;
  std::byte* data;
  std::size_t bytes;
  bool sends;
};

std::size_t bytes_of(ncclDataType_t t) {
  switch (t) {
    case ncclUint8: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclFloat32: case ncclInt32: return 4;
    case ncclFloat64: case ncclInt64: return 8;
    default: throw std::logic_error("an element type that Tandem does not use");
  }
}

template <class T, class Read, class Write>
void reduce(const std::vector<Collective>& all, std::byte* out, Read read, Write write) {
  const auto n = all.size();
  for (std::size_t i = 0; i < all[0].elements; ++i) {
    T sum = read(all[i % n].in, i);  // each element begins at another rank, as parts of a ring do
    for (std::size_t j = 1; j < n; ++j) {
      const T next = read(all[(i + j) % n].in, i);
      sum = all[0].op == ncclMax ? std::max(sum, next) : sum + next;
    }
    write(out, i, sum);
  }
}

template <class T>
void reduce_as(const std::vector<Collective>& all, std::byte* out) {
  reduce<T>(all, out, [](const std::byte* p, std::size_t i) { return reinterpret_cast<const T*>(p)[i]; },
            [](std::byte* p, std::size_t i, T v) { reinterpret_cast<T*>(p)[i] = v; });
}

void reduce_narrow(const std::vector<Collective>& all, std::byte* out, DType type) {
  reduce<float>(all, out,
                [=](const std::byte* p, std::size_t i) {
                  return exec::device::load<float>({const_cast<std::byte*>(p), type}, static_cast<std::int64_t>(i));
                },
                [=](std::byte* p, std::size_t i, float v) { exec::device::store({p, type}, static_cast<std::int64_t>(i), v); });
}

std::vector<std::byte> reduced(const std::vector<Collective>& all) {
  std::vector<std::byte> out(all[0].elements * bytes_of(all[0].type));
  switch (all[0].type) {
    case ncclFloat64: reduce_as<double>(all, out.data()); break;
    case ncclFloat32: reduce_as<float>(all, out.data()); break;
    case ncclInt32: reduce_as<std::int32_t>(all, out.data()); break;
    case ncclInt64: reduce_as<std::int64_t>(all, out.data()); break;
    case ncclBfloat16: reduce_narrow(all, out.data(), DType::bf16); break;
    case ncclFloat16: reduce_narrow(all, out.data(), DType::fp16); break;
    default: throw std::logic_error("NCCL adds up no elements of this type");
  }
  return out;
}

/// What all ranks' outputs become; inputs may be outputs.
void complete(const std::vector<Collective>& all) {
  const Collective& c = all[0];
  const std::size_t bytes = c.elements * bytes_of(c.type), n = all.size(), part = bytes / n;
  std::vector<std::byte> whole(bytes);
  if (c.what == What::all_reduce || c.what == What::reduce_scatter) whole = reduced(all);
  if (c.what == What::broadcast) std::memcpy(whole.data(), all[static_cast<std::size_t>(c.root)].in, bytes);
  if (c.what == What::all_gather)
    for (std::size_t r = 0; r < n; ++r) std::memcpy(whole.data() + r * part, all[r].in, part);
  for (std::size_t r = 0; r < n; ++r) {
    if (c.what == What::reduce_scatter) std::memcpy(all[r].out, whole.data() + r * part, part);
    else std::memcpy(all[r].out, whole.data(), bytes);
  }
}

/// Ranks that have come to one collective.
struct PendingCollective {
  std::vector<std::optional<Collective>> of;
  std::size_t arrived = 0, left = 0;
  bool done = false;
};

struct Sent {
  const std::byte* data;
  std::size_t bytes;
  bool taken = false;
};

struct Split {
  int color, key, rank;
  ncclComm_t child;
};

/// What the ranks of a communicator share.
struct SharedState {
  explicit SharedState(int n) : ranks(n), joined(0) {}
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  int joined;
  std::map<std::uint64_t, PendingCollective> pending;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Sent>>> sent;
  std::map<std::uint64_t, std::vector<Split>> splits;
  bool broken = false;  ///< ranks' calls do not go together
};

/// A rank of a communicator.
struct Member {
  std::shared_ptr<SharedState> shared;
  int rank = 0;
  std::atomic<bool> aborted = false;
};

}  // namespace

struct ncclComm {
  std::shared_ptr<Member> member = std::make_shared<Member>();
  std::uint64_t collectives = 0, splits = 0;
  std::shared_ptr<Point> last;  ///< calls of one communicator are performed one after the other, on whichever stream
  bool splitting = false;
  std::uint64_t split = 0;
  int unready = 0;  ///< questions for its state that are answered "in progress"
};

namespace {

struct Registry {
  std::mutex mutex;
  std::set<ncclComm_t> live;
  std::map<std::uint64_t, std::shared_ptr<SharedState>> by_id;  ///< until all ranks have joined
};
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

struct Deferred {
  ncclComm_t comm;
  cudaStream_t stream;
  std::optional<Collective> collective;
  std::optional<Message> message;
};

thread_local int group_depth = 0;
thread_local std::vector<Deferred> group_calls;

bool live(ncclComm_t comm) {
  const std::lock_guard lock(registry().mutex);
  return registry().live.contains(comm);
}

/// Waits for other ranks; false after an abort of this rank, or if ranks' calls do not go together.
template <class F>
bool await(Member& member, std::unique_lock<std::mutex>& lock, F ready) {
  member.shared->changed.wait(lock, [&] { return member.aborted || member.shared->broken || ready(); });
  return !member.aborted && !member.shared->broken;
}

void break_up(SharedState& shared) {
  shared.broken = true;
  shared.changed.notify_all();
}

void meet(Member& member, std::uint64_t number, const Collective& mine) {
  SharedState& shared = *member.shared;
  std::unique_lock lock(shared.mutex);
  if (member.aborted || shared.broken) return;
  PendingCollective& m = shared.pending[number];
  m.of.resize(static_cast<std::size_t>(shared.ranks));
  for (const auto& other : m.of)
    if (other && !other->matches(mine)) return break_up(shared);
  m.of[static_cast<std::size_t>(member.rank)] = mine;
  if (++m.arrived == m.of.size()) {
    std::vector<Collective> all;
    for (const auto& c : m.of) all.push_back(*c);
    complete(all);
    m.done = true;
    shared.changed.notify_all();
  }
  if (!await(member, lock, [&] { return m.done; })) {
    if (!m.done) m.of[static_cast<std::size_t>(member.rank)].reset(), --m.arrived;
    return;
  }
  if (++m.left == m.of.size()) shared.pending.erase(number);
}

void exchange(Member& member, const std::vector<Message>& messages) {
  SharedState& shared = *member.shared;
  std::unique_lock lock(shared.mutex);
  if (member.aborted || shared.broken) return;
  std::vector<std::shared_ptr<Sent>> mine;
  for (const Message& m : messages) {
    if (!m.sends) continue;
    mine.push_back(std::make_shared<Sent>(Sent{m.data, m.bytes}));
    shared.sent[{member.rank, m.peer}].push_back(mine.back());
  }
  shared.changed.notify_all();
  for (const Message& m : messages) {
    if (m.sends) continue;
    auto& queue = shared.sent[{m.peer, member.rank}];
    if (!await(member, lock, [&] { return !queue.empty(); })) break;
    if (queue.front()->bytes != m.bytes) return break_up(shared);
    std::memcpy(m.data, queue.front()->data, m.bytes);
    queue.front()->taken = true;
    queue.pop_front();
    shared.changed.notify_all();
  }
  const auto all_taken = [&] { return std::all_of(mine.begin(), mine.end(), [](const auto& s) { return s->taken; }); };
  const bool gone = await(member, lock, all_taken);
  if (gone) return;
  for (auto& [queue, waiting] : shared.sent)  // memory of a rank that gives up may be freed
    std::erase_if(waiting, [&](const auto& s) { return std::find(mine.begin(), mine.end(), s) != mine.end(); });
}

/// Issues one communicator's calls of a group on one stream.
ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, std::vector<Collective> collectives, std::vector<Message> messages) {
  const std::uint64_t first = comm->collectives;
  comm->collectives += collectives.size();
  const auto before = comm->last, after = std::make_shared<Point>();
  comm->last = after;
  comm->unready = 1;
  const cudaError_t code = hostcuda::issue(stream, [=, member = comm->member] {
    struct Reach {
      Point& point;
      ~Reach() { point.reach(); }
    } reach{*after};
    if (before) before->wait();
    for (std::size_t i = 0; i < collectives.size(); ++i) meet(*member, first + i, collectives[i]);
    if (!messages.empty()) exchange(*member, messages);
  });
  return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t flush() {
  std::vector<Deferred> calls = std::move(group_calls);
  group_calls.clear();
  bool any = false;
  while (!calls.empty()) {
    const auto [comm, stream, c, m] = calls.front();
    std::vector<Collective> collectives;
    std::vector<Message> messages;
    std::erase_if(calls, [&, comm = comm, stream = stream](const Deferred& d) {
      if (d.comm != comm || d.stream != stream) return false;
      if (d.collective) collectives.push_back(*d.collective);
      if (d.message) messages.push_back(*d.message);
      return true;
    });
    if (const auto result = enqueue(comm, stream, collectives, messages); result != ncclSuccess) return result;
    any = true;
  }
  return any ? ncclInProgress : ncclSuccess;
}

ncclResult_t call(const Deferred& d) {
  if (!live(d.comm)) return ncclInvalidArgument;
  if (d.comm->unready > 0 || d.comm->splitting) return ncclInvalidUsage;  // its last call is still in progress
  group_calls.push_back(d);
  return group_depth > 0 ? ncclSuccess : flush();
}

bool placed(const void* data, std::size_t bytes) { return bytes == 0 || hostcuda::on_device(data, bytes); }

ncclResult_t collective(What what, const void* in, void* out, std::size_t elements, std::size_t in_part, std::size_t out_part,
                        ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  if (!live(comm)) return ncclInvalidArgument;
  const std::size_t bytes = elements * bytes_of(type);
  if (!placed(in, bytes / in_part) || !placed(out, bytes / out_part)) return ncclInvalidArgument;
  const Collective made{what, type, op, elements, root, static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  return call({comm, stream, made, std::nullopt});
}

ncclResult_t message(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream,
                     bool sends) {
  if (!live(comm) || peer < 0 || peer >= comm->member->shared->ranks) return ncclInvalidArgument;
  const std::size_t bytes = count * bytes_of(type);
  if (!placed(data, bytes)) return ncclInvalidArgument;
  return call({comm, stream, std::nullopt, Message{peer, static_cast<std::byte*>(data), bytes, sends}});
}

ncclComm_t made() {
  auto* comm = new ncclComm;
  const std::lock_guard lock(registry().mutex);
  registry().live.insert(comm);
  return comm;
}

/// Gives the communicators of a split their shared states, once all ranks have called it.
void divide(std::vector<Split>& all) {
  std::sort(all.begin(), all.end(), [](const Split& a, const Split& b) {
    return std::tuple(a.color, a.key, a.rank) < std::tuple(b.color, b.key, b.rank);
  });
  for (auto from = all.begin(); from != all.end();) {
    const auto to = std::find_if(from, all.end(), [&](const Split& s) { return s.color != from->color; });
    const auto shared = std::make_shared<SharedState>(static_cast<int>(to - from));
    shared->joined = shared->ranks;
    for (int rank = 0; from != to; ++from, ++rank) {
      if (from->child == nullptr) continue;
      from->child->member->shared = shared;
      from->child->member->rank = rank;
    }
  }
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (!live(comm) || comm->member->shared == nullptr) return "";
  const std::lock_guard lock(comm->member->shared->mutex);
  return comm->member->shared->broken ? "ranks of a communicator make different calls" : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<std::uint64_t> made_ids = 1;
  const std::uint64_t number = made_ids++;
  *id = {};
  std::memcpy(id, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0) return ncclInvalidUsage;  // Tandem must be able to end a wait
  std::uint64_t number = 0;
  std::memcpy(&number, &id, sizeof number);
  *comm = made();
  const std::lock_guard lock(registry().mutex);
  auto& shared = registry().by_id[number];
  if (!shared) shared = std::make_shared<SharedState>(ranks);
  const std::lock_guard inner(shared->mutex);
  (*comm)->member->shared = shared;
  (*comm)->member->rank = rank;
  (*comm)->unready = 1;
  if (++shared->joined == ranks) registry().by_id.erase(number);
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t whole, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (!live(whole) || config == nullptr || config->blocking != 0) return ncclInvalidUsage;
  if (whole->unready > 0 || whole->splitting || group_depth > 0) return ncclInvalidUsage;
  *part = color == NCCL_SPLIT_NOCOLOR ? nullptr : made();
  SharedState& shared = *whole->member->shared;
  const std::lock_guard lock(shared.mutex);
  whole->split = whole->splits++;
  whole->splitting = true;
  auto& all = shared.splits[whole->split];
  all.push_back({color, key, whole->member->rank, *part});
  if (std::ssize(all) == shared.ranks) divide(all);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!live(comm)) return ncclInvalidArgument;
  *state = ncclInProgress;
  SharedState* const shared = comm->member->shared.get();
  if (shared == nullptr || comm->unready-- > 0) return ncclSuccess;
  comm->unready = 0;
  const std::lock_guard lock(shared->mutex);
  if (shared->broken) return *state = ncclInvalidUsage, ncclSuccess;
  if (shared->joined < shared->ranks) return ncclSuccess;
  if (comm->splitting && std::ssize(shared->splits[comm->split]) < shared->ranks) return ncclSuccess;
  comm->splitting = false;
  *state = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::lock_guard lock(registry().mutex);
    if (registry().live.erase(comm) == 0) return ncclInvalidArgument;
  }
  if (const auto shared = comm->member->shared) {
    const std::lock_guard lock(shared->mutex);
    comm->member->aborted = true;
    for (auto& [number, all] : shared->splits)
      if (std::ssize(all) < shared->ranks) std::erase_if(all, [&](const Split& s) { return s.rank == comm->member->rank; });
    shared->changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ++group_depth, ncclSuccess; }

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  return --group_depth > 0 ? ncclSuccess : flush();
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(const_cast<void*>(data), count, type, peer, comm, stream, true);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(data, count, type, peer, comm, stream, false);
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(What::all_reduce, in, out, count, 1, 1, type, op, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t part, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  if (!live(comm)) return ncclInvalidArgument;
  const auto n = static_cast<std::size_t>(comm->member->shared->ranks);
  return collective(What::reduce_scatter, in, out, part * n, 1, n, type, op, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t part, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  if (!live(comm)) return ncclInvalidArgument;
  const auto n = static_cast<std::size_t>(comm->member->shared->ranks);
  return collective(What::all_gather, in, out, part * n, n, 1, type, ncclSum, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(What::broadcast, in, out, count, 1, 1, type, ncclSum, root, comm, stream);
}

}  // extern "C"
