// Numbers in 4 bits: against codes and scales of the published formula (tests/fixtures/nf4.py, which bitsandbytes confirms).

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "exec/shared/nf4.hpp"
#include "exec/state/stored_values.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"
#include "tests/source_dir.hpp"

using nlohmann::json;

namespace tandem::exec::test {
namespace {

const json& fixture() {
  static const json all = json::parse(std::ifstream(tests::source_dir() + "/tests/fixtures/nf4.json"));
  return all;
}

std::vector<std::byte> stored(const std::vector<double>& values) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(DType::nf4, static_cast<std::int64_t>(values.size())).count()));
  store_values(DType::nf4, values, bytes.data());
  return bytes;
}

std::vector<double> loaded(const std::vector<std::byte>& bytes, std::size_t n) {
  std::vector<double> values(n);
  load_values(DType::nf4, bytes.data(), values);
  return values;
}

/// All blocks of the fixture, one after another.
std::vector<double> all_values() {
  std::vector<double> values;
  for (const json& block : fixture().at("blocks"))
    for (const double v : block.at("values")) values.push_back(v);
  return values;
}

}  // namespace

TEST_CASE("the 16 numbers of nf4 are the formula's") {
  for (int i = 0; i < 16; ++i)
    CHECK(std::abs(Nf4Block::number(i) - fixture().at("numbers").at(static_cast<std::size_t>(i)).get<double>()) < 2e-7);
}

TEST_CASE("a block's codes are those of the nearest numbers, two in a byte, and its scale is the largest magnitude") {
  for (const json& of : fixture().at("blocks")) {
    const std::vector<double> values = of.at("values");
    Nf4Block block;
    std::memcpy(&block, stored(values).data(), sizeof(block));
    CHECK(block.scale == static_cast<float>(of.at("scale").get<double>()));
    for (int i = 0; i < Nf4Block::kElements; ++i) REQUIRE(block.code(i) == of.at("codes").at(static_cast<std::size_t>(i)).get<int>());
    CHECK(static_cast<int>(block.codes[0]) == 16 * of.at("codes").at(0).get<int>() + of.at("codes").at(1).get<int>());
  }
}

TEST_CASE("dequantized numbers are codes' numbers times scales, in fp32, and quantizing them again changes no bit") {
  const std::vector<double> values = all_values();
  const std::vector<std::byte> bytes = stored(values);
  const std::vector<double> back = loaded(bytes, values.size());
  std::size_t at = 0;
  for (const json& block : fixture().at("blocks"))
    for (const int code : block.at("codes"))
      REQUIRE(back[at++] == static_cast<double>(Nf4Block::number(code) * static_cast<float>(block.at("scale").get<double>())));
  CHECK(stored(back) == bytes);
  std::vector<std::byte> wide(4 * values.size()), narrow(bytes.size());
  convert_values(DType::nf4, bytes.data(), kDequantized, wide);
  convert_values(kDequantized, wide.data(), DType::nf4, narrow);
  CHECK(narrow == bytes);
}

TEST_CASE("the kernel writes the dequantized numbers, rounded to the type of the product") {
  const DType type = GENERATE(DType::fp64, DType::fp32, DType::bf16, DType::fp16);
  const std::vector<double> values = all_values();
  const std::vector<std::byte> bytes = stored(values);
  const auto backend = make_cpu_backend(2);
  const auto n = static_cast<std::int64_t>(values.size());
  const auto from = backend->allocate(bytes.size()), to = backend->allocate(static_cast<std::size_t>(bytes_of(type, n).count()));
  from->write(0, bytes);
  const Tensor in{from->address(), DType::nf4, n}, out{to->address(), type, n};
  const Op op = Dequantize{n, DType::nf4, type};
  const DType inputs[] = {DType::nf4}, outputs[] = {type};
  REQUIRE(backend->supports(op, {type, inputs, outputs}).possible);
  backend->queue(Stream::compute).run({op, type, std::span(&in, 1), std::span(&out, 1), {}});
  std::vector<std::byte> read(static_cast<std::size_t>(bytes_of(type, n).count())), wanted(read.size());
  to->read(0, read);
  store_values(type, loaded(bytes, values.size()), wanted.data());
  CHECK(read == wanted);
}

TEST_CASE("double quantization has no kernel, and a part of a block is no place") {
  const auto backend = make_cpu_backend(1);
  const DType inputs[] = {DType::nf4_double}, outputs[] = {DType::bf16};
  CHECK_FALSE(backend->supports(Dequantize{16384, DType::nf4_double, DType::bf16}, {DType::bf16, inputs, outputs}).possible);
  std::vector<double> some(32);
  std::vector<std::byte> bytes(36);
  CHECK_THROWS_AS(store_values(DType::nf4, some, bytes.data()), ContractError);
}

}  // namespace tandem::exec::test
