#!/bin/sh
# Compares the figures of the bench with those of a commit, which it builds beside: bench-base.sh COMMIT RUNS [FLAG...]
# The two run in turn, because figures of another time differ by a fifth. It prints the medians and their ratio.
set -eu
commit=$1 runs=$2
shift 2
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/tree"; rm -rf "$dir"' EXIT
git worktree add -q --detach "$dir/tree" "$commit"
(cd "$dir/tree" && go build -o "$dir/base" ./internal/test/bench)
go build -o "$dir/new" ./internal/test/bench
for _ in $(seq "$runs"); do
	for which in base new; do
		"$dir/$which" "$@" | sed -n "s/^bench /$which /p" >>"$dir/figures"
	done
done
sort -k2,2 -k1,1 -k3,3g "$dir/figures" | awk -v runs="$runs" '
	{ values[$1, $2, ++n[$1, $2]] = $3; names[$2] }
	function median(which, name) { return values[which, name, int((n[which, name] + 1) / 2)] }
	END {
		printf "%-36s %12s %12s %9s\n", "NAME", "BASE", "NEW", "NEW/BASE"
		for (name in names)
			if (n["base", name] && n["new", name])
				printf "%-36s %12s %12s %9.2f\n", name, median("base", name), median("new", name), median("new", name) / median("base", name) | "sort"
	}'
