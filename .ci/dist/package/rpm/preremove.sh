#!/bin/sh
set -e

if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now kist.service > /dev/null || true
fi
