// SPDX-License-Identifier: Apache-2.0
#include "sinks/record_format.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <iterator>
#include <utility>

#include "core/base/ticks.h"
#include "core/frame/buffer.h"
#include "sinks/text/formatted_array.h"

namespace callout::internal {
namespace {

constexpr const char* kTimeFormat = "%Y-%m-%d %H:%M:%S";

std::string LeafList(std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names) {
    if (!name.empty()) list += (list.empty() ? "" : ", ") + ("'" + name + "'");
  }
  return list.empty() ? "the value is a single array, {value}" : "the value's leaves are " + list;
}

// Returns the leaf whose number the name is.
std::optional<size_t> Place(std::string_view name, size_t num_leaves) {
  size_t place = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
  if (error != std::errc() || end != name.data() + name.size() || place >= num_leaves) return std::nullopt;
  return place;
}

void AppendTime(double seconds, const std::string& format, std::string& out) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm local = {};
  localtime_r(&whole, &local);
  char text[256];
  out.append(text, std::strftime(text, sizeof(text), format.c_str(), &local));
}

Status AppendValue(const Record& record, std::string& out) {
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    if (i > 0) out += ' ';
    const std::string& name = record.site->leaf_names[i];
    if (!name.empty()) out.append(name).append("=");
    CALLOUT_RETURN_IF_ERROR(AppendPlainArray(record.buffers[i], out));
  }
  return OkStatus();
}

}  // namespace

Result<RecordFormat> RecordFormat::Parse(std::string format) {
  CALLOUT_ASSIGN_OR_RETURN(std::vector<FormatPiece> pieces, ParseFormatString(format));
  return RecordFormat(std::move(format), std::move(pieces));
}

Result<RecordFormat::Found> RecordFormat::Find(const FormatField& field,
                                               std::span<const std::string> leaf_names) const {
  static constexpr std::pair<std::string_view, Source> kOfRecord[] = {
      {"value", Source::kValue}, {"name", Source::kName},    {"step", Source::kStep}, {"device", Source::kDevice},
      {"run", Source::kRun},     {"seq", Source::kSequence}, {"time", Source::kTime},
  };
  const auto leaf = std::find(leaf_names.begin(), leaf_names.end(), field.name);
  if (leaf != leaf_names.end()) return Found{Source::kLeaf, static_cast<size_t>(leaf - leaf_names.begin())};
  if (const auto place = Place(field.name, leaf_names.size())) return Found{Source::kLeaf, *place};
  const auto* of_record = std::find_if(std::begin(kOfRecord), std::end(kOfRecord),
                                       [&](const auto& entry) { return entry.first == field.name; });
  if (of_record == std::end(kOfRecord)) {
    return FormatError(format_, field.position,
                       "there is no '" + field.name + "'; " + LeafList(leaf_names) +
                           ", and every record has {name}, {step}, {device}, {run}, {seq} and {time}");
  }
  const bool is_array = of_record->second == Source::kValue && leaf_names.size() == 1 && leaf_names[0].empty();
  return Found{is_array ? Source::kLeaf : of_record->second, 0};
}

Status RecordFormat::CheckField(const FormatField& field, Found found, std::span<const DType> dtypes) const {
  const bool is_time = found.source == Source::kTime;
  if (field.is_time) {
    if (is_time && !field.as_text) return OkStatus();
    return FormatError(format_, field.position, "Invalid format specifier '" + field.spec_text + "'");
  }
  FormatKind kind = FormatKind::kInteger;
  if (found.source == Source::kLeaf) {
    CALLOUT_ASSIGN_OR_RETURN(kind, FormatKindOf(dtypes[found.leaf]));
  }
  if (found.source == Source::kName || found.source == Source::kValue || field.as_text) kind = FormatKind::kText;
  if (is_time && !field.as_text) kind = field.spec_text.empty() ? FormatKind::kText : FormatKind::kFloat;
  Status status = CheckFormatSpec(field.spec, kind);
  if (status.ok()) return status;
  return FormatError(format_, field.position, std::string(status.message()) + " ({" + field.name + "})");
}

