# SPDX-License-Identifier: Apache-2.0
"""Tests that a library linked with ci/older_linux needs no newer glibc and libstdc++ than the given ones, and runs."""

import re
import sys
from pathlib import Path

import limited
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "ci" / "older_linux"
# Uses one function of each kind that the package uses and that glibc 2.28, or the libstdc++ beside it, lacks.
LIBRARY = """
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <dlfcn.h>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>

extern "C" int check(const char* folder) {
  double number = 0;
  std::string_view text = "0.25";
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc() || number != 0.25) return 1;
  auto path = std::make_shared<std::filesystem::path>(std::filesystem::path(folder) / "a" / "b");
  if (!std::filesystem::create_directories(*path) || !std::filesystem::is_directory(*path)) return 2;
  if (std::filesystem::remove_all(path->parent_path()) != 2) return 3;
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  if (changed.wait_for(lock, std::chrono::milliseconds(1)) != std::cv_status::timeout) return 4;
  return dlsym(RTLD_DEFAULT, "malloc") != nullptr ? 0 : 5;
}
"""
# CLOCK_MONOTONIC, which nobody sets, shows that the wait did not end early.
WAITS = """
#include <initializer_list>

#include "older_glibc.cc"

int main() {
  for (long start : {0L, 999'999'999L}) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    timespec until, now;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1 + (until.tv_nsec > start);
    until.tv_nsec = start;
    pthread_mutex_lock(&mutex);
    if (WaitByRealTime(&condition, &mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT) return 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - until.tv_sec) * 1000 + (now.tv_nsec - until.tv_nsec) / 1'000'000 < -10) return 2;
    if (pthread_mutex_unlock(&mutex) != 0) return 3;
  }
  struct stat kind;
  return stat("/", &kind) == 0 && S_ISDIR(kind.st_mode) ? 0 : 4;
}
"""


def run(*command):
    return limited.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """Builds the folder to link with."""
    folder = tmp_path_factory.mktemp("older")
    run(sys.executable, FOLDER / "write_libraries.py", "2.28", "3.4.25", "1.3.11", folder)
    return folder


def link(older, tmp_path, *more):
    (tmp_path / "library.cc").write_text(LIBRARY)
    library = tmp_path / "library.so"
    run("c++", "-std=c++20", "-O2", "-shared", "-fPIC", tmp_path / "library.cc", "-o", library, *more)
    return library


def newest(library):
    """Returns the newest version of each family that the library needs."""
    found: dict[str, tuple[int, ...]] = {}
    for family, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([\d.]+)", run("readelf", "-VW", library)):
        found[family] = max(found.get(family, ()), tuple(map(int, version.split("."))))
    return found


def test_a_library_needs_no_newer_versions_and_works(older, tmp_path):
    library = link(older, tmp_path, f"-L{older}", "-Wl,--exclude-libs,ALL")
    found = newest(library)
    assert found["GLIBC"] <= (2, 28)
    assert found["GLIBCXX"] <= (3, 4, 25)
    assert found["CXXABI"] <= (1, 3, 11)
    program = f"import ctypes; assert ctypes.CDLL({str(library)!r}).check({str(tmp_path).encode()!r}) == 0"
    run(sys.executable, "-c", program)


def test_missing_symbols_fail_the_link(older, tmp_path):
    (tmp_path / "new.cc").write_text('extern "C" int arc4random(); int draw() { return arc4random(); }')
    command = ("c++", "-shared", "-fPIC", tmp_path / "new.cc", "-o", tmp_path / "new.so", f"-L{older}", "-Wl,-z,defs")
    done = limited.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "undefined reference to `arc4random'" in done.stderr


def test_replacements_of_newer_functions_work(tmp_path):
    (tmp_path / "waits.cc").write_text(WAITS)
    flags = ("-std=c++20", "-Wall", "-Wextra", "-fvisibility=hidden", "-I", FOLDER)  # hidden: libc keeps its own
    run("c++", *flags, tmp_path / "waits.cc", "-o", tmp_path / "waits")
    run(tmp_path / "waits")
