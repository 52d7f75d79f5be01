#include "exec/process/watch.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "exec/communicator/call_text.hpp"
#include "exec/process/places.hpp"

namespace tandem::exec {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 100ms;        // interval between checks, and between signs of life
constexpr auto kPatience = 300ms;    // wait for the answer of a live process
constexpr auto kVerdictTime = 2s;    // wait for process 0's decision, and for the others to hear it
constexpr auto kSpeakTime = 500ms;   // lets process 0 end first, because launchers kill all processes when one ends

Bytestring packed(const Failure& f) {
  return Packer().add(f.kind).add(f.rank).add(f.step).add(f.during).add(f.process).add(f.reason).add(f.text).take();
}

Failure unpacked(const Bytestring& bytes) {
  Unpacker from(bytes);
  Failure f;
  f.kind = from.get<Failure::Kind>(), f.rank = from.get<std::int32_t>(), f.step = from.get<std::int64_t>();
  f.during = from.get<Activity>(), f.process = from.get<int>(), f.reason = from.get_text(), f.text = from.get_text();
  return f;
}

Failure broken(int process, const std::string& text) {
  Failure f;
  f.process = process;
  f.reason = f.text = text;
  return f;
}

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

Watch::Watch(Carrier& carrier, Arrivals& arrivals, WatchOptions options)
    : carrier_(carrier), arrivals_(arrivals), options_(std::move(options)), lines_(options_.processes.size()) {
  const std::lock_guard lock(mutex_);  // what a line hears waits until all lines exist
  for (int p = 0; p < carrier.processes(); ++p)
    if (p != carrier.process())
      lines_[static_cast<std::size_t>(p)] = std::make_unique<PeerLine>(carrier, p, events_of(p));
  ticker_.start([this] { tick(); });
}

LineEvents Watch::events_of(int process) {
  const auto hears = [this, process](const Frame& f, const Bytestring& body) { return heard(process, f, body); };
  return {hears, [this, process] { lost(process); }};
}

Watch::~Watch() { leave(0); }

void Watch::place(const Places& places) {
  const std::lock_guard lock(mutex_);
  places_ = places;
}

std::optional<Failure> Watch::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Watch::say(int to, Frame frame, const Bytestring& body) {
  if (const auto& line = lines_[static_cast<std::size_t>(to)]) line->say(frame, body);
}

// ---- failures ----

Failure Watch::fail(const Failure& f) {
  const int self = carrier_.process();
  if (self == 0) return decide(f);
  if (f.process != 0) {
    {
      const std::lock_guard lock(mutex_);
      reports_ = true;
    }
    say(0, Frame(Frame::Kind::report), packed(f));
    if (const auto decided = wait_for_verdict(kVerdictTime)) return *decided;
  }
  // Process 0 is gone. The lowest remaining process decides: each waits longer by its number, so it hears that verdict first.
  if (const auto decided = wait_for_verdict(2 * kTick * self)) return *decided;
  return decide(f);
}

void Watch::stop(const Failure& cause) {
  for (int p = 0; p < carrier_.processes(); ++p) say(p, Frame(Frame::Kind::stop), packed(cause));
}

std::optional<Failure> Watch::wait_for_verdict(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return verdict_.has_value(); });
  if (verdict_) changed_.wait(lock, [&] { return awake_; });
  return verdict_;
}

/// `reporter`: the process on whose line this is called, or -1. Its reply cannot be heard meanwhile, but it waits for the verdict.
Failure Watch::decide(const Failure& f, int reporter) {
  {
    std::unique_lock lock(mutex_);
    if (verdict_) {
      if (reporter >= 0) informed_.insert(reporter), changed_.notify_all();
      changed_.wait(lock, [&] { return awake_; });
      return *verdict_;
    }
    verdict_ = f;
    decided_ = true;
    changed_.notify_all();
  }
  for (int p = 0; p < carrier_.processes(); ++p) say(p, Frame(Frame::Kind::verdict), packed(f));
  if (options_.tell) options_.tell(f.text);
  await_heard(f.process, reporter);
  wake(f.text);
  return f;
}

/// A process that has not heard the verdict before this one ends would report this one as dead.
void Watch::await_heard(int failed, int reporter) {
  const auto end = Clock::now() + kVerdictTime;
  {
    std::unique_lock lock(mutex_);
    informed_.insert({carrier_.process(), failed, reporter});
    changed_.wait_until(lock, end, [&] {
      for (int p = 0; p < carrier_.processes(); ++p)
        if (!informed_.contains(p) && !gone_.contains(p) && !left_.contains(p)) return false;
      return true;
    });
  }
  for (int p = 0; p < carrier_.processes(); ++p)  // reporters have not replied
    if (const auto& line = lines_[static_cast<std::size_t>(p)]; line && p != failed) line->flush_until(end);
}

