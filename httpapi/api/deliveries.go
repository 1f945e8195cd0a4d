package api

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/httpapi/webhook"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/record"
)

// maxShownBody is how much of a request's body the log shows, in bytes.
const maxShownBody = 8 << 10

// ShownDelivery is a delivery as the log shows it.
type ShownDelivery struct {
	jobs.Delivery
	headers http.Header // without the signatures; nil if nothing was sent or it cannot be read
	body    []byte      // cut to maxShownBody
}

func (v *ShownDelivery) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the delivery; also its webhook-id.", web.SampleID)
	s.Shown("event", field.Schema{Type: "string", Enum: EventNames}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.Event))
	}).Says("The event.", `"note.created"`)
	s.Shown("state", field.Schema{Type: "string", Enum: DeliveryStates}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.State))
	}).Says("done; waiting for another attempt; or parked, which means given up.", `"done"`)
	s.Time("createdAt", &v.At, field.Always).Says("When the event happened.", `"2026-02-03T04:05:06.789Z"`)
	s.Shown("tries", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return strconv.AppendInt(dst, int64(v.Tries), 10)
	}).
		Says("Number of attempts.", `1`)
	s.Time("triedAt", &v.Try.At).Says("When it was last sent; null if never.", `"2026-02-03T04:05:06.789Z"`)
	s.Time("nextTryAt", &v.Due).Says("When it will be sent again; null if it will not.", `null`)
	s.Shown("tookMs", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return strconv.AppendInt(dst, v.Took.Milliseconds(), 10)
	}).
		Says("Duration of the last attempt.", `38`)
	s.Shown("status", field.Schema{Type: "integer", Nullable: true}, func(dst []byte) []byte {
		return appendKnown(dst, int64(v.Status))
	}).
		Says("Status of the target's answer; null if it did not answer.", `204`)
	s.Shown("error", text, func(dst []byte) []byte { return field.AppendString(dst, v.Error) }).
		Says("The error; empty if there was none.", `""`)
	s.Shown("answer", text, func(dst []byte) []byte { return field.AppendString(dst, v.Answer) }).
		Says("The beginning of the answer's body.", `"ok"`)
	s.Shown(
		"request", field.Schema{Type: "object", Nullable: true, Members: field.Of(new(sentOptions)).Members()},
		v.appendRequest,
	).
		Says(
			"The last request: url, headers without the signatures, and the first 8 KiB of the body as text; null if nothing was sent.",
			`{"url":"https://hooks.example.org/kist","headers":{"webhook-id":"01890a5d-ac96-774b-bcce-b302099a8057"},"body":"{}"}`,
		)
}

// sentOptions is the shape of appendRequest's output.
type sentOptions struct{ url, body string }

func (v *sentOptions) Fields(s *field.Set) {
	s.URL("url", &v.url, field.Always).Says("Address to which it was sent.", `"https://hooks.example.org/kist"`)
	s.Shown("headers", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "string"}}, nil).
		Says("The headers, without the signatures.", `{"webhook-id":"01890a5d-ac96-774b-bcce-b302099a8057"}`)
	s.LongText("body", &v.body, maxShownBody).Says("The first 8 KiB of the body as text.", `"{}"`)
}

func (v *ShownDelivery) appendRequest(dst []byte) []byte {
	if v.headers == nil {
		return append(dst, "null"...)
	}
	dst = field.AppendString(append(dst, `{"url":`...), v.URL)
	names := web.SortedKeys(v.headers)
	for i, name := range names {
		names[i] = strings.ToLower(name)
	}
	dst = field.AppendMembers(append(dst, `,"headers":`...), names, func(dst []byte, name string) []byte {
		return field.AppendString(dst, v.headers.Get(name))
	})
	dst = field.AppendString(append(dst, `,"body":`...), strings.ToValidUTF8(string(v.body), ""))
	return append(dst, '}')
}

