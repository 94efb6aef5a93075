// SPDX-License-Identifier: Apache-2.0
#include "core/encoding/error_tag.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

constexpr std::string_view kBegin = "[callout error ";

// Zero until the token is drawn.
std::atomic<uint32_t> g_token{0};

[[maybe_unused]] const int g_registered = pthread_atfork(nullptr, nullptr, [] { g_token.store(0); });

struct Meaning {
  StatusKind kind = StatusKind::kGeneral;
  uint64_t exception = 0;
};

std::optional<Meaning> MeaningOf(std::string_view word) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size()) return Meaning{StatusKind::kException, number};
#define CALLOUT_ROW(name, its_word, what) \
  if (word == its_word) return Meaning{StatusKind::name, 0};
  CALLOUT_STATUS_KINDS(CALLOUT_ROW)
#undef CALLOUT_ROW
  return std::nullopt;
}

// Removes the last tag of this process before `end` from the text, with the preceding line break. Returns the tag's
// place and meaning.
std::optional<std::pair<size_t, Meaning>> TakeTag(std::string& text, const std::string& tail, size_t end) {
  for (size_t at = text.rfind(tail, end); at != std::string::npos && at > 0; at = text.rfind(tail, at - 1)) {
    size_t begin = text.rfind(kBegin, at);
    if (begin == std::string::npos) return std::nullopt;
    const size_t word = begin + kBegin.size();
    if (word > at) continue;
    const auto meaning = MeaningOf(std::string_view(text).substr(word, at - word));
    if (!meaning) continue;
    if (begin > 0 && text[begin - 1] == '\n') --begin;
    text.erase(begin, at + tail.size() - begin);
    return std::pair(begin, *meaning);
  }
  return std::nullopt;
}

}  // namespace

std::string ErrorToken() {
  uint32_t token = g_token.load(std::memory_order_relaxed);
  if (token == 0) {
    const uint32_t drawn = (std::random_device()() & 0xFFFFFF) | 0x1000000;
    if (g_token.compare_exchange_strong(token, drawn, std::memory_order_relaxed)) token = drawn;
  }
  std::array<char, 8> text;
  std::snprintf(text.data(), text.size(), "%06x", token & 0xFFFFFF);
  return text.data();
}

std::string TaggedMessage(const Status& failure) {
  const std::string_view message = failure.message();
  std::string text = ValidUtf8(message.substr(0, message.find('\0')));
  const bool is_numbered = failure.kind() == StatusKind::kException && failure.exception() != 0;
  text.append("\n").append(kBegin);
  text += is_numbered ? std::to_string(failure.exception()) : StatusKindName(failure.kind());
  return text.append(" of ").append(ErrorToken()).append("]");
}

Status FromTaggedMessage(StatusCode code, std::string text) {
  const std::string tail = " of " + ErrorToken() + "]";
  auto last = TakeTag(text, tail, std::string::npos);
  if (!last) return {code, std::move(text)};
  for (auto other = last; other && other->first > 0;) other = TakeTag(text, tail, other->first - 1);
  const Meaning& meaning = last->second;
  if (meaning.exception != 0) return Status::OfException(code, std::move(text), meaning.exception);
  return {code, std::move(text), meaning.kind};
}

}  // namespace callout::internal
