#pragma once
// Where published measurements come from: what is known of it and their records do not have.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::program {

/// A unit of memory figures and the one that records read them as: "GB", "GiB".
struct MemoryUnit {
  std::string unit, read_as;
  std::string note = {};  ///< text of the notes of records that did so
  double factor() const;  ///< bytes of one over bytes of the other
};

/// A field that runs had with a value that their records do not have: "parallel.zero_stage", 0, 1.
struct ChangedField {
  std::string field;  ///< dotted
  std::string named;  ///< JSON, what records have; empty: they do not say the field
  std::string ran;    ///< JSON
  std::string when = {};  ///< JSON, conditions on the plan as those of stacks are (models/stack/stack_conditions); empty: always
};

/// A place that measurements come from.
struct Site {
  std::string name;                             ///< "Jean Zay"
  std::string of_source;                        ///< records whose source has this text ran there
  std::map<std::string, std::string> clusters;  ///< preset that a plan names: preset of the site
  std::optional<MemoryUnit> memory;             ///< that its figures are in
  std::string memory_rank;                      ///< whose its figures are, of records that do not say; empty: the heaviest's
  std::vector<ChangedField> fields;             ///< of plans
  std::vector<std::string> but;                 ///< records whose source has one of these did not run there
};

/// topology/sites.json. Throws ConfigError when it cannot be read or names a cluster, a unit or a field that is none.
std::vector<Site> load_sites();

/// The site's preset for a record of `source` whose plan names `preset`; empty when no site has one.
std::string site_cluster(const std::vector<Site>& sites, const std::string& source, const std::string& preset);

/// Gives the fields of a record's plan (JSON) the values that its run had, and says which: "parallel.zero_stage 1"; empty, and
/// nothing is changed, when no site has any for it. One whose place for a field is no object is for its own check to refuse.
std::string change_fields(const std::vector<Site>& sites, const std::string& source, std::string& plan_json);

/// The unit of a site's memory figures for a record of `source` whose note says that they were read as another; absent when no
/// site has one.
std::optional<MemoryUnit> site_memory_unit(const std::vector<Site>& sites, const std::string& source, const std::string& note);

/// Whose memory a record of `source` has that does not say; empty when no site says.
std::string site_memory_rank(const std::vector<Site>& sites, const std::string& source);

}  // namespace tandem::program
