#include "exec/process/world.hpp"

#include "exec/process/process_communicator.hpp"
#include "exec/process/watch.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {

World::World() : control_(nullptr), neighbours_{introduce_self()} {}

World::World(std::unique_ptr<Carrier> carrier, const WorldOptions& options)
    : carrier_(std::move(carrier)),
      control_(carrier_.get()),
      arrivals_(std::make_unique<Arrivals>()),
      mail_(std::make_unique<LocalMail>()) {
  introduce();
  const auto abort = [this](const std::string& cause) { wake(cause); };
  const auto stop = [this](const Failure& cause) {  // perhaps before watch_ is set
    const bool first = arrivals_->stop(cause, control_.processes() - 1);
    arrivals_->stopped_there();
    return first;
  };
  watch_ = std::make_unique<Watch>(*carrier_, *arrivals_, WatchOptions{options.timeout, neighbours_, abort, options.tell, stop});
}

World::~World() {
  if (watch_) leave(0);
}

void World::wake(const std::string& cause) {
  carrier_->abort(cause);
  arrivals_->abort(cause);
  mail_->abort(cause);
  const std::lock_guard lock(aborts_mutex_);
  for (const auto& abort : aborts_) abort(cause);
}

void World::at_abort(std::function<void(const std::string&)> abort) {
  const std::lock_guard lock(aborts_mutex_);
  aborts_.push_back(std::move(abort));
}

void World::introduce() {
  const Neighbour self = introduce_self();
  Packer all;
  for (const Bytestring& one : control_.gather(Packer().add(self.host).add(self.machine).add(self.pid).take())) {
    Unpacker from(one);
    const std::string host = from.get_text(), machine = from.get_text();
    all.add(host).add(machine).add(from.get<int>());
  }
  const Bytestring known = control_.broadcast(all.take());
  for (Unpacker from(known); !from.empty();) {
    Neighbour n;
    n.host = from.get_text(), n.machine = from.get_text(), n.pid = from.get<int>();
    neighbours_.push_back(std::move(n));
  }
}

void World::place(std::int64_t ranks) {
  places_.emplace(ranks, control_.processes());
  require(static_cast<std::int64_t>(here().size()) <= kMostRanksHere, "more ranks of one process than messages can name");
  if (watch_) watch_->place(*places_);
}

std::vector<std::unique_ptr<Communicator>> World::make_communicators() {
  if (!several()) return make_thread_communicators(static_cast<int>(places_->ranks()));
  return make_process_communicators({*carrier_, clock_, *arrivals_, *mail_, *places_});
}

void World::lost(int peer) {
  if (watch_) watch_->lost(peer);
}

void World::align() {
  std::vector<bool> same;
  for (const Neighbour& n : neighbours_) same.push_back(n.machine == neighbours_.front().machine);
  if (several()) control_.align(clock_, same);
}

Failure World::fail(const Failure& failure) { return watch_ ? watch_->fail(failure) : failure; }

void World::stop_step(const Failure& cause) {
  if (arrivals_->stop(cause, control_.processes() - 1)) watch_->stop(cause);
}

bool World::step_stopped() const { return arrivals_ && arrivals_->stopping(); }

Failure World::stop_cause() const { return arrivals_->await_stop(); }

std::optional<Failure> World::verdict() const { return watch_ ? watch_->verdict() : std::nullopt; }

int World::leave(int exit_code) {
  if (!watch_) return exit_code;
  const int code = watch_->leave(exit_code);
  watch_.reset();
  carrier_->close();
  return code;
}

}  // namespace tandem::exec
