#include "exec/checkpoint/file_keeper.hpp"

#include <malloc.h>
#include <unistd.h>

#include <new>

#include "exec/checkpoint/folder.hpp"
#include "exec/checkpoint/rank_files.hpp"
#include "exec/checkpoint/single_file.hpp"
#include "exec/process/together.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/leftovers.hpp"
#include "models/base/new_file.hpp"
#include "models/base/output.hpp"

namespace tandem::exec {
namespace {

std::exception_ptr out_of_memory(const std::string& path, std::int64_t steps) {
  return std::make_exception_ptr(
      DeviceError(path + ": the state of " + std::to_string(steps) + " steps cannot be saved: the host has no memory left for it"));
}

constexpr const char* kSign = "/shared";  // in the folder, with a process number: a Sign

/// One process' report about its part of a save.
struct Report {
  enum class Kind : std::uint8_t { written, unwritable, no_memory } kind = Kind::written;
  std::vector<Problem> problems;
};

/// Runs `work` and reports its failure, if any. Catches only failures after which training can go on.
Report attempt(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const ConfigError& e) {
    return {Report::Kind::unwritable, e.problems()};
  } catch (const std::bad_alloc&) {
    return {Report::Kind::no_memory, {}};
  } catch (const DeviceError&) {  // no thread
    return {Report::Kind::no_memory, {}};
  }
}

class Keeper : public StateKeeper {
 public:
  Keeper(KeeperOptions options, World& world) : options_(std::move(options)), control_(world.control()) {}

 protected:
  const KeeperOptions& options() const { return options_; }
  Control& control() { return control_; }

  /// Returns process 0's value in every process.
  bool agreed(bool mine) { return Unpacker(control_.broadcast(Packer().add(mine).take())).get<bool>(); }

  /// Process 0 only. If `report` is a failure, passes it to KeeperOptions::lost and returns true.
  bool lost(const Report& report, std::int64_t steps) {
    if (report.kind == Report::Kind::written) return false;
    if (report.kind == Report::Kind::no_memory) malloc_trim(0);  // gives freed memory back, for the next step's threads
    options_.lost(report.kind == Report::Kind::no_memory ? out_of_memory(options_.path, steps)
                                                         : std::make_exception_ptr(ConfigError(report.problems)));
    return true;
  }

  void tell_removed(const std::vector<std::string>& removed) {
    for (const std::string& left : removed) options_.tell("removed " + left + ", which a killed run had begun to write");
  }

 private:
  KeeperOptions options_;
  Control& control_;
};

class SingleFileKeeper final : public Keeper {
 public:
  using Keeper::Keeper;

  void keep(const StateMoment& moment) override {
    if (!agreed(control().first() && options().wanted())) return;
    if (control().first()) tell_removed(remove_leftovers(options().path));
    const Report report = attempt([&] {
      moment.with_all([&](std::span<const RankState> all) {
        save_single_file(options().path, options().run, {moment.facts, moment.plan, all});
      });
    });
    if (control().first() && !lost(report, moment.facts.steps)) options().kept(moment.facts.steps);
  }
};

/// Saves in the background, one save at a time.
class FolderKeeper final : public Keeper {
 public:
  FolderKeeper(KeeperOptions options, World& world)
      : Keeper(std::move(options), world), latest_(control().first() ? latest_name(this->options().path) : "") {}

  void keep(const StateMoment& moment) override {
    finish();
    if (!agreed(control().first() && options().wanted())) return;
    begin(moment);
  }

  void go_on() override {
    if (!begun_) return;
    bool all = true;
    for (const Bytestring& one : control().gather(Packer().add(!files_ || files_->ended()).take()))
      all = Unpacker(one).get<bool>() && all;
    if (agreed(all)) finish();
  }

  void finish() override {
    if (!begun_) return;
    begun_ = false;
    std::vector<WrittenPart> mine;
    if (files_) {
      const Report writing = attempt([&] { mine = files_->finish(); });
      if (begun_with_.kind == Report::Kind::written) begun_with_ = writing;
    }
    files_.reset();
    const auto all = control().gather(packed(begun_with_, mine));
    if (control().first()) conclude(all);
  }

 private:
  void begin(const StateMoment& moment) {
    begun_ = true;
    facts_ = moment.facts;
    tensors_ = kept_tensors(moment.world, moment.plan);
    begun_with_ = {};
    if (control().first()) begun_with_ = attempt([&] { make_folder(); });
    const Bytestring name = control().broadcast(Packer().add(written_).add(begun_with_.kind).take());
    Unpacker told(name);
    written_ = told.get_text();
    if (told.get<Report::Kind>() != Report::Kind::written) return;
    begun_with_ = attempt([&] {
      files_ = std::make_unique<RankFiles>(options().path + "/" + written_, planned_files(moment.world, tensors_));
      files_->feed();
    });
  }

  void make_folder() {
    tell_removed(remove_leftover_folders(options().path));
    tell_removed(remove_leftovers(latest_file(options().path)));
    tell_removed(remove_leftovers(options().path + kSign));
    written_ = step_name(facts_.steps) + "." + std::to_string(getpid()) + ".new";
    const std::string folder = options().path + "/" + written_;
    remove_folder(folder);
    if (const std::error_code why = make_folders(folder)) refuse_writing(folder, why.value());
  }

