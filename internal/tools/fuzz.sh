#!/bin/sh
# Runs every fuzz target of the module for the given time each, or so many times (1000x),
# also after one that failed.
set -eu
time=${1:?usage: fuzz.sh DURATION}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# ended_in_time is true where the end of the time is all that go test calls a failure, as
# its coordinator does now and then: for an input that fails, it says which one.
ended_in_time() {
	grep -A1 '^--- FAIL' "$log" | grep -qx '    context deadline exceeded' && ! grep -q 'Failing input written' "$log"
}

grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | {
	failed=
	while read -r package; do
		for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //'); do
			echo "== $package $target"
			# Minimizing is for failures: what is only interesting gets no time of it.
			status=0
			go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1000x </dev/null >"$log" 2>&1 || status=$?
			cat "$log"
			[ "$status" != 0 ] || continue
			if ended_in_time; then
				echo "== $package $target passed: go test reports the end of the time as a failure"
			else
				failed="$failed $package:$target"
			fi
		done
	done
	[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
}
