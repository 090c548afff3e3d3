#!/bin/sh
# Runs before the files are removed. The argument is "remove" or "upgrade" from dpkg, and the
# number of remaining versions from rpm.
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl stop otelcol-kernelsym.service || true
	fi
	if command -v systemctl >/dev/null; then
		systemctl disable otelcol-kernelsym.service || true
	fi
	;;
esac
