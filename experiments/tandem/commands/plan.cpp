#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/base/waiting.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/layout_search.hpp"
#include "experiments/tandem/commands/price_arguments.hpp"
#include "experiments/tandem/commands/search_arguments.hpp"
#include "experiments/tandem/planning/answer_text.hpp"
#include "experiments/tandem/planning/changes.hpp"
#include "experiments/tandem/planning/limits.hpp"
#include "experiments/tandem/search/context_advice.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/base/threads.hpp"

namespace tandem::program {

namespace {

struct Options {
  planning::Request request;
  double tokens = 0;
  LayoutOptions layouts;
  std::string out;
  bool json = false, search = false;
};

constexpr double kMostDays = 1e6, kMostMoney = 1e18;  // keeps all results finite

std::string no_plan(const planning::Answer& a) {
  std::string out;
  for (const auto& [reason, labels] : a.refused) {
    const std::string which = planning::labels_text(labels);
    out += (out.empty() ? "" : "; ") + (which.empty() ? "" : which + ": ") + reason;
  }
  return out;
}

/// That no plan fits, and what would help the best one.
std::string none_fits(const planning::Answer& a) {
  const std::vector<planning::PricedPhase>& phases = a.best()->phases;
  std::vector<std::string> large;
  for (std::size_t i = 0; i < phases.size(); ++i)
    if (phases[i].budget.memory == planning::MemoryVerdict::too_large) large.push_back(std::to_string(i + 1));
  const std::string which = (large.size() > 1 ? "phases " : "phase ") + list_text(large);
  const planning::Assessment& worst = planning::neediest(phases).assessment;
  const Waiting waiting("trying context ranks");
  const bool several = a.too_large.size() > 1;
  const std::string of_phases = phases.size() == 1 ? "" : (several ? " (of the nearest: " : " (") + which + ")";
  return (several ? "none of the plans fits" : "the plan does not fit") + std::string(" the memory of ") + worst.topology->device().name + of_phases + "; " +
         search::ways_to_fit(worst.plan);
}

/// What the exit code says of an answer that is printed.
ExitCode judge(const Options& o, const planning::Answer& a) {
  const std::string& file = o.request.choice.plan;
  if (a.options.empty()) {
    print_error(file + ": " + none_fits(a));
    return ExitCode::infeasible;
  }
  const std::string missed = missed_limit(a);
  if (missed.empty()) return ExitCode::ok;
  print_error(file + ": " + missed);
  return ExitCode::nothing;
}

void tell(const Options& o, const planning::Answer& a) { o.json ? print_json(to_json(a)) : print(to_text(a)); }

/// The file for the plan of each phase: "best.json" alone, or "best-1.json", "best-2.json".
std::vector<std::string> places_of_phases(const std::string& path, std::size_t phases) {
  if (path.empty() || phases == 1) return {path};
  const std::filesystem::path whole(path);
  std::vector<std::string> out;
  for (std::size_t i = 1; i <= phases; ++i)
    out.push_back((whole.parent_path() / (whole.stem().string() + "-" + std::to_string(i) + whole.extension().string())).string());
  return out;
}

ExitCode plan_searched(const Options& o) {
  const std::string& subject = o.request.choice.plan;
  const std::vector<std::string> places = places_of_phases(o.out, o.request.phases.size());
  prepare_outputs(places, {is_preset_path(subject) ? subject : ""});
  const planning::Facts facts = planning::load_facts();
  FoundPlans found = search_layouts(o.request, facts, o.layouts);
  planning::Answer a = planning::answer_of(o.request, facts, std::move(found.trainings), found.told);
  a.interrupted = found.interrupted;
  if (a.best() == nullptr) {
    print_error(subject + ": nothing found: " + (a.interrupted ? "the search was interrupted before anything fitted" : no_plan(a)));
    return a.interrupted ? ExitCode::interrupted : ExitCode::nothing;
  }
  tell(o, a);
  for (std::size_t i = 0; i < places.size() && !o.out.empty(); ++i)
    write_text(a.interrupted ? place_when_interrupted(places[i]) : places[i], a.best()->phases[i].assessment.candidate.text);
  return a.interrupted ? ExitCode::interrupted : judge(o, a);
}

ExitCode plan(const Options& o) {
  if (o.search) return plan_searched(o);
  std::optional<Waiting> waiting("simulating");
  const planning::Facts facts = planning::load_facts();
  const planning::Answer a = planning::answer(o.request, facts);
  waiting.reset();
  if (a.best() == nullptr) throw InfeasibleError(Problem{o.request.choice.plan, "", "", no_plan(a), ""});
  tell(o, a);
  return judge(o, a);
}

std::vector<std::string> values_of(const std::string& text) {
  const bool nested = text.starts_with('{') || text.starts_with('[');
  return nested ? std::vector<std::string>{text} : CLI::detail::split(text, ',');
}

using Words = std::vector<std::string>;

void add_choice(CLI::App& c, planning::PlanChoice& o) {
  c.add_option("PLAN", o.plan, "plan file, config.json of a model, or name of a model preset")->required();
  add_list(c, "--cluster", o.clusters, "clusters to compare, in place of the plan's");
  c.add_option("--devices", o.devices, "numbers of devices to compare, in place of the plan's; parallel.data follows from them")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->type_name("INT,...");
  const auto sizes = [&](const std::string& flag, const std::string& field, int bits, const std::string& help) {
    const auto add = [&o, field](const std::vector<std::int64_t>& values) {
      planning::FieldValues all{field, {}};
      for (const std::int64_t v : values) all.values.push_back(std::to_string(v));
      o.fields.push_back(std::move(all));
    };
    return c.add_option_function<std::vector<std::int64_t>>(flag, add, help)
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << bits))
        ->type_name("INT,...");
  };
  sizes("--seq-length", "training.seq_length", 27, "tokens of a sequence to compare [the plan's]");
  CLI::Option* batch = sizes("--global-batch", "training.global_batch_size", 31, "sequences of a step to compare [the plan's]");
  const auto set = [&o](const Words& texts) {
    for (const std::string& text : texts) {
      const auto [field, values] = pair_of("--set", text);
      o.fields.push_back({field, values_of(values)});
    }
  };
  c.add_option_function<Words>("--set", set, "a plan field and the values to compare; may be given again")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FIELD=VALUE,...");
  c.add_option("--sequences-per-device", o.sequences_per_device, "sequences per device: the global batch then grows with the devices [the plan's batch]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->excludes(batch);
  add_stack_option(c, o.stack);
}

void add_failures(CLI::App& c, planning::FailureChoice& o) {
  const auto number = [&c](const std::string& flag, std::optional<double>& to, double most, const std::string& help) {
    return c.add_option(flag, to, help)->type_name("SECONDS")->check(within(0, most, true));
  };
  c.option_defaults()->group("Failures and checkpoints");
  auto* failures = number("--failures", o.per_device_day, 1000, "failures of a device in a day; 0 for none [topology/budget/failures.json]")->type_name("NUMBER");
  c.add_option("--mtbf", o.mtbf_hours, "hours between failures of a device")->type_name("HOURS")->check(within(0, 1e12, false))->excludes(failures);
  number("--detection", o.detection_s, 1e7, "seconds until a failure is noticed [topology/budget/failures.json]");
  number("--restart", o.restart_s, 1e7, "seconds from noticing a failure to the next step [topology/budget/failures.json]");
  auto* save = number("--save", o.save_s, 1e7, "seconds that saving a checkpoint takes [its bytes / the storage's rate]");
  c.add_option("--storage", o.storage_bytes_per_s, "rate of the storage in bytes per second, for the whole job [topology/budget/failures.json, by device]")
      ->type_name("NUMBER")
      ->check(within(0, 1e18, false))
      ->excludes(save);
  c.add_flag("--async-save", o.async, "the job goes on while a checkpoint is written");
  c.add_option("--interval", o.interval_s, "seconds of work between checkpoints [the best; without failures one save at the end]")->type_name("SECONDS")->check(within(0, 1e9, false));
  c.add_option("--repair", o.repair_hours, "hours until a broken node is repaired [another node is at hand]")->type_name("HOURS")->check(within(0, 1e6, true));
  c.add_option("--spares", o.spares, "spare nodes (racks where a rack is one node), paid like others [with --repair: enough for 99 % of the time]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  c.add_option("--goodput", o.goodput, "share of time whose steps count; replaces the options of failures and checkpoints")->type_name("FRACTION")->check(within(0, 1, false));
}

void add_power(CLI::App& c, planning::PowerChoice& o) {
  c.option_defaults()->group("Power");
  c.add_option("--watts", o.busy_w, "of a busy device [topology/budget/power.json]")->type_name("WATTS")->check(within(0, 1e6, true));
  c.add_option("--idle-watts", o.idle_w, "of an idle device [as --watts]")->type_name("WATTS")->check(within(0, 1e6, true));
  c.add_option("--host-watts", o.host_w, "of a device's share of its host [0 with --watts]")->type_name("WATTS")->check(within(0, 1e6, true));
  c.add_option("--pue", o.pue, "power of the building / power of its machines [topology/budget/power.json]")->type_name("NUMBER")->check(within(1, 100, true));
  c.add_option("--grid", o.grid, "kg of CO2 per kWh, or a grid of topology/budget/power.json [CO2 is not computed]")->type_name("NUMBER|NAME");
  c.add_option("--power-limit", o.limit_kw, "power of the building in kW; a warning if the training needs more")->type_name("KILOWATTS")->check(within(0, 1e9, false));
}

void add_layouts(CLI::App& c, Options& o) {
  c.option_defaults()->group("Search of layouts");
  CLI::Option* search = c.add_flag("--search", o.search,
                                   "search the layout with the fastest step for each combination of the options' values, as `tandem search` does, in "
                                   "place of the given one. Limits and money then rank the combinations");
  add_axes(c, o.layouts.axes)->needs(search);
  c.add_flag("--any-stack", o.layouts.any_stack, "also search layouts that the stack cannot run")->needs(search);
  c.add_option("--out,--export", o.out, "file for the best plan; of several phases FILE-1, FILE-2, ... before its extension")->type_name("FILE")->needs(search);
  search->excludes(c.get_option("--step-time"));
}

std::string what_if_help() {
  std::string names;
  for (const auto& [name, meaning] : planning::change_names()) names += (names.empty() ? "" : ", ") + name + " (" + meaning + ")";
  return "one change and its effect; may be given again. Plan fields (several at once: parallel.tensor=2,parallel.data=4), or " + names;
}

/// "TOKENS" or "TOKENS:FIELD=VALUE,..."
planning::Phase phase_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  std::string tokens = text.substr(0, colon);
  const bool number = !tokens.empty() && tokens.find_first_not_of("+-.0123456789eEkKmMbBgGtT ") == std::string::npos;
  const std::string wrong = token_count()(tokens);
  if (!number || colon + 1 == text.size())
    throw CLI::ValidationError("--phase", '"' + text + "\" is not of the form TOKENS:FIELD=VALUE,... or TOKENS");
  if (!wrong.empty()) throw CLI::ValidationError("--phase", wrong);
  planning::Phase out{std::strtod(tokens.c_str(), nullptr), {}};
  if (colon == std::string::npos) return out;
  const auto [field, value] = pair_of("--phase", text.substr(colon + 1));
  out.fields = planning::fields_of(field, value, "--phase");
  return out;
}

void add_tokens(CLI::App& c, Options& o) {
  CLI::Option* tokens = c.add_option("--tokens", o.tokens, "tokens to train on, e.g. 2e12, 300B or 1.5T")->type_name("NUMBER")->transform(token_count());
  const auto phase = [&o](const Words& texts) {
    for (const std::string& text : texts) o.request.phases.push_back(phase_of(text));
  };
  c.add_option_function<Words>("--phase", phase, "one phase of the training: TOKENS:FIELD=VALUE,..., its tokens and the plan fields in which it "
                               "differs (1e11:training.seq_length=32768,parallel.context=8), or TOKENS alone; give it again for each phase")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PHASE")
      ->excludes(tokens);
}

void require_tokens(Options& o) {
  if (o.request.phases.empty() && o.tokens == 0)
    throw CLI::ValidationError("--tokens", "is needed, or --phase for each phase: the tokens to train on");
  if (o.request.phases.empty()) o.request.phases.push_back({o.tokens, {}});
}

void add_changes(CLI::App& c, planning::Request& o) {
  const auto what_if = [&o](const Words& texts) {
    for (const std::string& text : texts) o.what_if.push_back(pair_of("--what-if", text));
  };
  c.option_defaults()->group("What if");
  c.add_option_function<Words>("--what-if", what_if, what_if_help())
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME=VALUE,...");
  c.add_flag("--tornado", o.tornado, "how days and money change with one input at a time");
}

}  // namespace

