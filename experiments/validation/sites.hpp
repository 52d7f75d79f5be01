#pragma once
// Where published measurements ran: clusters that a source is known to have had where its plans name a like one.

#include <map>
#include <string>
#include <vector>

namespace tandem::program {

/// A place that measurements come from.
struct Site {
  std::string name;                             ///< "Jean Zay"
  std::string of_source;                        ///< records whose source has this text ran there
  std::map<std::string, std::string> clusters;  ///< preset that a plan names: preset of the site
};

/// topology/sites.json. Throws ConfigError when it cannot be read or names a cluster that is none.
std::vector<Site> load_sites();

/// The site's preset for a record of `source` whose plan names `preset`; empty when no site has one.
std::string site_cluster(const std::vector<Site>& sites, const std::string& source, const std::string& preset);

}  // namespace tandem::program
