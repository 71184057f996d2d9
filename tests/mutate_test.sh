#!/bin/sh
# Does tools/mutate still know the texts that it replaces in a copy of this tree?
exec "$(dirname "$(dirname "$(realpath "$0")")")/tools/mutate" --selftest
