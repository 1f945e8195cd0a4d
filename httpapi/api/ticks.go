package api

import (
	"errors"
	"net/http"
	"time"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/record"
)

// Tick says which task of a text is done or open.
type Tick struct {
	line int64
	text string
	done bool
}

const maxTickText = 16 << 10

func (f *Tick) Fields(s *field.Set) {
	s.Number("line", &f.line, 1, field.MaxCount, field.Required).Says(
		"Line of the task in the text; the first is 1. If the text was changed meanwhile, the task may stand on another one.",
		`2`,
	)
	s.LongText("text", &f.text, maxTickText, field.Required).Says(
		"What follows the box on that line, in Markdown. The first 500 characters count.", `"milk"`,
	)
	s.Bool("done", &f.done, field.Required).Says("Whether the task is done.", `true`)
}

var TickNote = web.Operation{
	Tag: web.TagOf(record.Notes), Summary: "Marks a task of a note as done or open. It is the one with this " +
		"text that is nearest to the line. The rest of the text stays, so two devices can tick one list without If-Match. Nothing is " +
		"written if the task is so already. Ticks by one account within an hour are one version. If there is no such task, " +
		"the answer is 409 (changed_elsewhere).",
	Body:  web.BodyOf("Tick"),
	Reply: web.Reply{Status: 200, Doc: "The record.", Body: web.DataOf(web.Title(record.Notes.Name))},
	Fails: []int{404, 409, 503}, Serve: tickNote,
}.Conditional()

var (
	errNoTask = &record.Error{
		Fault: record.Taken, Code: "changed_elsewhere",
		Text: "The note has no such task any more. Nothing was changed.",
	}
	errTicksBusy = &record.Error{
		Fault: record.Busy, Code: "busy", Retry: ticksRetry,
		Text: "Others change this note all the time. Try again in a moment.",
	}
	errMoved = errors.New("the note was changed since it was read")
)

// tickNote finds the task outside of the transaction that writes it, because Markdown can take long to read. It begins
// again if the note was changed meanwhile: then another's change has come through.
func tickNote(c *web.Request) error {
	form := new(Tick)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	for range ticksTried {
		err := tickOnce(c, form)
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return errTicksBusy
}

func tickOnce(c *web.Request, form *Tick) error {
	k, id := record.Notes, c.Arg("id")
	r, text, err := readText(c, reach(c, k, id))
	if err != nil {
		return err
	}
	ticked, found, err := c.Site.Renders.SetTask(text, int(form.line), form.text, form.done)
	if err != nil {
		return err
	}
	if !found {
		return errNoTask
	}
	if ticked == text {
		return c.RespondRecord(http.StatusOK, `{"data":`, reach(c, k, id))
	}

	return change(c, k, id, func(tx *kv.Tx, now *record.Record, way catalog.Way, _ bool) error {
		if now.Seq != r.Seq {
			return errMoved
		}
		if !way.Own {
			if err := catalog.NoteEdit(tx, now, c.Caller.User.Name); err != nil {
				return err
			}
		}
		edit, err := now.Form()
		if err != nil {
			return err
		}
		edit.Body.(*record.Note).Content = ticked
		edit.By, edit.Ticker = writer(c, way), c.Caller.User.ID
		return catalog.Save(tx, now, edit, "")
	})
}

// readText reads a note and its text, for somebody who may change it.
func readText(c *web.Request, find web.Find) (r *record.Record, text string, err error) {
	long := 0
	err = c.Site.Store.View(func(tx *kv.Tx) error {
		r, way, err := find(tx)
		if err != nil {
			return err
		}
		if !way.Change {
			return record.NotTheOwner("You can see this, but not change it.", "content")
		}
		long = len(r.Body)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if err := c.Hold(3 * int64(long)); err != nil { // the row, the text, and the text with the tick
		return nil, "", err
	}

	err = c.Site.Store.View(func(tx *kv.Tx) error {
		r, _, err = find(tx)
		if err != nil {
			return err
		}
		body, err := r.Decode()
		if err != nil {
			return err
		}
		text = body.(*record.Note).Content
		r.Body = nil // memory of the store
		return nil
	})
	return r, text, err
}

const (
	ticksTried = 20          // times that others may be faster
	ticksRetry = time.Second // when another try makes sense
)
