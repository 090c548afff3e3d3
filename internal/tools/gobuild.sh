#!/bin/sh
# Runs `go build` and says every 10 s how far it is: gobuild.sh WHAT ARGUMENTS...
what=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ "$1" = -C ]; then # must be the first flag
	directory=$2
	shift 2
	set -- -C "$directory" -v "$@"
else
	set -- -v "$@"
fi
go build "$@" >"$log" 2>&1 &
build=$!
trap 'kill $build 2>/dev/null' INT TERM
began=$(date +%s)
while kill -0 $build 2>/dev/null; do
	sleep 1
	seconds=$(($(date +%s) - began))
	if [ $((seconds % 10)) = 0 ] && [ $seconds -gt 0 ]; then
		echo "Compiling $what for $seconds s: $(grep -vc '^go: ' "$log") packages compiled, $(grep -c '^go: downloading' "$log") modules downloaded."
	fi
done
wait $build
status=$?
[ $status = 0 ] || cat "$log" >&2
exit $status
