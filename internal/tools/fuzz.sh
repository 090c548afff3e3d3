#!/bin/sh
# Runs every fuzz target of the module for the given time each, also after one that
# failed.
set -eu
time=${1:?usage: fuzz.sh DURATION}
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | {
	failed=
	while read -r package; do
		for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //'); do
			echo "== $package $target"
			# Minimizing is for failures: what is only interesting gets no time of it.
			go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1000x </dev/null ||
				failed="$failed $package:$target"
		done
	done
	[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
}
