#include "exec/tokenizer/formats/configuration.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "exec/tokenizer/place.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

/// A JSON object of a file; an empty one if it is not there.
struct File {
  explicit File(std::string name) : path(std::move(name)) {
    if (is_regular_file(path)) value = read_json(path);
    if (!value.is_object()) place().refuse("is no object", "write the tokenizer again with save_pretrained");
  }
  Place place() const { return {value, path, ""}; }

  std::string path;
  json value = json::object();
};

/// A token as a string, or as an object that has flags, too.
std::string content(const Place& token) { return token.json().is_object() ? token.at("content").text() : token.text(); }

/// An entry of `added_tokens`.
json entry(const Place& token, std::int64_t id, bool special, bool takes_space = false) {
  const bool object = token.json().is_object();
  const auto flag = [&](const char* key, bool otherwise) { return object ? token.flag_or(key, otherwise) : otherwise; };
  return {{"id", id},
          {"content", content(token)},
          {"single_word", flag("single_word", false)},
          {"lstrip", flag("lstrip", takes_space)},
          {"rstrip", flag("rstrip", false)},
          {"normalized", flag("normalized", !special)},
          {"special", flag("special", special)}};
}

/// Entries of `added_tokens`, each content once; new tokens get the ids behind the vocabulary.
class Entries {
 public:
  explicit Entries(const json& vocabulary) : vocabulary_(vocabulary), next_(static_cast<std::int64_t>(vocabulary.size())) {}

  bool has(const std::string& token) const {
    return std::any_of(all_.begin(), all_.end(), [&](const json& one) { return one.at("content") == token; });
  }
  /// Adds a token with the id that a file says.
  void add_with_id(const Place& token, std::int64_t id, bool special) {
    if (!vocabulary_.contains(content(token))) ++next_;
    all_.push_back(entry(token, id, special));
  }
  void add(const Place& token, bool takes_space = false) {
    const std::string text = content(token);
    if (text.empty() || has(text)) return;
    const auto known = vocabulary_.find(text);
    all_.push_back(entry(token, known != vocabulary_.end() ? known->get<std::int64_t>() : next_++, true, takes_space));
  }
  const json& all() const { return all_; }

 private:
  const json& vocabulary_;
  std::int64_t next_;
  json all_ = json::array();
};

/// The fields of `added_tokens_decoder` by id.
std::map<std::int64_t, Place> by_id(const Place& decoder) {
  std::map<std::int64_t, Place> out;
  if (!decoder.json().is_object()) decoder.refuse("is no object of tokens by id");
  for (const auto& [key, value] : decoder.json().items()) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) decoder.at(key).refuse("stands under a key that is no id");
    out.emplace(id, decoder.at(key));
  }
  return out;
}

/// The tokens of added_tokens.json by id.
std::map<std::int64_t, std::string> by_id_of_list(const Place& list) {
  std::map<std::int64_t, std::string> out;
  for (const auto& [token, id] : list.json().items()) out.emplace(list.at(token).whole(), token);
  return out;
}

}  // namespace

struct TokenizerConfiguration::Files {
  explicit Files(const std::string& folder)
      : configuration(folder + "tokenizer_config.json"), special(folder + "special_tokens_map.json"), added(folder + "added_tokens.json") {}

  /// The token of a role in the first file that has the key; nothing if none has.
  std::optional<Place> role(const std::string& name) const {
    for (const File* file : {&configuration, &special})
      if (const auto found = file->value.find(name); found != file->value.end()) return Place(*found, file->path, name);
    return std::nullopt;
  }

  File configuration, special, added;
};

TokenizerConfiguration::TokenizerConfiguration(const std::string& folder) : files_(std::make_unique<Files>(folder)) {}
TokenizerConfiguration::~TokenizerConfiguration() = default;

std::string TokenizerConfiguration::token(const std::string& role, const std::string& otherwise) const {
  const auto found = files_->role(role);
  if (!found) return otherwise;
  return found->json().is_null() ? "" : content(*found);
}

std::optional<bool> TokenizerConfiguration::flag(const std::string& key) const {
  const auto found = files_->configuration.place().maybe(key);
  return found ? std::optional(found->flag()) : std::nullopt;
}

std::string TokenizerConfiguration::require_class(const std::vector<std::string>& known) const {
  const auto named = files_->configuration.place().maybe("tokenizer_class");
  if (!named) return known.front();
  std::string name = named->text();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (std::find(known.begin(), known.end(), name) == known.end())
    named->refuse("has rules that these files do not say; without tokenizer.json this version knows " + list_text(known),
                  "write tokenizer.json: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
  return name;
}

json TokenizerConfiguration::added_tokens(const json& vocabulary, const Roles& roles) const {
  Entries out(vocabulary);
  const Place configuration = files_->configuration.place();
  if (const auto decoder = configuration.maybe("added_tokens_decoder"))
    for (const auto& [id, token] : by_id(*decoder)) out.add_with_id(token, id, false);
  else
    for (const auto& [id, token] : by_id_of_list(files_->added.place())) {
      const json text = token;
      out.add_with_id(Place(text, files_->added.path, token), id, false);
    }
  for (const auto& [role, otherwise, takes_space] : roles) {
    const auto said = files_->role(role);
    const json text = otherwise;
    if (said && !said->json().is_null()) out.add(*said, takes_space && !said->json().is_object());
    else if (!said) out.add(Place(text, "", role), takes_space);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
    if (const auto more = configuration.maybe(key); more && more->json().is_array())
      for (const Place& token : more->list()) out.add(token);
  return out.all();
}

}  // namespace tandem::exec
