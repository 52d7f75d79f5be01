#!/usr/bin/env python3
"""The style checks are shown sources that break each rule, and sources that keep them."""
import tempfile
import unittest
from pathlib import Path

import style


def includes(path, line):
    return style.include_problems(Path(path), line + "\n")


class Guesses(unittest.TestCase):
    def test_code_asks_for_no_preset_model_or_vocabulary_by_name(self):
        for line in ('if (plan.cluster.preset == "dgx-h100")', 'if (m.vocab_size > 32000)', 'return model.name != "gpt"'):
            self.assertEqual(len(style.guess_problems(Path("sim/a.cpp"), line + "\n")), 1, line)
            self.assertEqual(style.guess_problems(Path("tests/a.cpp"), line + "\n"), [])
        self.assertEqual(style.guess_problems(Path("sim/a.cpp"), 'if (plan.cluster.generation == "hopper")\n'), [])

    def test_models_names_no_file_of_topology(self):
        line = 'constexpr auto kFolder = "topology/presets";\n'
        self.assertEqual(len(style.guess_problems(Path("models/a.cpp"), line)), 1)
        self.assertEqual(style.guess_problems(Path("topology/a.cpp"), line), [])


class PlanReads(unittest.TestCase):
    def test_a_field_of_a_plan_is_a_read_under_whatever_name_the_plan_has(self):
        for line in ("return plan.parallel.tensor;", "run_.plan.model.family;", "plan_.training.seq_length;", "f(setup.plan().cluster.devices);",
                     "int f(const Plan& p) { return p.training.steps; }"):
            self.assertEqual(style.plan_reads(line), 1, line)
        self.assertEqual(style.plan_reads("int f(const Plan& a, const Plan& b) { return a.model.hidden_size + b.parallel.data; }"), 2)

    def test_reads_through_a_reference_to_a_part_count_until_its_function_ends(self):
        text = "void f() {\n  const ParallelSpec& q = plan.parallel;\n  g(q.tensor, q.data);\n}\nvoid h(Q q) { q.tensor; }\n"
        self.assertEqual(style.plan_reads(text), 2)
        self.assertEqual(style.plan_reads("void f() {\n  const auto& t = x.plan_.training;\n  g(t.seed);\n}\n"), 1)
        self.assertEqual(style.plan_reads("void f() {\n  const auto& d = plan.training.dtypes;\n  g(d.weights, d.master);\n}\n"), 1)

    def test_what_only_looks_like_a_read_is_none(self):
        for line in ("plan.training.steps = 3;", "plan.training.optimizer.kind = k;", "// plan.parallel.tensor", 'refuse("plan.parallel.tensor");', "explain.model.name;", "plan.world_size();", "q.tensor;"):
            self.assertEqual(style.plan_reads(line), 0, line)

    def test_too_many_reads_are_told_but_not_of_models_nor_of_files_that_print_plans(self):
        text = "plan.parallel.tensor;\n" * (style.MOST_PLAN_READS + 1)
        def told(path):
            return style.plan_read_problems([(Path(path), text)])[0]
        self.assertIn("sim/a.cpp 51", told("sim/a.cpp")[0])
        for path in ("models/lowering/a.cpp", "experiments/tandem/explain/rows.cpp", "reports/prediction/plan_title.hpp"):
            self.assertEqual(told(path), [])
        self.assertEqual(style.plan_read_problems([(Path("sim/a.cpp"), text[:-22])])[0], [])


