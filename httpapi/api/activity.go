package api

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/history"
	"kist/kv/people"
	"kist/kv/record"
)

// ShownVisits are the visits of an item as its owner sees them.
type ShownVisits struct{ history.Visits }

func (v *ShownVisits) Fields(s *field.Set) {
	day, visit := field.ObjectOf(&ShownDay{new(history.VisitDay)}), field.ObjectOf(&ShownVisit{new(history.LoggedVisit)})
	s.Shown("days", field.Schema{Type: "array", Items: &day}, func(dst []byte) []byte {
		return field.AppendList(dst, v.Days, func(dst []byte, d *history.VisitDay) []byte {
			return field.AppendJSON(dst, &ShownDay{d})
		})
	}).Says(
		"The days with visits, oldest first. Visits of the last second may be missing.",
		`[{"day":"2026-01-02","views":3,"devices":{"phone":2,"desktop":1,"program":0},"referrers":{"example.org":2}}]`,
	)
	s.Time("lastAt", &v.Last).Says(
		"The last visit, on any day; null if there was none in 400 days.", `"2026-01-02T03:04:05.678Z"`,
	)
	s.Shown("log", field.Schema{Type: "array", Items: &visit}, func(dst []byte) []byte {
		return field.AppendList(dst, v.Log, func(dst []byte, one *history.LoggedVisit) []byte {
			return field.AppendJSON(dst, &ShownVisit{one})
		})
	}).Says(
		"Visits while logVisits was on, latest first: at most one of a network in a minute, and 1000, of the last 30 days.",
		`[{"at":"2026-01-02T03:04:05.678Z","what":"page","device":"phone","referrer":"example.org","network":"192.0.2.0/24"}]`,
	)
}

// ShownDay are the visits of an item on one day.
type ShownDay struct{ *history.VisitDay }

func (v *ShownDay) Fields(s *field.Set) {
	views := v.Views()
	s.Shown("day", field.Schema{Type: "string", Format: "date"}, func(dst []byte) []byte {
		return field.AppendString(dst, v.Day.String())
	}).Says("The day, in UTC.", `"2026-01-02"`)
	s.Number("views", &views, 0, 1<<53, field.ReadOnly).Says("Number of visits.", `3`)
	s.Shown("devices", field.ObjectOf(&shownDevices{v.VisitDay}), func(dst []byte) []byte {
		return field.AppendJSON(dst, &shownDevices{v.VisitDay})
	}).Says("Number of visits by device.", `{"phone":2,"desktop":1,"program":0}`)
	s.Shown("referrers", field.Schema{
		Type: "object", Free: true, Items: &field.Schema{Type: "integer"},
	}, func(dst []byte) []byte {
		return field.AppendMembers(dst, v.Referrers(), func(dst []byte, host string) []byte {
			return strconv.AppendInt(dst, v.Hosts[host], 10)
		})
	}).Says(
		"Number of visits by the host of the page that led to the item: the 20 commonest. If visitors name very many "+
			"hosts, numbers may be too low.",
		`{"example.org":2}`,
	)
}

type shownDevices struct{ *history.VisitDay }

func (v *shownDevices) Fields(s *field.Set) {
	s.Number("phone", &v.Phone, 0, 1<<53).Says("Phones and tablets.", `2`)
	s.Number("desktop", &v.Desktop, 0, 1<<53).Says("Other browsers.", `1`)
	s.Number("program", &v.Program, 0, 1<<53).Says("Programs that are no browsers, and bots.", `0`)
}

// ShownVisit is a logged visit.
type ShownVisit struct{ *history.LoggedVisit }

func (v *ShownVisit) Fields(s *field.Set) {
	s.Time("at", &v.At, field.Always).Says("When.", `"2026-01-02T03:04:05.678Z"`)
	field.Choice(s, "what", &v.What, history.AllDelivered).Says("What was delivered.", `"page"`)
	field.Choice(s, "device", &v.Device, history.DeviceClasses).Says("The kind of device, by its User-Agent.", `"phone"`)
	s.Text("referrer", &v.Referrer, 253).Says("Host of the page that led to the item, or empty.", `"example.org"`)
	s.Text("network", &v.Network, 64).Says(
		"The first 24 bits of the visitor's IPv4 address, or 48 of IPv6; empty if it is not known.", `"192.0.2.0/24"`,
	)
}

var dayParams = []web.Param{
	{
		In: "query", Name: "from", Doc: "The first day, in UTC; default is the oldest.",
		Schema: web.Object{"type": "string", "format": "date"},
	},
	{
		In: "query", Name: "to", Doc: "The last day, in UTC; default is today.",
		Schema: web.Object{"type": "string", "format": "date"},
	},
}

var ReadFileVisits = ReadVisits(record.Files, "slug")

func ReadVisits(k *record.Kind, arg string) web.Operation {
	return web.Operation{
		Tag: web.TagOf(k), Summary: "Tells by day who opened a " + k.Name + ".",
		Args:  dayParams,
		Reply: web.Reply{Status: 200, Doc: "The visits.", Body: web.BodyOf("Visits")},
		Fails: []int{404}, Serve: readVisits(k, arg),
	}
}

