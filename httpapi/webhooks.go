package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/httpapi/outbound"
	"kist/httpapi/webhook"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/record"
)

// maxShownBody is how much of a request's body a log shows, in bytes.
const maxShownBody = 8 << 10

func webhookRoutes() []route {
	const at = apiPath + "integrations/webhooks"
	one := func() *content {
		return named("WebhookAnswer", jsonOf(members(object{"webhook": ref("Webhook"), "data": ref("Webhook")}, "webhook", "data"), nil))
	}
	return []route{
		{
			method: "GET", path: at, id: "listWebhooks", tag: "webhooks", summary: "Lists webhooks, oldest first.",
			access: reads, reply: reply{200, "All webhooks, under both names.", named("WebhookList", jsonOf(members(object{"webhooks": allOf("Webhook"), "data": allOf("Webhook")}, "webhooks", "data"), nil))}, serve: listWebhooks,
		},
		{
			method: "POST", path: at, id: "createWebhook", tag: "webhooks", summary: "Makes a webhook.",
			access: writes, body: bodyOf("WebhookCreate"), reply: reply{201, "The webhook, under both names.", one()}, serve: createWebhook,
		},
		{
			method: "GET", path: at + "/{id}", id: "readWebhook", tag: "webhooks", summary: "Reads a webhook.",
			access: reads, reply: reply{200, "The webhook, under both names.", one()}, fails: []int{404}, serve: readWebhook,
		},
		{
			method: "PATCH", path: at + "/{id}", id: "editWebhook", tag: "webhooks", summary: "Changes a webhook, which ends a pause.",
			access: writes, body: bodyOf("WebhookEdit"), reply: reply{200, "The webhook, under both names.", one()}, fails: []int{404}, serve: patchWebhook,
		},
		{
			method: "DELETE", path: at + "/{id}", id: "removeWebhook", tag: "webhooks", summary: "Deletes a webhook and what waits for it.",
			access: writes, reply: done, fails: []int{404}, serve: removeWebhook,
		},
		{
			method: "POST", path: at + "/{id}/test", id: "testWebhook", tag: "webhooks", summary: "Sends a test delivery at once, which ends a pause if it goes well.",
			access: writes, reply: reply{200, "What came of it, within ten seconds.", named("WebhookTest", jsonOf(members(object{
				"ok":     object{"type": "boolean", "description": "Whether the target took it."},
				"status": object{"type": "integer", "description": "What the target answered; 0 if it did not."},
				"error":  object{"type": "string", "description": "What went wrong; absent if nothing did."},
			}, "ok", "status"), object{"ok": false, "status": 500, "error": "The target answered 500 Internal Server Error."}))},
			fails: []int{404}, serve: testWebhook,
		},
		{
			method: "GET", path: at + "/{id}/deliveries", id: "listDeliveries", tag: "webhooks", summary: "Lists the last 200 deliveries that were tried or given up, latest first.",
			access: reads, args: []param{
				{"query", "limit", "Deliveries of a page, which ends sooner at 4 MiB: go on with nextCursor.", object{"type": "integer", "minimum": 1, "maximum": maxPage, "default": kv.LogLength}, 50},
				{"query", "cursor", "nextCursor of the page before.", object{"type": "string"}, "AQ"},
			},
			reply: reply{200, "A page of the deliveries.", listOf("Delivery")},
			fails: []int{404}, serve: listDeliveries,
		},
		{
			method: "POST", path: at + "/{id}/deliveries/{deliveryId}/redeliver", id: "redeliver", tag: "webhooks", summary: "Sends a delivery again, under the same webhook-id and with all its tries; 409 if the webhook is off or paused.",
			access: writes, reply: done, fails: []int{404, 409}, serve: redeliver,
		},
	}
}

// Words of the API.
var (
	eventNames     = field.Words(record.Events())
	webhookEvents  = append([]string{string(record.AllEvents)}, eventNames...)
	deliveryStates = []string{string(record.Waiting), string(record.Done), string(record.Parked)}
)

// appendEvents writes a list of events.
func appendEvents(dst []byte, events []record.Event) []byte {
	dst = append(dst, '[')
	for i, e := range events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = field.AppendString(dst, string(e))
	}
	return append(dst, ']')
}

// appendKnown writes a number, or null for 0.
func appendKnown(dst []byte, n int64) []byte {
	if n == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n, 10)
}

