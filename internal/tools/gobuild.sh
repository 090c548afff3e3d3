#!/bin/sh
# Runs `go build` and says every 10 s how far it is: gobuild.sh WHAT DIRECTORY OUTPUT PACKAGE [FLAG...]
# The output is a path from here.
what=$1 directory=$2 output=$(realpath -m "$3") package=$4
shift 4
log=$(mktemp) stale=$(mktemp)
trap 'rm -f "$log" "$stale"' EXIT
go build -C "$directory" -v "$@" -o "$output" "$package" >"$log" 2>&1 &
build=$!
trap 'kill $build 2>/dev/null' INT TERM
began=$(date +%s) listed=
while kill -0 $build 2>/dev/null; do
	sleep 1
	seconds=$(($(date +%s) - began))
	if [ -z "$listed" ] && [ $seconds -ge 5 ]; then # most builds end before that
		listed=yes
		go list -C "$directory" "$@" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$package" >"$stale" 2>/dev/null &
	fi
	if [ $((seconds % 10)) = 0 ] && [ $seconds -gt 0 ]; then
		all=$(grep -v '^go: ' "$log" | sort -u - "$stale" | grep -c .) # the list may have missed what was compiled before
		echo "Compiling $what for $seconds s: $(grep -vc '^go: ' "$log") of $all packages compiled, $(grep -c '^go: downloading' "$log") modules downloaded."
	fi
done
wait $build
status=$?
[ $status = 0 ] || cat "$log" >&2
exit $status
