// Initial values and gathered tensors over hand-made layouts, apart from any training: whatever is cut and shared out comes
// back as it went in, and where it lies is written down here by hand.
#include <cmath>
#include <map>
#include <numeric>

#include "exec/cpu/backend.hpp"
#include "exec/state/gather.hpp"
#include "exec/state/initialise.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Param cut(const char* name, std::int64_t rows, std::int64_t cols, int dim, std::int64_t tensor) {
  Param p;
  p.name = name;
  p.rows = dim == 0 ? rows / tensor : rows;
  p.cols = dim == 1 ? cols / tensor : cols;
  p.full_rows = rows, p.full_cols = cols;
  p.shard_dim = dim;
  p.outer = dim == 1 ? p.cols : p.rows;
  return p;
}

/// How the state of a stage lies on its ranks.
struct Lay {
  std::int64_t tensor = 1, data = 1, context = 1, expert = 1, shard = 1;
  bool gradients_sharded = false, weights_sharded = false;
  std::int64_t expert_tensor = 0, expert_shard = 1;
  std::int64_t world() const { return tensor * data * context; }
};

/// A program of these parameters in one unit for those of every rank and one for the experts.
class ProgramMaker {
 public:
  explicit ProgramMaker(const Lay& lay) : lay_(lay) { program_.stage = StageId(0); }

  ProgramMaker& add(Param p) {
    p.global_index = p.init_id = static_cast<std::int32_t>(names_.try_emplace(p.name, names_.size()).first->second);
    p.offset = end_;
    end_ += p.elements();
    program_.params.push_back(p);
    return *this;
  }
  /// Ends a unit: its parts are equal, with at least `spare` elements behind the last parameter.
  ProgramMaker& unit(Replication replication, std::int64_t shards, std::int64_t spare = 0) {
    ShardUnit u{program_.flat_elements, end_ + spare - program_.flat_elements, shards, program_.shard_elements, replication};
    u.elements = (u.elements + shards - 1) / shards * shards;
    program_.units.push_back(u);
    program_.flat_elements = end_ = u.offset + u.elements;
    program_.shard_elements += u.shard_elements();
    return *this;
  }
  Program done() {
    program_.gradients_sharded = lay_.gradients_sharded, program_.weights_sharded = lay_.weights_sharded;
    add_buffer("weights", MemoryKind::weights, lay_.weights_sharded);
    add_buffer("gradients", MemoryKind::gradients, lay_.gradients_sharded);
    add_buffer("master", MemoryKind::optimizer, true);
    add_buffer("exp_avg", MemoryKind::optimizer, true);
    return program_;
  }

 private:
  void add_buffer(std::string_view name, MemoryKind kind, bool sharded) {
    const Bytes bytes((sharded ? program_.shard_elements : program_.flat_elements) * 8);
    const auto at = program_.memory.arena_bytes.count();
    program_.memory.allocations.push_back({name, kind, at, bytes, 0, 0});
    program_.memory.arena_bytes = Bytes(at + bytes.count());
  }

  Lay lay_;
  Program program_;
  std::map<std::string, std::size_t> names_;
  std::int64_t end_ = 0;
};

/// All ranks of one stage, their memory full of NaN.
struct World {
  Program program;
  Mesh mesh;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<RankState> ranks;

  World(const Lay& lay, Program p)
      : program(std::move(p)),
        mesh({lay.tensor, lay.context, 1, lay.data, 1}, "tp-cp-ep-dp-pp",
             {lay.expert, lay.shard, 1, {}, {}, lay.expert_tensor, lay.expert_shard}) {
    for (std::int32_t r = 0; r < lay.world(); ++r) {
      memory.push_back(make_cpu_backend()->allocate(static_cast<std::size_t>(program.memory.arena_bytes.count())));
      memory.back()->fill(0, memory.back()->size(), std::byte{0xFF});  // a NaN
      ranks.push_back(rank_state(program, mesh, Rank(r), memory.back().get()));
    }
  }
  World(const World&) = delete;

