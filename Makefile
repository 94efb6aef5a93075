# SPDX-License-Identifier: Apache-2.0
# Every target does its own set-up in .venv and build/; a second run redoes only what changed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(CURDIR)/$(VENV)/bin/python
STAMPS := $(VENV)/.stamps
host_packages := libcli11-dev:CLI/CLI.hpp \
  libflatbuffers-dev:flatbuffers/flatbuffers.h flatbuffers-compiler:@flatc libminizip-dev:minizip/unzip.h
PIP := $(PY) -m pip --disable-pip-version-check --no-input

# CMake and Ninja of .venv are used where the system has none; CMake runs this Python for headers.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export CALLOUT_PYTHON := $(PY)

package_sources := CMakeLists.txt pyproject.toml LICENSE README.md \
  $(shell find cmake include src python requirements/xla-headers.txt -type f \
    -not -name '*_test.cc' -not -path '*/__pycache__/*' -not -name '.*')

.PHONY: help demo host test test-cpp test-python asan tsan fuzz fuzz-programs nightly aarch64 free-threaded bench gpu-check gpu-test tpu-check soak lint format docs install wheels matrix pure configure-dev clean distclean
help:
	@echo 'make demo       train a small network with every kind of callback, and run it without Python'
	@echo 'make test       build, then run the C++ and the Python tests'
	@echo 'make asan       run the C++ tests under sanitizers; make tsan: data races'
	@echo 'make fuzz       feed random bytes to what reads programs and files, FUZZ_SECONDS=60 in all'
	@echo 'make fuzz-programs  compare random JAX programs with their oracles, SECONDS=60 from SEED=1 on'
	@echo 'make bench      compare with JAX and run the C++ benchmarks'
	@echo 'make gpu-check  run what only a GPU can show; GPU_PYTHON=... has JAX with its CUDA plugin'
	@echo 'make gpu-test   run with JAX'"'"'s CUDA plugin on the software GPU; GPU_TEST=full: every plugin and every suite'
	@echo 'make tpu-check  compile programs for TPUs with libtpu, which needs none, and check what they send and receive'
	@echo 'make nightly    what takes hours: soak, fuzz for SECONDS=14400, matrix and gpu-test whole, programs for half of them on two JAXes; goes on where it was; PARTS="soak fuzz" only these'
	@echo 'make aarch64    cross-build core, host and wheel for aarch64, and run a third of the tests under emulation'
	@echo 'make free-threaded  test the wheels for Python 3.13t and 3.14t, which are built where there are none'
	@echo 'make soak       run the tests that load the machine for minutes, and one of them with AddressSanitizer'
	@echo 'make lint       check formatting, types and layering'
	@echo 'make format     format C++ and Python sources'
	@echo 'make docs       check the documentation, run its examples, and build it as a site in build/docs'
	@echo 'make host       build the command for programs without Python, build/host/bin/callout'
	@echo 'make install    install the package into .venv'
	@echo 'make wheels     build wheels for manylinux_2_28 and the source distribution into dist/, with SHA256SUMS'
	@echo 'make matrix     test the wheels with every supported JAX'
	@echo 'make pure       test the wheel without C++, which other systems get'
	@echo 'make clean      remove what was built; make distclean: .venv and downloads too'

$(STAMPS)/venv:
	python=$$(scripts/find_python.sh) || exit 1; \
	  echo "creating $(VENV) with $$python"; "$$python" -m venv --clear $(VENV)
	mkdir -p $(@D) && touch $@

$(STAMPS)/cmake: $(STAMPS)/venv requirements/cmake.txt scripts/has_cmake.sh
	scripts/has_cmake.sh || $(PIP) install --quiet -r requirements/cmake.txt
	touch $@

tools := $(addprefix $(STAMPS)/,tools dev demo bench docs)
$(tools): $(STAMPS)/%: requirements/%.txt requirements/constraints.txt $(STAMPS)/venv
	$(PIP) install --quiet -r $<
	touch $@
$(STAMPS)/dev: requirements/tools.txt

$(STAMPS)/package: $(package_sources) $(STAMPS)/tools $(STAMPS)/cmake
	$(PIP) install --quiet --no-deps --no-build-isolation --force-reinstall \
	  -C build-dir='build/python-{wheel_tag}' .
	touch $@

install: $(STAMPS)/package

# The command is linked from the objects of the package, which has compiled all but the host.
demo: $(STAMPS)/package $(STAMPS)/demo
	scripts/system_packages.sh $(host_packages)
	@build=$$(scripts/package_build.sh) && cmake -S . -B "$$build" -DCALLOUT_BUILD_PJRT=ON && \
	  cmake --build "$$build" --target callout_tool
	$(PY) examples/train_digits.py
	@build=$$(scripts/package_build.sh) && \
	  $(PY) examples/run_digits.py "$$build/bin/callout" "$$(scripts/plugin_path.sh "$$build")"

