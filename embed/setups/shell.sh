#!/bin/sh
# Uploads files to kist, prints their addresses and copies them to the clipboard.
#
#   kist-upload --help         says how
#
# It holds an API key: let nobody else read it (chmod 700). It needs curl.
set -eu
umask 077

usage() {
  cat << 'END'
Uploads files to kist, prints their addresses and copies them to the clipboard.

  kist-upload FILE...        uploads files
  command | kist-upload      uploads what the command prints
  command | kist-upload - NAME
                             the same, under a name
  kist-upload -- FILE...     uploads files, whatever they are called
END
}

case ${1-} in
  -h | --help)
    usage
    exit 0
    ;;
  --) shift ;;
esac
if [ $# -eq 0 ] && [ -t 0 ]; then
  usage >&2
  exit 2
fi

@common

failed=0
all=
keep() {
  all=$all${all:+"
"}$1
  printf '%s\n' "$1"
}

if [ $# -eq 0 ] || [ "$1" = - ]; then
  # Standard input is sent while it is read. curl does not take a quote or backslash in the name.
  name=$(printf '%s' "${2-text.txt}" | tr -d '\\"')
  if one=$(upload - "$name"); then keep "$one"; else failed=1; fi
else
  for file; do
    if one=$(upload "$file"); then keep "$one"; else failed=1; fi
  done
fi
if [ -n "$all" ]; then clip "$all"; fi
exit $failed
