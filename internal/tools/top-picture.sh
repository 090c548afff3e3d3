#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# top-picture.sh TOOL FILE: runs `kernelsym top` in a terminal, and takes a picture of it in chromium.
# It needs root, tmux and chromium. What else the machine does is in the picture.
set -eu
tool=$1 file=$(realpath "$2") dir=$(mktemp -d)
trap 'tmux -S "$dir/tmux" kill-server 2>/dev/null || true; rm -rf "$dir"' EXIT

tmux -S "$dir/tmux" -f /dev/null new-session -d -x 84 -y 18 "TERM=xterm-256color $tool top"
sleep 12 # the table covers the last five refreshes, of two seconds each
{
	echo '<!DOCTYPE html><meta charset="utf-8"><style>'
	echo 'body { margin: 0; background: #0d1117 } pre { margin: 12px; color: #e6edf3; font: 14px/18px "DejaVu Sans Mono", monospace }'
	echo '.bold { font-weight: bold } .red { color: #ff7b72 } .green { color: #56d364 }'
	echo '</style><pre>'
	tmux -S "$dir/tmux" capture-pane -ep | sed -e 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' -e 's/\x1b\[0m\x1b\[39m\x1b\[49m\|\x1b\[0m\|\x1b\[39m/<\/span>/g' \
		-e 's/\x1b\[\(0;\)\?7m\|\x1b\[49m//g' -e 's/\x1b\[1m/<span class=bold>/g; s/\x1b\[31m/<span class=red>/g; s/\x1b\[32m/<span class=green>/g'
	echo '</pre>'
} >"$dir/top.html"
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update \
	--disable-sync --user-data-dir="$dir/chromium" --hide-scrollbars --window-size=740,348 --screenshot="$file" "file://$dir/top.html" 2>/dev/null
