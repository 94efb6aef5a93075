// SPDX-License-Identifier: Apache-2.0
//
// The functions of the device's runtime: printf and assert (CUDA C++ Programming Guide 10.34 and 10.36), and
// cudaGraphSetConditional.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "ptx/handlers.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr size_t kMaxText = 1 << 16;

class BuiltinArguments {
 public:
  BuiltinArguments(Warp& warp, const Call& call, int lane) : warp_(warp), call_(call), lane_(lane) {}

  uint64_t Get(size_t index) const {
    const Passed& move = call_.arguments[index];
    if (move.in_registers) return warp_.ReadLane(move.from, lane_);
    uint64_t value = 0;
    std::memcpy(&value, warp_.Local(lane_) + warp_.local_base(lane_) + move.from_offset,
                std::min<size_t>(move.bytes, sizeof value));
    return value;
  }

  std::string Text(uint64_t address) const {
    std::string text;
    while (text.size() < kMaxText) {
      const char c = static_cast<char>(*warp_.Find(Place::kGeneric, address + text.size(), 1, 1, false, lane_));
      if (c == '\0') break;
      text += c;
    }
    return text;
  }

  /// Returns printf's next value, of `bytes`. The values lie one after another with C's alignment.
  uint64_t Next(uint64_t bytes) {
    at_ = (at_ + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    std::memcpy(&value, warp_.Find(Place::kGeneric, Get(1) + at_, bytes, bytes, false, lane_), bytes);
    at_ += bytes;
    return value;
  }

  void SetResult(uint32_t value) const {
    for (const Passed& move : call_.results) {
      if (move.in_registers) {
        warp_.WriteLane(move.to, lane_, value);
      } else {
        std::memcpy(warp_.Local(lane_) + warp_.local_base(lane_) + move.to_offset, &value,
                    std::min<size_t>(move.bytes, sizeof value));
      }
    }
  }

 private:
  Warp& warp_;
  const Call& call_;
  int lane_;
  uint64_t at_ = 0;
};

/// Formats one conversion, such as "%-5d", with the next argument.
std::string ConvertArgument(std::string spec, BuiltinArguments& arguments) {
  const char kind = spec.back();
  spec.pop_back();
  bool wide = false;
  while (!spec.empty() && std::string_view("hlLzjt").find(spec.back()) != std::string_view::npos) {
    wide |= spec.back() != 'h';
    spec.pop_back();
  }
  for (size_t star = spec.find('*'); star != std::string::npos; star = spec.find('*')) {
    spec.replace(star, 1, std::to_string(static_cast<int32_t>(arguments.Next(4))));
  }
  std::array<char, 512> text = {};
  const auto print = [&](const char* suffix, auto value) {
    std::snprintf(text.data(), text.size(), (spec + suffix).c_str(), value);
    return std::string(text.data());
  };
  switch (kind) {
    case 'd':
    case 'i':
      return print(PRId64, wide ? static_cast<int64_t>(arguments.Next(8)) : static_cast<int32_t>(arguments.Next(4)));
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      spec += "l";
      return print(std::string(1, kind).c_str(), arguments.Next(wide ? 8 : 4));
    case 'c':
      return print("c", static_cast<int>(arguments.Next(4)));
    case 's':
      return print("s", arguments.Text(arguments.Next(8)).c_str());
    case 'p':
      return print("p", reinterpret_cast<void*>(arguments.Next(8)));
    default: {
      spec += kind;
      return print("", std::bit_cast<double>(arguments.Next(8)));
    }
  }
}

std::string FormatText(const std::string& format, BuiltinArguments& arguments, uint32_t& converted) {
  std::string text;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    const size_t end = format.find_first_not_of("0123456789.*+-# hlLzjt", at + 1);
    if (end == std::string::npos) return text + format.substr(at);
    const std::string spec = format.substr(at, end - at + 1);
    if (spec.size() > 32 || std::string_view("diuxXocspfFeEgGaA").find(spec.back()) == std::string_view::npos) {
      text += spec.back() == '%' ? "%" : spec;
    } else {
      text += ConvertArgument(spec, arguments);
      ++converted;
    }
    at = end;
  }
  return text;
}

/// Handles __assertfail(message, file, line, function, size of a character).
void FailAssert(Warp& warp, const BuiltinArguments& arguments, int lane) {
  const auto triple = [](const std::array<uint32_t, 3>& at) {
    return "[" + std::to_string(at[0]) + "," + std::to_string(at[1]) + "," + std::to_string(at[2]) + "]";
  };
  const std::string text = arguments.Text(arguments.Get(1)) + ":" + std::to_string(arguments.Get(2)) + ": " +
                           arguments.Text(arguments.Get(3)) + ": block: " + triple(warp.block().index()) +
                           ", thread: " + triple(warp.Thread(lane)) + " Assertion `" +
                           arguments.Text(arguments.Get(0)) + "` failed.\n";
  warp.grid().machine.Print(text);
  warp.Raise(Fault::kAssert, text.substr(0, text.size() - 1), lane);
}

}  // namespace

void RunBuiltin(Warp& warp, const Call& call, uint32_t lanes) {
  ForLanes(lanes, [&](int lane) {
    BuiltinArguments arguments(warp, call, lane);
    switch (call.builtin) {
      case Builtin::kPrintf: {
        const std::string format = arguments.Text(arguments.Get(0));
        uint32_t converted = 0;
        warp.grid().machine.Print(FormatText(format, arguments, converted));
        arguments.SetResult(converted);
        break;
      }
      case Builtin::kAssertFail:
        FailAssert(warp, arguments, lane);
        break;
      default: {
        const uint64_t handle = arguments.Get(0);
        if (!warp.grid().machine.SetConditional(handle, static_cast<uint32_t>(arguments.Get(1)))) {
          warp.Raise(Fault::kTrap, "cudaGraphSetConditional of no handle: " + std::to_string(handle), lane);
        }
      }
    }
  });
}

}  // namespace callout::software_gpu::ptx
