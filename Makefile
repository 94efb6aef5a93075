# SPDX-License-Identifier: Apache-2.0
# Every target does its own set-up in .venv and build/; a second run redoes only what changed. Longer checks are in ci/.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(CURDIR)/$(VENV)/bin/python
STAMPS := $(VENV)/.stamps
test_packages := ccache:@ccache libgtest-dev:gtest/gtest.h relacy-dev:relacy/relacy.hpp liblapack3:liblapack.so.3
host_packages := libcli11-dev:CLI/CLI.hpp \
  libflatbuffers-dev:flatbuffers/flatbuffers.h flatbuffers-compiler:@flatc libminizip-dev:minizip/unzip.h
PIP := $(PY) -m pip --disable-pip-version-check --no-input
TIMED := scripts/timed.sh

# CMake and Ninja of .venv are used where the system has none; CMake runs this Python for headers.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export CALLOUT_PYTHON := $(PY)
# make's own default is g++, and so is that of builds for Python: ccache takes c++ for another compiler.
export CXX
# Tests start Python a thousand times, and without bytecode an import of JAX takes four times as long.
unexport PYTHONDONTWRITEBYTECODE

package_sources := CMakeLists.txt pyproject.toml LICENSE README.md \
  $(shell find cmake include src python requirements/xla-headers.txt -type f \
    -not -name '*_test.cc' -not -path '*/__pycache__/*' -not -name '.*')

.PHONY: help demo test lint docs format bench install clean setup host test-cpp test-python gpu-test distclean
help:
	@echo 'make demo     train a small network with every kind of callback, and run it without Python'
	@echo 'make test     build, then run the C++ and the Python tests'
	@echo 'make lint     check formatting, types and layering'
	@echo 'make docs     check the documentation, run its examples, and build it as a site in build/docs'
	@echo 'make format   format C++ and Python sources'
	@echo 'make bench    compare with JAX and run the C++ benchmarks'
	@echo 'make install  install the package into .venv'
	@echo 'make clean    remove what was built'
	@echo 'The rest is in ci/: sanitizers, fuzzing, wheels, other versions and devices. See ci/README.md.'

$(STAMPS)/venv:
	python=$$(scripts/find_python.sh) || exit 1; \
	  echo "creating $(VENV) with $$python"; "$$python" -m venv --clear $(VENV)
	mkdir -p $(@D) && touch $@

$(STAMPS)/cmake: $(STAMPS)/venv requirements/cmake.txt scripts/has_cmake.sh
	scripts/has_cmake.sh || scripts/install_packages.sh $(PY) -r requirements/cmake.txt
	touch $@

tools := $(addprefix $(STAMPS)/,tools dev demo bench docs)
$(tools): $(STAMPS)/%: requirements/%.txt requirements/constraints.txt $(STAMPS)/venv
	$(TIMED) 'Python packages ($*)' scripts/install_packages.sh $(PY) -r $<
	touch $@
$(STAMPS)/dev: requirements/tools.txt

$(STAMPS)/package: $(package_sources) $(STAMPS)/tools $(STAMPS)/cmake
	$(TIMED) package $(PIP) install --quiet --no-deps --no-build-isolation --force-reinstall \
	  -C build-dir='build/python-{wheel_tag}' .
	touch $@

install: $(STAMPS)/package

# The command is linked from the objects of the package, which has compiled all but the host.
demo: $(STAMPS)/package $(STAMPS)/demo
	scripts/system_packages.sh $(host_packages)
	@build=$$(scripts/package_build.sh) && cmake -S . -B "$$build" -DCALLOUT_BUILD_PJRT=ON && \
	  $(TIMED) command cmake --build "$$build" --target callout_tool
	$(TIMED) training $(PY) examples/train_digits.py
	@build=$$(scripts/package_build.sh) && \
	  $(TIMED) 'run without Python' $(PY) examples/run_digits.py "$$build/bin/callout" "$$(scripts/plugin_path.sh "$$build")"

# The command for programs without Python, build/host/bin/callout.
host: $(STAMPS)/cmake
	scripts/system_packages.sh $(host_packages)
	cmake --workflow --preset host

# What building the C++ tests takes.
setup: $(STAMPS)/dev $(STAMPS)/cmake
	scripts/system_packages.sh $(test_packages) $(host_packages)

test-cpp: setup
	cmake --preset dev
	$(TIMED) 'C++ build' cmake --build --preset dev
	$(TIMED) 'C++ tests' ctest --preset dev

test-python: $(STAMPS)/package $(STAMPS)/dev
	scripts/system_packages.sh libgsl-dev:gsl/gsl_odeiv2.h liblapack3:liblapack.so.3
	$(TIMED) 'Python tests' scripts/run_tests.sh 2 $(PY) build/tests

test: test-cpp test-python

bench: $(STAMPS)/package $(STAMPS)/dev $(STAMPS)/bench
	scripts/system_packages.sh libbenchmark-dev:benchmark/benchmark.h $(host_packages)
	cmake --workflow --preset bench
	for benchmark in build/bench/bin/*_benchmark; do "$$benchmark"; done
	$(PY) benchmarks/python/run.py

gpu-test: setup $(STAMPS)/package
	ci/gpu_test.sh $(CELLS)

lint: setup
	scripts/lint.sh

format: $(STAMPS)/dev
	git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' | xargs $(VENV)/bin/clang-format -i
	$(VENV)/bin/ruff check --quiet --fix . || true
	$(VENV)/bin/ruff format .

docs: $(STAMPS)/package $(STAMPS)/dev $(STAMPS)/docs
	scripts/system_packages.sh doxygen:@doxygen
	$(PY) scripts/check_docs.py
	$(PY) scripts/check_docstrings.py
	$(PY) benchmarks/python/tables.py --check
	mkdir -p build && doxygen docs/Doxyfile
	$(PY) -m sphinx --quiet --fresh-env --fail-on-warning --keep-going -c docs -d build/doctrees . build/docs
	@echo 'docs: the site is build/docs/docs/index.html'

clean:
	rm -rf build dist $(STAMPS)/package

distclean: clean
	rm -rf $(VENV) .cache
