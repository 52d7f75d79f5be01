#include "exec/process/mpi_carrier.hpp"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "models/base/threads.hpp"

namespace tandem::exec {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // largest MPI message in bytes; MPI's counts have 31 bits
constexpr int kEager = 200;                                // unsuccessful polls before the thread sleeps between polls
constexpr auto kLeastSleep = 50us, kMostSleep = 400us;
constexpr auto kStopTime = 1s;                             // a call of MPI returns within this time

/// A transfer that another thread asks the MPI thread to start.
struct TransferRequest {
  bool sends;
  int peer, tag;
  std::byte* at;
  int bytes;
  std::size_t transfer;
};

std::string text_of(int error) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(error, text, &length);
  return "MPI: " + std::string(text, static_cast<std::size_t>(length));
}

/// One thread makes all MPI calls. It polls for completed transfers, less often while none completes, to leave the cores to
/// computing ranks. Threads that wait for a transfer sleep.
class MpiEngine {
 public:
  MpiEngine() {
    thread_.start([this] { live(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ || !cause_.empty(); });
    if (!begun_) throw CommError(cause_);
  }
  ~MpiEngine() { abort("the carrier was left"); }

  int process() const { return process_; }
  int processes() const { return processes_; }

  std::size_t post(TransferRequest request, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    request.transfer = next_++;
    const std::size_t parts = std::max<std::size_t>(1, (bytes + kMostAtOnce - 1) / kMostAtOnce);
    open_.emplace_back(request.transfer, parts);
    for (std::size_t first = 0, i = 0; i < parts; ++i, first += kMostAtOnce) {
      request.bytes = static_cast<int>(std::min(kMostAtOnce, bytes - first));
      posted_.push_back(request);
      request.at += request.bytes;
    }
    work_.notify_one();
    return request.transfer;
  }

  void wait(std::size_t transfer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended(transfer) || !cause_.empty(); });
    if (ended(transfer)) return;
    changed_.wait_for(lock, kStopTime, [&] { return stopped_; });  // MPI may still write to the buffer that a woken thread frees
    throw CommError(cause_);
  }

  void abort(const std::string& cause) {
    const std::lock_guard lock(mutex_);
    if (cause_.empty()) cause_ = cause;
    work_.notify_one();
    changed_.notify_all();
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      work_.notify_one();
    }
    thread_.join();
  }

 private:
  bool ended(std::size_t transfer) const {
    return std::none_of(open_.begin(), open_.end(), [&](const auto& o) { return o.first == transfer; });
  }

  void live() {
    int level = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
      return abort("MPI cannot start with a thread of its own");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &process_);
    MPI_Comm_size(MPI_COMM_WORLD, &processes_);
    if (!tags_suffice()) return abort("this MPI has too few tags");
    {
      const std::lock_guard lock(mutex_);
      begun_ = true;
      changed_.notify_all();
    }
    serve();
    stop();
    if (cause_.empty()) MPI_Finalize();  // a call of all processes; skipped if one of them is gone
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  static bool tags_suffice() {
    int* most = nullptr;
    int known = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
    return known != 0 && *most >= static_cast<int>(kMostTag);
  }

  /// Runs until the carrier is closed and no transfer is left, or until it is aborted.
  void serve() {
    auto sleep = kLeastSleep;
    for (int fruitless = 0; take_requests(sleep, fruitless >= kEager);) {
      if (test()) fruitless = 0, sleep = kLeastSleep;
      else if (fruitless < kEager) ++fruitless;
      else sleep = std::min<std::chrono::microseconds>(sleep * 2, kMostSleep);
    }
  }

  bool take_requests(std::chrono::microseconds sleep, bool idle) {
    std::vector<TransferRequest> requests;
    {
      std::unique_lock lock(mutex_);
      const auto wanted = [&] { return !posted_.empty() || closing_ || !cause_.empty(); };
      if (requests_.empty()) work_.wait(lock, wanted);
      else if (idle) work_.wait_for(lock, sleep, wanted);
      if (!cause_.empty() || (closing_ && posted_.empty() && requests_.empty())) return false;
      requests.swap(posted_);
    }
    for (const TransferRequest& o : requests) issue(o);
    if (!idle && requests.empty()) std::this_thread::yield();
    return true;
  }

  void issue(const TransferRequest& o) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int error = o.sends ? MPI_Isend(o.at, o.bytes, MPI_BYTE, o.peer, o.tag, MPI_COMM_WORLD, &request)
                              : MPI_Irecv(o.at, o.bytes, MPI_BYTE, o.peer, o.tag, MPI_COMM_WORLD, &request);
    if (error != MPI_SUCCESS) return abort(text_of(error));
    requests_.push_back(request);
    transfers_.push_back(o.transfer);
  }

  /// Returns true if any transfer has completed.
  bool test() {
    if (requests_.empty()) return false;
    int count = 0;
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    const int error = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), statuses_.data());
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return abort(text_of(error)), true;
    if (count == MPI_UNDEFINED || count == 0) return false;
    for (int i = 0; error == MPI_ERR_IN_STATUS && i < count; ++i)
      if (const int own = statuses_[static_cast<std::size_t>(i)].MPI_ERROR; own != MPI_SUCCESS) return abort(text_of(own)), true;
    finish(std::span(indices_).first(static_cast<std::size_t>(count)));
    return true;
  }

  void finish(std::span<int> done) {
    {
      const std::lock_guard lock(mutex_);
      for (const int i : done) end_part(transfers_[static_cast<std::size_t>(i)]);
      changed_.notify_all();
    }
    std::sort(done.begin(), done.end());
    for (auto i = done.rbegin(); i != done.rend(); ++i) {
      requests_.erase(requests_.begin() + *i);
      transfers_.erase(transfers_.begin() + *i);
    }
  }

  void end_part(std::size_t transfer) {
    const auto at = std::find_if(open_.begin(), open_.end(), [&](const auto& o) { return o.first == transfer; });
    if (--at->second == 0) open_.erase(at);
  }

  std::mutex mutex_;
  std::condition_variable work_, changed_;
  std::vector<TransferRequest> posted_;
  std::vector<std::pair<std::size_t, std::size_t>> open_;  ///< unfinished transfers and their number of unfinished parts
  std::size_t next_ = 0;
  std::string cause_;                                      ///< cause of the abort
  bool begun_ = false, closing_ = false, stopped_ = false;
  int process_ = 0, processes_ = 1;
  std::vector<MPI_Request> requests_;                      ///< from here on: used only by the MPI thread
  std::vector<std::size_t> transfers_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  ThreadGroup thread_;                                     ///< last: it uses all of the above
};

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(MpiEngine& engine, std::size_t number) : engine_(engine), number_(number) {}
  void wait() override { engine_.wait(number_); }

 private:
  MpiEngine& engine_;
  const std::size_t number_;
};

class MpiCarrier final : public Carrier {
 public:
  int process() const override { return engine_.process(); }
  int processes() const override { return engine_.processes(); }

  std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    // MPI does not write to send buffers; one pointer type serves both directions.
    return post({true, to, static_cast<int>(tag), const_cast<std::byte*>(bytes.data()), 0, 0}, bytes.size());
  }
  std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    return post({false, from, static_cast<int>(tag), bytes.data(), 0, 0}, bytes.size());
  }
  void abort(const std::string& cause) override { engine_.abort(cause); }
  void close() override { engine_.close(); }

 private:
  std::unique_ptr<Transfer> post(const TransferRequest& request, std::size_t bytes) {
    return std::make_unique<MpiTransfer>(engine_, engine_.post(request, bytes));
  }

  MpiEngine engine_;
};

}  // namespace

std::unique_ptr<Carrier> make_mpi_carrier() { return std::make_unique<MpiCarrier>(); }

}  // namespace tandem::exec
