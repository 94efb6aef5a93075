# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for long runs in parts, for scripts to `source`. A run that is started again skips parts that have ended,
# and prints a table of all parts at its end, or when it is interrupted.
#   begin_parts FOLDER KEY   drops results under another KEY; FOLDER has the logs and the table
#   part NAME COMMAND...     runs the command unless it has succeeded under this key; only if in $PARTS, if set
#   end_parts                exits with 1 if a part of the table failed, or one of $PARTS does not exist
# A part whose log contains "...: SKIPPED: why" did not run completely: the table shows it as skipped with the reason,
# and it runs again next time.

begin_parts() { # FOLDER KEY
  parts_logs=$1 parts_table=$1/parts.tsv parts_names=()
  mkdir -p "$1"
  if [[ $(cat "$1/key" 2> /dev/null) != "$2" ]]; then
    rm -f "$parts_table"
    echo "$2" > "$1/key"
  fi
  touch "$parts_table"
  trap '[[ $BASHPID != "$$" ]] || print_parts' EXIT # a subshell may have it, too
}

has_ended() { awk -F '\t' -v name="$1" '$1 == name && $2 == "ok" { found = 1 } END { exit !found }' "$parts_table"; }

note_part() { # NAME STATUS SECONDS WHY
  awk -F '\t' -v name="$1" '$1 != name' "$parts_table" > "$parts_table.new"
  printf '%s\t%s\t%s\t%s\n' "$@" >> "$parts_table.new"
  mv "$parts_table.new" "$parts_table"
}

part() { # NAME COMMAND...
  local name=$1 log=$parts_logs/$1.log start=$SECONDS why
  parts_names+=("$name")
  [[ -z ${PARTS:-} || " $PARTS " == *" $name "* ]] || return 0
  if has_ended "$name"; then
    echo "::: $name: has passed before"
    return 0
  fi
  echo "::: $name"
  note_part "$name" interrupted 0 "see $log"
  if "${@:2}" 2>&1 | tee "$log"; then
    why=$(grep -E '(^|: )SKIPPED: ' "$log" | sort -u | paste -sd ';' | tr '\t' ' ' || true)
    note_part "$name" "$([[ -z $why ]] && echo ok || echo skipped)" $((SECONDS - start)) "$why"
  else
    note_part "$name" FAILED $((SECONDS - start)) "see $log"
  fi
}

print_parts() {
  echo "::: parts"
  awk -F '\t' '{ printf "%-24s %-11s %6d s  %s\n", $1, $2, $3, $4 }' "$parts_table"
}

count_parts() { awk -F '\t' -v status="$1" '$2 == status { ++count } END { print count + 0 }' "$parts_table"; } # STATUS

end_parts() {
  local name wrong=0
  for name in ${PARTS:-}; do
    if [[ " ${parts_names[*]} " != *" $name "* ]]; then
      echo "no part $name; there are: ${parts_names[*]}" >&2
      wrong=1
    fi
  done
  print_parts
  trap - EXIT
  echo "::: of ${#parts_names[@]} parts $(count_parts ok) passed, $(count_parts skipped) skipped something," \
    "$(count_parts FAILED) failed"
  ((wrong == 0 && $(count_parts FAILED) == 0)) || exit 1
}
