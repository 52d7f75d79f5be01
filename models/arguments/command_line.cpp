#include "models/arguments/command_line.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "models/arguments/launcher.hpp"
#include "models/arguments/shell/shell_text.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kPrinted = "let the shell print the command: docs/coming-from.md says how";

/// All words of statements, one after the other.
Words joined(const std::vector<ShellStatement>& statements) {
  Words out;
  for (const ShellStatement& s : statements) out.insert(out.end(), s.words.begin(), s.words.end());
  return out;
}

/// "-c" or "-lc" of a shell.
bool begins_inner_command(std::string_view word) {
  const bool letters = word.size() > 1 && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz", 1) == std::string_view::npos;
  return letters && word[0] == '-' && word.back() == 'c';
}

/// A shell's command (`bash -c "cd X && python3 ..."`) in place of the one word that holds it.
Words with_inner_command(Words words, const std::string& file) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (!begins_inner_command(words[i]) || words[i + 1].find(' ') == std::string::npos) continue;
    const Words inner = joined(shell_statements(words[i + 1], false, file));
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, inner.begin(), inner.end());
  }
  return words;
}

/// A script's file, not one that is an option's value: "pretrain_gpt.py".
bool is_program(std::string_view word) { return word.ends_with(".py"); }

/// "XLA_USE_BF16=1" as its two parts.
std::optional<std::pair<std::string, std::string>> variable_of(const std::string& word) {
  const ShellAssignment there = assignment_of(word);
  const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
  if (there.name.empty() || there.appends || std::any_of(there.name.begin(), there.name.end(), small)) return std::nullopt;
  return std::pair(there.name, there.value);
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// The value of an option with these words behind it.
json value_of(const Words& words, bool switches_off) {
  if (words.empty()) return !switches_off;
  if (words.size() == 1) return argument_value(words.front());
  json out = json::array();
  for (const std::string& v : words) out.push_back(argument_value(v));
  return out;
}

/// The first of `programs` whose words stand at `at`: "trl sft". Empty if none does.
std::string program_at(const Words& words, std::size_t at, const Words& programs) {
  for (const std::string& program : programs) {
    const std::size_t blank = program.find(' ');
    const std::string_view last = std::string_view(words[at]).substr(words[at].rfind('/') + 1);
    if (last != std::string_view(program).substr(0, blank)) continue;
    if (blank != std::string::npos && at + 1 < words.size() && words[at + 1] == program.substr(blank + 1)) return program;
  }
  return {};
}

/// Whether a command names its program, so that it may have a launcher in front.
bool names_program(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool module = (words[i] == "-m" || words[i] == "--module") && i + 1 < words.size();
    if (is_program(words[i]) || (module && !program_of_module(words[i + 1]).empty())) return true;
  }
  return false;
}

bool starts_program(const Words& words, const Words& programs) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (!program_at(words, i, programs).empty()) return true;
  return names_program(words);
}

/// Whether a word in front of the program starts processes: torchrun, accelerate.
bool is_launched(const Words& words, const Words& programs) {
  for (std::size_t i = 0; i < words.size() && !is_program(words[i]); ++i) {
    const std::string name = command_of(words[i]);
    const bool starts = !name.empty() && name != "python" && name != "bash" && name != "sh" && name != "env";
    const bool module = words[i] == "-m" && i + 1 < words.size() && program_of_module(words[i + 1]).empty();
    if (starts || module || !program_at(words, i, programs).empty()) return true;
  }
  return false;
}

/// The one statement that starts a program, behind the variables that the others set. Of several, the one with a launcher.
Words command_of_statements(std::vector<ShellStatement> statements, const Words& programs, bool script, const std::string& file) {
  for (ShellStatement& s : statements) s.words = with_inner_command(std::move(s.words), file);
  std::vector<std::size_t> starting, launched;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    if (!starts_program(statements[i].words, programs)) continue;
    starting.push_back(i);
    if (is_launched(statements[i].words, programs)) launched.push_back(i);
  }
  if (starting.size() > 1 && !launched.empty()) starting = launched;
  if (starting.size() > 1)
    throw ConfigError(Problem{file, "arguments", '"' + shortened(statements[starting[1]].words.front()) + '"',
                              "starts a second program", "give a file with one of the commands"});
  if (starting.empty() && !script) return joined(statements);
  if (starting.empty())
    throw ConfigError(Problem{file, "arguments", "", "starts no program that is seen here", kPrinted});
  const ShellStatement& chosen = statements[starting.front()];
  if (!chosen.certain)
    throw ConfigError(Problem{file, "arguments", '"' + shortened(chosen.words.front()) + '"',
                              "stands in a condition, a loop or a function, which only its shell can read", kPrinted});
  Words out;
  for (std::size_t i = 0; i < starting.front(); ++i)
    if (statements[i].certain)
      for (const std::string& word : statements[i].words)
        if (variable_of(word)) out.push_back(word);
  out.insert(out.end(), chosen.words.begin(), chosen.words.end());
  return out;
}

struct CommandReader {
  const Words& words;
  const ArgumentNames& names;
  const Words& programs;
  const std::string& file;
  Arguments& out;
  const bool launched = names_program(words) && program_at(words, 0, programs).empty();
  std::size_t at = 0;
  std::string command = {};  ///< the last one named in front of the program

  void read();

