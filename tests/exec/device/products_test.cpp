// Products as a device does them, and the file of their algorithms.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "exec/device/cuda.hpp"
#include "exec/device/product_choices.hpp"
#include "exec/device/works/product_parts.hpp"
#include "exec/device/product_shape.hpp"
#include "models/base/error.hpp"
#include "models/base/input.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace tandem::exec::test {
namespace {

using device::ProductChoices;
using device::ProductKey;

const device::ProductPlace kPlace{"NVIDIA H100 80GB HBM3", "cuBLASLt 13.1.0", "h100-sxm5-80gb", "2026-11-26"};

MatMul product(bool trans_a, bool trans_b) { return {48, 32, 16, trans_a, trans_b}; }

/// One of each kind that layers have.
std::vector<MatMul> products() {
  std::vector<MatMul> all{product(false, true), product(false, false), product(true, false)};
  MatMul biased = product(false, true), gelu = biased, gradient = product(false, false), added = product(true, false), sums = added;
  biased.bias = gelu.bias = true;
  gelu.activation = ProductActivation::gelu;
  gradient.activation = ProductActivation::gelu_gradient;
  added.accumulate = true;
  sums.sums = true;
  for (const MatMul& op : {biased, gelu, gradient, added, sums}) all.push_back(op);
  added.sums = true;
  all.push_back(added);
  return all;
}

std::string problem_of(const device::ProductPlace& place, const std::string& path) {
  try {
    ProductChoices(place, path);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a product of a layer is one shape, and the shape is that of no other product") {
  std::vector<device::GemmShape> shapes;
  for (const MatMul& op : products()) {
    const device::GemmShape shape = device::shape_of(op, DType::bf16, DType::fp32);
    const auto back = device::matmul_of(shape);
    REQUIRE(back);
    CHECK(device::shape_of(*back, DType::bf16, DType::fp32) == shape);
    CHECK((back->m == op.m && back->n == op.n && back->k == op.k));
    for (const device::GemmShape& other : shapes) CHECK_FALSE(other == shape);
    shapes.push_back(shape);
  }
  device::GemmShape batch = shapes.front();
  batch.batch = 2;
  CHECK_FALSE(device::matmul_of(batch));
}

TEST_CASE("algorithms that were timed are found in the next run, for the same shape, types and alignments alone") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.at("new/algorithms.json");
  std::vector<ProductKey> keys;
  for (const MatMul& op : products())
    for (const DType result : {DType::bf16, DType::fp32})
      keys.push_back({device::shape_of(op, DType::bf16, result), result == DType::fp32 ? 256u : 16u, 4});
  for (const DType type : {DType::tf32, DType::fp32, DType::bf16})  // products of no layer
    for (const std::int64_t stride : {0, 5000}) {
      device::GemmShape batch{{48, 16, 50, stride, true}, {16, 32, 16, 512}, {48, 32, 48, 1536}, 7, type, DType::fp32};
      keys.push_back({batch, 64, 256});
      batch.accumulate = true;
      keys.push_back({batch, 64, 256});
    }
  {
    ProductChoices choices(kPlace, path);
    choices.save();
    CHECK_FALSE(std::filesystem::exists(path));  // nothing to keep
    for (std::size_t i = 0; i < keys.size(); ++i) choices.keep(keys[i], {"algorithm " + std::to_string(i), 1e-5 * static_cast<double>(i + 1)});
    choices.save();
  }
  const ProductChoices next(kPlace, path);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = next.find(keys[i]);
    REQUIRE(found);
    CHECK(found->algorithm == "algorithm " + std::to_string(i));
    CHECK(found->seconds == 1e-5 * static_cast<double>(i + 1));
    ProductKey other = keys[i];
    other.alignment = 8;
    CHECK_FALSE(next.find(other));
  }
}

TEST_CASE("a program whose inputs are guarded adds what it timed to the file that it read") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.at("algorithms.json");
  const ProductKey first{device::shape_of(product(false, true), DType::bf16, DType::bf16)},
      second{device::shape_of(product(false, false), DType::bf16, DType::bf16)};
  ProductChoices before(kPlace, path);
  before.keep(first, {"a", 1e-5});
  before.save();
  const pid_t child = fork();  // the guard is its process' for good
  if (child == 0) try {
      guard_inputs();
      ProductChoices choices(kPlace, path);
      choices.keep(second, {"b", 2e-5});
      choices.save();
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const ProductChoices after(kPlace, path);
  CHECK((after.find(first) && after.find(second)));
}

