#include "experiments/tandem/training/processes.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "exec/process/gloo_carrier.hpp"
#include "exec/process/launch.hpp"
#include "exec/process/mpi_carrier.hpp"
#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/base/error_report.hpp"

namespace tandem::program {
namespace {

/// An error that process 0 has reported for another process.
struct ReportedError {
  ExitCode code;
  std::string text;
};

std::unique_ptr<exec::Carrier> join(const LaunchOptions& w, std::chrono::milliseconds timeout) {
  const exec::Environment environment = exec::process_environment();
  const auto tell = [](const std::string& text) { log(text); };
  if (w.launch == "env") return exec::make_gloo_carrier(exec::launch_from_environment(environment, w.port), {timeout, tell});
  auto carrier = exec::make_mpi_carrier();
  exec::require_mpi_started(environment, carrier->processes());
  return carrier;
}

std::unique_ptr<exec::World> open_world(const LaunchOptions& w) {
  const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(w.timeout_s * 1e3));
  const auto tell = [](const std::string& text) {
    const bool before = keep_silent(false);
    print_error(text);
    keep_silent(before);
  };
  try {
    return std::make_unique<exec::World>(join(w, timeout), exec::WorldOptions{timeout, tell});
  } catch (const exec::PeerLost& e) {
    throw CommError("process " + std::to_string(e.process) + " has ended before all processes met (" + e.what() + ")");
  }
}

/// True if this process reports the error. Unconnected processes meet the same errors: process 0 reports, or each its own number.
bool tells_launch(const std::exception_ptr& error) {
  const int number = exec::process_number(exec::process_environment()).value_or(0);
  try {
    std::rethrow_exception(error);
  } catch (const exec::LaunchError& e) {
    const auto own = [](const Problem& p) { return p.field.ends_with("RANK") || p.field == "SLURM_PROCID"; };
    return number <= 0 || std::any_of(e.problems().begin(), e.problems().end(), own);
  } catch (const CommError&) {
    return number <= 1;  // process 0 reports who is missing; process 1, if process 0 is
  } catch (...) {
    return number <= 0;
  }
}

std::string host_text(exec::World& world) {
  std::vector<std::string> machines;
  for (const exec::Neighbour& n : world.neighbours()) machines.push_back(n.machine);
  std::sort(machines.begin(), machines.end());
  const auto hosts = std::unique(machines.begin(), machines.end()) - machines.begin();
  return std::to_string(machines.size()) + " processes on " + std::to_string(hosts) + (hosts == 1 ? " host" : " hosts");
}

std::string process_text(exec::World& world, std::size_t process) {
  return "process " + std::to_string(process) + " on " + world.neighbours()[process].host;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return "the host has no memory left";
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// Runs `train`. If a call finds that a peer is lost, all processes are told.
ExitCode watched(exec::World& world, const std::function<ExitCode(exec::World&)>& train) {
  try {
    return train(world);
  } catch (const exec::PeerLost& e) {
    world.lost(e.process);
    throw;
  }
}

ExitCode conclude(exec::World& world, const std::function<ExitCode(exec::World&)>& train) {
  try {
    return watched(world, train);
  } catch (const ReportedError& e) {
    print_error(e.text);
    return e.code;
  } catch (...) {
    const auto verdict = world.verdict();  // was reported when it was decided
    if (!verdict) return tell_error(std::current_exception());
    ignore_interrupts();  // a launcher sends them to the others after one process has ended
    return verdict->kind == exec::Failure::Kind::contract ? ExitCode::internal : ExitCode::world;
  }
}

/// The first field in which two plans differ: "training.seed = 2, and 1 in process 0".
std::string first_difference(const std::string& ours, const std::string& theirs) {
  using nlohmann::json;
  const json a = json::parse(ours, nullptr, false), b = json::parse(theirs, nullptr, false);
  if (a.is_discarded() || b.is_discarded()) return theirs + ", and " + ours + " in process 0";
  const json change = json::diff(a, b).front();
  const json::json_pointer place(change.at("path").get<std::string>());
  std::string field = change.at("path").get<std::string>().substr(1);
  std::replace(field.begin(), field.end(), '/', '.');
  const auto value = [&](const json& plan) { return plan.contains(place) ? plan.at(place).dump() : "nothing"; };
  return field + " = " + value(b) + ", and " + value(a) + " in process 0";
}

}  // namespace

ExitCode in_processes(const LaunchOptions& w, const std::function<ExitCode(exec::World&)>& train) {
  if (w.launch == "threads") {
    exec::World alone;
    return train(alone);
  }
  std::unique_ptr<exec::World> world;
  try {
    world = open_world(w);
  } catch (...) {
    if (!tells_launch(std::current_exception())) return exit_code_of(std::current_exception());
    throw;
  }
  keep_silent(!world->control().first());
  if (world->several()) log(host_text(*world));
  const ExitCode code = conclude(*world, train);
  return static_cast<ExitCode>(world->leave(static_cast<int>(delivered(code))));
}

void prepare_together(exec::World& world, const std::function<void()>& prepare) {
  if (!world.several()) return prepare();
  std::exception_ptr mine;
  try {
    prepare();
  } catch (...) {
    mine = std::current_exception();
  }
  exec::Packer own;
  own.add(mine ? static_cast<int>(exit_code_of(mine)) : 0).add(mine ? text_of(mine) : std::string());
  int code = 0;
  std::string text;
  const auto all = world.control().gather(own.take());
  for (std::size_t p = 0; p < all.size() && code == 0; ++p) {
    exec::Unpacker from(all[p]);
    code = from.get<int>();
    text = process_text(world, p) + ": " + from.get_text();
  }
  const exec::Bytestring decided = world.control().broadcast(exec::Packer().add(code).take());
  code = exec::Unpacker(decided).get<int>();
  if (code == 0) return;
  if (mine && world.control().first()) std::rethrow_exception(mine);
  throw ReportedError{static_cast<ExitCode>(code), text};
}

void require_same(exec::World& world, const std::vector<std::pair<std::string, std::string>>& things) {
  prepare_together(world, [&] {
    exec::Packer own;
    for (const auto& [name, value] : things) own.add(value);
    const auto all = world.control().gather(own.take());
    for (std::size_t p = 1; p < all.size(); ++p) {
      exec::Unpacker from(all[p]);
      for (const auto& [name, value] : things)
        if (const std::string theirs = from.get_text(); theirs != value)
          throw ConfigError(Problem{name, "", "", process_text(world, p) + " has " + first_difference(value, theirs),
                                    "give all processes the same files and options"});
    }
  });
}

void place_ranks(exec::World& world, std::int64_t ranks, const std::string& plan) {
  if (!world.several()) return;
  if (world.control().processes() > ranks)
    throw exec::LaunchError(Problem{plan, "--launch", std::to_string(world.control().processes()) + " processes",
                                    "the plan has " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"),
                                    "start at most as many processes as the plan has ranks"});
  world.place(ranks);
}

}  // namespace tandem::program
