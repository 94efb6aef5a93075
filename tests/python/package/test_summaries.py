# SPDX-License-Identifier: Apache-2.0
"""What the check of docstrings takes for a sentence, and what not."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("check_summaries")


@pytest.mark.parametrize(
    "sentence",
    [
        "Returns the rank of `type`",
        "Every device calls with its shards",
        "`shape` is what one lane has",
        "Taps, and waits",
    ],
)
def test_sentences_of_functions(check, sentence):
    assert check.has_verb(ast.parse("def f(): pass").body[0], sentence)


@pytest.mark.parametrize(
    "phrase",
    ["The rank of a type", "A function that calls `f`", "What is saved", "`returns` of a call", "True if it is there"],
)
def test_phrases_of_functions(check, phrase):
    assert not check.has_verb(ast.parse("def f(): pass").body[0], phrase)


def test_a_class_may_say_it_in_a_clause(check):
    node = ast.parse("class C: pass").body[0]
    assert check.has_verb(node, "A kernel that programs launch")
    assert not check.has_verb(node, "Kernels as functions")


def test_all_functions_and_classes_are_looked_at_and_of_the_modules_the_public_ones(check, monkeypatch, tmp_path):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "PACKAGE", tmp_path)
    text = '"""A module."""\n\nclass C:\n    """A class."""\n    def _f(self):\n        """A function. It is one."""\n'
    (tmp_path / "public.py").write_text(text)
    (tmp_path / "_private.py").write_text(text)
    assert [line.partition(" ")[0] + line.split()[1] for line in check.problems()] == [
        *("_private.py:4:C:", "_private.py:6:_f:"),
        *("public.py:1:public.py:", "public.py:4:C:", "public.py:6:_f:"),
    ]