// shownWebhook is a webhook as its owner sees it, without its secret.
type shownWebhook struct {
	record.Webhook
	queued int64
}

func (c *request) showWebhook(tx *kv.Tx, h *record.Webhook) *shownWebhook {
	v := &shownWebhook{*h, tx.Queued(h.ID)}
	v.URL, v.LastError = c.mask(v.URL), c.hide(v.LastError)
	return v
}

// mask takes all but the host out of the address of a webhook, which often is a
// secret, unless the caller may change webhooks.
func (c *request) mask(address string) string {
	u, err := url.Parse(address)
	if c.caller.Key.Allows(record.ScopeWrite) || err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host + "/***"
}

func (v *shownWebhook) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the webhook.", sampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"home automation"`)
	s.URL("url", &v.URL, field.Always).Says("Where events are sent. A key without the scope write sees *** in place of path and query.", `"https://hooks.example.org/kist"`)
	s.Shown("events", field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: webhookEvents}}, func(dst []byte) []byte {
		return appendEvents(dst, v.Events)
	}).Says("The events that are sent; * is all.", `["file.uploaded","note.created"]`)
	field.Choice(s, "format", &v.Format, record.Formats).Says("The form of what is sent.", `"json"`)
	s.Shown("hasSecret", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return strconv.AppendBool(dst, v.Secret != "")
	}).Says("Whether deliveries are signed.", `true`)
	s.Shown("formerSecretEndsAt", field.Schema{Type: "string", Format: "date-time", Nullable: true}, func(dst []byte) []byte {
		if v.Former == "" {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, v.FormerEnds.UTC().Format(field.TimeLayout))
	}).Says("Until when the secret before the present one signs too.", `null`)
	s.Bool("enabled", &v.Enabled).Says("Whether events are sent.", `true`)
	s.Shown("queued", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return strconv.AppendInt(dst, v.queued, 10)
	}).Says("How many deliveries wait.", `0`)
	s.Shown("lastStatus", field.Schema{Type: "integer", Nullable: true}, func(dst []byte) []byte {
		return appendKnown(dst, int64(v.LastStatus))
	}).Says("What the target answered last; null if it did not.", `204`)
	s.Text("lastError", &v.LastError, record.MaxName).Says("What went wrong last; empty if nothing did.", `""`)
	s.Time("lastTriedAt", &v.LastTried).Says("When something was sent last.", `"2026-02-03T04:05:06.789Z"`)
	s.Time("lastDeliveredAt", &v.LastDelivered).Says("When something was delivered last.", `"2026-02-03T04:05:06.789Z"`)
	s.Shown("consecutiveFailures", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return strconv.AppendInt(dst, int64(v.Failures), 10)
	}).Says("How many tries in a row have failed.", `0`)
	s.Time("pausedAt", &v.Paused).Says("Since when nothing is sent, because the target had failed for three days; a change or a good test ends that.", `null`)
	s.Time("createdAt", &v.Created, field.Always).Says("When it was made.", `"2026-01-02T03:04:05.678Z"`)
}

// webhookForm is what may be said of a webhook.
type webhookForm struct {
	h      record.Webhook
	events []string
	secret field.Secret
}

func newWebhookForm(h record.Webhook) *webhookForm {
	f := &webhookForm{h: h}
	for _, e := range h.Events {
		f.events = append(f.events, string(e))
	}
	return f
}

func blankWebhook() *webhookForm {
	return newWebhookForm(record.Webhook{Events: []record.Event{record.AllEvents}, Format: record.FormatJSON, Enabled: true})
}

func (f *webhookForm) Fields(s *field.Set) {
	s.Name("name", &f.h.Name, record.MaxName).Says("A name to know it by.", `"home automation"`)
	s.URL("url", &f.h.URL, field.Required, field.Filled).Says("Where to send events: an absolute http or https address. What is not public must be allowed by an administrator.", `"https://hooks.example.org/kist"`)
	s.Texts("events", &f.events, record.CleanEvent, len(record.Events())+1, 64, field.Filled).
		Says("The events to send; * is all, and the default.", `["file.uploaded","note.created"]`).Among(webhookEvents)
	field.Choice(s, "format", &f.h.Format, record.Formats).Says("json, which is the default, or discord for the address of a Discord webhook.", `"json"`)
	s.Secret("secret", &f.secret).
		Says("Signs deliveries: whsec_ and 24 to 64 bytes in base64, as Standard Webhooks has it, or any text. A new one leaves the one before valid for 24 hours; an empty one ends signing.", `"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`)
	s.Bool("enabled", &f.h.Enabled).Says("Whether to send events.", `true`)
}

