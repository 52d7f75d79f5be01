#include "exec/tokenizer/post_processor.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace tandem::exec {
namespace {

std::vector<std::int32_t> special_ids(const Place& place, const std::string& name) {
  const auto found = place.at("special_tokens").maybe(name);
  if (!found) place.at("special_tokens").refuse("has no " + name + ", which the template names");
  std::vector<std::int32_t> ids;
  for (const Place& id : found->at("ids").list()) ids.push_back(static_cast<std::int32_t>(id.whole()));
  return ids;
}

Template read_template(const Place& place) {
  place.require_keys({"type", "single", "pair", "special_tokens"});
  Template out;
  for (const Place& part : place.at("single").list()) {
    part.require_keys({"Sequence", "SpecialToken"});
    if (const auto special = part.maybe("SpecialToken")) {
      if (auto ids = special_ids(place, special->at("id").text()); !ids.empty()) out.push_back(std::move(ids));
      continue;
    }
    if (part.at("Sequence").at("id").text() != "A") part.refuse("is a second text, and only one is tokenized");
    out.emplace_back();
  }
  return out;
}

/// ["token", id].
std::int32_t read_id(const Place& place) {
  const auto pair = place.list();
  if (pair.size() != 2) place.refuse("is no pair of token and id");
  return static_cast<std::int32_t>(pair[1].whole());
}

/// A sequence with at most one processor that adds tokens.
Template read_sequence(const Place& place) {
  place.require_keys({"type", "processors"});
  Template out{{}};
  bool adds = false;
  for (const Place& inner : place.at("processors").list()) {
    if (inner.type() == "ByteLevel") continue;
    if (std::exchange(adds, true)) inner.refuse("is a second processor that adds tokens, which this version does not know");
    out = read_post_processor(inner);
  }
  return out;
}

}  // namespace

Template read_post_processor(const Place& place) {
  const std::string type = place.type();
  if (type == "TemplateProcessing") return read_template(place);
  if (type == "ByteLevel") return {{}};  // changes offsets only
  if (type == "Sequence") return read_sequence(place);
  if (type == "BertProcessing" || type == "RobertaProcessing") return {{read_id(place.at("cls"))}, {}, {read_id(place.at("sep"))}};
  place.at("type").refuse("is a post-processor that this version does not know: it knows BertProcessing, ByteLevel, RobertaProcessing, "
                          "Sequence and TemplateProcessing");
}

}  // namespace tandem::exec