  double* buffer(std::size_t rank, std::string_view name) {
    return reinterpret_cast<double*>(memory[rank]->address() + state_offset(program, name));
  }
  std::vector<double> values(std::size_t rank, std::string_view name, std::size_t first, std::size_t count) {
    const double* at = buffer(rank, name) + first;
    return {at, at + count};
  }
  std::vector<GatheredTensor> gather(std::string_view name) const { return exec::gather(ranks, name, DType::fp64); }
};

Plan plan() {
  Plan p;
  p.model.num_layers = 8;
  p.model.init_std = 0.5;
  p.training.seed = 99;
  p.training.dtypes = {DType::fp64, DType::fp64, DType::fp64, DType::fp64, DType::fp64, DType::fp64};
  return p;
}

/// Tensor k counts from 1000 k: no two elements are alike.
void number(World& w) {
  std::map<std::string, double> begin;
  initialise(w.ranks, plan(), [&](const std::string& name, std::vector<double>& full) {
    const double first = begin.try_emplace(name, 1000.0 * static_cast<double>(begin.size())).first->second;
    std::iota(full.begin(), full.end(), first);
  });
}

/// Whether every gathered tensor counts as number() had it; global indices are in order of first appearance, as here.
bool numbered(const std::vector<GatheredTensor>& tensors) {
  for (std::size_t t = 0; t < tensors.size(); ++t)
    for (std::size_t i = 0; i < tensors[t].values.size(); ++i)
      if (tensors[t].values[i] != 1000.0 * static_cast<double>(t) + static_cast<double>(i)) return false;
  return !tensors.empty();
}

// A matrix cut by rows, one by columns, a vector cut in pieces, a whole one: 6 x 4 at most.
Program mixed(const Lay& lay) {
  ProgramMaker maker(lay);
  auto rows = cut("by_rows", 6, 4, 0, lay.tensor), columns = cut("by_columns", 2, 6, 1, lay.tensor);
  auto vector = cut("vector", 6, 1, 0, lay.tensor), whole = cut("whole", 5, 1, -1, lay.tensor);
  columns.init = Param::Init::normal_scaled, vector.init = Param::Init::zeros, whole.init = Param::Init::ones;
  return maker.add(rows).add(columns).add(vector).add(whole).unit(Replication::data, lay.shard, 1).done();
}

std::vector<GatheredTensor> initialised(const Lay& lay) {
  World w(lay, mixed(lay));
  initialise(w.ranks, plan(), {});
  return w.gather("weights");
}

/// 13 elements and 7, and 20 or more with what pads them to the shards.
Program two_vectors(const Lay& lay) {
  return ProgramMaker(lay).add(cut("a", 13, 1, -1, 1)).add(cut("b", 7, 1, -1, 1)).unit(Replication::data, lay.shard).done();
}

Lay zero(int stage, std::int64_t data, std::int64_t shard) {
  Lay lay;
  lay.data = data, lay.shard = shard;
  lay.gradients_sharded = stage >= 2, lay.weights_sharded = stage >= 3;
  return lay;
}

}  // namespace

TEST_CASE("Initial values do not depend on the layout") {
  const auto whole = initialised({});
  Lay lay = GENERATE(Lay{2}, Lay{3}, Lay{6}, Lay{2, 2, 2, 1, 4}, Lay{3, 4, 1, 1, 2, true}, Lay{1, 3, 2, 1, 6, true, true});
  const auto shared = initialised(lay);
  REQUIRE(shared.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(shared[i].values == whole[i].values);
}

TEST_CASE("Gathered tensors come in ascending global index with their whole shape") {
  World w({2}, mixed({2}));
  for (auto& p : w.program.params) p.global_index = 3 - p.global_index;
  initialise(w.ranks, plan(), {});
  const auto tensors = w.gather("weights");
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "whole");
  CHECK(tensors[3].name == "by_rows");
  CHECK(tensors[3].rows == 6);
  CHECK(tensors[3].cols == 4);
  CHECK(tensors[0].values == std::vector<double>(5, 1.0));
  CHECK(tensors[1].values == std::vector<double>(6, 0.0));
}

