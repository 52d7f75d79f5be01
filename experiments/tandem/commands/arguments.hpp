#pragma once
// Checks of command line arguments that CLI11 does not bring.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace tandem::program {

/// A finite number, 0 or more.
inline CLI::Validator fraction() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool whole = !text.empty() && end == text.c_str() + text.size();
        return whole && std::isfinite(value) && value >= 0 ? "" : text + " is not a finite number of 0 or more";
      },
      "FRACTION");
}

/// --stack: "NAME" or "NAME@2024-07" in place of the plan's stack.
inline void add_stack_option(CLI::App& command, std::string& stack) {
  command.add_option("--stack", stack,
                     "framework whose habits and rules the plan has, NAME or NAME@YYYY-MM for its code of a month [the plan's, else the "
                     "one most used on the device]");
}

/// An option that takes "A,B,C" as one list each time it is given.
inline CLI::Option* add_lists(CLI::App& command, const std::string& flag, std::vector<std::vector<std::string>>& lists,
                              const std::string& help) {
  const auto split = [&lists](const std::string& text) {
    for (const std::string& list : CLI::detail::split(text, ';')) lists.push_back(CLI::detail::split(list, ','));
  };
  return command.add_option_function<std::string>(flag, split, help)->multi_option_policy(CLI::MultiOptionPolicy::Join)->delimiter(';')
      ->type_name("NAME,...");
}

/// An option that takes "A,B,C" as one argument, so that files may follow it. May be given more than once.
inline CLI::Option* add_list(CLI::App& command, const std::string& flag, std::vector<std::string>& words, const std::string& help) {
  const auto split = [&words](const std::string& text) {
    for (const std::string& word : CLI::detail::split(text, ',')) words.push_back(word);
  };
  return command.add_option_function<std::string>(flag, split, help)->multi_option_policy(CLI::MultiOptionPolicy::Join)->delimiter(',')
      ->type_name("NAME,...");
}

/// An option that takes "NAME=VALUE"; may be given again, once for a name.
inline CLI::Option* add_pairs(CLI::App& command, const std::string& flag, std::map<std::string, std::string>& pairs,
                              const std::string& type, const std::string& help) {
  const auto split = [&pairs, flag, type](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::size_t middle = text.find('=');
      if (middle == 0 || middle == std::string::npos || middle + 1 == text.size())
        throw CLI::ValidationError(flag, text + " is not of the form " + type);
      if (!pairs.emplace(text.substr(0, middle), text.substr(middle + 1)).second)
        throw CLI::ValidationError(flag, text.substr(0, middle) + " is given twice");
    }
  };
  return command.add_option_function<std::vector<std::string>>(flag, split, help)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name(type);
}

}  // namespace tandem::program
