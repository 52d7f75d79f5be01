#include "models/arguments/shell/shell_text.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "models/arguments/shell/shell_expansion.hpp"
#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::arguments {
namespace {

constexpr std::string_view kEscaped = "\"\\$`\n";  // behind a backslash between double quotes

template <std::size_t N>
bool is_one_of(const std::string& word, const char* const (&names)[N]) {
  return std::find(std::begin(names), std::end(names), word) != std::end(names);
}

constexpr const char* kOpening[] = {"if", "while", "until", "for", "select", "case", "function"};
constexpr const char* kClosing[] = {"fi", "done", "esac", "}"};
constexpr const char* kBetween[] = {"then", "do", "else", "!", "{", "eval", "time", "exec", "nohup"};
constexpr const char* kSetting[] = {"export", "declare", "local", "readonly", "typeset", "env"};
constexpr const char* kTests[] = {"[", "[[", "test", "((", "command", "which", "grep"};

class ShellReader {
 public:
  ShellReader(std::string_view text, bool script, const std::string& file) : text_(text), script_(script), file_(file) {}

  std::vector<ShellStatement> read() {
    while (at_ < text_.size()) step();
    end_statement("");
    return std::move(out_);
  }

 private:
  void step();
  void read_quoted(char quote);
  void read_escaped();
  void skip_comment();
  bool read_operator();
  void read_redirection(std::size_t sign);
  void begin_array();
  void expand(bool quoted);
  void close_word();
  void end_statement(std::string_view separator);
  void read_batch_line(std::string_view line);

  bool certain() const { return std::all_of(open_parts_.begin(), open_parts_.end(), [](char c) { return c == '{'; }) && !doubtful_; }
  bool sets_only() const {
    return std::all_of(words_.begin(), words_.end(), [](const std::string& w) {
      return is_one_of(w, kSetting) || is_one_of(w, kBetween) || w.starts_with('-') || !assignment_of(w).name.empty();
    });
  }
  void add(char c) { word_ += c, open_ = true; }

  std::string_view text_;
  bool script_;
  const std::string& file_;
  Variables variables_;
  std::vector<ShellStatement> out_;
  Words words_;              ///< of this statement
  std::string word_;         ///< that is open
  bool open_ = false;
  bool skips_word_ = false;  ///< the next word is a redirection's
  bool doubtful_ = false;    ///< this statement is behind a test
  std::string open_parts_;   ///< of conditions, loops, functions and groups
  std::string array_;        ///< whose elements are read
  Words elements_;
  bool array_is_sure_ = false;
  std::string here_;         ///< the word that ends lines for a command's input
  std::size_t at_ = 0;
};

void ShellReader::step() {
  const char c = text_[at_];
  if (c == '\'' || c == '"') return read_quoted(c);
  if (c == '\\') return read_escaped();
  if (c == '$' || c == '`') return expand(false);
  if (c == '#' && !open_) return skip_comment();
  if (!array_.empty() && c == ')') {
    close_word();
    variables_.set(array_, elements_, false, array_is_sure_);
    elements_.clear(), array_.clear(), ++at_;
    return;
  }
  if (kBlanks.find(c) != std::string_view::npos) {
    close_word();
    ++at_;
    if (c != '\n' || !script_ || !array_.empty()) return;
    end_statement("\n");
    for (bool inside = !here_.empty(); inside && at_ < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      while (line.starts_with('\t')) line.remove_prefix(1);
      inside = line != here_;
      at_ = std::min(end + 1, text_.size());
    }
    here_.clear();
    return;
  }
  if (c == '(' && open_ && word_.ends_with('=') && !assignment_of(word_).name.empty() && sets_only()) return begin_array();
  if (script_ && array_.empty() && read_operator()) return;
  add(c), ++at_;
}

void ShellReader::read_quoted(char quote) {
  open_ = true;
  for (++at_; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == quote) {
      ++at_;
      return;
    }
    if (quote == '"' && c == '\\' && at_ + 1 < text_.size() && kEscaped.find(text_[at_ + 1]) != std::string_view::npos) {
      if (text_[++at_] != '\n') word_ += text_[at_];
    } else if (quote == '"' && (c == '$' || c == '`')) {
      expand(true);
      --at_;
    } else {
      word_ += c;
    }
  }
  throw ConfigError(Problem{file_, "arguments", '"' + shortened(word_) + '"', "has an open quote", "close it"});
}