TEST_CASE("A parameter cut by rows or columns lies on each tensor rank in its part, and comes back whole") {
  World w({2}, mixed({2}));
  number(w);
  CHECK(w.values(1, "weights", 0, 3) == std::vector<double>{12, 13, 14});                 // rows 3..5 of 6 x 4
  CHECK(w.values(1, "weights", 12, 6) == std::vector<double>{1003, 1004, 1005, 1009, 1010, 1011});  // columns 3..5 of 2 x 6
  CHECK(w.values(1, "weights", 18, 3) == std::vector<double>{2003, 2004, 2005});
  CHECK(w.values(1, "weights", 21, 5) == std::vector<double>{3000, 3001, 3002, 3003, 3004});
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
}

TEST_CASE("Every data and context rank starts equal and optimizer state starts at zero") {
  World w({2, 3, 2}, mixed({2, 3, 2}));
  initialise(w.ranks, plan(), {});
  for (std::size_t r = 2; r < 12; ++r)
    for (std::size_t i = 0; i < 26; ++i) REQUIRE(w.buffer(r, "weights")[i] == w.buffer(r % 2, "weights")[i]);
  for (const auto* name : {"exp_avg", "gradients"})
    for (const auto& t : w.gather(name))
      for (const auto v : t.values) REQUIRE(v == 0);
}

TEST_CASE("Keys and values that several tensor ranks hold are written to all of them and read off the first") {
  // Two groups of rows {queries of two ranks, 2 rows each; keys and values, 2 rows}: 12 rows of 3.
  Lay lay{4};
  Param queries = cut("qkv", 12, 3, 0, 6), keys = queries;
  queries.rows = keys.rows = 2;
  queries.repeat = keys.repeat = 2;
  queries.outer = keys.outer = 6;
  queries.inner = 2;
  keys.first = 4, keys.inner = 0;
  World w(lay, ProgramMaker(lay).add(queries).add(keys).unit(Replication::data, 1).done());
  number(w);
  const double first_query[] = {0, 6, 18, 24}, first_key[] = {12, 12, 30, 30};  // element 0 of rows 0,2,6,8 and 4,4,10,10
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(w.buffer(r, "weights")[0] == first_query[r]);
    CHECK(w.buffer(r, "weights")[6] == first_key[r]);
  }
  for (const std::size_t copy : {1, 3}) std::fill_n(w.buffer(copy, "weights") + 6, 6, -1);
  const auto tensors = w.gather("weights");
  CHECK(tensors.size() == 1);
  CHECK(numbered(tensors));
  w.buffer(2, "weights")[6] = -1;
  CHECK_FALSE(numbered(w.gather("weights")));
}

TEST_CASE("Experts lie on their ranks, each cut over the tensor ranks by itself") {
  // 4 experts of 4 x 3 over an expert group of 2 and 2 tensor ranks; data 4, so two ranks have the same experts.
  const std::int64_t shards = GENERATE(1, 2);
  Lay lay{2, 4, 1, 2};
  lay.expert_shard = shards;
  Param p = cut("experts", 16, 3, 0, 2);
  p.rows = 4, p.expert_rows = 2, p.outer = 2;
  p.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(cut("whole", 3, 1, -1, 2)).unit(Replication::data, 1).add(p).unit(p.replication, shards).done());
  number(w);
  // Tensor rank 1 of data index 3, which is expert rank 1: rows 2,3 of experts 2 and 3 are rows 10,11 and 14,15.
  CHECK(w.values(7, "weights", 3, 6) == std::vector<double>{1030, 1031, 1032, 1033, 1034, 1035});
  CHECK(w.values(7, "weights", 9, 6) == std::vector<double>{1042, 1043, 1044, 1045, 1046, 1047});
  CHECK(w.values(0, "weights", 3, 1) == std::vector<double>{1000});
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
  // Data indices 2 and 3 update the second halves where states are sharded and nothing that counts where they are not.
  std::fill_n(w.buffer(6, "weights") + 3, 6, -1);
  CHECK(numbered(w.gather("weights")));
  std::fill_n(w.buffer(6, "weights") + 9, 6, -1);
  CHECK(numbered(w.gather("weights")) == (shards == 1));
}

