package web

import (
	"encoding/json"
	"net/http"
	"sync"

	"kist/embed"
	"kist/kv/people"
	"kist/kv/record"
)

// Lang is the language for the client: the one that the caller has chosen, otherwise the one
// that the browser prefers.
func (c *Request) Lang() embed.Lang { return langOf(c.Caller, c.R) }

func langOf(caller *people.Caller, r *http.Request) embed.Lang {
	if caller != nil && caller.User.Language != "" {
		return embed.Lang(caller.User.Language)
	}
	return embed.Preferred(r.Header.Get("Accept-Language"))
}

// ViewOf is the view of a kind in a language.
func ViewOf(k *record.Kind, l embed.Lang) record.View {
	return k.View().Translated(func(key, english string) string {
		key = "kinds." + k.Name + "." + key
		if l.Has(key) {
			return l.T(key)
		}
		return english
	})
}

// ErrorText is the text of an error for a page. The API's errors are always in English.
func ErrorText(e *record.Error, l embed.Lang) string {
	if key := "errors." + e.Code; l.Has(key) {
		return l.T(key, "when", l.Wait(e.Retry))
	}
	return e.Text
}

// Views is the list of the kinds' views in a language, as JSON. Callers must not change it.
func Views(l embed.Lang) []byte { return views()[l] }

var views = sync.OnceValue(func() map[embed.Lang][]byte {
	all := make(map[embed.Lang][]byte)
	for _, l := range embed.Langs() {
		list := make([]record.View, len(record.Kinds))
		for i, k := range record.Kinds {
			list[i] = ViewOf(k, l)
		}
		all[l], _ = json.Marshal(list) // texts and numbers: it cannot fail
	}
	return all
})
