#include <CLI/CLI.hpp>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

void add_schema(CLI::App& app, ExitCode& exit) {
  CLI::App* command = app.add_subcommand("schema", "Print the JSON Schema of plan files, for editors");
  command->add_flag_function("--json", [](std::int64_t) {}, "no effect: the output is always JSON");
  command->callback([&exit] {
    const std::string schema = plan_json_schema();
    print_json(schema.ends_with('\n') ? schema : schema + "\n");
    exit = ExitCode::ok;
  });
}

}  // namespace tandem::program