class Includes(unittest.TestCase):
    def test_an_include_against_the_direction_is_found(self):
        for path, included in (("sim/engine/engine.cpp", "exec/run/run.hpp"), ("exec/run/run.cpp", "sim/result/simulate.hpp"),
                               ("models/plan.cpp", "topology/topology.hpp"), ("reports/compare/compare.cpp", "sim/result/simulate.hpp")):
            self.assertTrue(includes(path, f'#include "{included}"'), path)

    def test_an_include_not_written_from_the_root_is_found(self):
        self.assertTrue(includes("models/plan.cpp", '#include "plan.hpp"'))
        self.assertTrue(includes("models/lowering/lower.cpp", '#include "../plan.hpp"'))

    def test_an_include_along_the_direction_is_fine(self):
        self.assertFalse(includes("sim/engine/engine.cpp", '#include "topology/topology.hpp"'))
        self.assertFalse(includes("tests/agree/books_test.cpp", '#include "exec/run/run.hpp"'))

    def test_a_third_party_outside_its_home_is_found(self):
        for path, included in (("models/plan/plan.hpp", "nlohmann/json.hpp"), ("models/plan/plan.hpp", "nlohmann/json_fwd.hpp"),
                               ("sim/route.cpp", "boost/graph/adjacency_list.hpp"), ("exec/run/run.cpp", "Eigen/Core"),
                               ("reports/compare/compare.cpp", "CLI/CLI.hpp"), ("exec/run/run.cpp", "thread"), ("exec/run/run.cpp", "future"),
                               ("exec/run/run.cpp", "mpi.h"), ("exec/process/world.cpp", "gloo/context.h")):
            self.assertTrue(includes(path, f"#include <{included}>"), path)

    def test_a_third_party_at_home_is_fine(self):
        for path, included in (("models/planfile/plan_parse.cpp", "nlohmann/json.hpp"), ("topology/route.cpp", "boost/graph/adjacency_list.hpp"),
                               ("exec/cpu/gemm/eigen.cpp", "Eigen/Core"), ("models/base/threads.hpp", "thread")):
            self.assertFalse(includes(path, f"#include <{included}>"), path)


class Disk(unittest.TestCase):
    def found(self, path, text):
        return style.disk_problems(Path(path), text)

    def test_a_call_outside_its_home_is_found_with_and_without_an_error_code(self):
        for text in ("if (std::filesystem::exists(path)) f();", "std::error_code no;\nbool a = std::filesystem::is_directory(path, no);",
                     "namespace fs = std::filesystem;\nfs::remove(a / b);", "for (const auto& e : std::filesystem::directory_iterator(p)) f(e);",
                     "using namespace std::filesystem;", "using std::filesystem::exists;"):
            self.assertEqual(len(self.found("sim/a.cpp", text)), 1, text)
            self.assertEqual(self.found("tests/sim/a.cpp", text), [])

    def test_a_call_that_may_throw_is_found_at_home(self):
        for call in ("exists(f(path, error))", "rename(a, b)", "directory_iterator it(path)", "current_path()", "file_size(path)"):
            text = f"std::error_code failed;\nstd::filesystem::{call};"
            self.assertEqual(len(self.found("models/base/a.cpp", text)), 1, text)
        for call in ("exists(f(path, error), failed)", "rename(a, b, failed)", "directory_iterator it(path, failed)", "directory_iterator()",
                     "is_symlink(std::filesystem::symlink_status(path, failed))"):
            text = f"std::error_code failed;\nstd::filesystem::{call};"
            self.assertEqual(self.found("models/base/a.cpp", text), [], text)

    def test_paths_comments_and_texts_are_fine(self):
        for text in ("std::filesystem::path(a).parent_path() / b;", "// std::filesystem::exists(a)", 'f("std::filesystem::exists(a)");'):
            self.assertEqual(self.found("sim/a.cpp", text), [])


class Doors(unittest.TestCase):
    def found(self, path, text):
        return style.door_problems(Path(path), text)

    def test_a_file_opened_past_the_doors_is_found(self):
        for text in ("std::ifstream in(path);", "std::ofstream out(path);", "FILE* f = std::fopen(name, mode);", "int f = ::open(path, O_RDONLY);"):
            self.assertEqual(len(self.found("sim/x.cpp", text)), 1, text)
            self.assertIn("input.hpp", self.found("sim/x.cpp", text)[0])

    def test_a_text_printed_past_the_door_is_found(self):
        for text in ("std::cout << name;", "std::printf(format, name);", "fputs(name, stderr);", "std::fwrite(a, 1, n, stdout);"):
            self.assertEqual(len(self.found("experiments/tandem/commands/x.cpp", text)), 1, text)

    def test_the_doors_themselves_comments_and_other_words_are_fine(self):
        for path, text in (("models/base/input.cpp", "::open(path, 0);"), ("experiments/tandem/base/terminal.cpp", "std::fwrite(a, 1, n, stdout);"),
                           ("sim/x.cpp", "// std::cout\nstd::snprintf(a, n, f); FairShare::open(bundles); fill_inputs(x); #include <fstream>"),
                           ("tests/x.cpp", "std::ifstream in(path);")):
            self.assertEqual(self.found(path, text), [], text)


