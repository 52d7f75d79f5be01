#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/base/waiting.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/commands/price_arguments.hpp"
#include "experiments/tandem/commands/search_arguments.hpp"
#include "experiments/tandem/planning/conditions.hpp"
#include "experiments/tandem/search/changes_report.hpp"
#include "experiments/tandem/search/kept.hpp"
#include "experiments/tandem/search/report.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "models/base/threads.hpp"
#include "reports/page/html_page.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

struct Options {
  search::Request request;
  std::vector<std::string> clusters;
  std::vector<std::int64_t> devices;
  search::SearchOptions search;
  search::Shard shard;
  planning::PriceChoice price;
  std::string out, why, keep, page;
  std::vector<std::string> merge;
  double change_seconds = 30;
  int jobs = all_cores();
  bool json = false, pareto = false;
};

/// One search for each cluster and number of devices, with what they share.
class Searches {
 public:
  explicit Searches(const Options& o) : options_(o) {
    for (const std::string& cluster : o.clusters.empty() ? std::vector<std::string>{""} : o.clusters)
      for (const std::int64_t devices : o.devices.empty() ? std::vector<std::int64_t>{0} : o.devices) add(cluster, devices);
    std::vector<search::Search*> all = list();
    keeper_.emplace(o.keep, o.shard, kind(), all);
  }
  Searches(const Searches&) = delete;
  Searches& operator=(const Searches&) = delete;

  /// Finds out what the answer needs; false where it was interrupted. --keep keeps what is known either way.
  bool explore() {
    if (!options_.merge.empty()) search::merge(options_.merge, kind(), list());
    tell_resumed(keeper_->resume());
    const bool whole = explored();
    keeper_->write(whole);
    if (!whole)
      log(options_.keep.empty() ? "tandem: this search cannot go on later; one with --keep FILE can"
                                : "tandem: " + options_.keep + " keeps what is known; the same command goes on from it");
    return whole;
  }

  std::vector<search::Search*> list() {
    std::vector<search::Search*> out;
    for (search::Search& s : searches_) out.push_back(&s);
    return out;
  }
  search::Search& first() { return searches_.front(); }
  const search::Request& first_request() const { return requests_.front(); }
  /// What fronts were made of, those that were interrupted too.
  std::vector<search::FrontSearch> take_fronts() {
    fronts_.resize(searches_.size(), search::FrontSearch{{}, false, true});
    return std::move(fronts_);
  }

 private:
  bool explored() {
    waiting_.emplace(progress(), Elsewhere::lines);
    bool whole = true;
    try {
      for (search::Search& s : searches_)
        if (options_.pareto) fronts_.push_back(search::explore_front(s));
        else s.explore();
    } catch (const Interrupted&) {
      whole = false;
    }
    waiting_.reset();
    return whole;
  }

  search::Kind kind() const { return options_.pareto ? search::Kind::front : search::Kind::fastest; }

  void tell_resumed(search::Resumed resumed) const {
    const std::string other = options_.pareto ? "was written without --pareto" : "was written with --pareto";
    if (resumed == search::Resumed::all) log("tandem: goes on from " + options_.keep);
    if (resumed == search::Resumed::simulations) log("tandem: takes the simulated layouts of " + options_.keep + ", which " + other);
  }

  void learned() {
    constexpr std::chrono::milliseconds kPause{400};  // a terminal shows no more
    keeper_->learned();
    const auto now = std::chrono::steady_clock::now();
    if (!waiting_ || now - told_ < kPause) return;
    told_ = now;
    waiting_->at(progress());
  }

  std::string progress() const {
    std::int64_t settled = 0, groups = 0, sharp = 0;
    std::size_t simulated = 0;
    for (const search::Search& s : searches_) {
      settled += s.settled_groups(), groups += s.judge().space().groups();
      simulated += s.knowledge().simulated.size(), sharp += s.sharp_groups();
    }
    return "searching: " + count_text(settled) + " of " + count_text(groups) + " groups looked at, bounds of " + count_text(sharp) +
           " sharpened, " + count_text(static_cast<std::int64_t>(simulated)) + " layouts simulated";
  }

