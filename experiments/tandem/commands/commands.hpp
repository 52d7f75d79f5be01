#pragma once
// The subcommands. Each adds itself to the command line and, when run, sets its exit code.

#include "experiments/tandem/commands/program.hpp"

namespace CLI {
class App;
}

namespace tandem::program {

void add_simulate(CLI::App& app, ExitCode& exit);
void add_train(CLI::App& app, ExitCode& exit);
void add_evaluate(CLI::App& app, ExitCode& exit);
void add_tokenize(CLI::App& app, ExitCode& exit);
void add_compare(CLI::App& app, ExitCode& exit);
void add_measure(CLI::App& app, ExitCode& exit);
void add_explain(CLI::App& app, ExitCode& exit);
void add_validate(CLI::App& app, ExitCode& exit);
void add_sweep(CLI::App& app, ExitCode& exit);
void add_search(CLI::App& app, ExitCode& exit);
void add_report(CLI::App& app, ExitCode& exit);
void add_calibrate(CLI::App& app, ExitCode& exit);
void add_import(CLI::App& app, ExitCode& exit);
void add_export(CLI::App& app, ExitCode& exit);
void add_plan(CLI::App& app, ExitCode& exit);
void add_schema(CLI::App& app, ExitCode& exit);

}  // namespace tandem::program