void Watch::adopt(const Failure& f, int from) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    informed_.insert(from);
    first = !verdict_;
    if (first) verdict_ = f;
    changed_.notify_all();
    if (decided_) return;
  }
  say(from, Frame(Frame::Kind::heard));
  lines_[static_cast<std::size_t>(from)]->flush_until(Clock::now() + kVerdictTime);
  if (first) wake(f.text);
}

void Watch::wake(const std::string& cause) {
  options_.abort(cause);
  const std::lock_guard lock(mutex_);
  awake_ = true;
  changed_.notify_all();
}

bool Watch::heard(int from, const Frame& f, const Bytestring& body) {
  if (f.kind != Frame::Kind::arrival) const std::lock_guard lock(mutex_);
  switch (f.kind) {
    case Frame::Kind::arrival: arrivals_.deposit(Rank(f.from), Rank(f.to), f.channel, {f.at, f.call}); return true;
    case Frame::Kind::alive: return true;
    case Frame::Kind::ask: {
      const Answer mine = answer(Rank(f.to));
      Packer text;
      text.add(mine.waits).add(mine.moves).add(mine.call).add(mine.missing);
      Frame reply(Frame::Kind::answer);
      reply.from = f.to;
      say(from, reply, text.take());
      return true;
    }
    case Frame::Kind::answer: {
      Unpacker text(body);
      const std::lock_guard lock(mutex_);
      Answer& a = answers_[Rank(f.from)];
      a.waits = text.get<bool>(), a.moves = text.get<bool>(), a.call = text.get_text(), a.missing = text.get_vector<Rank>();
      changed_.notify_all();
      return true;
    }
    case Frame::Kind::report: decide(unpacked(body), from); return true;
    case Frame::Kind::verdict: adopt(unpacked(body), from); return false;
    case Frame::Kind::heard: {
      const std::lock_guard lock(mutex_);
      informed_.insert(from);
      changed_.notify_all();
      return true;
    }
    case Frame::Kind::stop:
      if (const Failure cause = unpacked(body); options_.stop(cause)) stop(cause);
      return true;
    case Frame::Kind::leave: break;
  }
  const std::lock_guard lock(mutex_);
  left_[from] = {static_cast<int>(f.number), Clock::now()};
  changed_.notify_all();
  return false;
}

// A process that has left may close its connections. If it has not left, it is dead.
void Watch::lost(int peer) {
  {
    const std::lock_guard lock(mutex_);
    gone_.insert(peer);
    changed_.notify_all();
    if (left_.contains(peer) || verdict_ || (peer == 0 && reports_)) return;  // a reporter decides if process 0 does not
  }
  fail(broken(peer, process_text(peer) + " has died"));
}

int Watch::leave(int exit_code) {
  {
    std::unique_lock lock(mutex_);
    if (std::exchange(leaving_, true)) return exit_code;
    left_[carrier_.process()] = {exit_code, Clock::now()};
  }
  Frame last(Frame::Kind::leave);
  last.number = exit_code;
  for (const auto& line : lines_)
    if (line) line->say(last), line->end();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return verdict_ || left_.size() == options_.processes.size(); });
    if (verdict_ && carrier_.process() != 0) changed_.wait_for(lock, kSpeakTime, [] { return false; });
    ending_ = true;
    changed_.notify_all();
  }
  ticker_.join();
  lines_.clear();
  return verdict_ ? exit_code : left_.at(0).exit_code;
}

// ---- what has stopped ----

bool Watch::sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return ending_; });
  return !ending_;
}

void Watch::tick() {
  auto last = Clock::now(), resumed = last - kVerdictTime;
  while (sleep(kTick)) {
    // A process that was suspended first waits for what the others have decided meanwhile.
    const auto now = Clock::now();
    if (now - std::exchange(last, now) > 10 * kTick) resumed = now;
    if (verdict() || now - resumed < kVerdictTime) continue;
    for (int p = 0; p < carrier_.processes(); ++p)
      if (p == 0 || carrier_.process() == 0) say(p, Frame(Frame::Kind::alive));
    check_neighbours();
    check_waits();
  }
}

std::optional<Watch::Left> Watch::how_left(int process) const {
  const std::lock_guard lock(mutex_);
  const auto found = left_.find(process);
  if (found == left_.end()) return std::nullopt;
  return leaving_ ? Left{0, found->second.at} : found->second;
}

void Watch::check_neighbours() {
  const auto& self = options_.processes[static_cast<std::size_t>(carrier_.process())];
  for (int p = 0; p < carrier_.processes(); ++p) {
    const auto& line = lines_[static_cast<std::size_t>(p)];
    if (!line) continue;
    if (const auto gone = how_left(p)) {
      if (gone->exit_code != 0 && Clock::now() - gone->at > kVerdictTime)
        fail(broken(-1, process_text(p) + " has ended with exit code " + std::to_string(gone->exit_code)));
      continue;
    }
    const bool watched = p == 0 || carrier_.process() == 0;
    if (!lives(self, options_.processes[static_cast<std::size_t>(p)])) lost(p);
    else if (watched && line->silence() > options_.timeout)
      tell_silence(p);
  }
}

