package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kist/httpapi/outbound"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/httpapi/webhook"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

// maxShownBody is how much of a request's body the log shows, in bytes.
const maxShownBody = 8 << 10

// Enums of the API.
var (
	EventNames     = field.Words(jobs.Events())
	WebhookEvents  = append([]string{string(jobs.AllEvents)}, EventNames...)
	DeliveryStates = []string{string(jobs.DeliveryWaits), string(jobs.DeliveryDone), string(jobs.DeliveryParked)}
)

// appendKnown writes a number, or null for 0.
func appendKnown(dst []byte, n int64) []byte {
	if n == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n, 10)
}

// ShownWebhook is a webhook as its owner sees it, without its secret.
type ShownWebhook struct {
	jobs.Webhook
	queued int64
}

func showWebhook(c *web.Request, tx *kv.Tx, h *jobs.Webhook) *ShownWebhook {
	v := &ShownWebhook{*h, jobs.Queued(tx, h.ID)}
	v.URL, v.LastError = mask(c, v.URL), upload.Hide(c, v.LastError)
	return v
}

// mask leaves only the host of a webhook's address, unless the caller may change webhooks. The
// rest of such an address is often a secret.
func mask(c *web.Request, address string) string {
	u, err := url.Parse(address)
	if c.Caller.Key.Allows(people.ScopeWrite) || err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host + "/***"
}

func (v *ShownWebhook) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.Always).Says("Id of the webhook.", web.SampleID)
	s.Text("name", &v.Name, record.MaxName).Says("Its name.", `"home automation"`)
	s.URL("url", &v.URL, field.Always).Says("Where events are sent. A key without the scope write sees *** instead of path and query.", `"https://hooks.example.org/kist"`)
	s.Shown("events", field.Schema{Type: "array", Items: &field.Schema{Type: "string", Enum: WebhookEvents}}, func(dst []byte) []byte { return field.AppendStrings(dst, v.Events) }).
		Says("The events to send; * means all.", `["file.uploaded","note.created"]`)
	field.Choice(s, "format", &v.Format, jobs.Formats).Says("The format of deliveries.", `"json"`)
	s.Shown("hasSecret", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return strconv.AppendBool(dst, v.Secret != "")
	}).Says("Whether deliveries are signed.", `true`)
	s.Shown("formerSecretEndsAt", field.Schema{Type: "string", Format: "date-time", Nullable: true}, func(dst []byte) []byte {
		if v.Former == "" {
			return append(dst, "null"...)
		}
		return field.AppendString(dst, v.FormerEnds.UTC().Format(field.TimeLayout))
	}).Says("Until when deliveries are also signed with the previous secret.", `null`)
	s.Bool("enabled", &v.Enabled).Says("Whether events are sent.", `true`)
	s.Shown("queued", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return strconv.AppendInt(dst, v.queued, 10)
	}).Says("Number of waiting deliveries.", `0`)
	s.Shown("lastStatus", field.Schema{Type: "integer", Nullable: true}, func(dst []byte) []byte {
		return appendKnown(dst, int64(v.LastStatus))
	}).Says("Status of the target's last answer; null if it did not answer.", `204`)
	s.Text("lastError", &v.LastError, record.MaxName).Says("The last error; empty if there was none.", `""`)
	s.Time("lastTriedAt", &v.LastTried).Says("When something was last sent.", `"2026-02-03T04:05:06.789Z"`)
	s.Time("lastDeliveredAt", &v.LastDelivered).Says("When something was last delivered.", `"2026-02-03T04:05:06.789Z"`)
	s.Shown("consecutiveFailures", field.Schema{Type: "integer"}, func(dst []byte) []byte {
		return strconv.AppendInt(dst, int64(v.Failures), 10)
	}).Says("Number of failed attempts in a row.", `0`)
	s.Time("pausedAt", &v.Paused).Says("Since when the webhook is paused because the target failed for three days. A change or a successful test ends the pause.", `null`)
	s.Time("createdAt", &v.Created, field.Always).Says("When the webhook was created.", `"2026-01-02T03:04:05.678Z"`)
}

type webhookForm struct {
	h      jobs.Webhook
	events []string
	secret field.Secret
}

func newWebhookForm(h jobs.Webhook) *webhookForm {
	return &webhookForm{h: h, events: field.Words(h.Events)}
}

