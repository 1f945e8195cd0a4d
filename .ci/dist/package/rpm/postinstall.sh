# The presets of the machine decide whether the service begins with it.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload > /dev/null || true
	if [ "$1" -eq 1 ]; then
		systemctl --no-reload preset kist.service > /dev/null || true
	fi
fi
if [ "$1" -eq 1 ]; then
	echo '"systemctl enable --now kist" starts Kist at http://127.0.0.1:7080; then "journalctl -u kist -n 20" has the'
	echo 'link for the first administrator. Settings are in /etc/kist/kist.env, the data in /var/lib/kist.'
fi
