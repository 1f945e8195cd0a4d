#!/bin/sh
set -e

# The user and the folder of the data. Both stay when the package is removed.
if ! getent group kist > /dev/null; then
	groupadd --system kist
fi
if ! getent passwd kist > /dev/null; then
	useradd --system --gid kist --home-dir /var/lib/kist --no-create-home --shell /usr/sbin/nologin --comment Kist kist
fi
if [ ! -e /var/lib/kist ] && [ ! -L /var/lib/kist ]; then # a link to another disk stays
	install -d -o kist -g kist -m 0700 /var/lib/kist
fi

