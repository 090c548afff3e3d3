#!/bin/sh
# Runs after the files are installed. The package does not start the service, but restarts one
# that is running. The installation succeeds even if systemd cannot do that.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart otelcol-kernelsym.service || true
fi
