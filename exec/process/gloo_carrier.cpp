#include "exec/process/gloo_carrier.hpp"

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "exec/process/tcp_gathering.hpp"

namespace tandem::exec {
namespace {

constexpr auto kForever = std::chrono::milliseconds(std::chrono::hours(24 * 365));  // no timeout of its own: the watch ends waits

using Buffer = gloo::transport::UnboundBuffer;

/// The messages in transit, so that abort() can wake them.
class Open {
 public:
  void add(Buffer& b) {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) throw CommError(cause_);
    buffers_.insert(&b);
  }
  void remove(Buffer& b) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(&b);
  }
  void abort(const std::string& cause) {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = cause;
    for (Buffer* b : buffers_) b->abortWaitRecv(), b->abortWaitSend();
  }
  std::string cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  mutable std::mutex mutex_;
  std::string cause_;
  std::set<Buffer*> buffers_;
};

class GlooTransfer final : public Transfer {
 public:
  struct End { int peer; Tag tag; bool sends; };

  GlooTransfer(Open& open, std::unique_ptr<Buffer> buffer, const End& end) : open_(open), buffer_(std::move(buffer)), end_(end) {
    open_.add(*buffer_);
    try {
      end.sends ? buffer_->send(end.peer, end.tag) : buffer_->recv(end.peer, end.tag);
    } catch (const gloo::Exception& e) {
      open_.remove(*buffer_);
      fail(e.what());
    }
  }
  ~GlooTransfer() override { open_.remove(*buffer_); }

  void wait() override {
    bool done = false;
    try {
      done = end_.sends ? buffer_->waitSend(kForever) : buffer_->waitRecv(kForever);
    } catch (const gloo::Exception& e) {
      fail(e.what());
    }
    if (!done) throw CommError(open_.cause());
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    if (const std::string cause = open_.cause(); !cause.empty()) throw CommError(cause);
    throw PeerLost(end_.peer, what);
  }

  Open& open_;
  const std::unique_ptr<Buffer> buffer_;
  const End end_;
};

class GlooCarrier final : public Carrier {
 public:
  GlooCarrier(const LaunchSpec& spec, JoinOptions options) : process_(spec.process), processes_(spec.processes) {
    const auto timeout = options.timeout;
    TcpGathering meeting(spec, std::move(options));
    gloo::transport::tcp::attr place;
    place.hostname = meeting.own_address();
    if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) place.hostname.clear(), place.iface = interface;
    device_ = gloo::transport::tcp::CreateDevice(place);
    context_ = device_->createContext(process_, processes_);
    context_->setTimeout(timeout);
    connect(meeting);
  }

  int process() const override { return process_; }
  int processes() const override { return processes_; }

  std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    // Gloo does not write to send buffers, but its buffer type takes no const pointer.
    return post(const_cast<std::byte*>(bytes.data()), bytes.size(), {to, tag, true});
  }
  std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    return post(bytes.data(), bytes.size(), {from, tag, false});
  }
  void abort(const std::string& cause) override { open_.abort(cause); }
  void close() override { context_.reset(); }

 private:
  /// Each pair of processes has its own address at either end.
  void connect(TcpGathering& meeting) {
    Packer mine;
    for (int p = 0; p < processes_; ++p) mine.add(p == process_ ? std::vector<char>() : context_->createPair(p)->address().bytes());
    const auto all = meeting.exchange(mine.take());
    for (int p = 0; p < processes_; ++p) {
      if (p == process_) continue;
      Unpacker theirs(all[static_cast<std::size_t>(p)]);
      std::vector<char> address;
      for (int q = 0; q <= process_; ++q) address = theirs.get_vector<char>();
      context_->getPair(p)->connect(address);
    }
  }

  std::unique_ptr<Transfer> post(std::byte* at, std::size_t bytes, const GlooTransfer::End& end) {
    return std::make_unique<GlooTransfer>(open_, context_->createUnboundBuffer(at, bytes), end);
  }

  const int process_, processes_;
  Open open_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
};

}  // namespace

std::unique_ptr<Carrier> make_gloo_carrier(const LaunchSpec& spec, JoinOptions options) {
  try {
    return std::make_unique<GlooCarrier>(spec, std::move(options));
  } catch (const gloo::Exception& e) {
    throw CommError("processes cannot connect at " + spec.address + ": " + e.what());
  }
}

}  // namespace tandem::exec