  void add(const std::string& cluster, std::int64_t devices) {
    search::Request request = options_.request;
    request.cluster = cluster, request.devices = devices, request.compared = options_.devices;
    search::SearchOptions options = options_.search;
    options.jobs = interruptible(options_.jobs);
    options.shard = options_.shard.index, options.shards = options_.shard.of;
    options.learned = [this] { learned(); };
    requests_.push_back(request);
    spaces_.emplace_back(search::read_question(request));
    searches_.emplace_back(spaces_.back(), options);
  }

  const Options& options_;
  const InterruptWatch watch_;
  std::vector<search::Request> requests_;
  std::deque<search::Space> spaces_;
  std::deque<search::Search> searches_;
  std::optional<search::Keeper> keeper_;
  std::vector<search::FrontSearch> fronts_;
  std::optional<Waiting> waiting_;  ///< while it explores
  std::chrono::steady_clock::time_point told_;
};

/// A shard has no answer: its file is what it makes.
ExitCode end_shard(Searches& all, const Options& o) {
  std::size_t estimated = 0, simulated = 0;
  for (const search::Search* s : all.list()) {
    estimated += s->knowledge().found.size();
    simulated += s->knowledge().simulated.size();
  }
  print("shard " + text_of(o.shard) + ": " + count_text(static_cast<std::int64_t>(estimated)) + " candidates estimated, " +
        count_text(static_cast<std::int64_t>(simulated)) + " simulated; " + o.keep + "\n");
  return ExitCode::ok;
}

void tell_why(const search::Search& search, const search::Answer& answer, const Options& o) {
  if (o.why.empty()) return;
  const std::string text = search::why_text(search, answer, o.why);
  o.json ? log(text) : print(text);
}

ExitCode nothing_found(const Options& o, bool complete, const std::string& found = "no candidate fits") {
  print_error(o.request.subject + ": nothing found: " + (complete ? found : "no simulated candidate fits; --events N simulates more"));
  return ExitCode::nothing;
}

/// What a search of one place has found.
struct Findings {
  search::Answer answer;
  search::Changes changes;               ///< if nothing fits
  std::optional<search::Fewer> fewer;
};

void tell_wrong_bounds(const search::Search& search, const search::Answer& answer) {
  if (const std::string text = search::wrong_bounds_text(search, answer); !text.empty()) log("tandem: " + text);
}

void tell_answer(const search::Search& search, const Findings& f, const Options& o) {
  tell_wrong_bounds(search, f.answer);
  o.json ? print_json(search::to_json(search, f.answer, f.changes, f.fewer))
         : print(search::to_text(search, f.answer, f.changes, f.fewer));
}

/// How to go on with the first row.
void tell_next(const Options& o) {
  if (o.json) return;
  const std::string plan = o.out.empty() ? "best.json" : o.out;
  print((o.out.empty() ? "next: --out best.json writes row 1 as a plan" : "next: row 1 is in " + o.out) + "; `tandem simulate " + plan +
        "` says where its time goes, `tandem explain " + plan + "` where its values come from, `tandem plan " + plan +
        " --tokens T` days and price\n");
}

void export_plan(const search::Space& space, search::CandidateId id, const std::string& path) {
  if (!path.empty()) write_text(path, space.document(id));
}

/// The best that an interrupted search has found.
ExitCode tell_interrupted(const search::Search& search, const Options& o) {
  const search::Answer answer = search.answer_so_far(o.search.best);
  tell_answer(search, {answer, {}, {}}, o);
  tell_why(search, answer, o);
  if (!answer.best.empty()) export_plan(search.judge().space(), answer.best.front().id, place_when_interrupted(o.out));
  return ExitCode::interrupted;
}

search::Changes try_changes(Searches& all, const Options& o) {
  const search::Search& search = all.first();
  log("tandem: nothing fits; searching for changes that make something fit, for " + number_text(o.change_seconds, 0) +
      " s at most (--changes)");
  const Waiting waiting("trying changes", Elsewhere::lines);
  return search::find_changes(all.first_request(), search.judge().space(), search.options(), o.change_seconds);
}