class Places(unittest.TestCase):
    def test_a_path_that_leaves_the_project_is_found(self):
        self.assertTrue(style.path_problems(Path("a.cpp"), 'open("/home/me/plan.json")'))
        self.assertTrue(style.path_problems(Path("a.sh"), "cat ../shared/data.json"))

    def test_a_path_within_the_project_is_fine(self):
        self.assertFalse(style.path_problems(Path("a.cpp"), '#include "models/plan/plan.hpp"  // see out/demo'))

    def test_a_folder_without_readme_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "models").mkdir()
            (root / "models" / "a.cpp").write_text("int f() { return 1; }\n")
            self.assertEqual(style.check(root)[0], ["models: has no README.md"])
            (root / "models" / "README.md").write_text("what it is\n")
            self.assertEqual(style.check(root)[0], [])

    def test_a_folder_of_data_needs_a_readme_unless_the_one_above_names_it(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "models" / "presets").mkdir(parents=True)
            (root / "models" / "README.md").write_text("`presets/old/` is something else\n")
            (root / "models" / "presets" / "a.json").write_text("{}\n")
            self.assertEqual(style.check(root)[0],
                             ["models/presets: has no README.md, and models/README.md does not name `presets/`"])
            (root / "models" / "README.md").write_text("| `presets/` | models |\n")
            self.assertEqual(style.check(root)[0], [])
            (root / "models" / "presets" / "make.py").write_text("pass\n")
            self.assertEqual(style.check(root)[0], ["models/presets: has no README.md"])

    def test_a_folder_of_tests_needs_a_readme_unless_it_mirrors_a_folder_of_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("models", "tests", "tests/models", "tests/attack"):
                (root / name).mkdir()
                (root / name / "a.py").write_text("pass\n")
            for name in ("models", "tests"):
                (root / name / "README.md").write_text("`models/` and `attack/`\n")
            self.assertEqual(style.check(root)[0], ["tests/attack: has no README.md"])


def structure(*files):
    """Problems of sources given as (path, included paths)."""
    return style.structure_problems([(Path(path), "".join(f'#include "{name}"\n' for name in names)) for path, *names in files])


class Structure(unittest.TestCase):
    def test_a_circle_between_folders_is_found_though_no_files_include_each_other(self):
        problems, figures = structure(("exec/run/a.cpp", "exec/data/b.hpp"), ("exec/data/c.cpp", "exec/run/d.hpp"),
                                      ("exec/data/b.hpp",), ("exec/run/d.hpp",))
        self.assertEqual(problems, ["circle between folders: exec/data, exec/run"])
        self.assertIn("circles 1", figures)

    def test_folders_in_one_direction_are_fine(self):
        self.assertEqual(structure(("exec/run/a.cpp", "exec/data/b.hpp"), ("exec/run/e.hpp", "exec/data/b.hpp"),
                                   ("exec/data/b.hpp", "models/plan/plan.hpp"))[0], [])

    def test_an_arrow_against_the_order_is_found_though_it_closes_no_circle(self):
        problems, _ = structure(("sim/cost/a.cpp", "sim/network/b.hpp"), ("sim/network/b.hpp",))
        self.assertEqual(problems, ["sim/cost: includes sim/network, which comes later in ORDERS['sim']"])
        self.assertEqual(structure(("sim/network/a.cpp", "sim/cost/b.hpp"), ("sim/cost/b.hpp",))[0], [])

    def test_a_folder_that_the_order_does_not_name_is_found(self):
        self.assertEqual(structure(("sim/other/a.cpp",))[0], ["sim/other: ORDERS['sim'] does not name this folder"])

    def test_a_knot_is_counted_in_units_of_header_and_source(self):
        def ring(n):
            return [(f"models/graph/u{i}.{'cpp' if i % 2 else 'hpp'}", f"models/graph/u{(i + 1) % n}.hpp") for i in range(n)]
        most = style.LARGEST_KNOT
        self.assertEqual(structure(*ring(most))[0], [])
        problems, figures = structure(*ring(most + 1))
        self.assertEqual(len(problems), 1)
        self.assertIn(f"knot of {most + 1} units", problems[0])
        self.assertIn(f"largest {most + 1}", figures)

    def test_a_folder_that_is_too_full_is_found(self):
        most = style.FULLEST_FOLDER
        self.assertEqual(structure(*[(f"models/a{i}.hpp",) for i in range(most)])[0], [])
        self.assertIn(f"{most + 1} code files", structure(*[(f"models/a{i}.hpp",) for i in range(most + 1)])[0][0])


