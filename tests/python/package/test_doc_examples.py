# SPDX-License-Identifier: Apache-2.0
"""Tests that the check of the documentation's examples finds errors, with page and line."""

import importlib
import shutil
import sys
from pathlib import Path

import limited
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def problems(monkeypatch, tmp_path):
    """Returns a function that checks a page with one block and returns the problems."""
    monkeypatch.syspath_prepend(ROOT / "scripts")

    def check(language, code, mark=""):
        page = tmp_path / "page.md"
        comment = f"<!-- {mark} -->\n" if mark else ""
        page.write_text(f"Prose.\n\n{comment}```{language}\n{code}\n```\n")
        return "\n".join(importlib.import_module("check_docs").CHECKS[language](page, "page.md"))

    return check


def test_a_block_that_nothing_checks_is_found(problems, monkeypatch, tmp_path):
    check = importlib.import_module("check_docs")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```text\na -> b\n```\n\n```\nx\n```\n\n```text\ndef f():\n    pass\n```\n")
    assert list(check.broken_examples(page)) == [
        "page.md:6: nothing checks blocks of ''",
        "page.md:10: this text is Python, and nothing checks it",
    ]


def test_python_that_fails_is_found(problems, capfd):
    assert problems("python", "print(1 + 1)") == ""
    assert problems("python", "x = 1\nx.nothing()") == "page.md: exit code 1"
    assert 'File "page.md", line 5' in capfd.readouterr().err


def test_blocks_that_cannot_run_must_compile_and_use_existing_names(problems, capsys):
    assert problems("python", "callout.cuda.load_inline(source)", "needs a GPU") == ""
    assert "page.md:5: not run: needs a GPU" in capsys.readouterr().out
    assert problems("python", "callout.cuda.load_inline(", "needs a GPU") == "page.md:5: '(' was never closed"
    assert (
        problems("python", "\ncallout.cuda.nothing(1)", "needs a GPU") == "page.md:6: there is no callout.cuda.nothing"
    )
    assert problems("python", "1", "not in the mood") == "page.md:5: unknown mark of a Python block: not in the mood"


def test_a_block_runs_if_its_package_is_installed(problems):
    assert problems("python", "raise SystemExit(3)", "needs the package jax") == "page.md: exit code 3"
    assert problems("python", "raise SystemExit(3)", "needs the package no_such") == ""


def test_each_of_two_processes_must_succeed(problems):
    code = "import os\nassert os.environ['COORDINATOR']\nraise SystemExit(int(os.environ['RANK']))"
    assert problems("python", code, "runs in two processes") == "page.md: exit code 1"


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["", "in: callout::Status Body()"])
def test_cpp_that_does_not_compile_is_found(problems, mark):
    header = '#include "callout/pjrt/host_callback.h"\n'
    assert problems("cpp", header + "callout::DType one = callout::DType::kFloat32;", mark) == ""
    broken = problems("cpp", header + "callout::DType one = callout::DType::kNothing;", mark)
    assert f"page.md:{6 if mark else 5}:" in broken
    assert "kNothing" in broken


def test_c_that_does_not_compile_is_found(problems):
    header = "#include <callout/c_api.h>\n"
    assert problems("c", header + "callout_barrier_wait(-1);", "in: void f(void)") == ""
    assert "callout_nothing" in problems("c", header + "callout_nothing(-1);", "in: void f(void)")
    assert "too few arguments" in problems("c", header + "callout_barrier_wait();", "in: void f(void)")


def test_commands_that_do_not_exist_are_found(problems):
    assert problems("sh", "callout run p.jax --bind loss=print --arg x.npy | head -1  # comments are left out") == ""
    assert problems("console", "$ callout info p.jax --plugin=p.so\nwhat it --prints") == ""
    assert problems("sh", "callout cat f --frmat=csv").endswith("callout cat has no option --frmat")
    assert problems("sh", "callout walk f").endswith("expected one of cat, compile, info, run")
    assert problems("sh", "make tests").endswith("the Makefile has no target tests")
    assert "syntax error" in problems("sh", "if true")


def test_a_project_that_cmake_refuses_is_found(problems):
    project = (
        "cmake_minimum_required(VERSION 3.25)\nproject(mine LANGUAGES CXX)\nfind_package(callout CONFIG REQUIRED)\n"
    )
    project += "add_library(mine SHARED mine.cc)\ntarget_link_libraries(mine PRIVATE callout::"
    if shutil.which("cmake") is None:
        pytest.skip("CMake is not installed")
    assert problems("cmake", project + "core)") == ""
    assert "callout::nothing" in problems("cmake", project + "nothing)")


def test_rust_that_differs_from_its_example_is_found(problems):
    mark = "of: examples/rust_host/src/callout.rs"
    code = 'unsafe extern "C" fn destroy(context: *mut c_void) {\n    drop(Box::from_raw(context as *mut Function));\n}'
    assert problems("rust", code, mark) == ""
    assert "has no such" in problems("rust", code.replace("drop", "forget"), mark)
    assert "expected the mark" in problems("rust", code)


def test_failing_docstring_examples_are_named_and_isolated(tmp_path):
    driver = tmp_path / "driver.py"
    driver.write_text(f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
import check_docstrings

TEXTS = {{
    "ends": ">>> import os\\n>>> os._exit(3)",
    "defines": ">>> callout.of_another = 1",
    "uses": ">>> callout.of_another\\n1",
    "is wrong": ">>> print(1 + 1)\\n3",
    "is right": ">>> print(1 + 1)\\n2",
}}
if __name__ == "__main__":
    print(*check_docstrings.problems_of_examples(TEXTS))
""")
    done = limited.run([sys.executable, str(driver)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for part in ("ends: its example ended with code 3", "uses: its example ended with code 1", "is wrong: its example"):
        assert part in done.stdout
    assert "has no attribute 'of_another'" in done.stdout
    assert "Expected:\n    3\nGot:\n    2" in done.stdout
    assert not [name for name in ("defines", "is right") if f"{name}: its example" in done.stdout]