var ListDeliveries = web.Operation{
	Tag: "webhooks", Summary: "Lists the last 200 deliveries that were attempted or given up, latest first.",
	Args: []web.Param{
		{
			In: "query", Name: "limit",
			Doc:    "Maximum number of deliveries on a page. A page also ends at 4 MiB. Continue with nextCursor.",
			Schema: web.Object{"type": "integer", "minimum": 1, "maximum": web.MaxPage, "default": jobs.LogLength},
		},
		{
			In: "query", Name: "cursor", Doc: "nextCursor of the previous page.", Schema: web.Object{"type": "string"},
		},
	},
	Reply: web.Reply{Status: 200, Doc: "A page of the deliveries.", Body: web.ListOf("Delivery")},
	Fails: []int{404}, Serve: listDeliveries,
}

func listDeliveries(c *web.Request) error {
	id, err := c.IDArg("webhook")
	if err != nil {
		return err
	}
	values, err := c.Query()
	if err != nil {
		return err
	}
	args := web.Arguments{Values: values}
	p := web.Page{
		Limit: args.Number("limit", 1, web.MaxPage, jobs.LogLength), Cursor: args.Get("cursor"), Sort: catalog.Newest,
	}
	if err := args.Err(); err != nil {
		return err
	}
	after, err := p.Position(c.R.URL.Path)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		var all []*ShownDelivery
		total := 0
		if err := c.Site.Store.View(func(tx *kv.Tx) error {
			h, err := jobs.ReadWebhook(tx, c.Owner(), id)
			if err != nil {
				return err
			}
			log, err := jobs.DeliveryLog(tx, h.ID)
			if err != nil {
				return err
			}
			total = len(log)
			if len(after) > 0 {
				log = slices.DeleteFunc(log, func(d jobs.Delivery) bool { return bytes.Compare(placeInLog(&d), after) >= 0 })
			}
			for i := range log[:min(len(log), p.Limit+1)] { // one more, to see whether there is another page
				all = append(all, showDelivery(c, tx, h, &log[i]))
			}
			return nil
		}); err != nil {
			return dst, err
		}
		dst, n := web.AppendPage(append(dst, `{"data":`...), all, p.Limit)
		next := ""
		if n < len(all) {
			next = p.Write(c.R.URL.Path, placeInLog(&all[n-1].Delivery))
		}
		return web.AppendEnd(dst, total, next), err
	})
}

// placeInLog is the place of a delivery in the log. Later deliveries have larger places.
func placeInLog(d *jobs.Delivery) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(d.Noted.UnixMilli())), d.ID[:]...)
}

func showDelivery(c *web.Request, tx *kv.Tx, h *jobs.Webhook, d *jobs.Delivery) *ShownDelivery {
	v := &ShownDelivery{Delivery: *d}
	v.Error = upload.Hide(c, v.Error)
	if d.URL == "" {
		return v // never sent
	}
	v.URL = mask(c, v.URL)
	unreadable := func(err error) *ShownDelivery {
		c.Site.Log.Error("cannot show a delivery", "webhook", h.ID, "delivery", d.ID, "error", err)
		return v
	}
	_, n, err := jobs.ReadDelivery(tx, jobs.Place{Owner: h.Owner, Hook: h.ID, ID: d.ID})
	if err != nil {
		return unreadable(err)
	}
	m := webhook.Message{ID: d.ID, Event: d.Event, At: d.At, Notice: n}
	body, err := m.Body(d.Format, d.URL, c.Site.Base)
	if err != nil {
		return unreadable(err)
	}
	v.headers, v.body = m.Headers(d.Try.At), bytes.Clone(body[:min(len(body), maxShownBody)])
	return v
}

var Redeliver = web.DoneOp(
	"webhooks",
	"Sends a delivery again with the same webhook-id and all retries. The answer is 409 if the webhook is off or paused.",
	redeliver, 404, 409,
)

func redeliver(c *web.Request) error {
	id, err := c.IDArg("webhook")
	if err != nil {
		return err
	}
	delivery, err := uuid.Parse(c.Arg("deliveryId"))
	if err != nil {
		return record.NotFound("delivery")
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		return jobs.Redeliver(tx, jobs.Place{Owner: c.Owner(), Hook: id, ID: delivery})
	}); err != nil {
		return err
	}
	return c.RespondOK()
}
