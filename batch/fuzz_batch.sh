#!/bin/bash
# Runs the fuzzer given as $1 for ten seconds; an input that breaks it is shown in base64 by
# libFuzzer and kept among the test's outputs.
set -euo pipefail
exec "$1" -seed=1 -max_len=2048 -max_total_time=10 -print_final_stats=1 \
    -artifact_prefix="${TEST_UNDECLARED_OUTPUTS_DIR:-.}/"