void ShellReader::read_escaped() {
  if (++at_ >= text_.size()) return add('\\');
  if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
  else if (text_[at_] != '\n') add(text_[at_]);
  ++at_;
}

/// SLURM gives these numbers to a script that says them.
void ShellReader::read_batch_line(std::string_view line) {
  std::string option;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && kBlanks.find(line[i]) == std::string_view::npos && line[i] != '=') continue;
    const std::string word(line.substr(begin, i - begin));
    begin = i + 1;
    const std::string number = word.substr(word.rfind(':') == std::string::npos ? 0 : word.rfind(':') + 1);
    const bool counts = !number.empty() && std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto says = [&](const char* name) { variables_.set(name, {number}, false, true); };
    if (counts && (option == "--nodes" || option == "-N")) says("SLURM_NNODES"), says("SLURM_JOB_NUM_NODES");
    if (counts && option == "--ntasks-per-node") says("SLURM_NTASKS_PER_NODE");
    if (counts && (option == "--gpus-per-node" || option == "--gres")) says("SLURM_GPUS_ON_NODE"), says("SLURM_GPUS_PER_NODE");
    if (!word.empty()) option = word;
  }
}

void ShellReader::skip_comment() {
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  if (const std::string_view line = text_.substr(at_, end - at_); script_ && line.starts_with("#SBATCH")) read_batch_line(line);
  at_ = end;
}

/// Reads what separates statements or turns output elsewhere; false for any other character.
bool ShellReader::read_operator() {
  const char c = text_[at_];
  const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
  if (c == '<' && std::isalpha(static_cast<unsigned char>(next)) != 0) {  // <a_placeholder>
    const std::size_t end = text_.find_first_of("> \t\r\n", at_);
    if (end != std::string_view::npos && text_[end] == '>') {
      for (; at_ <= end; ++at_) add(text_[at_]);
      return true;
    }
  }
  if (c == '>' || c == '<' || (c == '&' && next == '>')) {
    read_redirection(at_);
    return true;
  }
  if (c == '(' && open_ && next == ')') {  // a function's name
    word_.clear(), words_.clear(), open_ = false, at_ += 2;
    open_parts_ += 'f';
    while (at_ < text_.size() && kBlanks.find(text_[at_]) != std::string_view::npos) ++at_;
    if (at_ < text_.size() && text_[at_] == '{') ++at_;
    return true;
  }
  if (c == ')' && !open_parts_.empty() && open_parts_.back() == 'c') {  // a case
    word_.clear(), open_ = false, words_.clear(), ++at_;
    return true;
  }
  if (c != ';' && c != '&' && c != '|' && c != '(' && c != ')') return false;
  const bool twice = next == c;
  close_word();
  end_statement(text_.substr(at_, twice ? 2 : 1));
  at_ += twice ? 2 : 1;
  return true;
}

