#!/bin/sh
# Runs a command as root: as-root.sh COMMAND [ARGUMENT...]
# Without one, it says whether that is possible, before anything else is done.
set -eu
if [ "$(id -u)" = 0 ]; then
	exec "$@"
fi
if ! command -v sudo >/dev/null; then
	echo "You are not root, and there is no sudo." >&2
	exit 1
fi
if [ $# = 0 ]; then
	exit 0
fi
if [ -t 0 ] || sudo -n true 2>/dev/null; then
	echo "Running it as root: sudo $*"
	exec sudo "$@"
fi
echo "Root is needed now, and there is no terminal on which sudo could ask for a password. Run this:" >&2
echo "  sudo $*" >&2
exit 1
