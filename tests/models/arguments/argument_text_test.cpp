#include "models/arguments/argument_text.hpp"

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

arguments::Arguments read(const std::string& text) {
  const auto name = [](const std::string& option) {
    if (option == "disable-bias-linear") return arguments::ArgumentName{"add_bias_linear", true};
    std::string out = option;
    for (char& c : out) c = c == '-' ? '_' : c;
    return arguments::ArgumentName{out, false};
  };
  return arguments::read_arguments(text, name, "run.args");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
    return "";
  } catch (const ConfigError& e) {
    return e.problems().front().message();
  }
}

}  // namespace

TEST_CASE("options have the values of their kind") {
  const arguments::Arguments got = read("torchrun --nproc_per_node 8 /a/pretrain_gpt.py --num-layers 96 --lr 6.0e-5 --swiglu "
                                        "--disable-bias-linear --split=949,50,1 --rampup-batch-size 16 16 5859375 --fp8-format None");
  CHECK(got.program == "pretrain_gpt.py");
  CHECK_FALSE(got.printed);
  CHECK(*got.values == json({{"nproc_per_node", 8}, {"num_layers", 96}, {"lr", 6e-5}, {"swiglu", true}, {"add_bias_linear", false},
                            {"split", {949, 50, 1}}, {"rampup_batch_size", {16, 16, 5859375}}, {"fp8_format", nullptr}}));
}

TEST_CASE("a later option takes the place of an earlier one") { CHECK((*read("--seed 1 --seed 2").values)["seed"] == 2); }

TEST_CASE("quotes, backslashes and comments are a shell's") {
  const json got = *read("--a 'x y' \\\n --b \"z\" # --c 1\n --moe-layer-freq '([0]*2+[1]*3)'").values;
  CHECK(got == json({{"a", "x y"}, {"b", "z"}, {"moe_layer_freq", {0, 0, 1, 1, 1}}}));
  CHECK(refusal("--a 'x").find("has an open quote") != std::string::npos);
}

TEST_CASE("what only a shell can read is refused") {
  CHECK(refusal("#!/bin/bash\n--num-layers 2").find("starts no program that is seen here") != std::string::npos);
  CHECK(refusal("#!/usr/bin/env python3\nprint('--num-layers 2')").find("begins a script that is none of a shell") != std::string::npos);
  CHECK(read("--num-layers $LAYERS").open.at("num_layers") == "--num-layers $LAYERS");
  CHECK(refusal("nothing here").find("has no option and no block of arguments") != std::string::npos);
}

TEST_CASE("a printed block is read with its marks, and the last whole one counts") {
  const arguments::Arguments got = read("[rank0]: ------------- arguments -------------\n  seed ............................................ 1\n"
                                        "------------- end of arguments -------------\n"
                                        "12:00: ------------- arguments -------------\n"
                                        "[default7]:  num_layers ...................................... 40\n"
                                        "  cp_comm_type .................................... ['p2p']\n"
                                        "  window_size ..................................... (127, 0)\n"
                                        "  swiglu .......................................... True\n"
                                        "  kv_channels ..................................... None\n"
                                        "  loading weights ... please wait\n"
                                        "------------- end of arguments -------------\n"
                                        "------------- arguments -------------\n  seed ............................................ 3\n");
  CHECK(got.printed);
  CHECK(*got.values == json({{"num_layers", 40}, {"cp_comm_type", {"p2p"}}, {"window_size", {127, 0}}, {"swiglu", true}, {"kv_channels", nullptr}}));
}

TEST_CASE("values that are no list stay texts") {
  CHECK(arguments::argument_value("[1, 2") == "[1, 2");
  CHECK(arguments::argument_value("(1,)") == json({1}));
  CHECK(arguments::argument_value("[1]*200000") == "[1]*200000");
  CHECK(arguments::argument_value("-1") == -1);
  CHECK(arguments::argument_value(".001") == 1e-3);
  CHECK(arguments::argument_value("nan") == "nan");
  CHECK(arguments::argument_value("1e999") == "1e999");
}

TEST_CASE("underscores between digits are Python's") {
  // The Python language reference, 2.4.5 "Integer literals": int() takes a single underscore between digits, and nowhere else.
  CHECK(arguments::argument_value("300_000_000") == 300000000);
  CHECK(arguments::argument_value("1_0.2_5e1_0") == 10.25e10);
  CHECK(arguments::argument_value("1_000,2") == json({1000, 2}));
  for (const char* text : {"_1", "1_", "1__0", "1_x", "x_1", "1_.5", "_"}) CHECK(arguments::argument_value(text) == text);
}

TEST_CASE("layouts of stages count their layers") {
  CHECK(arguments::layout_layers("Et*3|(tt|)*3,m|L") == json({3, 2, 2, 2, 0, 0}));
  CHECK(arguments::layout_layers("Ett|ttL") == json({2, 2}));
  CHECK(arguments::layout_layers("Ett|tx").is_null());
  CHECK(arguments::layout_layers("(tt|").is_null());
  CHECK(arguments::layout_layers("ttt").is_null());
}
