#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command, then prints how long it took. Usage: timed.sh WHAT COMMAND...
what=$1
shift
TIMEFORMAT="time: $what: %0R s, processor time %0U s + %0S s"
time "$@"
