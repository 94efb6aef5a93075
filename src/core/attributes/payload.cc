// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/payload.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/base/cat.h"
#include "core/encoding/percent.h"

namespace callout::internal::payload {
namespace {

constexpr std::string_view kFormat = "1";
constexpr size_t kShownBytes = 80;  // bytes of a text that an error shows

// Splits a text into at least one part.
std::vector<std::string_view> Parts(std::string_view text, char separator, size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < most) {
    const size_t end = text.find(separator);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace

Status Wrong(const Form& form, std::string_view what, std::string_view found) {
  std::string fields(kFormat);
  for (const AttributeDescription& row : form.rows) fields += Cat(";", row.name);
  return InvalidArgument(
      Cat("callout: ", form.subject, " must be '", fields, "', ", what, ", got '", found.substr(0, kShownBytes), "'"));
}

Result<std::vector<std::string_view>> Split(const Form& form, std::string_view payload) {
  if (payload.size() > kMostBytes) return Wrong(form, "of at most 1 MiB", payload);
  const size_t count = form.rows.size() + 1;
  const bool has_rest = form.rows.back().type == AttributeType::kRest;
  std::vector<std::string_view> fields = Parts(payload, ';', has_rest ? count : payload.size() + 1);
  if (fields.front() != kFormat && fields.size() >= count) return Wrong(form, "of the format 1", fields.front());
  if (fields.size() != count) return Wrong(form, Cat("with ", count, " fields"), payload);
  fields.erase(fields.begin());
  return fields;
}

Status Read(const Form& form, const AttributeDescription& row, std::string_view field, int64_t* out) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), *out);
  const AttributeTerms& terms = row.terms;
  if (error == std::errc() && end == field.data() + field.size() && *out >= terms.least && *out <= terms.most)
    return OkStatus();
  return Wrong(form, Cat("with ", row.name, " of ", terms.least, " to ", terms.most), field);
}

Status Read(const Form& form, const AttributeDescription& row, std::string_view field, std::string* out) {
  if (field.size() > row.terms.most_bytes) {
    return Wrong(form, Cat("with ", row.name, " of at most ", row.terms.most_bytes, " bytes"), field);
  }
  std::optional<std::string> text = PercentDecoded(field);
  if (!text) return Wrong(form, Cat("with ", row.name, " whose '%' stand before two digits"), field);
  *out = *std::move(text);
  return OkStatus();
}

Status Read(const Form& form, const AttributeDescription& row, std::string_view field, std::vector<int64_t>* out) {
  for (const std::string_view one : Parts(field, ',', field.size() + 2)) {
    CALLOUT_RETURN_IF_ERROR(Read(form, row, one, &out->emplace_back()));
  }
  return OkStatus();
}

Status Read(const Form& form, const AttributeDescription& row, std::string_view field, std::vector<std::string>* out) {
  for (const std::string_view one : Parts(field, ',', field.size() + 2)) {
    CALLOUT_RETURN_IF_ERROR(Read(form, row, one, &out->emplace_back()));
  }
  return OkStatus();
}

Status Read(const Form& form, const AttributeDescription& row, std::string_view field, RestOfPayload* out) {
  if (field.size() > row.terms.most_bytes) {
    return Wrong(form, Cat("with ", row.name, " of at most ", row.terms.most_bytes, " bytes"), field);
  }
  out->text = field;
  return OkStatus();
}

Result<size_t> ReadChoice(const Form& form, const AttributeDescription& row, std::string_view field) {
  const std::span<const std::string_view> choices = row.terms.choices;
  const auto found = std::find(choices.begin(), choices.end(), field);
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  const auto quoted = [](std::string_view choice) { return Cat("'", choice, "'"); };
  return Wrong(form, Cat("with ", Join(choices, " or ", quoted)), field);
}

}  // namespace callout::internal::payload
