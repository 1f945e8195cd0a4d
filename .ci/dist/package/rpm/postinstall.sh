# The presets of the machine decide whether the service begins with it.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload > /dev/null || true
	if [ "$1" -eq 1 ]; then
		systemctl --no-reload preset kist.service > /dev/null || true
	fi
fi
if [ "$1" -eq 1 ]; then
	echo '"systemctl enable --now kist" starts Kist at http://127.0.0.1:7080; then "journalctl -u kist -n 20" has the'
	echo 'link for the first administrator; "kist user add ann --admin" makes one, too. Commands use the data of the'
	echo 'service, in /var/lib/kist, as root. Settings are in /etc/kist/kist.env.'
fi
