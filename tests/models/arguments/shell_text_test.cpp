#include "models/arguments/shell/shell_text.hpp"

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using Words = std::vector<std::string>;

namespace {

/// The words of the last statement of a script.
Words last(const std::string& text) {
  const auto all = arguments::shell_statements("#!/bin/bash\n" + text, true, "run.sh");
  return all.empty() ? Words{} : all.back().words;
}

}  // namespace

// The expected words are those of bash 5.2 for the same text.
TEST_CASE("a script's variables have the values that it sets") {
  CHECK(last("A=b\nrun --x $A --y \"${A}c\" '$A'") == Words{"run", "--x", "b", "--y", "bc", "$A"});
  CHECK(last("A='b c'\nrun $A \"$A\"") == Words{"run", "b", "c", "b c"});
  CHECK(last("A=b\nA+=c\nrun $A") == Words{"run", "bc"});
  CHECK(last("export A=8 B=2\nrun $((A * (B + 1))) $(( $A / B ))") == Words{"run", "24", "4"});
  CHECK(last("N=4\nrun $(expr 16 / $N) $(expr $N \\* 2) $(expr length x)") == Words{"run", "4", "8", "$(expr length x)"});
  CHECK(last("run ${A:-x} \"${A:-x y}\" ${B:=$((2+3))}") == Words{"run", "x", "x y", "5"});
  CHECK(last("A=\nrun ${A:-x} ${A-y} $A z") == Words{"run", "x", "z"});
  CHECK(last("L=(--a 1  # first\n  --b \"2 3\"\n)\nL+=(--c)\nrun \"${L[@]}\" ${L[*]}") ==
        Words{"run", "--a", "1", "--b", "2 3", "--c", "--a", "1", "--b", "2", "3", "--c"});
  CHECK(last("O=\"--a 1 \\\n --b\"\nrun $O \"$@\" $*") == Words{"run", "--a", "1", "--b"});
}

TEST_CASE("what a script's text does not set stays as it is written") {
  CHECK(last("run $A ${B} $(date +%s) `date`") == Words{"run", "$A", "${B}", "$(date +%s)", "$(date)"});
  CHECK(last("if [ -n \"$X\" ]; then A=1; else A=2; fi\nrun $A") == Words{"run", "$A"});
  CHECK(last("[ -z \"$X\" ] && A=1\nrun $A ${A:-3}") == Words{"run", "$A", "${A:-3}"});
  CHECK(last("A=0\nfor A in 1 2; do echo; done\nrun $A") == Words{"run", "$A"});
  CHECK(last("A=1\ncase $1 in\n  x) A=2 ;;\n  *) A=3 ;;\nesac\nrun $A") == Words{"run", "$A"});
  CHECK(last("f() {\n  A=1\n}\nrun $A") == Words{"run", "$A"});
  CHECK(last("if true; then B=1; fi\nA=2\nrun $A") == Words{"run", "2"});
}

TEST_CASE("statements end at lines, semicolons and pipes, and output goes elsewhere") {
  CHECK(last("run --a 1 > log 2>&1") == Words{"run", "--a", "1"});
  CHECK(last("run --a 1 &> log") == Words{"run", "--a", "1"});
  const auto all = arguments::shell_statements("cat <<EOF > hosts\nworker --b 2\nEOF\ncd x && run --a 1 2>&1 | tee log; a || b", true, "run.sh");
  REQUIRE(all.size() == 6);
  CHECK(all[0].words == Words{"cat"});
  CHECK(all[2].words == Words{"run", "--a", "1"});
  CHECK(all[2].certain);
  CHECK_FALSE(all[5].certain);
  const auto inside = arguments::shell_statements("#!/bin/sh\nfor i in 1 2; do\n run --a $i\ndone\n", true, "");
  REQUIRE(inside.size() == 1);
  CHECK_FALSE(inside[0].certain);
  CHECK(last("run <placeholder> --b") == Words{"run", "<placeholder>", "--b"});
}

TEST_CASE("a batch script's lines for SLURM say its numbers") {
  CHECK(last("#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nrun $SLURM_NNODES $SLURM_GPUS_ON_NODE") == Words{"run", "4", "8"});
  CHECK(last("#SBATCH -N 2\nrun $((SLURM_JOB_NUM_NODES * 8))") == Words{"run", "16"});
}

TEST_CASE("in a text that is no script signs of a shell are part of a word") {
  const auto words = [](const std::string& text) { return arguments::shell_statements(text, false, "run.args"); };
  CHECK(words("--layout Et*3|(tt|)*29,m|L\n--freq ([0]*3+[1]*58)").front().words == Words{"--layout", "Et*3|(tt|)*29,m|L", "--freq", "([0]*3+[1]*58)"});
  CHECK(words("N=8\nrun --a $N --b 1 2>&1 | tee log").front().words == Words{"N=8", "run", "--a", "8", "--b", "1"});
  CHECK_THROWS_AS(words("run 'open"), ConfigError);
}
