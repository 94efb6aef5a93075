// SPDX-License-Identifier: Apache-2.0
//
// Records that a program hands over together: a loop in chunks writes what its steps tap into rows of arrays, and one
// call of its tap sends all rows (attribute `rows`). Each row is a record: the receiver cannot tell that it came with
// others.
//
//   the operands   leaves[capacity, ...]..., step[capacity, ...] if the site has steps, u32[] rows,
//                  u32[capacity] turns if the site has turns, offsets if any
//   in the queue   leaves[n, ...]..., step[n, ...], offsets, u32[n] skipped if the throttle may leave out records,
//                  u32[n] turns if the rows are part of a hand-over; n: admitted rows
//
// The taps of a loop hand their rows over together: the first ones leave them with Delivery (RowsOfTap), and the last
// one sends all of them as one record of the queue, which begins with a list of its parts (RowsPart). The delivery
// thread merges the parts by their turns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "core/delivery/tap_site.h"

namespace callout::internal {

/// The operands of a tap with rows. Borrowed: valid as long as the operands.
struct TapRows {
  std::span<const callout_buffer> leaves;
  const callout_buffer* steps = nullptr;    ///< Null if the site's records have no step.
  const callout_buffer* turns = nullptr;    ///< Null if the rows' indices are their turns.
  const callout_buffer* offsets = nullptr;  ///< Null if the values are whole.
  uint32_t count = 0;                       ///< How many rows are filled.

  /// Returns the step of a row, whose first element counts under vmap; nullopt if there is none.
  CALLOUT_EXPORT std::optional<int64_t> StepOf(uint32_t row) const;
};

/// Returns the offsets of each row, without those of the rows' dimension; empty if the values are whole.
CALLOUT_EXPORT std::vector<int64_t> OffsetsOfRows(const TapRows& rows);

/// Returns one row of an array, without its first dimension, which exists. Borrowed: valid as long as the array.
CALLOUT_EXPORT callout_buffer RowOf(const callout_buffer& array, uint32_t row);

/// Splits the operands. InvalidArgument if they do not fit the site, if an array has fewer rows than the program
/// filled, or if rows are no whole bytes.
CALLOUT_EXPORT Result<TapRows> SplitRows(const TapSite& site, std::span<const callout_buffer> operands);

/// The rows that a throttle admitted, as the buffers of one record in a queue. Can be moved, but not copied.
class AdmittedRows {
 public:
  /// Asks the throttle about each row, and counts the rows that are left out. Copies rows only if some are left out.
  AdmittedRows(TapSite& site, const TapRows& rows, int32_t device_ordinal, Throttle::Place place);
  AdmittedRows(AdmittedRows&&) = default;
  AdmittedRows& operator=(AdmittedRows&&) = default;

  /// Copies what the buffers still borrow from the program.
  void Own();

  uint32_t count() const { return count_; }
  std::span<const callout_buffer> buffers() const { return buffers_; }
  /// Returns the sum of the skipped records that the rows report.
  uint32_t skipped() const;

 private:
  void Add(const callout_buffer& array, std::span<const uint32_t> rows);

  uint32_t count_ = 0;
  std::vector<uint32_t> skipped_;  // one for each row; empty if the throttle admits all
  std::vector<uint32_t> turns_;    // one for each row of a hand-over
  std::vector<callout_buffer> buffers_;
  std::vector<std::vector<int64_t>> dims_;      // of the buffers
  std::vector<std::vector<std::byte>> copies_;  // of the buffers whose rows were copied
};

/// The rows of one tap of a hand-over.
struct RowsOfTap {
  TapSite* site;  ///< Borrowed: valid while the program runs, and then until its queue has delivered the rows.
  AdmittedRows rows;
};

/// An element of the list with which the record of a hand-over begins.
struct RowsPart {
  TapSite* site;
  uint32_t first_buffer;  ///< Among the record's buffers.
  uint32_t num_buffers;
  uint32_t rows;
  uint32_t skipped;  ///< See Record; of the first row.
};

/// Returns the parts of a hand-over with at least one row, and adds their buffers to `buffers`.
std::vector<RowsPart> PartsOf(std::span<const RowsOfTap> taps, std::vector<callout_buffer>& buffers);

/// Reads the records of a queue's entry with rows. Borrowed: valid as long as the entry. Must not be copied.
class RowReader {
 public:
  /// `rows`: the number of rows. `whole`: the entry as one record, whose buffers are those of AdmittedRows.
  RowReader(const TapSite& site, const Record& whole, uint32_t rows);
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  RowReader(RowReader&&) = default;

  /// Returns a row as a record with this number. Borrowed: valid until the next call.
  const Record& Read(uint32_t row, uint64_t sequence);
  /// Returns the turn of a row of a hand-over.
  uint32_t TurnOf(uint32_t row) const { return turns_[row]; }

 private:
  Record record_;
  std::span<const callout_buffer> leaves_;
  const callout_buffer* steps_ = nullptr;
  const uint32_t* skipped_ = nullptr;
  uint32_t skipped_before_ = 0;
  const uint32_t* turns_ = nullptr;
  std::vector<callout_buffer> buffers_;
  std::vector<void*> blocks_;
  std::vector<int64_t> offsets_;
};

}  // namespace callout::internal
