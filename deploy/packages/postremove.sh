#!/bin/sh
# Runs after the files are removed.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
