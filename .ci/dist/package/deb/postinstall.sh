# The service begins at once and with the machine, as Debian's packages do, unless the owner has turned it off.
if [ "$1" = configure ] || [ "$1" = abort-upgrade ] || [ "$1" = abort-remove ]; then
	if command -v deb-systemd-helper > /dev/null; then
		deb-systemd-helper unmask kist.service > /dev/null || true
		if deb-systemd-helper --quiet was-enabled kist.service; then
			deb-systemd-helper enable kist.service > /dev/null || true
		else
			deb-systemd-helper update-state kist.service > /dev/null || true
		fi
	fi
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload > /dev/null || true
		deb-systemd-invoke restart kist.service > /dev/null || true # starts it too, but not if it is disabled
	fi
	if [ "$1" = configure ] && [ -z "$2" ]; then
		echo 'Kist is at http://127.0.0.1:7080. "journalctl -u kist -n 20" has the link for the first administrator;'
		echo '"kist user add ann --admin" makes one, too. Commands use the data of the service, in /var/lib/kist, as root.'
		echo 'Settings are in /etc/kist/kist.env.'
	fi
fi