ExitCode tell_nothing_fits(Searches& all, const search::Answer& answer, const Options& o) {
  const search::Search& search = all.first();
  tell_why(search, answer, o);
  search::Changes changes;
  bool whole = true;
  try {
    if (o.change_seconds > 0) changes = try_changes(all, o);
  } catch (const Interrupted&) {
    log("tandem: not all changes were tried");
    whole = false;
  }
  tell_answer(search, {answer, changes, {}}, o);
  if (!whole) return ExitCode::interrupted;
  if (!changes.asked) return nothing_found(o, answer.complete);
  return nothing_found(o, answer.complete, search::would_fit(search, answer, changes));
}

ExitCode tell(Searches& all, const Options& o) {
  const search::Search& search = all.first();
  const search::Answer answer = search.answer();
  if (answer.best.empty()) return tell_nothing_fits(all, answer, o);
  Findings findings{answer, {}, {}};
  bool whole = true;
  try {
    const Waiting waiting("trying fewer devices", Elsewhere::lines);
    findings.fewer = search::faster_with_fewer(all.first_request(), search, answer);
  } catch (const Interrupted&) {
    whole = false;
  }
  tell_answer(search, findings, o);
  tell_why(search, answer, o);
  export_plan(search.judge().space(), answer.best.front().id, o.out);
  if (whole) tell_next(o);
  return whole ? ExitCode::ok : ExitCode::interrupted;
}

/// What the places cost. Says before the search which objectives some of them do not have.
std::vector<search::Rates> rates_of_places(const std::vector<search::Search*>& searches, const Options& o) {
  std::vector<search::Rates> rates;
  std::vector<std::string> clusters;
  for (const search::Search* s : searches) {
    rates.push_back(search::rates_of(s->judge().space(), o.price));
    clusters.push_back(rates.back().cluster);
  }
  planning::require_price_clusters(o.price, clusters);
  for (const std::string& text : search::left_out(searches, rates)) log("tandem: " + text);
  return rates;
}

ExitCode tell_front(Searches& all, std::vector<search::Rates> rates, bool whole, const Options& o) {
  const std::vector<search::Search*> searches = all.list();
  const search::ParetoFront front = search::pareto_front(searches, all.take_fronts(), std::move(rates));
  o.json ? print_json(search::to_json(searches, front)) : print(search::to_text(searches, front));
  for (std::size_t i = 0; i < searches.size(); ++i) tell_wrong_bounds(*searches[i], front.answers[i]);
  tell_why(*searches.front(), front.answers.front(), o);
  if (front.points.empty()) return whole ? nothing_found(o, front.complete) : ExitCode::interrupted;
  const auto path = [&](const std::string& asked) { return whole ? asked : place_when_interrupted(asked); };
  const search::ParetoPoint& best = front.points.front();
  const search::Space& space = searches[best.search]->judge().space();
  export_plan(space, best.step.id, path(o.out));
  if (!o.page.empty())
    write_text(path(o.page), html_page("search", title(space.plan(0)) + ", Pareto front – Tandem", search::page_json(searches, front)));
  return whole ? ExitCode::ok : ExitCode::interrupted;
}

/// Several places make a front; the fastest layout of each is another question.
void require_one_place(const Options& o) {
  const std::size_t places = std::max<std::size_t>(1, o.clusters.size()) * std::max<std::size_t>(1, o.devices.size());
  if (places > 1 && !o.pareto)
    throw ConfigError(Problem{"", "--cluster and --devices", "", "make " + std::to_string(places) + " places to search",
                              "add --pareto for the front over all of them, or name one"});
  if (places > 1 && !o.why.empty())
    throw ConfigError(Problem{"", "--why", o.why, "needs one place", "name one cluster and one number of devices"});
}