class TestNames(unittest.TestCase):
    def test_a_name_that_cmake_would_split_is_found(self):
        for name in ("numbers fill [0, 1)", "this holds; that too"):
            self.assertTrue(style.test_name_problems(Path("a.cpp"), f'TEST_CASE("{name}", "[slow]") {{'))

    def test_a_plain_name_with_a_tag_is_fine(self):
        self.assertFalse(style.test_name_problems(Path("a.cpp"), 'TEST_CASE("numbers are even", "[slow]") {'))


class OneDefinition(unittest.TestCase):
    def found(self, **texts):
        where = {}
        for path, text in texts.items():
            for name in style.types(text):
                where.setdefault(name, []).append(path)
        return style.one_definition_problems(where)

    def test_two_types_of_one_name_in_a_namespace_are_found(self):
        one = "namespace tandem {\nstruct Flow {\n  int id;\n};\n}  // namespace tandem\n"
        other = "namespace tandem {\nclass Flow : Base {\n};\n}  // namespace tandem\n"
        self.assertEqual(len(self.found(a=one, b=other)), 1)
        self.assertIn("tandem::Flow", self.found(a=one, b=other)[0])

    def test_names_apart_declarations_and_members_are_fine(self):
        one = "namespace tandem {\nstruct Flow {\n};\nstruct Traits {\n};\n}  // namespace tandem\n"
        for other in ("namespace tandem {\nnamespace {\nstruct Flow {\n};\n}  // namespace\n}  // namespace tandem\n",
                      "namespace tandem::sim {\nstruct Flow {\n};\n}  // namespace tandem::sim\n",
                      "namespace tandem {\nstruct Flow;\nclass Other;\n}  // namespace tandem\n",
                      "namespace tandem {\nstruct Flow::Part {\n};\ntemplate <>\nstruct Traits<int> {\n};\n}  // namespace tandem\n",
                      "namespace tandem {\nstruct Router {\n  struct Flow {\n  };\n};\n}  // namespace tandem\n"):
            self.assertEqual(self.found(a=one, b=other), [])


class Lines(unittest.TestCase):
    def test_a_line_of_code_that_is_too_long_is_found(self):
        long = "int " + "a" * (style.LONGEST_LINE - 8) + " = 1;"
        self.assertFalse(style.line_problems(Path("a.cpp"), f"int b;\n{long[1:]}\n"))
        self.assertEqual(len(style.line_problems(Path("a.cpp"), f"int b;\n{long}\n")), 1)
        self.assertIn("a.cpp:2", style.line_problems(Path("a.cpp"), f"int b;\n{long}\n")[0])

    def test_messages_comments_and_tables_may_be_long(self):
        for text in (f'f("{"a" * 200}");', f"int a;  // {'b ' * 100}", f"// clang-format off\nint {'a' * 200};\n// clang-format on"):
            self.assertFalse(style.line_problems(Path("a.cpp"), text + "\n"))
        self.assertTrue(style.line_problems(Path("a.cpp"), f"// clang-format off\n// clang-format on\nint {'a' * 200};\n"))


class Sizes(unittest.TestCase):
    def test_functions_are_counted_with_the_lambdas_inside_them(self):
        text = "int f() {\n  auto g = [](int a) { return a; };\n  return g(1);\n}\nint h() { return 2; }\n"
        self.assertEqual(style.function_sizes(text), [4, 1])

    def test_structs_braces_in_strings_and_control_flow_are_no_functions(self):
        text = 'struct S {\n  int a;\n};\nvoid f(int n) {\n  if (n) {\n    g("{");\n  }\n}\n'
        self.assertEqual(style.function_sizes(text), [5])


if __name__ == "__main__":
    unittest.main()
