# SPDX-License-Identifier: Apache-2.0
"""Configures the documentation site (`make docs`), which Sphinx makes from Markdown files, docstrings and public headers."""

import re
from pathlib import Path

import callout

ROOT = Path(__file__).resolve().parent.parent

project = "Callout"
version = release = callout.__version__
copyright = "the Callout authors"  # noqa: A001 - Sphinx's name

# The source folder is the repository's root, so that links between these files work in the repository and on the site.
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "README.md",
    "benchmarks/results.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "ci/README.md",
    "software_gpu/README.md",
    "tests/memory_model/README.md",
]
exclude_patterns = ["build", "dist", ".*", "docs/_*"]
extensions = [
    "breathe",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_external_toc",
]
external_toc_path = str(ROOT / "docs/_toc.yml")
myst_heading_anchors = 4

# Names in docstrings are in single backquotes. Sphinx links the names that the reference contains.
default_role = "py:obj"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autoclass_content = "both"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
python_maximum_signature_line_length = 80
maximum_signature_line_length = 100

breathe_projects = {"callout": str(ROOT / "build/doxygen/xml")}
breathe_default_project = "callout"
breathe_domain_by_extension = {"h": "cpp"}
# Every header opens the namespace, which Sphinx takes for a duplicate.
suppress_warnings = ["duplicate_declaration.cpp"]
cpp_id_attributes = ["CALLOUT_EXPORT", "CALLOUT_C_EXPORT"]

html_theme = "furo"
html_title = f"Callout {release}"
html_static_path = ["_site"]
html_css_files = ["site.css"]
html_extra_path = ["_site/index.html"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app: object) -> None:
    """Lets docstrings write plurals like Markdown: `jax.Array`s."""

    def separate(_app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
        lines[:] = [re.sub(r"(`+[^`]+`+)(s\b)?", r"\1\\ \2", line) for line in lines]

    app.connect("autodoc-process-docstring", separate)
