package admin

import "strings"

// takesOver is how a second machine continues in the place of the first.
const takesOver = "a second machine takes over with kist restore from the object store into an empty data directory, " +
	"and then kist serve --store ADDRESS --take-over"

// removed are the flags and commands that kist once had, as kist's words, and what to do instead. The
// environment variable of a flag of serve gets the same answer.
var removed = map[string]string{
	"kist doctor --reset-clock": "the store's time goes on when the clock has caught up with it; after a wrong year, " +
		"export what each user has and import it into a new data directory, as kist help repair says",
	"kist promote":               takesOver,
	"kist serve --fetch-all":     "give --fetch-all to kist restore, which then fetches all files",
	"kist serve --follow":        takesOver,
	"kist serve --promote-after": takesOver,
	"kist serve --store-max-lag": "with --store-mode sync nothing that was acknowledged is lost with a machine; " +
		"without it the changes of about a second can be, and kist doctor says how many are not in the object store",
	"kist serve --writes-per-hour": "a quota, which an administrator sets in the app, bounds how much a user keeps, " +
		"and the number of changes in a minute has a fixed limit",
}

// gone says what to do instead of a word after a command; "" if kist never had it.
func gone(command, word string) string {
	instead, was := removed[command+" "+word]
	if !was {
		return ""
	}
	if !strings.HasPrefix(word, "-") {
		word = command + " " + word
	}
	return word + " does not exist any more: " + instead
}

// goneVariable is gone for an environment variable, or one that names a file.
func goneVariable(name string) string {
	flag := strings.TrimSuffix(strings.TrimPrefix(name, envPrefix), fileSuffix)
	instead, was := removed["kist serve --"+strings.ToLower(strings.ReplaceAll(flag, "_", "-"))]
	if !was {
		return ""
	}
	return name + " does not exist any more: " + instead
}