ExitCode search_plans(const Options& o) {
  require_one_place(o);
  std::vector<std::string> inputs = o.merge;
  if (is_preset_path(o.request.subject)) inputs.push_back(o.request.subject);
  prepare_outputs({o.out, o.keep, o.page}, inputs);
  Searches all(o);
  std::vector<search::Rates> rates = o.pareto ? rates_of_places(all.list(), o) : std::vector<search::Rates>{};
  const bool whole = all.explore();
  if (o.shard.of > 1) return whole ? end_shard(all, o) : ExitCode::interrupted;
  if (o.pareto) return tell_front(all, std::move(rates), whole, o);
  return whole ? tell(all, o) : tell_interrupted(all.first(), o);
}

void add_question(CLI::App& c, Options& o) {
  c.add_option("MODEL|PLAN", o.request.subject,
               "model preset, Hugging Face config.json, or plan file; its fields that say \"auto\" are searched")->required();
  add_list(c, "--cluster", o.clusters, "cluster preset, or the file of one; several with --pareto [the plan's]");
  c.add_option("--devices", o.devices, "devices; several with --pareto [the plan's]")
      ->delimiter(',')->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 22))->type_name("INT,...");
  c.add_option("--seq-length", o.request.sequence, "tokens of a sequence [the plan's, else at most 4096]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 27));
  c.add_option("--global-batch", o.request.batch, "sequences of a step [the plan's, else about 4 M tokens]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  add_axes(c, o.request.axes);
  add_stack_option(c, o.request.stack);
  c.add_flag("--any-stack", o.search.any_stack, "also search layouts that the stack cannot run");
}

void add_answer(CLI::App& c, Options& o) {
  c.add_option("--best", o.search.best, "rows of the answer")->check(CLI::Range(1, 1000))->capture_default_str();
  c.add_option("--out,--export", o.out, "file for the fastest plan")->type_name("FILE");
  c.add_flag("--json", o.json, "one JSON object on stdout");
  c.add_option("--why", o.why, "say what became of these candidates, \"tensor=16,pipeline=1\"")->type_name("NAME=VALUE,...");
  c.add_option("--events", o.search.events, "simulations at most")->check(CLI::Range(1, 1000000))->capture_default_str();
  c.add_option("--jobs", o.jobs, "threads [processors]")->check(CLI::Range(1, 1024));
  c.add_option("--changes", o.change_seconds, "if nothing fits, seconds to search for changes that make something fit; 0: none")
      ->type_name("SECONDS")->check(CLI::Range(0.0, 1e6))->capture_default_str();
}

/// The front in place of the fastest.
void add_pareto(CLI::App& c, Options& o) {
  c.option_defaults()->group("Pareto front");
  CLI::Option* pareto = c.add_flag("--pareto", o.pareto, "print the Pareto front: layouts that no other layout beats in step time, memory, cost and energy at once");
  c.add_option("--html,--page", o.page, "write an HTML page about the front")->type_name("FILE")->needs(pareto);
  add_price(c, o.price);
  for (const char* name : {"--price", "--price-kind", "--provider"}) c.get_option(name)->needs(pareto);
}

/// Searches that are spread over processes or time.
void add_parts(CLI::App& c, Options& o) {
  c.option_defaults()->group("In several runs or processes");
  CLI::Option* keep = c.add_option("--keep", o.keep,
                                   "file for the progress of the search, written after the first simulated layout, about every 15 s, when "
                                   "interrupted and at the end; if it exists, the search continues from it")
                          ->type_name("FILE");
  CLI::Option* shard =
      c.add_option_function<std::string>("--shard", [&o](const std::string& text) { o.shard = search::read_shard(text); },
                                         "search one of N parts, I from 0 to N - 1, into the file of --keep")
          ->type_name("I/N")->needs(keep);
  c.add_option("--merge", o.merge, "join these files of all shards; the answer equals that of one process")
      ->type_name("FILE...")->excludes(shard);
  for (const char* name : {"--json", "--why", "--out", "--html"}) shard->excludes(c.get_option(name));
}

}  // namespace

void add_search(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("search", "Find the fastest layouts of a model on a cluster");
  add_question(*command, *o);
  add_answer(*command, *o);
  add_pareto(*command, *o);
  add_parts(*command, *o);
  command->callback([o, &exit] { exit = search_plans(*o); });
}

}  // namespace tandem::program
