#include "experiments/tandem/commands/program.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <vector>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/examples.hpp"
#include "experiments/tandem/base/error_report.hpp"
#include "experiments/tandem/commands/help_format.hpp"
#include "models/base/error.hpp"
#include "models/base/input.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::program {

namespace {

constexpr const char* kFooter =
    "exit codes:\n"
    "  0 ok\n"
    "  1 internal error\n"
    "  2 bad command line\n"
    "  3 bad or unreadable input (file and field named)\n"
    "  4 plan infeasible: it does not divide, does not fit (its result is printed first), or is not implemented\n"
    "  5 nothing found: no plan of a sweep or search fits, or no plan meets --days and --budget\n"
    "  6 comparison outside tolerance\n"
    "  7 a device or a rank failed, the host has no memory or thread left, or a training is not finite\n"
    "  130 interrupted (Ctrl-C, SIGTERM, SIGHUP); results so far are kept (measure, calibrate: if they are enough for a file)\n"
    "  141 the reader of stdout has closed it; all else was done\n"
    "Data goes to stdout, messages and progress to stderr. NO_COLOR is respected.";

constexpr const char* kCommandFooter = "exit codes: see tandem --help";

using AddCommand = void (*)(CLI::App&, ExitCode&);

const std::vector<std::pair<const char*, std::vector<AddCommand>>> kGroups = {
    {"Predict", {add_simulate, add_search, add_plan, add_sweep, add_explain, add_report}},
    {"Train", {add_train, add_evaluate, add_tokenize, add_export}},
    {"Measure and compare", {add_compare, add_measure, add_validate, add_calibrate}},
    {"Plan files", {add_import, add_schema}},
};

constexpr std::size_t kLongestUsage = 1000;  // limit in bytes on a quoted argument with its problem

/// Says which option or value the command does not have, and the nearest option.
std::string unexpected(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with('-'); });
  if (words.empty()) return "there is one value too many";
  if (option == words.end()) return "\"" + shortened(words.front()) + "\" is one value too many";
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* o : command.get_options())
    for (const std::string& long_name : o->get_lnames()) known.push_back("--" + long_name);
  const std::string meant = nearest(name, known);
  return shortened(name) + " is no option of this command" + (meant.empty() ? "" : ": did you mean " + meant + "?");
}

/// CLI11 also throws for --help and --version. These print to stdout and are no errors.
ExitCode report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream text;
    app.exit(error, text, text);
    print(text.str());
    return ExitCode::ok;
  }
  const std::vector<CLI::App*> given = app.get_subcommands();
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const std::string text = is_extra && !given.empty() ? unexpected(*given.front()) : error.what();
  print_error(without_middle(text, kLongestUsage) + "; see tandem " + (given.empty() ? "" : given.front()->get_name() + " ") + "--help");
  return ExitCode::usage;
}

/// Ends each command's help with its example and the place of what all commands have in common.
void complete_footers(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    const std::string own = command->get_footer().empty() ? "" : command->get_footer() + "\n";
    command->footer(own + "example:\n  " + example(command->get_name()) + "\n" + kCommandFooter);
  }
  app.footer(kFooter);
}

/// Refuses empty values, which come from unset variables in scripts.
void refuse_empty_values(CLI::App& app) {
  const CLI::Validator filled([](const std::string& value) { return std::string(value.empty() ? "is empty" : ""); }, "");
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options())
      if (option->get_items_expected_max() > 0) option->check(filled);
}

void fill(CLI::App& app, ExitCode& exit) {
  app.formatter(std::make_shared<HelpFormat>());
  app.set_version_flag("--version", "tandem " TANDEM_VERSION);
  app.require_subcommand(1);
  for (const auto& [title, commands] : kGroups)
    for (const AddCommand add : commands) {
      add(app, exit);
      app.get_subcommands({}).back()->group(title);
    }
  complete_footers(app);
  refuse_empty_values(app);
}

/// Reports a word that is no command, before the parser complains about a missing command.
void refuse_unknown_command(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (word.starts_with('-') || std::find(names.begin(), names.end(), word) != names.end()) return;
  const std::string meant = nearest(word, names);
  throw CLI::ParseError("\"" + shortened(word) + "\" is no command: " +
                            (meant.empty() ? "there are " + list_text(names) : "did you mean \"" + meant + "\"?"),
                        static_cast<int>(ExitCode::usage));
}

/// Tells at the end which of the user's own presets were found.
void tell_own_presets() {
  if (const std::string note = own_presets_note(); !note.empty()) log("tandem: " + note);
}

ExitCode parse_and_run(int argc, const char* const* argv) {
  CLI::App app("Predicts distributed transformer training before you pay for it, and trains on this machine.", "tandem");
  ExitCode exit = ExitCode::ok;
  fill(app, exit);
  try {
    if (argc > 1) refuse_unknown_command(app, argv[1]);
    app.parse(argc, argv);
    tell_own_presets();
  } catch (const CLI::ParseError& e) {
    return report(app, e);
  }
  return exit;
}

}  // namespace

ExitCode run(int argc, const char* const* argv) {
  end_at_interrupts();
  end_without_memory();
  guard_inputs();
  try {
    return delivered(parse_and_run(argc, argv));
  } catch (...) {
    return tell_error(std::current_exception());
  }
}

}  // namespace tandem::program
