# What .ci/run and .ci/nightly have in common: steps, of which all are run and none may
# fail, and at the end what the Go test runner said.
set -uo pipefail
cd "$(dirname "$0")/.."

tests=$(mktemp)
beside_log=$(mktemp)
trap 'rm -f "$tests" "$beside_log"' EXIT
failed=()

# step runs a command and says how long it took.
step() {
	printf '\n=== %s\n' "$*"
	local start=$SECONDS
	"$@" || failed+=("$*")
	printf '=== %s: %d s\n' "$*" $((SECONDS - start))
}

# beside starts a step that gets what the steps after it leave of the processors.
beside() {
	printf '\n=== %s, beside what follows\n' "$*"
	beside=$*
	nice -n 19 "$@" >"$beside_log" 2>&1 &
	beside_pid=$!
}

# end_beside waits for that step, and says what it said.
end_beside() {
	printf '\n=== %s\n' "$beside"
	local start=$SECONDS
	wait "$beside_pid" || failed+=("$beside")
	cat "$beside_log"
	printf '=== %s: %d s more\n' "$beside" $((SECONDS - start))
}

# tests runs a command whose output is repeated at the end, in short.
tests() { "$@" 2>&1 | tee -a "$tests"; }

# is_root reports whether this is root, and says what is not done if not.
is_root() {
	[ "$(id -u)" = 0 ] && return
	echo "=== not root: the kernel hides its symbols"
	return 1
}

finish() {
	printf '\n=== the tests again, in short\n'
	grep -E '^(=== kernel|ok|FAIL|SKIP|panic:|--- FAIL)' "$tests"
	if ((${#failed[@]} > 0)); then
		printf 'failed: %s\n' "${failed[@]}"
		exit 1
	fi
}
