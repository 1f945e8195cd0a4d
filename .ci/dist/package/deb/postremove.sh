#!/bin/sh
set -e

if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload > /dev/null || true
fi
if [ "$1" = purge ]; then
	if command -v deb-systemd-helper > /dev/null; then
		deb-systemd-helper purge kist.service > /dev/null || true
	fi
	# What people have put into Kist is theirs: no package deletes it, nor the user that it belongs to.
	if [ -e /var/lib/kist ]; then
		echo 'The data stays in /var/lib/kist. To delete it: rm -r /var/lib/kist'
	fi
fi
