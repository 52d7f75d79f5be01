#pragma once
// Checks of command line arguments that CLI11 lacks.

#include <CLI/CLI.hpp>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace tandem::program {

/// Accepts a fraction from 0 to 1, or a percentage like "5%", which is converted to a fraction.
inline CLI::Validator share() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool percentage = text.ends_with('%');
        const std::string number = text.substr(0, text.size() - (percentage ? 1 : 0));
        char* end = nullptr;
        const double value = std::strtod(number.c_str(), &end) / (percentage ? 100 : 1);
        const bool whole = !number.empty() && end == number.c_str() + number.size();
        if (!whole || !(value >= 0 && value <= 1)) return text + " is no share: give a fraction from 0 to 1 (0.05), or a percentage (5%)";
        std::array<char, 32> exact{};
        std::snprintf(exact.data(), exact.size(), "%.17g", value);
        text = exact.data();
        return "";
      },
      "");
}

/// Accepts a number of tokens, "2e12", or one with K, M, B, G or T behind it, "1.5T", which is converted to a plain number.
inline CLI::Validator token_count() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr double kMost = 1e18;  // keeps all results finite
        static const std::map<char, double> scales{{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
        char* end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        bool number = end != text.c_str();
        while (number && *end == ' ') ++end;
        if (number && *end != '\0') {
          const auto scale = scales.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*end))));
          number = scale != scales.end() && end[1] == '\0';
          if (number) value *= scale->second;
        }
        if (!number || !(value > 0 && value <= kMost)) return text + " is no number of tokens above 0, at most 1e18: write 2e12, 300B or 1.5T";
        std::array<char, 32> exact{};
        std::snprintf(exact.data(), exact.size(), "%.17g", value);
        text = exact.data();
        return "";
      },
      "");
}

/// Adds --stack: "NAME" or "NAME@2024-07", which replaces the plan's stack.
inline void add_stack_option(CLI::App& command, std::string& stack) {
  command.add_option("--stack", stack,
                     "framework to imitate: NAME, or NAME@YYYY-MM for its code as of that month [the plan's, else the "
                     "one most used on the device]")
      ->type_name("NAME[@YYYY-MM]");
}

/// Adds --cost-table; `when` says for what.
inline void add_cost_table(CLI::App& command, std::string& path, const std::string& when) {
  command.add_option("--cost-table", path,
                     when + "times of `tandem measure`, or measured products of the device [the file that the device's preset names]")
      ->type_name("FILE");
}

/// Adds an option that may be given several times; each time it takes a list "A,B,C".
inline CLI::Option* add_lists(CLI::App& command, const std::string& flag, std::vector<std::vector<std::string>>& lists,
                              const std::string& help) {
  const auto split = [&lists](const std::string& text) {
    for (const std::string& list : CLI::detail::split(text, ';')) lists.push_back(CLI::detail::split(list, ','));
  };
  return command.add_option_function<std::string>(flag, split, help)->multi_option_policy(CLI::MultiOptionPolicy::Join)->delimiter(';')
      ->type_name("NAME,...");
}

/// Adds an option that takes "A,B,C" as one argument, so that files may follow. May be given several times.
inline CLI::Option* add_list(CLI::App& command, const std::string& flag, std::vector<std::string>& words, const std::string& help) {
  const auto split = [&words](const std::string& text) {
    for (const std::string& word : CLI::detail::split(text, ',')) words.push_back(word);
  };
  return command.add_option_function<std::string>(flag, split, help)->multi_option_policy(CLI::MultiOptionPolicy::Join)->delimiter(',')
      ->type_name("NAME,...");
}

/// Adds an option that takes "NAME=VALUE". May be given several times, but once per name.
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
