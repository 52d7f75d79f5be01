#pragma once
// A framework's table: how its arguments say a plan, and a plan its arguments.

#include <memory>
#include <string>
#include <vector>

#include "models/arguments/argument_text.hpp"
#include "models/plan/month.hpp"

namespace tandem::arguments {

/// Folder of the tables, for find_preset.
inline constexpr const char* kFolder = "models/arguments";

struct Table {
  std::string stack;                               ///< the stack that a plan gets
  std::shared_ptr<const nlohmann::json> document;  ///< keys: models/arguments/README.md, with those of its base; `defaults` has
                                                   ///< those of all options
  std::shared_ptr<const nlohmann::json> options;   ///< option without its dashes: [name in the program, default]

  /// Whether the framework is configured by a file (JSON, TOML or YAML) and not by options.
  bool reads_file() const;
  /// Whether that file has the model, and not only its name.
  bool says_model() const;
  /// How that file is written: json, toml or yaml.
  std::string written_as() const;
  /// Whether a document is such a configuration.
  bool recognises(const nlohmann::json& document) const;
  /// Whether options have an argument by which the table is chosen before the one that has them all.
  bool chosen_by(const nlohmann::json& values) const;
  /// Whether an option names a JSON file of DeepSpeed.
  bool names_file() const;
  /// Whether the framework reads several files of the same kind as one.
  bool reads_several() const;
  /// Whether its file took the place of another table's: "torchtitan". Empty for most.
  std::string follows() const;
  /// Whether `export` can write options of this framework.
  bool writes() const;
  /// The argument of an option; of one that is unknown, its name with underscores.
  ArgumentName argument(const std::string& option) const;
  /// Whether the framework has an argument of this name.
  bool has(const std::string& name) const;
  /// The known option most likely meant by an argument's name, with its dashes. Empty if none is near.
  std::string nearest_option(const std::string& name) const;
  std::vector<std::string> sources() const;
};

/// The names of a table's options. The table must outlive them.
ArgumentNames named_by(const Table& table);

/// Whether a pattern is `name`: "log_*" is every name that begins so, "*_size" every one that ends so,
/// "*lora*" every one that has it.
bool covers(const std::string& pattern, const std::string& name);

/// Throws ConfigError for an unknown framework; the message lists the known ones.
Table read_table(const std::string& framework);

/// The table of the framework's file in a month: that of `framework`, or the one that took its place by then.
Table read_table(const std::string& framework, const Month& as_of);

/// Frameworks that have a table, sorted.
std::vector<std::string> known_frameworks();

/// The table of options in a text: the first that they choose, else the one that is chosen by nothing. `device`: the generation
/// of the devices ("trainium1"), which chooses a table, too. Throws ConfigError as read_arguments.
Table table_of_options(std::string_view text, const std::string& file, const std::string& device = "");

}  // namespace tandem::arguments
