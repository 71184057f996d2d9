#!/bin/bash
# Runs the fuzzer $1 of the part $2 for some seconds; an input that breaks it is shown in base64 by
# libFuzzer and kept among the test's outputs.
set -euo pipefail
seeds="$(mktemp -d "${TEST_TMPDIR:-/tmp}/seeds.XXXXXX")"
/usr/bin/python3 -B fuzz/seeds.py "$2" "$seeds"
"$1" -seed=1 -max_len=1024 -max_total_time=3 -print_final_stats=1 \
    -artifact_prefix="${TEST_UNDECLARED_OUTPUTS_DIR:-.}/" "$seeds"
