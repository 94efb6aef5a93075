# SPDX-License-Identifier: Apache-2.0
"""Tests that the tables on pages with figures match the stored results."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = """Prose.

<!-- table run: a call -->
| old | table |

More prose.

<!-- environment run -->
jax 0
"""


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("benchmark_tables", ROOT / "benchmarks/python/tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(tables):
    stored = tables.as_json([(["a call", "us"], [["floor", "0.1"]]), (["a call", "MB"], [["floor", "7"]])])
    return {"run": {"environment": {"jax": "1.2", "cores": "2"}, "tables": json.loads(json.dumps(stored))}}


def test_marked_tables_and_lines_are_written_and_prose_stays(tables, results):
    assert tables.render(PAGE, results) == PAGE.replace(
        "| old | table |", "| a call | us |\n| --- | ---: |\n| floor | 0.1 |"
    ).replace("jax 0", "jax 1.2; cores 2.")


def test_two_tables_of_one_title_differ_by_their_figure(tables, results):
    page = tables.render("<!-- table run: a call, MB -->\n", results)
    assert "| floor | 7 |" in page


def test_a_table_that_was_typed_is_found(tables):
    assert tables.unmarked(PAGE) == []
    assert tables.unmarked(PAGE + "\n| typed | us |\n| --- | ---: |\n") == ["| typed | us |"]


def test_a_name_that_no_results_have_fails(tables, results):
    with pytest.raises(KeyError, match="another"):
        tables.render("<!-- table run: another -->\n", results)


def test_the_readme_has_rows_of_the_table_at_a_glance(tables):
    rows = [[row, "0.07", str(i), str(10 * i), "", "10"] for i, row in enumerate(tables.GLANCE.values(), 1)]
    head = ["us each", "floor", "Callout", "JAX", "jax-tvm-ffi", "JAX / Callout"]
    results = {"at_a_glance": {"tables": {"us each": {"head": head, "body": [["another", "", "", "", "", ""], *rows]}}}}
    page = tables.render_front("Before.\n\n<!-- glance -->\n| old |\n| --- |\n\nAfter.\n", results)
    assert page.splitlines()[3:5] == [
        "| in a loop of a compiled program, us each | Callout | JAX | JAX / Callout |",
        "| --- | ---: | ---: | ---: |",
    ]
    assert [line.split(" | ", 1)[1] for line in page.splitlines()[5:8]] == [
        "1 | 10 | 10 |",
        "2 | 20 | 10 |",
        "3 | 30 | 10 |",
    ]
    assert page.startswith("Before.\n\n<!-- glance -->\n| in a loop")
    assert page.endswith("|\n\nAfter.\n")
    with pytest.raises(KeyError):
        tables.render_front("<!-- glance -->\n", {"at_a_glance": {"tables": {"us each": {"head": head, "body": []}}}})
