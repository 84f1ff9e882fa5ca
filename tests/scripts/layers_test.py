#!/usr/bin/env python3
"""scripts/layers finds each kind of breach, and only breaches."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

LAYERS = pathlib.Path(__file__).resolve().parents[2] / "scripts/layers"

DESIGN = """
| module | may include | holds |
|---|---|---|
| core | | ids |
| score | core | a judge |
| fit | core, score | a solver |
| apps | all | programs |

| header | only in |
|---|---|
| `torch/` `ATen/` | `lib/fit/torch/*` |
| `nlohmann/json.hpp` | `*.cpp` |
| `immintrin.h` | nowhere |
"""


class Layers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for module in ("core", "score", "fit"):
            self.write(f"lib/{module}/own.hpp", "#pragma once\n")
        self.write("apps/eplb-x/options.hpp", "#pragma once\n")
        self.write("apps/shared/report.hpp", "#pragma once\n")
        self.write("docs/design.md", DESIGN)
        for top in ("tests", "scripts"):
            self.write(f"{top}/.keep", "")

    def write(self, path, text):
        file = pathlib.Path(self.folder.name, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_layers(self):
        done = subprocess.run([sys.executable, LAYERS, self.folder.name], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def accepts(self, path, text):
        self.write(path, text)
        self.assertEqual(self.run_layers()[0], 0, self.run_layers()[1])

    def refuses(self, path, text, *words):
        self.accepts(path, "")
        self.write(path, text)
        code, output = self.run_layers()
        self.assertEqual(code, 1)
        self.assertEqual(len(output.splitlines()), 1, output)
        for word in (path, *words):
            self.assertIn(word, output)

    def test_a_judge_may_not_include_the_solver_but_the_solver_may_include_the_judge(self):
        self.refuses("lib/score/judge.cpp", '#include "score/own.hpp"\n#include "fit/own.hpp"\n', ":2:", "score may not")
        self.write("lib/score/judge.cpp", "")
        self.accepts("lib/fit/solver.cpp", '#include "score/own.hpp"\n#include "core/own.hpp"\n')

    def test_a_folder_inside_a_module_has_the_rules_of_the_module(self):
        self.refuses("lib/core/deep/down.cpp", '  #  include "score/own.hpp"\n', "core may not include score")

    def test_apps_may_include_every_module_their_own_folder_and_what_apps_share(self):
        self.accepts("apps/eplb-x/run.cpp", '#include "options.hpp"\n#include "fit/own.hpp"\n#include "shared/report.hpp"\n')
        self.refuses("apps/eplb-x/run.cpp", '#include "missing.hpp"\n', "missing.hpp")

    def test_a_module_may_not_include_what_apps_share(self):
        self.refuses("lib/fit/solver.cpp", '#include "shared/report.hpp"\n', "shared/report.hpp")

    def test_a_third_party_header_stays_in_its_place(self):
        self.accepts("lib/fit/torch/op.cpp", "#include <torch/library.h>\n")
        self.refuses("lib/fit/solver.cpp", "#include <ATen/ATen.h>\n", "lib/fit/torch/*")
        self.write("lib/fit/solver.cpp", "")
        self.accepts("lib/fit/read.cpp", "#include <nlohmann/json.hpp>\n")
        self.refuses("lib/fit/read.hpp", "#include <nlohmann/json.hpp>\n", "*.cpp")

    def test_a_header_that_is_allowed_nowhere_is_refused_everywhere(self):
        self.refuses("lib/core/fast.cpp", "#include <immintrin.h>\n", "no file")

    def test_a_module_that_the_table_does_not_list_is_refused(self):
        self.write("lib/util/drawer.hpp", "")
        code, output = self.run_layers()
        self.assertEqual(code, 1)
        self.assertIn("lib/util", output)

    def test_600_lines_are_allowed_and_601_are_not(self):
        self.accepts("tests/long.cpp", "\n" * 600)
        self.refuses("tests/long.cpp", "\n" * 601, "601 lines")

    def test_a_design_page_without_the_table_is_an_error(self):
        self.write("docs/design.md", "nothing here\n")
        done = subprocess.run([sys.executable, LAYERS, self.folder.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no table", done.stderr)


if __name__ == "__main__":
    unittest.main()