// mayCall says what can be seen to be wrong with the address and the secret.
func (f *webhookForm) mayCall(client *outbound.Client) error {
	bad := field.Problems{}
	if why := closed(client, f.h.URL); why != "" {
		bad["url"] = why
	}
	if err := record.CheckSecret(f.secret.Text); err != nil {
		bad["secret"] = err.Error()
	}
	if len(bad) == 0 {
		return nil
	}
	return bad
}

// closed says why the server may not call an address, as far as that can be
// seen; it completes the sentence "<name> …".
func closed(client *outbound.Client, address string) string {
	var refused *outbound.Refused
	if u, err := url.Parse(address); address == "" || err != nil || !errors.As(client.Check(u), &refused) {
		return ""
	}
	text := strings.TrimSuffix(refused.Error(), ".")
	return "must be an address that the server may call: " + strings.ToLower(text[:1]) + text[1:]
}

// fill puts what the form says into h.
func (f *webhookForm) fill(h *record.Webhook, now time.Time) {
	h.Name, h.URL, h.Format, h.Enabled = f.h.Name, f.h.URL, f.h.Format, f.h.Enabled
	h.Events = nil
	for _, e := range f.events {
		h.Events = append(h.Events, record.Event(e))
	}
	if f.secret.Said {
		h.SetSecret(f.secret.Text, now)
	}
}

func listWebhooks(c *request) error {
	var all []*shownWebhook
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		hooks, err := tx.Webhooks(c.owner())
		for i := range hooks {
			all = append(all, c.showWebhook(tx, &hooks[i]))
		}
		return err
	}); err != nil {
		return err
	}
	return c.respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = appendAll(append(dst, `{"webhooks":`...), all)
		dst = appendAll(append(dst, `,"data":`...), all)
		return append(dst, '}'), nil
	})
}

func (c *request) answerWebhook(status int, id record.ID) error {
	var v *shownWebhook
	if err := c.s.Store.View(func(tx *kv.Tx) error {
		h, err := tx.Webhook(c.owner(), id)
		if err == nil {
			v = c.showWebhook(tx, h)
		}
		return err
	}); err != nil {
		return err
	}
	return c.respond(status, func(dst []byte) ([]byte, error) {
		dst = field.AppendJSON(append(dst, `{"webhook":`...), v)
		dst = field.AppendJSON(append(dst, `,"data":`...), v)
		return append(dst, '}'), nil
	})
}

func createWebhook(c *request) error {
	form := blankWebhook()
	if err := joinProblems(c.decodeNew(form), form.mayCall(c.s.Outbound)); err != nil {
		return err
	}
	var made record.Webhook
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) {
		h := record.Webhook{Owner: c.owner()}
		form.fill(&h, tx.Now)
		made, err = tx.AddWebhook(h)
		return err
	}); err != nil {
		return err
	}
	return c.answerWebhook(http.StatusCreated, made.ID)
}

func readWebhook(c *request) error {
	id, err := c.uuid("webhook")
	if err != nil {
		return err
	}
	return c.answerWebhook(http.StatusOK, id)
}

func patchWebhook(c *request) error {
	id, err := c.uuid("webhook")
	if err != nil {
		return err
	}
	blank := blankWebhook()
	in, err := c.decodePatch(blank)
	if err := joinProblems(err, blank.mayCall(c.s.Outbound)); err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		h, err := tx.Webhook(c.owner(), id)
		if err != nil {
			return err
		}
		form := newWebhookForm(*h)
		if err := field.Patch(form, in); err != nil {
			return err
		}
		form.fill(h, tx.Now)
		return tx.SaveWebhook(h)
	}); err != nil {
		return err
	}
	return c.answerWebhook(http.StatusOK, id)
}

func removeWebhook(c *request) error {
	id, err := c.uuid("webhook")
	if err != nil {
		return err
	}
	if err := c.s.Store.RemoveWebhook(c.owner(), id); err != nil {
		return err
	}
	return c.respondOK()
}