func BlankWebhook() *webhookForm {
	return newWebhookForm(jobs.Webhook{Events: []jobs.Event{jobs.AllEvents}, Format: jobs.FormatJSON, Enabled: true})
}

func (f *webhookForm) Fields(s *field.Set) {
	s.Name("name", &f.h.Name, record.MaxName).Says("A name to recognise the webhook by.", `"home automation"`)
	s.URL("url", &f.h.URL, field.Required, field.Filled).Says("Where to send events: an absolute http or https address. An administrator must allow addresses that are not public.", `"https://hooks.example.org/kist"`)
	s.Texts("events", &f.events, jobs.CleanEvent, len(jobs.Events())+1, 64, field.Filled).
		Says("The events to send; * means all. Default: all.", `["file.uploaded","note.created"]`).Among(WebhookEvents)
	field.Choice(s, "format", &f.h.Format, jobs.Formats).Says("json (the default); or a message for people: discord and slack for the address of such a webhook, ntfy for that of a topic, gotify for that of an application (/message?token=…).", `"json"`)
	s.Secret("secret", &f.secret).
		Says("Signs deliveries: whsec_ and 24 to 64 bytes in base64 (Standard Webhooks), or any text. After a change, the previous secret stays valid for 24 hours. An empty text stops signing.", `"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`)
	s.Bool("enabled", &f.h.Enabled).Says("Whether to send events.", `true`)
}

// checkTarget reports the problems of the address and the secret that can be found in advance.
func (f *webhookForm) checkTarget(client *outbound.Client) error {
	bad := field.Problems{}
	if why := client.Refuses(f.h.URL); why != "" {
		bad["url"] = why
	}
	if err := jobs.CheckSecret(f.secret.Text); err != nil {
		bad["secret"] = err.Error()
	}
	if len(bad) == 0 {
		return nil
	}
	return bad
}

// checkAddress reports whether the address is of the form that the format needs.
func (f *webhookForm) checkAddress() error {
	if err := webhook.CheckAddress(f.h.Format, f.h.URL); err != nil && f.h.URL != "" {
		return field.Problems{"url": err.Error()}
	}
	return nil
}

func (f *webhookForm) fill(h *jobs.Webhook, now time.Time) {
	h.Name, h.URL, h.Format, h.Enabled = f.h.Name, f.h.URL, f.h.Format, f.h.Enabled
	h.Events = nil
	for _, e := range f.events {
		h.Events = append(h.Events, jobs.Event(e))
	}
	if f.secret.Said {
		h.SetSecret(f.secret.Text, now)
	}
}

var ListWebhooks = web.Operation{
	Tag: "webhooks", Summary: "Lists webhooks, oldest first.",
	Reply: web.Reply{Status: 200, Doc: "All webhooks, under both names.", Body: web.ListOf("Webhook")},
	Serve: listWebhooks,
}

func listWebhooks(c *web.Request) error {
	var all []*ShownWebhook
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		hooks, err := jobs.Webhooks(tx, c.Owner())
		for i := range hooks {
			all = append(all, showWebhook(c, tx, &hooks[i]))
		}
		return err
	}); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = web.AppendAll(append(dst, `{"webhooks":`...), all)
		dst = web.AppendAll(append(dst, `,"data":`...), all)
		return append(dst, '}'), nil
	})
}

var webhooks = &web.Resource[jobs.Webhook, *ShownWebhook]{
	Name: "webhook", Load: jobs.ReadWebhook, Save: jobs.SaveWebhook, Drop: jobs.RemoveWebhook,
	Show: func(c *web.Request, tx *kv.Tx, h *jobs.Webhook) (*ShownWebhook, error) {
		return showWebhook(c, tx, h), nil
	},
	Append: func(dst []byte, v *ShownWebhook) []byte {
		dst = field.AppendJSON(append(dst, `{"webhook":`...), v)
		return append(field.AppendJSON(append(dst, `,"data":`...), v), '}')
	},
}

var CreateWebhook = web.CreateOp("webhooks", "Creates a webhook.", "The webhook, under both names.", "Webhook", createWebhook)

