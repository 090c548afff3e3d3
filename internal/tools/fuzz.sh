#!/bin/sh
# Runs every fuzz target of the module for the given time each.
set -eu
time=${1:?usage: fuzz.sh DURATION}
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r package; do
	grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //' | while read -r target; do
		echo "== $package $target"
		go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null
	done
done
