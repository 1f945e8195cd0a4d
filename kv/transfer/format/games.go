package format

import (
	"bufio"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kist/kv/field"
	"kist/kv/record"
)

// gameStates are the words of trackers for the progress in a game.
var gameStates = map[string]record.GameStatus{
	"playing": "playing", "now playing": "playing", "currently playing": "playing",
	"played": "finished", "beaten": "finished", "completed": "finished", "finished": "finished",
	"backlog": "backlog", "not played": "backlog", "plan to play": "backlog",
	"wish list": "wishlist", "wishlist": "wishlist",
	"abandoned": "dropped", "dropped": "dropped", "shelved": "dropped",
}

// stateOrder is which state a game on several shelves has: the first.
var stateOrder = []record.GameStatus{"playing", "finished", "dropped", "backlog", "wishlist"}

// rate sets the rating, which goes from 0 to most there. It reports false if the
// text is no such number.
func (b *builder) rate(text string, most float64) bool {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > most {
		return false
	}
	b.Fields["rating"] = json.Number(strconv.Itoa(int(math.Round(n * 10 / most))))
	return true
}

// played sets the time played.
func (b *builder) played(seconds float64) {
	if seconds >= 60 && seconds < 1e12 {
		b.Fields["playtimeMinutes"] = json.Number(strconv.FormatInt(int64(seconds/60), 10))
	}
}

// grouvee reads the list of games that Grouvee exports, as CSV whose cells are
// JSON in part, or as JSON.
func grouvee(s Source) Rows {
	first, _ := firstByte(bufio.NewReader(s.text()))
	if first == '[' || first == '{' {
		left := notRead("member")
		return left.after(ofList(s.text(), "games", left, nil, grouveeRow))
	}
	left := notRead("column")
	return left.after(ofColumns(s.text(), []string{"name"}, left, func(at string, l *csvLine) Row {
		e := l.entry(left)
		for _, name := range []string{"shelves", "platforms", "dates", "statuses"} {
			text, _ := e.o[name].(string)
			if v := inJSON(text); v != nil {
				e.o[name] = v
			}
		}
		row := grouveeRow(at, e)
		e.done()
		return row
	}))
}

func grouveeRow(at string, e *entry) Row {
	b := build(record.Games, at)
	b.title(e.text("name"))
	shelves := take[field.Object](e, "shelves")
	states := map[record.GameStatus]bool{}
	for _, shelf := range slices.Sorted(maps.Keys(shelves)) {
		state := gameStates[strings.ToLower(clean(shelf))]
		if state == "" {
			b.tags(shelf)
		}
		states[state] = true
		about, _ := shelves[shelf].(field.Object)
		added := date(text(about, "date_added"))
		if b.Past.Created.IsZero() || !added.IsZero() && added.Before(b.Past.Created) {
			b.Past.Created = added
		}
	}
	for _, state := range stateOrder {
		if states[state] {
			b.Fields["status"] = string(state)
			break
		}
	}
	platforms := take[field.Object](e, "platforms")
	b.text("platform", strings.Join(slices.Sorted(maps.Keys(platforms)), ", "), record.MaxName)

	rating := or(e.number("rating"), e.text("rating"))
	if rating != "" && !b.rate(rating, 5) {
		b.note("The rating %q is not from 0 to 5.", shown(rating))
	}
	notes := []string{e.text("review_title"), e.text("review")}
	total := 0.0
	for _, o := range list[field.Object](e, "dates") {
		text, seconds := playOf(o)
		notes, total = append(notes, text), total+seconds
	}
	b.played(total)
	b.text("notes", join(notes...), record.MaxDescription)
	return b.Row
}

// playOf says when somebody played a game through, and for how many seconds; "" if
// the dates are not known.
func playOf(o field.Object) (said string, seconds float64) {
	n, _ := o["seconds_played"].(json.Number)
	seconds, err := n.Float64()
	if err != nil || seconds < 0 {
		seconds = 0
	}
	from, to := wholeDay(o["date_started"]), wholeDay(o["date_finished"])
	if from == "" && to == "" {
		return "", seconds
	}
	said = strings.TrimSpace(from + " – " + to)
	level := clean(text(o, "level_of_completion"))
	if level != "" {
		said += " (" + level + ")"
	}
	return said, seconds
}

// wholeDay is a date of a game without its time, "" if it is not one.
func wholeDay(v any) string {
	t, _ := v.(string)
	at := date(t)
	if at.IsZero() {
		return ""
	}
	return at.Format(time.DateOnly)
}

// inJSON is the value of a cell that is JSON; nil if it is not.
func inJSON(cell string) any {
	o, err := field.Parse([]byte(`{"v":` + cell + `}`))
	if err != nil {
		return nil
	}
	return o["v"]
}

// playnite reads the CSV of Playnite's exporters.
func playnite(s Source) Rows {
	left := notRead("column")
	return left.after(ofColumns(s.text(), []string{"name"}, left, func(at string, l *csvLine) Row {
		b := build(record.Games, at)
		b.title(l.cell("name"))
		b.text("platform", l.cell("platforms", "platform"), record.MaxName)
		if state := l.cell("completionstatus"); state != "" {
			known := gameStates[strings.ToLower(strings.TrimSpace(state))]
			if known != "" {
				b.Fields["status"] = string(known)
			} else {
				b.note("The state %q is not imported.", shown(state))
			}
		}
		if score := l.cell("userscore"); score != "" && !b.rate(score, 100) {
			b.note("The rating %q is not from 0 to 100.", shown(score))
		}
		if played := l.cell("timeplayed", "playtime"); played != "" {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(played), 64)
			if err != nil {
				b.note("The time played %q is not a number of seconds.", shown(played))
			} else {
				b.played(seconds)
			}
		}
		b.text("notes", l.cell("notes"), record.MaxDescription)
		b.tags(splitTags(l.cell("tags"))...)
		b.tags(splitTags(l.cell("categories"))...)
		b.set("isFavorite", l.yes("favorite"))
		b.Past.Created = l.when("added", "dateadded")
		b.Past.Updated = l.when("modified", "datemodified")
		return b.Row
	}))
}