func createWebhook(c *web.Request) error {
	form := BlankWebhook()
	if err := web.JoinProblems(c.DecodeNew(form), form.checkAddress(), form.checkTarget(c.Site.Outbound)); err != nil {
		return err
	}
	return webhooks.Create(c, func(tx *kv.Tx) (*jobs.Webhook, error) {
		h := jobs.Webhook{Owner: c.Owner()}
		form.fill(&h, tx.Now)
		h, err := jobs.AddWebhook(tx, h)
		return &h, err
	})
}

var ReadWebhook = web.ReadOp("webhooks", "Reads a webhook.", "The webhook, under both names.", "Webhook", webhooks.Read, 404)

var EditWebhook = web.EditOp("webhooks", "Changes a webhook. This also ends a pause.", "The webhook, under both names.", "Webhook", editWebhook, 404)

// RedirectsWebhook reports whether a change of a webhook may send more to somebody, or to somebody else.
func RedirectsWebhook(in field.Object) bool {
	for _, name := range []string{"url", "events", "secret"} {
		if _, given := in[name]; given {
			return true
		}
	}
	return false
}

func editWebhook(c *web.Request) error {
	id, err := c.IDArg("webhook")
	if err != nil {
		return err
	}
	blank := BlankWebhook()
	in, err := c.DecodePatch(blank)
	if err := web.JoinProblems(err, blank.checkTarget(c.Site.Outbound)); err != nil {
		return err
	}
	return webhooks.Edit(c, id, func(tx *kv.Tx, h *jobs.Webhook) error {
		form := newWebhookForm(*h)
		err := web.JoinProblems(field.Patch(form, in), form.checkAddress())
		form.fill(h, tx.Now)
		return err
	})
}

var RemoveWebhook = web.DoneOp("webhooks", "Deletes a webhook and its waiting deliveries.", webhooks.Remove, 404)

var TestWebhook = web.Operation{
	Tag: "webhooks", Summary: "Sends a test delivery immediately. If it succeeds, it ends a pause.",
	Reply: web.Reply{Status: 200, Doc: "The result, within ten seconds.", Body: web.BodyOf("WebhookTest")},
	Fails: []int{404}, Serve: testWebhook,
}

func testWebhook(c *web.Request) error {
	id, err := c.IDArg("webhook")
	if err != nil {
		return err
	}
	var h *jobs.Webhook
	var delivery record.ID
	if err := c.Site.Store.Update(func(tx *kv.Tx) (err error) { // writes nothing
		h, err = jobs.ReadWebhook(tx, c.Owner(), id)
		delivery = tx.NewID()
		return err
	}); err != nil {
		return err
	}
	data, err := json.Marshal(web.Object{"webhook": web.Object{"id": h.ID, "name": h.Name}})
	if err != nil {
		return err
	}
	m := webhook.Message{ID: delivery, Event: jobs.WebhookTest, At: c.Site.Store.Now(), Notice: &jobs.Notice{Title: cmp.Or(h.Name, "Webhook"), Path: "/webhooks", Data: data}}
	// If the client stops waiting, the target has not failed.
	try, err := c.Site.Webhooks.Test(context.WithoutCancel(c.R.Context()), h, m)
	if err != nil {
		return err
	}
	if err := c.Site.Store.Update(func(tx *kv.Tx) error {
		return jobs.Tested(tx, jobs.Place{Owner: h.Owner, Hook: h.ID, ID: m.ID}, m.Event, m.At, *m.Notice, try)
	}); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		dst = strconv.AppendBool(append(dst, `{"ok":`...), try.Error == "")
		dst = strconv.AppendInt(append(dst, `,"status":`...), int64(try.Status), 10)
		if try.Error != "" {
			dst = field.AppendString(append(dst, `,"error":`...), upload.Hide(c, try.Error))
		}
		return append(dst, '}'), nil
	})
}

// ShownDelivery is a delivery as the log shows it.
type ShownDelivery struct {
	jobs.Delivery
	headers http.Header // without the signatures; nil if nothing was sent or it cannot be read
	body    []byte      // cut to maxShownBody
}