func testWebhook(c *request) error {
	id, err := c.uuid("webhook")
	if err != nil {
		return err
	}
	var h *record.Webhook
	var delivery record.ID
	if err := c.s.Store.Update(func(tx *kv.Tx) (err error) { // writes nothing
		h, err = tx.Webhook(c.owner(), id)
		delivery = tx.NewID()
		return err
	}); err != nil {
		return err
	}
	data, err := json.Marshal(object{"webhook": object{"id": h.ID, "name": h.Name}})
	if err != nil {
		return err
	}
	name := h.Name
	if name == "" {
		name = "Webhook"
	}
	m := webhook.Message{ID: delivery, Event: record.WebhookTest, At: c.s.Store.Now(), Notice: &record.Notice{Title: name, Path: "/webhooks", Data: data}}
	// A client that does not wait is no failure of the target.
	try, err := c.s.webhooks.Test(context.WithoutCancel(c.r.Context()), h, m)
	if err != nil {
		return err
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		return tx.Tested(kv.Place{Owner: h.Owner, Hook: h.ID, ID: m.ID}, m.Event, m.At, *m.Notice, try)
	}); err != nil {
		return err
	}
	return c.respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = strconv.AppendBool(append(dst, `{"ok":`...), try.Error == "")
		dst = strconv.AppendInt(append(dst, `,"status":`...), int64(try.Status), 10)
		if try.Error != "" {
			dst = field.AppendString(append(dst, `,"error":`...), c.hide(try.Error))
		}
		return append(dst, '}'), nil
	})
}

// shownDelivery is a delivery as the log shows it.
type shownDelivery struct {
	record.Delivery
	headers http.Header // without the signatures; nil if nothing was sent, or it cannot be read
	body    []byte      // cut to maxShownBody
}

func (v *shownDelivery) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the delivery, which is its webhook-id.", sampleID)
	s.Shown("event", field.Schema{Type: "string", Enum: eventNames}, func(dst []byte) []byte { return field.AppendString(dst, string(v.Event)) }).Says("What happened.", `"note.created"`)
	s.Shown("state", field.Schema{Type: "string", Enum: deliveryStates}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.State))
	}).Says("done; waiting for another try; or parked, which is given up.", `"done"`)
	s.Time("createdAt", &v.At, field.Always).Says("When it happened.", `"2026-02-03T04:05:06.789Z"`)
	s.Shown("tries", field.Schema{Type: "integer"}, func(dst []byte) []byte { return strconv.AppendInt(dst, int64(v.Tries), 10) }).
		Says("How often it was sent.", `1`)
	s.Time("triedAt", &v.Try.At).Says("When it was sent last; null if it never was.", `"2026-02-03T04:05:06.789Z"`)
	s.Time("nextTryAt", &v.Due).Says("When it is sent again; null if it is not.", `null`)
	s.Shown("tookMs", field.Schema{Type: "integer"}, func(dst []byte) []byte { return strconv.AppendInt(dst, v.Took.Milliseconds(), 10) }).
		Says("How long the last try took.", `38`)
	s.Shown("status", field.Schema{Type: "integer", Nullable: true}, func(dst []byte) []byte { return appendKnown(dst, int64(v.Status)) }).
		Says("What the target answered; null if it did not.", `204`)
	s.Shown("error", text, func(dst []byte) []byte { return field.AppendString(dst, v.Error) }).
		Says("What went wrong; empty if nothing did.", `""`)
	s.Shown("answer", text, func(dst []byte) []byte { return field.AppendString(dst, v.Answer) }).
		Says("The beginning of the answer's body.", `"ok"`)
	s.Shown("request", field.Schema{Type: "object", Nullable: true, Members: field.Of(new(sentOptions)).Members()}, v.appendRequest).
		Says("What was sent last: url, headers without the signatures, and the first 8 KiB of the body as text; null if nothing was.", `{"url":"https://hooks.example.org/kist","headers":{"webhook-id":"01890a5d-ac96-774b-bcce-b302099a8057"},"body":"{}"}`)
}

// sentOptions is the shape of what appendRequest writes.
type sentOptions struct{ url, body string }