TEST_CASE("Experts cut over two of four tensor ranks lie on their ranks, and every part counts once") {
  // Of four ranks 0 and 1 have the first two experts, 2 and 3 the others, a half of the rows each; the bias is whole on both.
  Lay lay{4, 1, 1, 2};
  lay.expert_tensor = 2;
  Param p = cut("experts", 16, 3, 0, 2), bias = cut("bias", 8, 1, -1, 2);
  p.rows = 4, p.expert_rows = 2, p.outer = 2;
  bias.rows = 4, bias.expert_rows = 2;
  p.replication = bias.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(p).add(bias).unit(Replication::expert, 1).done());
  number(w);
  // Rank 3 has rows 2,3 of experts 2 and 3, rows 10,11 and 14,15, and the bias of both.
  CHECK(w.values(3, "weights", 0, 6) == std::vector<double>{30, 31, 32, 33, 34, 35});
  CHECK(w.values(3, "weights", 6, 6) == std::vector<double>{42, 43, 44, 45, 46, 47});
  CHECK(w.values(3, "weights", 12, 4) == std::vector<double>{1004, 1005, 1006, 1007});
  CHECK(numbered(w.gather("weights")));
  std::fill_n(w.buffer(3, "weights") + 12, 4, -1);  // the copy that does not count
  CHECK(numbered(w.gather("weights")));
  w.buffer(2, "weights")[12] = -1;
  CHECK_FALSE(numbered(w.gather("weights")));
}

TEST_CASE("Columns and whole rows of experts lie side by side and one after the other") {
  Lay lay{2, 2, 1, 2};
  Param columns = cut("columns", 8, 6, 1, 2), bias = cut("bias", 8, 1, -1, 2);
  columns.rows = 4, columns.expert_rows = 2;
  bias.rows = 4, bias.expert_rows = 2;
  columns.replication = bias.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(columns).add(bias).unit(Replication::expert, 1).done());
  number(w);
  CHECK(w.values(3, "weights", 0, 6) == std::vector<double>{27, 28, 29, 33, 34, 35});  // columns 3..5 of rows 4 and 5
  CHECK(w.values(3, "weights", 12, 4) == std::vector<double>{1004, 1005, 1006, 1007});
  CHECK(numbered(w.gather("weights")));
}

TEST_CASE("With sharded states every element is read off the rank that updates it") {
  // 20 elements over 4 ranks: rank r updates 5r .. 5r+4; element 13 on is the second vector.
  const int stage = GENERATE(1, 2);
  World w(zero(stage, 4, 4), two_vectors(zero(stage, 4, 4)));
  number(w);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(w.buffer(r, "weights")[19] == 1006);
    const double first[] = {0, 5, 10, 1002};
    CHECK(w.buffer(r, "master")[0] == first[r]);
    for (std::size_t i = 0; i < 20; ++i)
      if (i / 5 != r) w.buffer(r, "weights")[i] = -1;  // not yet told of the others' updates
  }
  CHECK(w.values(2, "master", 0, 5) == std::vector<double>{10, 11, 12, 1000, 1001});
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
}

TEST_CASE("Gradients are read where their owner has them, sharded or not") {
  const int stage = GENERATE(1, 2, 3);
  World w(zero(stage, 4, 4), two_vectors(zero(stage, 4, 4)));
  number(w);
  for (std::size_t r = 0; r < 4; ++r) {
    double* to = w.buffer(r, "gradients");
    if (stage == 1) std::fill_n(to, 20, -1);
    std::copy_n(w.buffer(r, "master"), 5, to + (stage == 1 ? 5 * r : 0));  // master lies in shards
  }
  CHECK(numbered(w.gather("gradients")));
}

