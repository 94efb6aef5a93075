// SPDX-License-Identifier: Apache-2.0
//
// The command `callout`, which runs programs with callbacks without Python.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

#include "callout/pjrt/binding.h"
#include "callout/pjrt/crash_report.h"
#include "callout/version.h"
#include "cat.h"
#include "compile.h"
#include "info.h"
#include "run.h"
#include "session.h"

namespace {

using callout::tools::CatOptions;
using callout::tools::CompileOptions;
using callout::tools::InfoOptions;
using callout::tools::RunOptions;

constexpr char kPluginHelp[] =
    "PJRT plugin, a shared library; without it CALLOUT_PJRT_PLUGIN of the environment, or the CPU plugin of the active "
    "Python environment";
constexpr char kPluginOptionHelp[] =
    "NAME=VALUE for the plugin's client: true, false, a number, or text; the CPU plugin has cpu_device_count";
constexpr char kHandlerHelp[] = "A function of XLA FFI that the program calls: NAME=lib.so:SYMBOL";
constexpr char kDevicesHelp[] = "Devices that the program runs on; without it as many as it was exported for";
constexpr char kArrayHelp[] =
    "FILE.npy, FILE.npz (one or more), FILE.npz:NAME, '-' for standard input, or SPEC: f32[2,3]=0.5 (filled), "
    "f32[3]=1,2,3 (listed), f32[]=1 (scalar), f32[2,3]=random:SEED";

// Adds an option that takes one value each time it is given.
void AddList(CLI::App& command, const char* name, std::vector<std::string>& values, const std::string& help) {
  command.add_option(name, values, help)->expected(1)->take_all()->allow_extra_args(false);
}

void AddPlugin(CLI::App& command, callout::tools::PluginChoice& plugin) {
  command.add_option("--plugin", plugin.path, kPluginHelp);
  AddList(command, "--plugin-option", plugin.options, kPluginOptionHelp);
  AddList(command, "--handler", plugin.handlers, kHandlerHelp);
}

void AddExpected(CLI::App& run, RunOptions& options) {
  AddList(run, "--expect", options.expected,
          std::string("What the next result should be; exit code 1 if it is not: ") + kArrayHelp);
  run.add_option("--rtol", options.tolerances.relative,
                 "An element may differ by atol + rtol * |expected|; without it 1e-5 for floats, else 0")
      ->check(CLI::NonNegativeNumber);
  run.add_option("--atol", options.tolerances.absolute, "See --rtol; without it 1e-8 for floats, else 0")
      ->check(CLI::NonNegativeNumber);
}

void AddLoad(CLI::App& run, RunOptions& options) {
  constexpr double kMostSeconds = 1e6;
  constexpr int kMostThreads = 4096;
  run.add_option("--repeat", options.repeat, "Run so often, and tell how long it took")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  run.add_option("--warm-up,--warmup", options.warm_up, "Run so often before; those times do not count")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  run.add_option("--min-duration", options.min_seconds,
                 "Run more often than --repeat says until so many seconds passed")
      ->check(CLI::Range(0.0, kMostSeconds));
  run.add_option("--concurrency", options.concurrency, "Run from so many threads at once; each runs it once at least")
      ->check(CLI::Range(1, kMostThreads));
}

void AddRun(CLI::App& app, RunOptions& options) {
  CLI::App* run = app.add_subcommand("run", "Compile a program, run it, print what it returns");
  run->add_option("PROGRAM", options.program,
                  "MLIR text or bytecode, a StableHLO artifact, or a file of jax.export's Exported.serialize")
      ->required();
  AddPlugin(*run, options.plugin);
  run->add_option("--device-count", options.device_count, kDevicesHelp)
      ->check(CLI::Range(1, callout::tools::kMaxDevices));
  AddList(*run, "--arg", options.arguments, std::string("An argument: ") + kArrayHelp);
  AddList(*run, "--bind", options.bindings,
          "A callback: " + callout::pjrt::BindingForms() + "; sinks have options: NAME=csv,append:FILE");
  AddExpected(*run, options);
  run->add_option(
      "--output", options.output,
      "Also write the results, as arr_0, arr_1, ..., to this .npz file; '-': only that, on standard output");
  AddLoad(*run, options);
  run->add_flag("--no-embedded-code", options.refuses_embedded_code,
                "Refuse a program that carries native code, as CALLOUT_EMBEDDED_CODE=0 does");
  run->add_flag("--stats", options.stats, "Tell how often each callback ran, and how long");
  run->add_option("--cache", options.cache, "A folder of compiled programs: load from there, or put there");
  run->add_flag("--json", options.json, "Print one JSON object instead: results, cache, comparison, times, statistics");
  run->add_option("--metrics", options.metrics, "Write the counters in Prometheus' text format to this file");
  run->add_option("--trace", options.trace, "Write a timeline for Perfetto or chrome://tracing to this JSON file");
}

void AddInfo(CLI::App& app, InfoOptions& options) {
  CLI::App* info =
      app.add_subcommand("info", "What a program takes, returns and calls; or, without one, what a plugin is");
  info->add_option("PROGRAM", options.program, "As for run");
  AddPlugin(*info, options.plugin);
  info->add_option("--device-count", options.device_count, kDevicesHelp)
      ->check(CLI::Range(1, callout::tools::kMaxDevices));
  info->add_flag("!--no-compile", options.compiles, "Only what the program's file says: needs no plugin");
}

void AddCompile(CLI::App& app, CompileOptions& options) {
  CLI::App* compile = app.add_subcommand(
      "compile", "Put a compiled program into a cache, from a process of its own that a bad program may crash");
  compile->add_option("PROGRAM", options.program, "As for run")->required();
  compile->add_option("--cache", options.cache, "The folder of compiled programs")->required();
  AddPlugin(*compile, options.plugin);
  compile->add_option("--device-count", options.device_count, kDevicesHelp)
      ->check(CLI::Range(1, callout::tools::kMaxDevices));
}

void AddCat(CLI::App& app, CatOptions& options) {
  CLI::App* cat = app.add_subcommand("cat", "What a sink wrote: JSON lines, CSV, Arrow, .npy, Zarr, TensorBoard");
  cat->add_option("FILE", options.path, "The file, or the folder of a store or of event files")->required();
  cat->add_option("--format", options.format, "jsonl, csv or summary")
      ->check(CLI::IsMember({"jsonl", "csv", "summary"}));
  cat->add_option("--limit", options.limit, "Only so many rows")->check(CLI::NonNegativeNumber);
}

bool IsCommand(std::string_view word) { return word == "run" || word == "info" || word == "compile" || word == "cat"; }

int Main(int argc, char** argv) {
  CLI::App app("Runs compiled XLA programs that call out, without Python.", "callout");
  app.set_version_flag("--version", "callout " CALLOUT_VERSION);
  app.require_subcommand(0, 1);
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);  // Hides XLA's informational logs.
  RunOptions run;
  InfoOptions info;
  CompileOptions compile;
  CatOptions cat;
  if (const char* command = argc > 1 ? argv[1] : "-"; command[0] != '-' && !IsCommand(command)) {
    std::fprintf(stderr, "callout: there is no command '%s'; there are run, compile, info and cat\n", command);
    return callout::tools::kUnusable;
  }
  AddRun(app, run);
  AddCompile(app, compile);
  AddInfo(app, info);
  AddCat(app, cat);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked = error.get_exit_code() == 0;  // The user asked for help or the version.
    return app.exit(error) == 0 && asked ? callout::tools::kSuccess : callout::tools::kUnusable;
  }
  if (app.get_subcommands().empty()) {
    std::fputs(app.help().c_str(), stderr);
    return callout::tools::kUnusable;
  }
  if (app.got_subcommand("compile")) return callout::tools::Compile(compile);
  if (app.got_subcommand("cat")) return callout::tools::Cat(cat);
  return app.got_subcommand("run") ? callout::tools::Run(run) : callout::tools::Info(info);
}

// Occupies standard descriptors that the caller has closed, so that no file that is opened later becomes standard
// output. Writing to standard output still fails.
void OccupyStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free descriptor.
    if (fcntl(descriptor, F_GETFD) == -1) (void)open("/dev/null", O_RDONLY);
  }
}

// Fails if standard output cannot be written, for example because its disk is full: a lost result is no success.
int CheckOutput(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "callout: cannot write to standard output%s%s\n", flushed ? "" : ": ",
               flushed ? "" : std::strerror(errno));
  return code == callout::tools::kSuccess ? callout::tools::kFailed : code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    OccupyStandardDescriptors();
    callout::pjrt::ReportCrashes();
    return CheckOutput(Main(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "callout: %s\n", error.what());
    return callout::tools::kFailed;
  }
}
