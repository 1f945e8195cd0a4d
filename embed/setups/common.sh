address=@address
key=@key
public=@public

# need ends the script if the program $1 is not there.
need() {
  command -v "$1" > /dev/null || {
    printf '%s is missing. Install it, and try again.\n' "$1" >&2
    exit 1
  }
}
need curl

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

# curl reads the key from a file that nobody else can read, because other users can see the arguments of a command.
printf 'x-api-key: %s\n' "$key" > "$work/head"

# upload sends the file $1 under the name $2, or its own, and prints its address.
upload() {
  if [ "$1" != - ] && [ ! -e "$1" ]; then
    printf '%s: There is no such file.\n' "$1" >&2
    return 1
  fi
  part=$(printf '%s.' "$1" | sed 's/[\\"]/\\&/g')
  part="file=@\"${part%.}\""
  if [ -n "${2-}" ]; then part="$part;filename=\"$2\""; fi
  answer=$(curl -gsS -H "@$work/head" -H 'accept: text/plain' -F "isPublic=$public" -F "$part" \
    -w '%{http_code}' "$address/api/v1/upload") || {
    printf '%s: It was not sent.\n' "$1" >&2
    return 1
  }
  said=${answer%???}
  if [ "${answer#"$said"}" != 201 ]; then
    printf '%s: %s\n' "$1" "$said" >&2
    return 1
  fi
  printf '%s' "$said"
}

# clip puts $1 on the clipboard, if there is one.
clip() {
  if [ -n "${WAYLAND_DISPLAY-}" ] && command -v wl-copy > /dev/null; then
    printf '%s' "$1" | wl-copy > /dev/null 2>&1
  elif [ -n "${DISPLAY-}" ] && command -v xclip > /dev/null; then
    printf '%s' "$1" | xclip -selection clipboard > /dev/null 2>&1
  elif command -v pbcopy > /dev/null; then
    printf '%s' "$1" | pbcopy
  fi || true
}