  static Bytestring packed(const Report& report, const std::vector<WrittenPart>& parts) {
    Packer out;
    out.add(report.kind).add(parts).add(report.problems.size());
    for (const Problem& p : report.problems) out.add(p.file).add(p.field).add(p.value).add(p.reason).add(p.remedy);
    return out.take();
  }

  static Report unpacked(Unpacker& from, std::vector<WrittenPart>& parts) {
    Report report{from.get<Report::Kind>(), {}};
    const auto more = from.get_vector<WrittenPart>();
    parts.insert(parts.end(), more.begin(), more.end());
    for (auto n = from.get<std::size_t>(); n > 0; --n) {
      Problem p;
      for (std::string* text : {&p.file, &p.field, &p.value, &p.reason, &p.remedy}) *text = from.get_text();
      report.problems.push_back(std::move(p));
    }
    return report;
  }

  /// Process 0 only: writes the manifest and gives the checkpoint its final name.
  void conclude(const std::vector<Bytestring>& all) {
    std::vector<WrittenPart> parts;
    Report first;
    for (const Bytestring& one : all) {
      Unpacker from(one);
      const Report report = unpacked(from, parts);
      if (first.kind == Report::Kind::written) first = report;
    }
    if (first.kind == Report::Kind::written) first = attempt([&] { write_manifest(parts); });
    if (!lost(first, facts_.steps)) return options().kept(facts_.steps);
    if (!written_.empty()) remove_folder(options().path + "/" + written_);
  }

  void write_manifest(const std::vector<WrittenPart>& parts) {
    Manifest manifest{facts_, options().run, {}, tensors_, {}};
    manifest.stored.resize(tensors_.size());
    std::map<std::int32_t, std::uint32_t> files;
    for (const WrittenPart& p : parts) files.emplace(p.rank, 0);
    for (auto& [rank, number] : files) {
      number = static_cast<std::uint32_t>(manifest.files.size());
      manifest.files.push_back(rank_file(Rank(rank)));
    }
    for (const WrittenPart& p : parts) {
      manifest.tensors[p.tensor].parts.push_back(p.block);
      manifest.stored[p.tensor].push_back({files.at(p.rank), p.at, p.crc32});
    }
    const std::string folder = options().path + "/" + written_;
    NewFile out(folder + "/" + kManifestName, folder + "/" + kManifestName);
    out.add(text_of(manifest));
    out.close();
    synchronise_folder(folder);
    publish(options().path, written_, facts_.steps, options().keep, latest_);
    latest_ = step_name(facts_.steps);
  }

  std::string latest_;         ///< name of the latest checkpoint, in process 0
  bool begun_ = false;
  StateFacts facts_;
  std::vector<SavedTensor> tensors_;
  std::string written_;        ///< name of the folder being written, inside the path
  Report begun_with_;
  std::unique_ptr<RankFiles> files_;
};

/// A file that process 0 writes, to find out whether the other processes can see it.
class Sign {
 public:
  explicit Sign(const std::string& path) : path_(path) {
    if (const std::error_code why = make_folders(path))
      throw ConfigError(Problem{path, "", "", "cannot be written: " + why.message(), "give another folder"});
    text_ = std::to_string(getpid()) + " " + introduce_self().host;
    file_ = path + kSign + "." + std::to_string(getpid()) + ".new";
    NewFile out(file_, path);
    out.add(text_);
    out.close();
  }
  ~Sign() { remove_file(file_); }
  Sign(const Sign&) = delete;
  Sign& operator=(const Sign&) = delete;

  const std::string& file() const { return file_; }
  const std::string& text() const { return text_; }

 private:
  std::string path_, file_, text_;
};

}  // namespace

std::unique_ptr<StateKeeper> make_file_keeper(KeeperOptions options, World& world) {
  if (names_one_file(options.path)) return std::make_unique<SingleFileKeeper>(std::move(options), world);
  return std::make_unique<FolderKeeper>(std::move(options), world);
}

void prepare_folder(const std::string& path, World& world) {
  Control& control = world.control();
  const Bytestring form = control.broadcast(Packer().add(control.first() && names_one_file(path)).take());
  if (Unpacker(form).get<bool>()) return;
  std::unique_ptr<Sign> sign;
  together(control, [&] {
    if (control.first()) sign = std::make_unique<Sign>(path);
  });
  const Bytestring told = control.broadcast(sign ? Packer().add(sign->file()).add(sign->text()).take() : Bytestring());
  Unpacker from(told);
  const std::string file = from.get_text(), text = from.get_text();
  together(control, [&] {
    if (is_regular_file(file) && InputFile(file).whole(4096) == text) return;
    throw ConfigError(Problem{path, "--save", "", "process " + std::to_string(control.process()) + " on " + introduce_self().host +
                                  " does not see what process 0 writes there",
                              "give a folder that all processes share, or a name that ends in .safetensors: process 0 then writes one file"});
  });
}

}  // namespace tandem::exec
