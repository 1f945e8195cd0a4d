package upload

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/record"
)

// maxSecrets is how many files one request asks about.
const maxSecrets = 100

// sentSecret is the secret of an item for its sender.
func sentSecret(c *web.Request, i *inbox.Item) string {
	return c.Site.Grants.SealSent(grant.SentFile{Owner: i.Owner, Request: i.Request, Item: i.ID})
}

// sentBy reads what a secret names; NotSent if it names nothing.
func sentBy(c *web.Request, secret string) (inbox.Sent, error) {
	f, ok := c.Site.Grants.OpenSent(secret)
	if !ok {
		return inbox.Sent{}, inbox.NotSent
	}
	return inbox.Sent{Owner: f.Owner, Request: f.Request, Item: f.Item}, nil
}

// SecretsForm asks about sent files.
type SecretsForm struct{ secrets []string }

func (f *SecretsForm) Fields(s *field.Set) {
	keep := func(t string) (string, error) {
		if len(t) > 255 {
			return "", errors.New("is no secret")
		}
		return t, nil
	}
	s.Texts("secrets", &f.secrets, keep, maxSecrets, 255, field.Required).
		Says("The secrets, each from takeBack or X-Kist-Take-Back.", `["wFq3…"]`)
}

// SentState is what became of a sent file.
type SentState string

// sentGone is the state beside those of items.
const sentGone SentState = "gone"

// SentStates lists the states.
var SentStates = []SentState{
	SentState(inbox.Pending), SentState(inbox.Approved), SentState(inbox.Rejected), sentGone,
}

// SentFile is a sent file as its sender sees it.
type SentFile struct {
	Secret string
	State  SentState
	Name   string
	Size   int64
	Until  time.Time
}

func (f *SentFile) Fields(s *field.Set) {
	s.Text("takeBack", &f.Secret, 255).Says("The secret that was asked about.", `"wFq3…"`)
	field.Choice(s, "status", &f.State, SentStates).
		Says("What became of the file. It is gone if it was taken back or deleted, after the hour, and for what is no secret.",
			`"pending"`)
	s.Text("fileName", &f.Name, record.MaxFileName).Says("The file's name; empty if it is gone.", `"IMG_0042.jpg"`)
	s.Number("fileSize", &f.Size, 0, 1<<53).Says("Size in bytes; 0 if it is gone.", `48213`)
	s.Time("until", &f.Until).Says("Until when it can be taken back; null if it is gone.", `"2026-01-02T04:04:05.678Z"`)
}

var ListSentFiles = web.Operation{
	Tag: "public", Summary: "Shows a sender what became of sent files, by their secrets. These are valid for an hour. The " +
		"answer has one entry for each of the secrets, " + strconv.Itoa(maxSecrets) + " at most, in their order.",
	Body:  web.BodyOf("SentFiles"),
	Reply: web.Reply{Status: 200, Doc: "The files.", Body: web.BodyOf("SentFileList")},
	Fails: []int{429, 503}, Serve: listSentFiles,
}

func listSentFiles(c *web.Request) error {
	form := new(SecretsForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	all := make([]*SentFile, len(form.secrets))
	if err := c.Site.Store.View(func(tx *kv.Tx) error {
		for n, secret := range form.secrets {
			all[n] = &SentFile{Secret: secret, State: sentGone}
			sent, err := sentBy(c, secret)
			if err != nil {
				continue
			}
			i, err := inbox.SentItem(tx, sent)
			if _, told := errors.AsType[*record.Error](err); told {
				continue
			}
			if err != nil {
				return err
			}
			*all[n] = SentFile{secret, SentState(i.State), i.Name, i.Size, i.Created.Add(inbox.TakeBackTime)}
		}
		return nil
	}); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, func(dst []byte) ([]byte, error) {
		return append(web.AppendAll(append(dst, `{"items":`...), all), '}'), nil
	})
}

var TakeBackFile = web.DoneOp(
	"public", "Takes a sent file back, within an hour of its receipt. One that waits for approval is deleted, and its "+
		"place at the link is free again. One that was approved goes to the trash of its owner and out of collections.",
	takeBackFile, 404, 409, 410, 429, 503,
)

func takeBackFile(c *web.Request) error {
	sent, err := sentBy(c, c.Arg("takeBack"))
	if err != nil {
		return err
	}
	var size int64
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		i, err := inbox.SentItem(tx, sent)
		if err != nil {
			return err
		}
		size = i.Size
		return nil
	})
	if err != nil {
		return err
	}
	wait := c.Site.Limits.TakenBack.Take(sent.Request, int(1+size>>20), c.Site.Store.Now())
	if wait > 0 {
		return &record.Error{
			Fault: record.TooMany, Code: "too_many_writes", Retry: wait,
			Text: "Too much was taken back at this link. Ask its owner to delete the file.",
		}
	}
	err = c.Site.Store.Update(func(tx *kv.Tx) error { return inbox.TakeBack(tx, sent) })
	if err != nil {
		return err
	}
	return c.RespondOK()
}
