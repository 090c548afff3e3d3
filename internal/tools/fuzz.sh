#!/bin/sh
# Runs every fuzz target of the module for the given time each, or so many times (1000x),
# also after one that failed.
set -eu
time=${1:?usage: fuzz.sh DURATION}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# ended_in_time is true where go test took the end of the time for a failure, as it does
# now and then: a target that fails has an input, which go test writes.
ended_in_time() {
	grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"
}

grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | {
	failed=
	while read -r package; do
		for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //'); do
			echo "== $package $target"
			# Minimizing is for failures: what is only interesting gets no time of it.
			passed=yes
			go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1000x </dev/null >"$log" 2>&1 ||
				ended_in_time || passed=
			cat "$log"
			[ -n "$passed" ] || failed="$failed $package:$target"
		done
	done
	[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
}