Status RecordFormat::Check(std::span<const std::string> leaf_names, std::span<const DType> dtypes) const {
  for (const FormatPiece& piece : pieces_) {
    if (!piece.field) continue;
    CALLOUT_ASSIGN_OR_RETURN(const Found found, Find(*piece.field, leaf_names));
    CALLOUT_RETURN_IF_ERROR(CheckField(*piece.field, found, dtypes));
  }
  return OkStatus();
}

Status RecordFormat::Resolve(const Record& record) {
  const bool same_types =
      std::equal(record.buffers.begin(), record.buffers.end(), dtypes_.begin(), dtypes_.end(),
                 [](const callout_buffer& buffer, DType dtype) { return static_cast<DType>(buffer.dtype) == dtype; });
  if (is_resolved_ && same_types && record.site->leaf_names == leaf_names_) return OkStatus();
  is_resolved_ = false;
  leaf_names_ = record.site->leaf_names;
  leaf_names_.resize(std::min(leaf_names_.size(), record.buffers.size()));  // A value without arrays has one name.
  dtypes_.clear();
  for (const callout_buffer& buffer : record.buffers) dtypes_.push_back(static_cast<DType>(buffer.dtype));
  CALLOUT_RETURN_IF_ERROR(Check(leaf_names_, dtypes_));
  found_.clear();
  for (const FormatPiece& piece : pieces_) {
    if (piece.field) found_.push_back(Find(*piece.field, leaf_names_).value());
  }
  is_resolved_ = true;
  return OkStatus();
}

Status RecordFormat::Append(const Record& record, const Colours& colours, std::string& out) {
  step_ = steps_.Next(record);
  CALLOUT_RETURN_IF_ERROR(Resolve(record));
  size_t next = 0;
  for (const FormatPiece& piece : pieces_) {
    out += piece.text;
    if (!piece.field) continue;
    const Found found = found_[next++];
    out += found.source == Source::kName ? colours.name : colours.value;
    CALLOUT_RETURN_IF_ERROR(AppendField(*piece.field, found, record, out));
    out += colours.end;
  }
  return OkStatus();
}

Status RecordFormat::AppendField(const FormatField& field, Found found, const Record& record, std::string& out) const {
  if (field.as_text) {
    FormatField plain = field;
    plain.as_text = false;
    plain.spec_text.clear();
    plain.spec = {};
    std::string text;
    CALLOUT_RETURN_IF_ERROR(AppendField(plain, found, record, text));
    AppendFormatted(text, field.spec, out);
    return OkStatus();
  }
  switch (found.source) {
    case Source::kLeaf: {
      const callout_buffer& buffer = record.buffers[found.leaf];
      return field.spec_text.empty() ? AppendPlainArray(buffer, out) : AppendFormattedArray(buffer, field.spec, out);
    }
    case Source::kValue: {
      std::string text;
      CALLOUT_RETURN_IF_ERROR(AppendValue(record, text));
      AppendFormatted(text, field.spec, out);
      return OkStatus();
    }
    case Source::kName:
      return AppendFormatted(record.site->label, field.spec, out), OkStatus();
    case Source::kStep:
      return AppendFormatted(step_, field.spec, out), OkStatus();
    case Source::kDevice:
      return AppendFormatted(int64_t{record.device_ordinal}, field.spec, out), OkStatus();
    case Source::kRun:
      return AppendFormatted(record.run_id, field.spec, out), OkStatus();
    case Source::kSequence:
      return AppendFormatted(record.sequence, field.spec, out), OkStatus();
    case Source::kTime:
      break;
  }
  const double seconds = WallSecondsAt(record.ticks);
  if (field.spec_text.empty() || field.is_time) {
    AppendTime(seconds, field.is_time ? field.spec_text : kTimeFormat, out);
  } else {
    AppendFormatted(seconds, field.spec, out);
  }
  return OkStatus();
}

}  // namespace callout::internal
