#include "experiments/tandem/base/error_report.hpp"

#include <new>
#include <string>

#include "exec/process/launch.hpp"
#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"

namespace tandem::program {

ExitCode exit_code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const exec::LaunchError&) {
    return ExitCode::usage;
  } catch (const InfeasibleError&) {
    return ExitCode::infeasible;
  } catch (const ConfigError&) {
    return ExitCode::input;
  } catch (const DeviceError&) {
    return ExitCode::world;
  } catch (const CommError&) {
    return ExitCode::world;
  } catch (const Interrupted&) {
    return ExitCode::interrupted;
  } catch (const std::bad_alloc&) {
    return ExitCode::world;
  } catch (const std::exception&) {
    return ExitCode::internal;
  }
}

std::string reasons(const ConfigError& error) {
  std::string out;
  for (Problem p : error.problems()) {
    p.file.clear();
    out += (out.empty() ? "" : "; ") + p.message();
  }
  return out;
}

ExitCode tell_error(const std::exception_ptr& error) {
  const ExitCode code = exit_code_of(error);
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& e) {
    for (const Problem& p : e.problems()) print_error(p.message());
  } catch (const Interrupted&) {
  } catch (const std::bad_alloc&) {
    tell_no_memory();
  } catch (const std::exception& e) {
    print_error((code == ExitCode::internal ? "internal: " : "") + std::string(e.what()));
  }
  return code;
}

}  // namespace tandem::program