void ShellReader::read_redirection(std::size_t sign) {
  if (open_ && word_.find_first_not_of("0123456789") == std::string::npos) word_.clear(), open_ = false;
  close_word();
  const bool here = text_.substr(sign).starts_with("<<") && !text_.substr(sign).starts_with("<<<");
  at_ = std::min(text_.find_first_not_of("<>&|-", sign), text_.size());
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  const std::size_t end = std::min(text_.find_first_of(" \t\r\n;|", at_), text_.size());
  if (here) {
    here_ = std::string(text_.substr(at_, end - at_));
    std::erase_if(here_, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    at_ = end;
  } else {
    skips_word_ = at_ < text_.size() && text_[at_] != '\n';
  }
}

void ShellReader::begin_array() {
  const ShellAssignment there = assignment_of(word_);
  array_ = there.name, array_is_sure_ = certain() && !(there.appends && variables_.unsure(there.name));
  const Words* now = variables_.find(array_);
  if (there.appends && now != nullptr) elements_ = *now;
  word_.clear(), open_ = false, ++at_;
}

void ShellReader::expand(bool quoted) {
  const Expansion there = expanded(variables_, text_.substr(at_));
  at_ += there.length;
  if (quoted && there.array && there.words.empty() && word_.empty()) open_ = false;  // "$@" is no word
  for (std::size_t w = 0; w < there.words.size(); ++w) {
    if (w > 0) close_word();
    const bool known = !there.words[w].starts_with('$');
    for (const char c : there.words[w]) {
      if (!quoted && known && kBlanks.find(c) != std::string_view::npos) close_word();
      else add(c);
    }
    if (quoted) open_ = true;
  }
}

void ShellReader::close_word() {
  if (!open_) return;
  open_ = false;
  std::string word = std::exchange(word_, {});
  if (std::exchange(skips_word_, false)) return;
  if (!array_.empty()) return elements_.push_back(std::move(word));
  if (!script_ && (word == ";" || word == "&&" || word == "||" || word == "|" || word == "&")) return end_statement(word);
  if (!script_ && word.size() > 1 && word.back() == ';' && !assignment_of(word).name.empty() && sets_only()) {
    word_ = word.substr(0, word.size() - 1), open_ = true;
    close_word();
    return end_statement(";");
  }
  if (!script_ && word.size() > 1 && (word == "2>&1" || word == ">>" || word == "&>" || word == "2>")) {
    skips_word_ = word != "2>&1";
    return;
  }
  const ShellAssignment assignment = assignment_of(word);
  if (!assignment.name.empty() && sets_only()) variables_.set(assignment.name, {assignment.value}, assignment.appends, certain());
  words_.push_back(std::move(word));
}

void ShellReader::end_statement(std::string_view separator) {
  close_word();
  Words words = std::exchange(words_, {});
  const bool here_certain = certain();
  doubtful_ = separator == "||" || (separator == "&&" && (doubtful_ || (!words.empty() && is_one_of(words[0], kTests))));
  while (script_ && !words.empty() && is_one_of(words[0], kBetween)) {
    if (words[0] == "{") open_parts_ += '{';
    words.erase(words.begin());
  }
  if (words.empty()) return;
  if (script_ && is_one_of(words[0], kOpening)) {
    if (words.size() > 1 && (words[0] == "for" || words[0] == "select")) variables_.set(words[1], {}, false, false);
    open_parts_ += words[0] == "case" ? 'c' : words[0][0] == 'f' && words[0] != "for" ? 'f' : 'i';
  } else if (script_ && is_one_of(words[0], kClosing)) {
    if (!open_parts_.empty()) open_parts_.pop_back();
  } else if (!script_ || words[0] != "elif") {
    out_.push_back({std::move(words), here_certain});
  }
}

}  // namespace

bool is_script(std::string_view text, const std::string& file) {
  return text.starts_with("#!") || file.ends_with(".sh") || file.ends_with(".bash") || file.ends_with(".sbatch") || file.ends_with(".slurm");
}

std::vector<ShellStatement> shell_statements(std::string_view text, bool script, const std::string& file) {
  return ShellReader(text, script, file).read();
}

ShellAssignment assignment_of(const std::string& word) {
  const std::size_t equal = word.find('=');
  if (equal == std::string::npos || equal == 0 || !begins_name(word[0])) return {};
  const bool appends = word[equal - 1] == '+';
  const std::string name = word.substr(0, appends ? equal - 1 : equal);
  if (!std::all_of(name.begin(), name.end(), in_name)) return {};
  return {name, word.substr(equal + 1), appends};
}

}  // namespace tandem::arguments
