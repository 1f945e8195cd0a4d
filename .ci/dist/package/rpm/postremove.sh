#!/bin/sh
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload > /dev/null || true
	if [ "$1" -ge 1 ]; then
		systemctl try-restart kist.service > /dev/null || true
	fi
fi