func (v *ShownDelivery) Fields(s *field.Set) {
	text := field.Schema{Type: "string"}
	s.ID("id", &v.ID, field.Always).Says("Id of the delivery; also its webhook-id.", web.SampleID)
	s.Shown("event", field.Schema{Type: "string", Enum: EventNames}, func(dst []byte) []byte { return field.AppendString(dst, string(v.Event)) }).Says("The event.", `"note.created"`)
	s.Shown("state", field.Schema{Type: "string", Enum: DeliveryStates}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.State))
	}).Says("done; waiting for another attempt; or parked, which means given up.", `"done"`)
	s.Time("createdAt", &v.At, field.Always).Says("When the event happened.", `"2026-02-03T04:05:06.789Z"`)
	s.Shown("tries", field.Schema{Type: "integer"}, func(dst []byte) []byte { return strconv.AppendInt(dst, int64(v.Tries), 10) }).
		Says("Number of attempts.", `1`)
	s.Time("triedAt", &v.Try.At).Says("When it was last sent; null if never.", `"2026-02-03T04:05:06.789Z"`)
	s.Time("nextTryAt", &v.Due).Says("When it will be sent again; null if it will not.", `null`)
	s.Shown("tookMs", field.Schema{Type: "integer"}, func(dst []byte) []byte { return strconv.AppendInt(dst, v.Took.Milliseconds(), 10) }).
		Says("Duration of the last attempt.", `38`)
	s.Shown("status", field.Schema{Type: "integer", Nullable: true}, func(dst []byte) []byte { return appendKnown(dst, int64(v.Status)) }).
		Says("Status of the target's answer; null if it did not answer.", `204`)
	s.Shown("error", text, func(dst []byte) []byte { return field.AppendString(dst, v.Error) }).
		Says("The error; empty if there was none.", `""`)
	s.Shown("answer", text, func(dst []byte) []byte { return field.AppendString(dst, v.Answer) }).
		Says("The beginning of the answer's body.", `"ok"`)
	s.Shown("request", field.Schema{Type: "object", Nullable: true, Members: field.Of(new(sentOptions)).Members()}, v.appendRequest).
		Says("The last request: url, headers without the signatures, and the first 8 KiB of the body as text; null if nothing was sent.", `{"url":"https://hooks.example.org/kist","headers":{"webhook-id":"01890a5d-ac96-774b-bcce-b302099a8057"},"body":"{}"}`)
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
	dst = field.AppendMembers(append(dst, `,"headers":`...), names, func(dst []byte, name string) []byte { return field.AppendString(dst, v.headers.Get(name)) })
	dst = field.AppendString(append(dst, `,"body":`...), strings.ToValidUTF8(string(v.body), ""))
	return append(dst, '}')
}

var ListDeliveries = web.Operation{
	Tag: "webhooks", Summary: "Lists the last 200 deliveries that were attempted or given up, latest first.",
	Args: []web.Param{
		{In: "query", Name: "limit", Doc: "Maximum number of deliveries on a page. A page also ends at 4 MiB. Continue with nextCursor.", Schema: web.Object{"type": "integer", "minimum": 1, "maximum": web.MaxPage, "default": jobs.LogLength}, Example: 50},
		{In: "query", Name: "cursor", Doc: "nextCursor of the previous page.", Schema: web.Object{"type": "string"}, Example: "AQ"},
	},
	Reply: web.Reply{Status: 200, Doc: "A page of the deliveries.", Body: web.ListOf("Delivery")}, Fails: []int{404}, Serve: listDeliveries,
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
	p := web.Page{Limit: args.Number("limit", 1, web.MaxPage, jobs.LogLength), Cursor: args.Get("cursor"), Sort: catalog.Newest}
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
	_, n, err := jobs.ReadDelivery(tx, jobs.Place{Owner: h.Owner, Hook: h.ID, ID: d.ID})
	m := webhook.Message{ID: d.ID, Event: d.Event, At: d.At, Notice: n}
	var body []byte
	if err == nil {
		body, err = m.Body(d.Format, d.URL, c.Site.Base)
	}
	if err != nil {
		c.Site.Log.Error("cannot show a delivery", "webhook", h.ID, "delivery", d.ID, "error", err)
		return v
	}
	v.headers, v.body = m.Headers(d.Try.At), bytes.Clone(body[:min(len(body), maxShownBody)])
	return v
}

var Redeliver = web.DoneOp("webhooks", "Sends a delivery again with the same webhook-id and all retries. The answer is 409 if the webhook is off or paused.", redeliver, 404, 409)

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