TEST_CASE("Sharded weights are written and read in the rank's parts of every unit") {
  // Two units: 13 elements padded to 16, then 7 padded to 8, on 4 ranks: parts of 4 and 2.
  const auto lay = zero(3, 4, 4);
  World w(lay, ProgramMaker(lay)
                   .add(cut("a", 13, 1, -1, 1)).unit(Replication::data, 4)
                   .add(cut("b", 7, 1, -1, 1)).unit(Replication::data, 4).done());
  number(w);
  CHECK(w.program.memory.allocations[0].bytes == Bytes(6 * 8));
  CHECK(w.values(1, "weights", 0, 6) == std::vector<double>{4, 5, 6, 7, 1002, 1003});
  CHECK(w.values(3, "weights", 0, 1) == std::vector<double>{12});
  CHECK(w.values(3, "weights", 1, 3) == std::vector<double>(3, 0.0));  // padding
  CHECK(w.values(3, "weights", 4, 1) == std::vector<double>{1006});
  CHECK(numbered(w.gather("weights")));
}

TEST_CASE("Copies of a shard are written alike and read off the first") {
  // Data 4 in shard groups of 2: ranks 0 and 2 hold the first half, 1 and 3 the second.
  const auto lay = zero(3, 4, 2);
  World w(lay, two_vectors(lay));
  number(w);
  CHECK(w.values(2, "weights", 0, 2) == std::vector<double>{0, 1});
  CHECK(w.values(3, "weights", 0, 4) == std::vector<double>{10, 11, 12, 1000});
  std::fill_n(w.buffer(2, "weights"), 10, -1);
  CHECK(numbered(w.gather("weights")));
  w.buffer(1, "weights")[0] = -1;
  CHECK_FALSE(numbered(w.gather("weights")));
}

TEST_CASE("Context ranks share in the shards") {
  Lay lay = zero(3, 2, 4);
  lay.context = 2;
  World w(lay, two_vectors(lay));
  number(w);
  CHECK(w.values(1, "weights", 0, 2) == std::vector<double>{5, 6});    // context 1 of data 0 is the second of four
  CHECK(w.values(2, "weights", 0, 2) == std::vector<double>{10, 11});
  CHECK(numbered(w.gather("weights")));
}

TEST_CASE("What nobody holds is not a number, and a missing buffer is a contract error") {
  const auto lay = zero(1, 2, 2);
  World w(lay, two_vectors(lay));
  number(w);
  w.ranks.pop_back();
  CHECK(std::isnan(w.gather("weights")[0].values[12]));
  CHECK_THROWS_AS(w.gather("exp_avg_sq"), ContractError);
}

TEST_CASE("Initial deviations are the model's, and smaller for residual projections by the root of twice the layers") {
  Param p = cut("big", 200, 100, -1, 1);
  const auto deviation = [&] {
    double sum = 0, squares = 0;
    const auto values = initial_values(p, plan());
    for (const auto v : values) sum += v, squares += v * v;
    const auto n = static_cast<double>(values.size());
    CHECK(std::abs(sum / n) < 0.02);  // five standard errors of the mean at deviation 0.5
    return std::sqrt(squares / n);
  };
  // Five standard errors of a deviation from 20,000 values: 5 / sqrt(2 * 20000) = 2.5 %.
  CHECK(deviation() == Approx(0.5).epsilon(0.025));
  p.init = Param::Init::normal_scaled;
  CHECK(deviation() == Approx(0.5 / 4).epsilon(0.025));  // sqrt(2 * 8 layers) = 4
}

