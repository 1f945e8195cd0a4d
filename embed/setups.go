package embed

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed setups/common.sh
var commonScript string

//go:embed setups/shell.sh
var shellScript string

//go:embed setups/flameshot.sh
var flameshotScript string

// ShellScript is a POSIX shell script that uploads files, or its standard input, to the server at the absolute address.
// The script contains the API key.
func ShellScript(address, key string, public bool) string {
	return script(shellScript, address, key, public)
}

// FlameshotScript is a POSIX shell script that takes a screenshot with Flameshot and uploads it. It contains the API
// key.
func FlameshotScript(address, key string, public bool) string {
	return script(flameshotScript, address, key, public)
}

func script(text, address, key string, public bool) string {
	values := strings.NewReplacer("@address", quote(address), "@key", quote(key), "@public", strconv.FormatBool(public))
	return strings.Replace(text, "@common\n", values.Replace(commonScript), 1)
}

// quote turns text into one word for a POSIX shell.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