func (v *sentOptions) Fields(s *field.Set) {
	s.URL("url", &v.url, field.Always).Says("Where it was sent.", `"https://hooks.example.org/kist"`)
	s.Shown("headers", field.Schema{Type: "object", Free: true, Items: &field.Schema{Type: "string"}}, nil).
		Says("The headers, without the signatures.", `{"webhook-id":"01890a5d-ac96-774b-bcce-b302099a8057"}`)
	s.LongText("body", &v.body, maxShownBody).Says("The first 8 KiB of the body as text.", `"{}"`)
}

func (v *shownDelivery) appendRequest(dst []byte) []byte {
	if v.headers == nil {
		return append(dst, "null"...)
	}
	dst = field.AppendString(append(dst, `{"url":`...), v.URL)
	dst = append(dst, `,"headers":{`...)
	for i, name := range sortedKeys(v.headers) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(field.AppendString(dst, strings.ToLower(name)), ':')
		dst = field.AppendString(dst, v.headers.Get(name))
	}
	dst = field.AppendString(append(dst, `},"body":`...), strings.ToValidUTF8(string(v.body), ""))
	return append(dst, '}')
}

func listDeliveries(c *request) error {
	id, err := c.uuid("webhook")
	if err != nil {
		return err
	}
	values, err := c.query()
	if err != nil {
		return err
	}
	args := arguments{Values: values}
	p := page{limit: args.number("limit", 1, maxPage, kv.LogLength), cursor: args.Get("cursor"), sort: kv.Newest}
	if err := args.err(); err != nil {
		return err
	}
	after, err := p.position(c.r.URL.Path)
	if err != nil {
		return err
	}
	return c.respondLarge(http.StatusOK, pageBytes, func(dst []byte) ([]byte, error) {
		var all []*shownDelivery
		total := 0
		if err := c.s.Store.View(func(tx *kv.Tx) error {
			h, err := tx.Webhook(c.owner(), id)
			if err != nil {
				return err
			}
			log, err := tx.DeliveryLog(h.ID)
			if err != nil {
				return err
			}
			total = len(log)
			if len(after) > 0 {
				log = slices.DeleteFunc(log, func(d record.Delivery) bool { return bytes.Compare(placeInLog(&d), after) >= 0 })
			}
			for i := range log[:min(len(log), p.limit+1)] { // one more shows whether there is another page
				all = append(all, c.showDelivery(tx, h, &log[i]))
			}
			return nil
		}); err != nil {
			return dst, err
		}
		dst, n := appendPage(append(dst, `{"data":`...), all, p.limit)
		next := ""
		if n < len(all) {
			next = p.write(c.r.URL.Path, placeInLog(&all[n-1].Delivery))
		}
		return appendEnd(dst, total, next), nil
	})
}

// placeInLog is where a delivery stands in the log: a later one has a larger
// place.
func placeInLog(d *record.Delivery) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(d.Noted.UnixMilli())), d.ID[:]...)
}

// showDelivery is a delivery as the log of the webhook shows it.
func (c *request) showDelivery(tx *kv.Tx, h *record.Webhook, d *record.Delivery) *shownDelivery {
	v := &shownDelivery{Delivery: *d}
	v.Error = c.hide(v.Error)
	if d.URL == "" {
		return v // never sent
	}
	v.URL = c.mask(v.URL)
	_, n, err := tx.Delivery(kv.Place{Owner: h.Owner, Hook: h.ID, ID: d.ID})
	m := webhook.Message{ID: d.ID, Event: d.Event, At: d.At, Notice: n}
	var body []byte
	if err == nil {
		body, err = m.Body(d.Format, c.s.Base)
	}
	if err != nil {
		c.s.Log.Error("what was delivered cannot be shown", "webhook", h.ID, "delivery", d.ID, "error", err)
		return v
	}
	v.headers, v.body = m.Headers(d.Try.At), bytes.Clone(body[:min(len(body), maxShownBody)])
	return v
}

func redeliver(c *request) error {
	id, err := c.uuid("webhook")
	if err != nil {
		return err
	}
	delivery, err := uuid.Parse(c.arg("deliveryId"))
	if err != nil {
		return record.NotFound("delivery")
	}
	if err := c.s.Store.Update(func(tx *kv.Tx) error {
		_, err := tx.Redeliver(kv.Place{Owner: c.owner(), Hook: id, ID: delivery})
		return err
	}); err != nil {
		return err
	}
	return c.respondOK()
}