void add_plan(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  o->request.jobs = all_cores();
  CLI::App* command = app.add_subcommand("plan", "Predict the days, money, energy and failures of a whole training");
  add_tokens(*command, *o);
  command->add_option("--days", o->request.days, "longest training; the answer has the probability of being in time")
      ->type_name("DAYS")->check(within(0, kMostDays, false));
  command->add_option("--budget", o->request.budget, "largest cost, in the currency of the price; the answer has the probability of staying within it")
      ->type_name("MONEY")->check(within(0, kMostMoney, false));
  command->add_option("--step-time", o->request.step_s,
                      "measured step time of a single plan: all figures rest on it, and --what-if scales it by simulated ratios [simulated]")
      ->type_name("SECONDS")->check(within(0, 1e6, false));
  command->add_option("--jobs", o->request.jobs, "plans at a time [processors]")->check(CLI::Range(1, 1024));
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->option_defaults()->group("Plans to compare");
  add_choice(*command, o->request.choice);
  add_layouts(*command, *o);
  command->option_defaults()->group("Prices");
  add_price(*command, o->request.price);
  add_failures(*command, o->request.failures);
  add_power(*command, o->request.power);
  add_changes(*command, o->request);
  command->footer("Ranges hold 80 % of outcomes and come from the errors of earlier predictions. Money is the price times the hours of all rented devices: whole nodes (racks where a rack is one node) unless the offer is of one device, and spares. It has no electricity, storage or staff. Phases follow each other on one cluster; each begins with a restart. Errors of their step times are taken as fully dependent: their ranges add up. The best of several plans is the cheapest that meets --days and --budget; exit code 5 if none meets them.");
  command->callback([o, &exit] {
    require_tokens(*o);
    exit = plan(*o);
  });
}

}  // namespace tandem::program