TEST_CASE("a file of algorithms of another card or library is refused by name, and so is a file that is none") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.at("algorithms.json");
  ProductChoices choices(kPlace, path);
  choices.keep({device::shape_of(product(false, true), DType::bf16, DType::bf16)}, {"a", 1e-5});
  choices.save();
  CHECK(problem_of(kPlace, path).empty());
  device::ProductPlace other = kPlace;
  other.card = "NVIDIA H200";
  CHECK(problem_of(other, path).find("facts.card") != std::string::npos);
  CHECK(problem_of(other, path).find("NVIDIA H200") != std::string::npos);
  other = kPlace;
  other.library = "cuBLASLt 13.2.0";
  CHECK(problem_of(other, path).find("facts.library") != std::string::npos);
  CHECK(problem_of(kPlace, folder.file("plan.json", "{\"model\": {}}")).find("schema_version") != std::string::npos);
  ProductKey batch{device::shape_of(product(false, true), DType::bf16, DType::bf16)};
  batch.shape.batch = 3;
  choices.keep(batch, {"b", 1e-5});
  choices.save();
  CHECK(problem_of(kPlace, path).empty());
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.replace(text.find("batch 3"), 7, "batch x");
  CHECK(problem_of(kPlace, folder.file("broken.json", text)).find("figures") != std::string::npos);
}

TEST_CASE("the file of algorithms has a place of its own for each card and library") {
  device::ProductPlace other = kPlace;
  other.library = "cuBLASLt 13.2.0";
  CHECK(device::default_choices_path(kPlace) != device::default_choices_path(other));
  CHECK(device::default_choices_path(kPlace).ends_with("/tandem/algorithms/nvidia-h100-80gb-hbm3-cublaslt-13.1.0.json"));
}

TEST_CASE("what a product's kernel does beside is done behind it, in the order in which it is needed") {
  std::vector<std::byte> scratch(64);
  const device::GemmShape shape = device::shape_of(product(false, true), DType::bf16, DType::bf16);
  device::Product p{shape, scratch.data(), scratch.data() + 8, scratch.data() + 16};
  p.shape.bias = true;
  p.shape.activation = ProductActivation::gelu;
  p.vector = scratch.data() + 24;
  p.beside = scratch.data() + 32;
  const auto all = device::all_apart(p);
  REQUIRE(all.size() == 3);
  const auto& alone = std::get<device::Product>(all[0]);
  CHECK_FALSE(alone.shape.does_more());
  CHECK(alone.out == p.beside);  // which the activation reads
  const auto& bias = std::get<device::BiasKernel>(all[1]);
  CHECK((bias.y.address == p.beside && bias.bias.address == p.vector && bias.rows == 48 && bias.cols == 32));
  const auto& gelu = std::get<device::PointwiseKernel>(all[2]);
  CHECK((gelu.x.address == p.beside && gelu.y.address == p.out && !gelu.dy.here() && gelu.elements == 48 * 32));
  const auto halves = device::activation_apart(p);
  REQUIRE(halves.size() == 2);
  CHECK((std::get<device::Product>(halves[0]).shape.bias && std::get<device::Product>(halves[0]).vector == p.vector));

  p.shape.bias = false;
  p.shape.activation = ProductActivation::gelu_gradient;
  const auto gradient = device::all_apart(p);
  REQUIRE(gradient.size() == 2);
  const auto& dgelu = std::get<device::PointwiseKernel>(gradient[1]);
  CHECK((dgelu.x.address == p.beside && dgelu.dy.address == p.out && dgelu.y.address == p.out));
}

// On a device: TANDEM_TEST_BACKEND=cuda test_exec "[algorithms]".
TEST_CASE("a product's algorithms are timed before its first step on no data of the step, and kept", "[algorithms]") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.at("algorithms.json");
  if (tests::test_backend() != tests::TestBackend::cuda) {
    CHECK_THROWS(make_cuda_backend({false, std::make_shared<ProductChoices>(kPlace, path)}));
    return;
  }
  const CudaCard card = cuda_card();
  const device::ProductPlace here{card.name, card.products, "a-device", "2026-11-26"};
  const MatMul op{64, 64, 64, true, false, false, true, DType::fp32};
  std::vector<float> ones(64 * 64, 1), total(64 * 64, 2);
  std::string first;
  for (const bool again : {false, true}) {
    const auto choices = std::make_shared<ProductChoices>(here, path);
    const auto backend = make_cuda_backend({false, choices});
    const auto a = backend->allocate(ones.size() * 4), c = backend->allocate(total.size() * 4);
    a->write(0, std::as_bytes(std::span(ones)));
    c->write(0, std::as_bytes(std::span(total)));
    KernelContext context;
    context.table = table_address(*backend);
    const Tensor input{a->address(), DType::fp32, 64 * 64}, output{c->address(), DType::fp32, 64 * 64};
    const std::vector<Tensor> in{input, input, output}, out{output};
    Queue& queue = backend->queue(Stream::compute);
    queue.prepare({op, DType::fp32, in, out, context});
    queue.finish();
    std::vector<float> untouched(total.size());
    c->read(0, std::as_writable_bytes(std::span(untouched)));
    CHECK(untouched == total);
    CHECK(backend->counters().workspace_bytes > 0);
    queue.run({op, DType::fp32, in, out, context});
    queue.finish();
    c->read(0, std::as_writable_bytes(std::span(untouched)));
    CHECK(untouched == std::vector<float>(total.size(), 66));
    const auto kept = choices->find({device::shape_of(op, DType::fp32, DType::fp32), 256, 256});
    REQUIRE(kept);
    CHECK(kept->seconds > 0);
    if (again) CHECK(kept->algorithm == first);
    first = kept->algorithm;
    choices->save();
  }
}

}  // namespace tandem::exec::test