TEST_CASE("Tied copies share their initial values, other parameters and seeds do not") {
  Param p = cut("a", 4, 4, -1, 1), copy = p, other = p;
  p.init_id = copy.init_id = 1, other.init_id = 2;
  copy.name = "b", copy.global_index = 7, copy.in_norm = false;
  auto seeded = plan();
  CHECK(initial_values(p, seeded) == initial_values(copy, seeded));
  CHECK(initial_values(p, seeded) != initial_values(other, seeded));
  seeded.training.seed = 100;
  CHECK(initial_values(p, plan()) != initial_values(p, seeded));
}

TEST_CASE("Tied copies are left out of what is gathered") {
  World w({}, mixed({}));
  w.program.params[0].in_norm = false;
  initialise(w.ranks, plan(), {});
  const auto tensors = w.gather("weights");
  CHECK(tensors.size() == 3);
  for (const auto& t : tensors) CHECK(t.name != "by_rows");
}

TEST_CASE("Values of another size are refused") {
  World w({}, mixed({}));
  CHECK_THROWS_AS(initialise(w.ranks, plan(), [](const std::string&, std::vector<double>& v) { v.pop_back(); }), ContractError);
}

TEST_CASE("Experts that a sharding group holds twice are shared by two ranks of it, and the other group has the same parts") {
  // 2 experts of 4 x 3 over an expert group of 2 on 8 data ranks: four copies of each, in two groups of four data ranks.
  Lay lay{1, 8, 1, 2};
  lay.expert_shard = 2;
  Param p = cut("experts", 8, 3, -1, 1);
  p.rows = 4, p.expert_rows = 4, p.outer = 4;
  p.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(p).unit(p.replication, 2).done());
  number(w);
  CHECK(numbered(w.gather("master")));
  // Expert 1 lies on the odd ranks: 1 and 5 update its first half, 3 and 7 its second one.
  const auto pieces = [&](int r) { return param_pieces(w.program, rank_state(w.program, w.mesh, Rank(r), nullptr).seat); };
  for (const int r : {1, 3, 5, 7}) {
    REQUIRE(pieces(r).size() == 1);
    CHECK(pieces(r)[0].first == (r % 4 == 1 ? 0 : 6));
    CHECK(pieces(r)[0].count == 6);
  }
}

namespace {

/// 5 words of 3 elements on two tensor ranks of 4 rows: the second one has one word, then three rows of padding.
Program words(const Lay& lay) {
  Param p = cut("words", 8, 3, 0, 2);
  p.full_rows = 5, p.vocabulary = true;
  return ProgramMaker(lay).add(p).unit(Replication::data, lay.shard).done();
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("Rows that pad a vocabulary are zero, and nobody updates or counts them") {
  Lay lay{2};
  lay.weights_sharded = GENERATE(false, true);
  World w(lay, words(lay));
  number(w);
  CHECK(w.values(0, "weights", 0, 12) == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const char* name : {"weights", "master"})
    CHECK(w.values(1, name, 0, 12) == joined({12, 13, 14}, std::vector<double>(9, 0.0)));
  CHECK(param_pieces(w.program, w.ranks[0].seat)[0].count == 12);
  CHECK(param_pieces(w.program, w.ranks[1].seat)[0].count == 3);
  const auto tensors = w.gather("weights");
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].rows == 5);
  CHECK(tensors[0].values.size() == 15);
  CHECK(numbered(tensors));
}

TEST_CASE("A shard that is nothing but padding is zero, and has nothing to update") {
  Lay lay = zero(3, 2, 2);
  lay.tensor = 2;
  World w(lay, words(lay));
  number(w);
  CHECK(w.values(1, "weights", 0, 6) == std::vector<double>{12, 13, 14, 0, 0, 0});
  CHECK(w.values(3, "weights", 0, 6) == std::vector<double>(6, 0.0));
  CHECK(w.values(3, "master", 0, 6) == std::vector<double>(6, 0.0));
  CHECK(param_pieces(w.program, w.ranks[3].seat).empty());
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
}
