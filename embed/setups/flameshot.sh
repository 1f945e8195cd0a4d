#!/bin/sh
# Takes a screenshot with Flameshot, uploads it to kist, prints its address and copies it to the clipboard.
#
# It holds an API key: let nobody else read it (chmod 700). It needs flameshot and curl.
set -eu
umask 077

@common

# tell says $1 where there may be no terminal.
tell() {
  if command -v notify-send > /dev/null; then notify-send kist "$1" || true; fi
}

(need flameshot) || {
  tell 'flameshot is missing.'
  exit 1
}
flameshot gui --raw > "$work/picture" || true
if [ "$(head -c 4 "$work/picture" | tail -c 3)" != PNG ]; then
  exit 0 # it was called off
fi

if ! one=$(upload "$work/picture" "screenshot-$(date +%Y-%m-%d-%H%M%S).png" 2> "$work/why"); then
  cat "$work/why" >&2
  tell 'The screenshot could not be uploaded.'
  exit 1
fi
printf '%s\n' "$one"
clip "$one"
tell "$one"
