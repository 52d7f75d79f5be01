#include "models/arguments/command_line.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "models/arguments/launcher.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kEscaped = "\"\\$`\n";  // behind a backslash between double quotes

[[noreturn]] void fail(const std::string& file, std::string_view word, const char* reason, const char* remedy) {
  throw ConfigError(Problem{file, "arguments", '"' + shortened(word) + '"', reason, remedy});
}

/// The words of a text as a shell splits them. No expansion.
Words words_of(std::string_view text, const std::string& file) {
  Words out;
  std::string word;
  bool open = false;
  char quote = 0;
  const auto close = [&] {
    if (open) out.push_back(std::exchange(word, {}));
    open = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '"' && c == '\\' && i + 1 < text.size() && kEscaped.find(text[i + 1]) != std::string_view::npos) {
      if (text[++i] != '\n') word += text[i];
    } else if (quote != 0) {
      if (c == quote) quote = 0;
      else word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      open = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      const char next = text[++i];
      if (next == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
      else if (next != '\n') word += next, open = true;
    } else if (kBlanks.find(c) != std::string_view::npos) {
      close();
    } else if (c == '#' && !open) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else {
      word += c;
      open = true;
    }
  }
  if (quote != 0) fail(file, word, "has an open quote", "close it");
  close();
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
    const Words inner = words_of(words[i + 1], file);
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, inner.begin(), inner.end());
  }
  return words;
}

/// A script's file, not one that is an option's value: "pretrain_gpt.py".
bool is_program(std::string_view word) { return word.ends_with(".py"); }

/// "XLA_USE_BF16=1" as its two parts.
std::optional<std::pair<std::string, std::string>> variable_of(const std::string& word) {
  const std::size_t equal = word.find('=');
  const auto in_name = [](char c) { return c == '_' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  if (equal == std::string::npos || equal == 0 || (word[0] >= '0' && word[0] <= '9')) return std::nullopt;
  if (!std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equal), in_name)) return std::nullopt;
  return std::pair(word.substr(0, equal), word.substr(equal + 1));
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

/// Whether a command names its program, so that it may have a launcher in front.
bool names_program(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool module = (words[i] == "-m" || words[i] == "--module") && i + 1 < words.size();
    if (is_program(words[i]) || (module && !program_of_module(words[i + 1]).empty())) return true;
  }
  return false;
}

struct CommandReader {
  const Words& words;
  const ArgumentNames& names;
  const std::string& file;
  Arguments& out;
  const bool launched = names_program(words);
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

/// Adds the option at `at` with its values, and leaves `at` at the last of them.
void CommandReader::add_option() {
  const std::string& word = words[at];
  const std::size_t equal = word.find('=');
  const std::string option = dashed(word.substr(2, equal == std::string::npos ? equal : equal - 2));
  Words values;
  if (equal != std::string::npos) values.push_back(word.substr(equal + 1));
  const std::size_t most = equal != std::string::npos ? 0 : in_launcher() ? 1 : words.size();
  while (values.size() < most && at + 1 < words.size() && !ends_values(words[at + 1])) values.push_back(words[++at]);
  for (const std::string& v : values)
    if (v.find('$') != std::string::npos)
      fail(file, "--" + option + " " + v, "has a variable of a shell", "let the shell expand it: docs/coming-from.md says how");
  const ArgumentName argument = names(option);
  if (values.empty() && argument.needs_value)
    throw ConfigError(Problem{file, "--" + option, "", "has no value", "write it behind the option, or leave the option out"});
  (*out.values)[argument.name] = value_of(values, argument.switches_off);
  if (in_launcher()) out.launcher.insert(argument.name);
  else out.launcher.erase(argument.name);
  if (in_launcher() && option == "module" && !values.empty()) out.program = program_of_module(values.front());
}

/// Reads a word in front of the program that is no option with two dashes: a command, `-m MODULE`, a number of processes.
void CommandReader::add_launcher_word() {
  const std::string& word = words[at];
  if (const std::string name = command_of(word); !name.empty()) command = name;
  if (at + 1 == words.size()) return;
  if (word == "-m" && command != "numactl") out.program = program_of_module(words[at + 1]);
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
    if (is_program(word)) out.program = word.substr(word.rfind('/') + 1);
    else if (is_option(word)) add_option();
    else if (const auto variable = variable_of(word)) environment[variable->first] = argument_value(variable->second);
    else if (in_launcher()) add_launcher_word();
  }
  if (!environment.empty() && !out.values->empty()) (*out.values)["env"] = std::move(environment);
}

}  // namespace

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--") && ((word[2] >= 'a' && word[2] <= 'z') || (word[2] >= 'A' && word[2] <= 'Z'));
}

Arguments command_arguments(std::string_view text, const ArgumentNames& names, const std::string& file) {
  const Words words = with_inner_command(words_of(text, file), file);
  Arguments out{std::make_shared<json>(json::object()), "", false};
  CommandReader{words, names, file, out}.read();
  return out;
}

std::string script_of(std::string_view text) {
  if (text.starts_with("#!") || std::count(text.begin(), text.end(), '\n') > 20) return {};
  std::string script;
  Words words;
  try {
    words = words_of(text, "");
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
