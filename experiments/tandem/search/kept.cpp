#include "experiments/tandem/search/kept.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/tandem/search/knowledge_json.hpp"
#include "experiments/tandem/study/outcome.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"

namespace tandem::search {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::chrono::seconds kBetweenWrites{15};
constexpr int kTimesAWrite = 19;  ///< between two writes, at least: so they take a twentieth of the time
constexpr std::int64_t kMostShards = 1'000'000;
constexpr std::size_t kLargest = std::size_t{8} << 30;
constexpr std::string_view kBefore = ",\"checksum\":\"", kBehind = "\"}\n";
constexpr std::size_t kDigits = 16;

[[noreturn]] void refuse(const std::string& file, const std::string& field, const std::string& value, const std::string& reason,
                         const std::string& remedy) {
  throw ConfigError(Problem{file, field, value, reason, remedy});
}

/// The parsed contents of a file.
struct Kept {
  std::string file;
  Shard shard;
  bool finished = false;
  Kind kind = Kind::fastest;
  std::vector<Knowledge> spaces;
};

std::string sealed(std::string text) {
  const std::string digest = study::digest(text);
  text.pop_back();
  return text + std::string(kBefore) + digest + std::string(kBehind);
}

/// The object without its checksum. Throws ConfigError if the checksum does not match.
std::string unsealed(const std::string& file, const std::string& text) {
  const std::size_t tail = kBefore.size() + kDigits + kBehind.size();
  const bool long_enough = text.size() > tail && text.starts_with("{\"what\":\"tandem search\"");
  if (!long_enough) refuse(file, "", "", "is no file of `search --keep`, or was cut off", "name another file");
  const std::string body = text.substr(0, text.size() - tail) + "}";
  if (sealed(body) != text)
    refuse(file, "checksum", "", "does not match what the file says: it was changed or cut off",
           "remove the file and run its search again");
  return body;
}

/// The first path at which two questions differ; "" if they are equal.
std::string difference(const json& kept, const json& asked, const std::string& path) {
  if (kept == asked) return "";
  if (!kept.is_object() || !asked.is_object()) return path;
  json all = kept;
  all.update(asked);
  for (const auto& [key, unused] : all.items()) {
    if (!kept.contains(key) || !asked.contains(key)) return path + "/" + key;
    if (const std::string at = difference(kept[key], asked[key], path + "/" + key); !at.empty()) return at;
  }
  return "";
}

std::string value_at(const json& question, const std::string& path) {
  const json::json_pointer at(path);
  return question.contains(at) ? value_text(question[at]) : "nothing";
}

std::string dotted(const std::string& path) {
  std::string out = path.substr(1);
  std::replace(out.begin(), out.end(), '/', '.');
  return out;
}

/// Compares first what causes other differences: axes depend on the plan, and any change affects `content`.
void require_same_question(const std::string& file, const json& kept, const json& asked) {
  for (const char* part : {"plan", "stack", "any_stack", "axes"}) {
    const std::string at = difference(kept.at(part), asked.at(part), "/" + std::string(part));
    if (!at.empty())
      refuse(file, dotted(at), value_at(kept, at), "this search has " + value_at(asked, at), "ask the same question, or name another file");
  }
  if (kept.at("content") != asked.at("content"))
    refuse(file, "content", value_text(kept["content"]), "a file that the plan names (model, cluster or training) has changed",
           "run its search again");
}

Kept read_kept(const std::string& file, const std::vector<Search*>& searches) {
  const json whole = parse_json(unsealed(file, read_text(file, kLargest)), file, {.max_bytes = kLargest});
  if (whole.at("program") != study::program_digest())
    refuse(file, "program", value_text(whole["program"]), "was written by another build of Tandem, or with other presets", "run its search again");
  Kept out{file, {whole.at("shard").get<std::int64_t>(), whole.at("shards").get<std::int64_t>()}, whole.at("finished").get<bool>(),
           whole.at("front").get<bool>() ? Kind::front : Kind::fastest, {}};
  const json& spaces = whole.at("spaces");
  if (spaces.size() != searches.size())
    refuse(file, "spaces", std::to_string(spaces.size()), "this search has " + std::to_string(searches.size()) + " combinations of cluster and devices",
           "give the same --cluster and --devices");
  for (std::size_t i = 0; i < searches.size(); ++i) {
    require_same_question(file, spaces[i].at("question"), question_json(*searches[i]));
    out.spaces.push_back(read_knowledge(spaces[i].at("knowledge"), searches[i]->judge().space(), file));
  }
  return out;
}

/// Validates a file even if its checksum is right, because anybody can compute one.
Kept checked(const std::string& file, const std::vector<Search*>& searches) {
  try {
    return read_kept(file, searches);
  } catch (const json::exception&) {
    refuse(file, "", "", "is no file of `search --keep`: a key is missing or of another type", "remove it and run its search again");
  }
}

void give(Kept kept, const std::vector<Search*>& searches) {
  for (std::size_t i = 0; i < searches.size(); ++i) searches[i]->take(std::move(kept.spaces[i]));
}

}  // namespace

