package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kist/httpapi/outbound"
	"kist/httpapi/upload"
	"kist/httpapi/web"
	"kist/httpapi/webhook"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
)

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
	s.URL("url", &v.URL, field.Always).Says(
		"Where events are sent. A key without the scope write sees *** instead of path and query.",
		`"https://hooks.example.org/kist"`,
	)
	s.Shown("events", field.Schema{
		Type: "array", Items: &field.Schema{Type: "string", Enum: WebhookEvents},
	}, func(dst []byte) []byte {
		return field.AppendStrings(dst, v.Events)
	}).
		Says("The events to send; * means all.", `["file.uploaded","note.created"]`)
	field.Choice(s, "format", &v.Format, jobs.Formats).Says("The format of deliveries.", `"json"`)
	s.Shown("hasSecret", field.Schema{Type: "boolean"}, func(dst []byte) []byte {
		return strconv.AppendBool(dst, v.Secret != "")
	}).Says("Whether deliveries are signed.", `true`)
	s.Shown("formerSecretEndsAt", field.Schema{
		Type: "string", Format: "date-time", Nullable: true,
	}, func(dst []byte) []byte {
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
	s.Time("pausedAt", &v.Paused).Says(
		"Since when the webhook is paused because the target failed for three days. A change or a successful test ends the pause.",
		`null`,
	)
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
	s.URL("url", &f.h.URL, field.Required, field.Filled).Says(
		"Where to send events: an absolute http or https address. An administrator must allow addresses that are not public.",
		`"https://hooks.example.org/kist"`,
	)
	s.Texts("events", &f.events, jobs.CleanEvent, len(jobs.Events())+1, 64, field.Filled).
		Says("The events to send; * means all. Default: all.", `["file.uploaded","note.created"]`).Among(WebhookEvents)
	field.Choice(s, "format", &f.h.Format, jobs.Formats).Says(
		"json (the default); or a message for people: discord and slack for the address of such a webhook, ntfy for that "+
			"of a topic, gotify for that of an application (/message?token=…).",
		`"json"`,
	)
	s.Secret("secret", &f.secret).
		Says(
			"Signs deliveries: whsec_ and 24 to 64 bytes in base64 (Standard Webhooks), or any text. After a change, the "+
				"previous secret stays valid for 24 hours. An empty text stops signing.",
			`"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`,
		)
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

var CreateWebhook = web.CreateOp(
	"webhooks", "Creates a webhook.", "The webhook, under both names.", "Webhook", createWebhook,
)

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

var ReadWebhook = web.ReadOp(
	"webhooks", "Reads a webhook.", "The webhook, under both names.", "Webhook", webhooks.Read, 404,
)

var EditWebhook = web.EditOp(
	"webhooks", "Changes a webhook. This also ends a pause.", "The webhook, under both names.", "Webhook", editWebhook,
	404,
)

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
	m := webhook.Message{
		ID: delivery, Event: jobs.WebhookTest, At: c.Site.Store.Now(),
		Notice: &jobs.Notice{Title: cmp.Or(h.Name, "Webhook"), Path: "/webhooks", Data: data},
	}
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