/// If a wait of this process' ranks leads to the silent process, the message also names the waiting call.
void Watch::tell_silence(int process) {
  const std::string silent = process_text(process) + " has given no sign of life for " + seconds_text(options_.timeout) +
                             ": it is stopped, or its host cannot be reached";
  auto wait = arrivals_.oldest(Rank());
  for (std::set<Rank> seen; wait && seen.insert(wait->wait.rank).second;) {
    const auto of_it = [&](Rank r) { return places_->process_of(r) == process; };
    if (std::any_of(wait->missing.begin(), wait->missing.end(), of_it)) {
      fail(broken(process, wait_text(*wait) + silent));
      return;
    }
    const auto answered = ask(wait->missing.front());
    if (!answered || !answered->waits) break;
    wait = wait_of(wait->missing.front(), *answered);
  }
  fail(broken(process, silent));
}

OpenWait Watch::wait_of(Rank rank, const Answer& a) {
  Waiting w{rank, 0, {}, a.call};
  w.moves = a.moves;
  return {w, a.missing, {}};
}

std::string Watch::wait_text(const OpenWait& w) const {
  const std::string have = w.missing.size() == 1 ? " has" : " have";
  return w.wait.call + ": " + ranks_text(w.missing) + have + (w.wait.moves ? " not moved all bytes within " : " not come within ") +
         seconds_text(options_.timeout) + ", " + rank_text(w.wait.rank) + " waits; ";
}

void Watch::check_waits() {
  const auto longest = arrivals_.oldest(Rank());
  if (reported_ || !longest || Clock::now() - longest->since < options_.timeout) return;
  reported_ = true;
  follow(*longest);
}

bool Watch::tell_unanswering(const OpenWait& w, const std::map<Rank, Answer>& answers) {
  for (const Rank r : w.missing) {
    if (answers.contains(r)) continue;
    const int process = places_->process_of(r);
    fail(broken(process, wait_text(w) + process_text(process) + " does not answer: it is stopped, or its host cannot be reached"));
    return true;
  }
  return false;
}

/// Follows waits from rank to rank to the one that waits for no other rank. The other waits are consequences of that rank's.
void Watch::follow(OpenWait w) {
  for (std::set<Rank> seen{w.wait.rank};;) {
    std::map<Rank, Answer> answers;
    for (const Rank r : w.missing)
      if (const auto answered = ask(r)) answers[r] = *answered;
    if (verdict() || tell_unanswering(w, answers)) return;
    const auto works = std::find_if(answers.begin(), answers.end(), [](const auto& a) { return !a.second.waits; });
    const auto unseen = [&](const auto& a) { return a.second.waits && seen.insert(a.first).second; };
    const auto next = std::find_if(answers.begin(), answers.end(), unseen);
    if (next != answers.end() && (works == answers.end() || w.wait.moves)) {
      w = wait_of(next->first, next->second);
      continue;
    }
    const Rank last = works != answers.end() ? works->first : w.missing.front();
    const std::string why = works != answers.end() ? " lives: it still computes, or hangs; --timeout grants more" : " waits for it in turn";
    fail(broken(-1, wait_text(w) + rank_text(last) + " of " + process_text(places_->process_of(last)) + why));
    return;
  }
}

Watch::Answer Watch::answer(Rank rank) const {
  const auto wait = arrivals_.oldest(rank);
  if (!wait) return {false, false, "", {}};
  return {true, wait->wait.moves, wait->wait.call, wait->missing};
}

std::optional<Watch::Answer> Watch::ask(Rank rank) {
  const int process = places_->process_of(rank);
  if (process == carrier_.process()) return answer(rank);
  std::unique_lock lock(mutex_);
  answers_.erase(rank);
  Frame question(Frame::Kind::ask);
  question.to = rank.value();
  say(process, question);
  changed_.wait_for(lock, kPatience, [&] { return answers_.contains(rank) || verdict_; });
  const auto found = answers_.find(rank);
  return found == answers_.end() ? std::nullopt : std::optional(found->second);
}

std::string Watch::process_text(int process) const {
  const Neighbour& who = options_.processes[static_cast<std::size_t>(process)];
  std::string text = "process " + std::to_string(process) + " (";
  const std::lock_guard lock(mutex_);
  if (places_) text += ranks_text(places_->ranks_of(process)) + " ";
  return text + "on " + who.host + ", pid " + std::to_string(who.pid) + ")";
}

}  // namespace tandem::exec