Shard read_shard(const std::string& text) {
  Shard out;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, out.index);
  const bool middle = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = middle ? std::from_chars(first.ptr + 1, end, out.of) : first;
  const bool whole = middle && second.ec == std::errc() && second.ptr == end;
  if (!whole || out.of < 1 || out.of > kMostShards || out.index < 0 || out.index >= out.of)
    refuse("", "--shard", '"' + text + '"', "is no shard", "give I/N with I from 0 to N - 1, such as 0/8");
  return out;
}

std::string text_of(const Shard& shard) { return std::to_string(shard.index) + "/" + std::to_string(shard.of); }

Keeper::Keeper(std::string path, Shard shard, Kind kind, std::vector<Search*> searches)
    : path_(std::move(path)), shard_(shard), kind_(kind), searches_(std::move(searches)),
      next_(std::chrono::steady_clock::now() + kBetweenWrites) {}

Resumed Keeper::resume() {
  if (path_.empty() || !file_exists(path_)) return Resumed::nothing;
  permit_replacing(path_, path_);
  Kept kept = checked(path_, searches_);
  if (kept.shard.index != shard_.index || kept.shard.of != shard_.of)
    refuse(path_, "shard", text_of(kept.shard), "this search is shard " + text_of(shard_), "give each shard a file of its own");
  const bool same = kept.kind == kind_;
  if (!same)
    for (Knowledge& k : kept.spaces) k = {{}, {}, {}, std::move(k.refined), std::move(k.simulated)};
  give(std::move(kept), searches_);
  return same ? Resumed::all : Resumed::simulations;
}

void Keeper::learned() {
  if (path_.empty()) return;
  const bool begins = !begun_ && std::ranges::any_of(searches_, [](const Search* s) { return !s->knowledge().simulated.empty(); });
  if (!begins && std::chrono::steady_clock::now() < next_) return;
  begun_ = begun_ || begins;
  write(false);
}

void Keeper::write(bool finished) {
  if (path_.empty()) return;
  const auto begun = std::chrono::steady_clock::now();
  ordered_json head = {{"what", "tandem search"}, {"schema_version", 1},  {"program", study::program_digest()}, {"shard", shard_.index},
                       {"shards", shard_.of},     {"finished", finished}, {"front", kind_ == Kind::front}};
  std::string text = head.dump();
  text.back() = ',';
  text += "\"spaces\":[";
  for (const Search* s : searches_) {
    if (s != searches_.front()) text += ',';
    text += "{\"question\":" + question_json(*s).dump() + ",\"knowledge\":" + knowledge_text(s->knowledge()) + '}';
  }
  write_text(path_, sealed(text + "]}"));
  const auto now = std::chrono::steady_clock::now();
  next_ = now + std::max<std::chrono::steady_clock::duration>(kBetweenWrites, kTimesAWrite * (now - begun));
}

void merge(const std::vector<std::string>& files, Kind kind, const std::vector<Search*>& searches) {
  std::map<std::int64_t, std::string> there;
  std::int64_t shards = 0;
  for (const std::string& file : files) {
    Kept kept = checked(file, searches);
    if (shards > 0 && kept.shard.of != shards)
      refuse(file, "shards", std::to_string(kept.shard.of), files.front() + " is one of " + std::to_string(shards), "give all files of one search, and no others");
    shards = kept.shard.of;
    if (kept.kind != kind)
      refuse(file, "front", kept.kind == Kind::front ? "true" : "false", "was written by a search with" + std::string(kind == Kind::front ? "out" : "") + " --pareto",
             "merge it likewise, or search the shards again");
    if (!kept.finished)
      refuse(file, "finished", "false", "shard " + text_of(kept.shard) + " was interrupted",
             "run it to its end: --shard " + text_of(kept.shard) + " --keep " + file);
    const auto [first, added] = there.emplace(kept.shard.index, file);
    if (!added) refuse(file, "shard", text_of(kept.shard), first->second + " has it, too", "give each shard once");
    give(std::move(kept), searches);
  }
  for (std::int64_t i = 0; i < shards; ++i)
    if (there.count(i) == 0)
      refuse("--merge", "shard", text_of({i, shards}), "no file has it", "run --shard " + text_of({i, shards}) + " --keep FILE and give its file, too");
}

}  // namespace tandem::search