func readVisits(k *record.Kind, arg string) func(*web.Request) error {
	return func(c *web.Request) error {
		values, err := c.Query()
		if err != nil {
			return err
		}
		args := web.Arguments{Values: values}
		today := history.DayOf(c.Site.Store.Now())
		day := func(name string, otherwise history.Day) history.Day {
			t := args.Get(name)
			if t == "" {
				return otherwise
			}
			d, ok := history.ParseDay(t)
			if !ok {
				args.Refuse(name + " must be a day such as 2026-01-31")
			}
			return d
		}
		oldest := today - history.VisitDays + 1
		first, last := max(day("from", oldest), oldest), day("to", today)
		if err := args.Err(); err != nil {
			return err
		}
		v := new(ShownVisits)
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			r, err := catalog.ReachOwn(tx, c.Owner(), k, c.Arg(arg))
			if err != nil {
				return err
			}
			v.Visits, err = history.VisitsOf(tx, r, first, last)
			return err
		}); err != nil {
			return err
		}
		return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) { return field.AppendJSON(dst, v), nil })
	}
}

// ShownActivity is an entry of the activity.
type ShownActivity struct {
	people.Activity
	account string
}

func (v *ShownActivity) Fields(s *field.Set) {
	count := v.More + 1
	s.ID("id", &v.ID, field.Always).Says("Id of the entry.", web.SampleID)
	s.Time("at", &v.At, field.Always).Says(
		"When it happened; the first time, if it happened several times.", `"2026-01-02T03:04:05.678Z"`,
	)
	field.Choice(s, "event", &v.Event, people.ActivityEvents).Says("What happened.", `"signed_in"`)
	s.Number("count", &count, 1, 1<<53, field.ReadOnly).Says(
		"How many times the same happened, each within an hour of the first.", `1`,
	)
	s.Text("account", &v.account, 64).Says("Name of the account; empty for the whole instance.", `"ann"`)
	s.Text("by", &v.By, 64).Says("Name of the user who did it, if it was not the account itself.", `""`)
	s.Text("name", &v.Name, record.MaxName).Says(
		"Name of the browser, key, device, item, upload request, imported file or account.", `"Mozilla/5.0"`,
	)
	s.Text("address", &v.Address, 64).Says(
		"Address of the client; empty if it does not matter or is not known.", `"192.0.2.7"`,
	)
	s.Text("kind", &v.Kind, 32).Says("Kind of the item; empty if it is about none.", `""`)
	s.Shown("subjectId", field.Schema{Type: "string", Format: "uuid", Nullable: true}, func(dst []byte) []byte {
		if v.Item == uuid.Nil {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, v.Item.String())
	}).Says("Id of the item or upload request; null if it is about none.", `null`)
	s.Shown("changes", field.Schema{Type: "array", Items: &field.Schema{Type: "string"}}, func(dst []byte) []byte {
		return field.AppendStrings(dst, v.Changes)
	}).Says("Names of the changed fields of the account or of the settings.", `[]`)
}

var ListActivity = activityOp(
	"account",
	"Lists what happened in the caller's account, latest first. It has sign-ins, keys and devices, shared items, "+
		"reached limits, received files and imports of the last 400 days, 10 000 entries at most.",
	listActivity,
)

func listActivity(c *web.Request) error {
	return answerActivity(c, func(tx *kv.Tx, after []byte, limit int) (people.ActivityPage, error) {
		return people.ActivityOf(tx, c.Owner(), after, limit)
	})
}

var ListAdminActivity = activityOp(
	"admin",
	"Lists what happened in all accounts, latest first. It has sign-ins, keys and devices, and changes of accounts "+
		"and settings, of the last 400 days.",
	listAdminActivity,
)

func listAdminActivity(c *web.Request) error { return answerActivity(c, people.AdminActivity) }

func activityOp(tag, summary string, serve func(*web.Request) error) web.Operation {
	args := slices.DeleteFunc(web.PageParams(nil), func(p web.Param) bool {
		return p.Name != "limit" && p.Name != "cursor"
	})
	return web.Operation{
		Tag: tag, Summary: summary, Args: args,
		Reply: web.Reply{Status: 200, Doc: "A page of the activity.", Body: web.ListOf("Activity")}, Serve: serve,
	}
}

// answerActivity answers with the page that read reads.
func answerActivity(c *web.Request, read func(tx *kv.Tx, after []byte, limit int) (people.ActivityPage, error)) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	p := web.Page{Limit: args.Number("limit", 1, web.MaxPage, web.DefaultPage), Cursor: args.Get("cursor")}
	if err := args.Err(); err != nil {
		return err
	}
	after, err := p.Position(c.R.URL.Path)
	if err != nil {
		return err
	}
	if p.Cursor == "" {
		after = nil
	}
	var page people.ActivityPage
	var shown []*ShownActivity
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		page, err = read(tx, after, p.Limit)
		if err != nil {
			return err
		}
		names := map[record.ID]string{uuid.Nil: ""}
		for _, a := range page.Rows {
			if _, known := names[a.Owner]; !known {
				u, err := people.ReadUser(tx, a.Owner)
				if err != nil {
					return err
				}
				names[a.Owner] = u.Name
			}
			shown = append(shown, &ShownActivity{a, names[a.Owner]})
		}
		return nil
	}); err != nil {
		return err
	}
	next := ""
	if page.Next != nil {
		next = p.Write(c.R.URL.Path, page.Next)
	}
	return web.RespondWhole(c, shown, `{"data":`, string(web.AppendEnd(nil, int(page.Total), next))) // rows are short
}