host: $(STAMPS)/cmake
	scripts/system_packages.sh $(host_packages)
	cmake --workflow --preset host

configure-dev: $(STAMPS)/dev $(STAMPS)/cmake
	scripts/system_packages.sh libgtest-dev:gtest/gtest.h relacy-dev:relacy/relacy.hpp liblapack3:liblapack.so.3 $(host_packages)
	cmake --preset dev

test-cpp: configure-dev
	cmake --build --preset dev
	ctest --preset dev

test-python: $(STAMPS)/package $(STAMPS)/dev
	scripts/system_packages.sh libgsl-dev:gsl/gsl_odeiv2.h liblapack3:liblapack.so.3
	scripts/run_tests.sh $(PY) build/tests

test: test-cpp test-python

asan: $(STAMPS)/dev $(STAMPS)/cmake
	scripts/system_packages.sh libgtest-dev:gtest/gtest.h $(host_packages)
	cmake --workflow --preset asan

# ThreadSanitizer of GCC 12 cannot live with the address randomisation of newer kernels.
tsan: $(STAMPS)/dev $(STAMPS)/cmake
	scripts/system_packages.sh libgtest-dev:gtest/gtest.h $(host_packages)
	runner=; setarch "$$(uname -m)" -R true 2> /dev/null && runner="setarch $$(uname -m) -R"; \
	  $$runner cmake --workflow --preset tsan

# What this proves and what not is in the script.
aarch64: $(STAMPS)/dev $(STAMPS)/cmake
	scripts/system_packages.sh $(host_packages)
	scripts/aarch64.sh

free-threaded: $(STAMPS)/cmake
	scripts/jax_matrix.sh 3.13t:0.10.2 3.14t:0.12.0.1 # the newest JAX for each, see requirements/free-threaded.txt

fuzz: $(STAMPS)/cmake
	scripts/system_packages.sh clang:@clang++ libclang-rt-dev:@clang++ $(host_packages)
	scripts/fuzz.sh

fuzz-programs: $(STAMPS)/package $(STAMPS)/dev
	$(PY) tests/programs --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)

# What does not fit into .ci/run. All parts run, also if one fails; other inputs each night, whose seed is in the log.
nightly_jax := 3.11:0.10.2 3.13:0.11.2 3.14:0.12.0.1 3.12:0.12.0.1
nightly:
	scripts/nightly.sh $(or $(SECONDS),14400) $(nightly_jax)

bench: $(STAMPS)/package $(STAMPS)/dev $(STAMPS)/bench
	scripts/system_packages.sh libbenchmark-dev:benchmark/benchmark.h $(host_packages)
	cmake --workflow --preset bench
	for benchmark in build/bench/bin/*_benchmark; do "$$benchmark"; done
	$(PY) benchmarks/python/run.py

gpu-check: $(STAMPS)/package $(STAMPS)/dev
	scripts/gpu_check.sh

gpu-test: $(STAMPS)/cmake
	scripts/system_packages.sh libgtest-dev:gtest/gtest.h $(host_packages)
	scripts/gpu_test.sh $(CELLS)

tpu-check: $(STAMPS)/cmake
	scripts/tpu_check.sh

soak: $(STAMPS)/package $(STAMPS)/dev $(STAMPS)/cmake
	$(PY) -m pytest -m soak -o faulthandler_timeout=3600 tests
	scripts/system_packages.sh libgtest-dev:gtest/gtest.h $(host_packages)
	cmake --preset dev && cmake --build --preset dev --target host_plugin_test
	CALLOUT_SOAK_SECONDS=$(or $(SECONDS),600) build/dev/src/host/host/host_plugin_test --gtest_filter='SoakTest.*'
	cmake --preset asan && cmake --build --preset asan --target host_plugin_test
	CALLOUT_SOAK_SECONDS=$(or $(SECONDS),600) ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 \
	  build/asan/src/host/host/host_plugin_test --gtest_filter='SoakTest.*'
	$(PY) benchmarks/python/hangs.py --rounds 100

lint: $(STAMPS)/dev $(STAMPS)/cmake
	scripts/system_packages.sh libgtest-dev:gtest/gtest.h $(host_packages)
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

wheels: $(STAMPS)/cmake
	scripts/build_wheels.sh

matrix:
	scripts/jax_matrix.sh

pure:
	scripts/pure_wheel.sh

clean:
	rm -rf build dist $(STAMPS)/package

distclean: clean
	rm -rf $(VENV) .cache