 private:
  bool in_launcher() const { return launched && out.program.empty(); }
  void add_option();
  void add_launcher_word();
  bool ends_values(const std::string& word) const;
};

/// Whether a word is no value of the option before it. A launcher's switch may have the next part of the command behind it.
bool CommandReader::ends_values(const std::string& word) const {
  if (is_option(word) || is_program(word)) return true;
  return out.program.empty() && (variable_of(word) || (launched && begins_next_part(word)));
}

/// Whether a word sets a field in the way of Hydra: "trainer.devices=8".
bool sets_field(const std::string& word) {
  const std::size_t equal = word.find('=');
  const auto in_field = [](char c) { return c == '_' || c == '.' || c == '+' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return equal != std::string::npos && equal > 0 && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equal), in_field);
}

/// Adds the option at `at` with its values, and leaves `at` at the last of them.
void CommandReader::add_option() {
  const std::string& word = words[at];
  const std::size_t equal = word.find('=');
  const std::string option = dashed(word.substr(2, equal == std::string::npos ? equal : equal - 2));
  Words values;
  if (equal != std::string::npos) values.push_back(word.substr(equal + 1));
  const std::size_t most = equal != std::string::npos ? 0 : in_launcher() ? 1 : words.size();
  while (values.size() < most && at + 1 < words.size() && !ends_values(words[at + 1])) {
    if (!values.empty() && sets_field(words[at + 1])) break;
    values.push_back(words[++at]);
  }
  const ArgumentName argument = names(option);
  if (values.empty() && argument.needs_value)
    throw ConfigError(Problem{file, "--" + option, "", "has no value", "write it behind the option, or leave the option out"});
  const auto open = std::find_if(values.begin(), values.end(), [](const std::string& v) { return v.find('$') != std::string::npos; });
  if (open != values.end()) out.open[argument.name] = word.substr(0, equal) + " " + *open;
  else out.open.erase(argument.name);
  (*out.values)[argument.name] = value_of(values, argument.switches_off);
  if (in_launcher()) (*out.launched)[argument.name] = (*out.values)[argument.name];
  if (in_launcher()) out.launcher.insert(argument.name);
  else out.launcher.erase(argument.name);
  if (in_launcher() && option == "module" && !values.empty()) out.program = program_of_module(values.front());
}

/// Reads a word in front of the program that is no option with two dashes: a command, `-m MODULE`, a number of processes.
void CommandReader::add_launcher_word() {
  const std::string& word = words[at];
  if (const std::string name = command_of(word); !name.empty()) {
    command = name;
    out.launchers.push_back(name);
  }
  if (at + 1 == words.size()) return;
  if (word == "-m" && command != "numactl") {
    out.program = program_of_module(words[at + 1]);
    if (const std::string name = launcher_of_module(words[at + 1]); !name.empty()) out.launchers.push_back(name);
    ++at;
    return;
  }
  const auto count = process_count(command, word);
  if (!count) return;
  const json value = argument_value(count->value.empty() ? words[at + 1] : count->value);
  if (!value.is_number() || out.values->contains(count->argument)) return;  // of another tool between the launcher and its program
  (*out.values)[count->argument] = value;
  at += count->value.empty() ? 1 : 0;
}

void CommandReader::read() {
  json environment = json::object();
  for (at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (is_program(word)) {
      out.program = word.substr(word.rfind('/') + 1);
    } else if (const std::string program = out.program.empty() ? program_at(words, at, programs) : ""; !program.empty()) {
      out.program = program, ++at;
    } else if (is_option(word)) {
      add_option();
    } else if (const auto variable = variable_of(word)) {
      environment[variable->first] = argument_value(variable->second);
    } else if (in_launcher()) {
      add_launcher_word();
    } else if (!out.program.empty()) {
      out.words.push_back(word);
    }
  }
  const bool counts = !out.values->empty() || out.program.find(' ') != std::string::npos;
  if (!environment.empty() && counts) (*out.values)["env"] = std::move(environment);
}

}  // namespace

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && ((word[2] >= 'a' && word[2] <= 'z') || (word[2] >= 'A' && word[2] <= 'Z'));
}

Arguments command_arguments(std::string_view text, const ArgumentNames& names, const std::string& file, const Words& programs) {
  if (const std::string_view line = text.substr(0, text.find('\n')); line.starts_with("#!") && line.find("sh") == std::string_view::npos)
    throw ConfigError(Problem{file, "arguments", '"' + shortened(line) + '"', "begins a script that is none of a shell", kPrinted});
  const bool script = is_script(text, file);
  const Words words = command_of_statements(shell_statements(text, script, file), programs, script, file);
  Arguments out{std::make_shared<json>(json::object()), "", false};
  out.launched = std::make_shared<json>(json::object());
  CommandReader{words, names, programs, file, out}.read();
  return out;
}

std::string script_of(std::string_view text) {
  if (text.starts_with("#!") || std::count(text.begin(), text.end(), '\n') > 20) return {};
  std::string script;
  Words words;
  try {
    words = joined(shell_statements(text, false, ""));
  } catch (const ConfigError&) {
    return {};  // quotes of another kind of text
  }
  for (const std::string& word : words) {
    if (is_option(word) || word.starts_with('{') || word.starts_with('[')) return {};
    if (word.ends_with(".sh")) script = word;
  }
  return script;
}

}  // namespace tandem::arguments
