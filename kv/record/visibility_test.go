package record_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/jobs"
	"kist/kv/record"
)

// fault is the class of an error, 0 if the error is not a record.Error.
func fault(err error) record.Fault {
	var e *record.Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return 0
}

func code(err error) string {
	var e *record.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestOpen(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name  string
		share record.Share
		now   time.Time
		want  string
	}{
		{"public", record.Share{Public: true}, at, ""},
		{"private", record.Share{}, at, "not_found"},
		{"private and expired", record.Share{Expires: at}, at, "not_found"},
		{"a millisecond before the end", record.Share{Public: true, Expires: at}, at.Add(-time.Millisecond), ""},
		{"at the end", record.Share{Public: true, Expires: at}, at, "expired"},
		{"after the end", record.Share{Public: true, Expires: at}, at.Add(time.Hour), "expired"},
		{"used up", record.Share{Reached: true}, at, "limit_reached"},
		{"used up and expired", record.Share{Reached: true, Expires: at}, at, "limit_reached"},
		{"limit not reached", record.Share{Public: true, Limit: 1}, at, ""},
		{"password", record.Share{Public: true, Password: "$"}, at, ""}, // Open ignores it
	} {
		t.Run(row.name, func(t *testing.T) {
			is := is.New(t)
			err := row.share.Open(row.now)
			is.Equal(code(err), row.want)
			is.Equal(err == nil, row.want == "")
			is.Equal(errors.Is(err, record.ErrMissing), row.want == "not_found") // unknown and private look the same
		})
	}
}

func TestExpired(t *testing.T) {
	is := is.New(t)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := record.Share{}
	is.True(!s.Expired(at)) // never
	s.Expires = at
	is.True(!s.Expired(at.Add(-1)))
	is.True(s.Expired(at))
	is.True(s.Expired(at.In(time.FixedZone("", 3600))))
}

func TestSpend(t *testing.T) {
	for _, row := range []struct {
		limit, used, after int64
		due, gone          bool
	}{
		{0, 0, 1, false, false},
		{0, 1 << 40, 1<<40 + 1, false, false},
		{1, 0, 1, true, false},
		{1, 1, 1, true, true},
		{2, 0, 1, false, false},
		{2, 1, 2, true, false},
		{3, 5, 5, true, true}, // the limit was lowered
	} {
		t.Run(fmt.Sprintf("%d of %d", row.used, row.limit), func(t *testing.T) {
			is := is.New(t)
			s := record.Share{Public: true, Limit: row.limit}
			after, due, err := s.Spend(row.used)
			is.Equal(after, row.after)
			is.Equal(due, row.due)
			is.Equal(fault(err) == record.Gone, row.gone)
			is.Equal(s, record.Share{Public: true, Limit: row.limit}) // Spend does not change the share
		})
	}
}

func TestPublishAndClose(t *testing.T) {
	is := is.New(t)
	s := record.Share{Slug: "s", Password: "$", Limit: 1, AtLimit: record.MakePrivate}
	is.True(s.Publish(true)) // becomes public: the count starts again
	is.True(s.Public)
	is.True(!s.Publish(true)) // was public
	want := s
	s.Close()
	want.Public, want.Reached = false, true
	is.Equal(s, want) // nothing else changes
	is.True(!s.Publish(false))
	is.True(!s.Reached) // now private by its owner
	s.Close()
	is.True(s.Publish(true))
	is.True(s.Public && !s.Reached)
}

func TestClassOf(t *testing.T) {
	for mime, want := range map[string]record.Class{
		"":                            record.Other,
		"image":                       record.Image,
		"image/png":                   record.Image,
		"IMAGE/PNG":                   record.Image,
		"image/svg+xml":               record.Image,
		"video/mp4":                   record.Video,
		"audio/ogg; codecs=opus":      record.Audio,
		"application/pdf":             record.PDF,
		"application/pdf;version=1.7": record.PDF,
		"text/plain; charset=utf-8":   record.Text,
		"application/json":            record.Text,
		"application/json; charset=x": record.Text,
		"application/xml":             record.Text,
		"application/javascript":      record.Text,
		"application/zip":             record.Other,
		"application/octet-stream":    record.Other,
		"imagery/png":                 record.Other,
		"application/pdf-not":         record.Other,
	} {
		t.Run(mime, func(t *testing.T) {
			is := is.New(t)
			is.Equal(record.ClassOf(mime), want)
		})
	}
	is := is.New(t)
	for i, name := range record.ClassNames() {
		is.Equal(record.Class(i).String(), name)
	}
}

func TestKinds(t *testing.T) {
	is := is.New(t)
	names, paths, events := map[string]bool{}, map[string]bool{}, map[jobs.Event]bool{}
	for i, k := range record.Kinds {
		is.Equal(record.KindOf(k.Code), k)
		is.Equal(int(k.Code), i+1)
		names[k.Name], paths[k.Path] = true, true
		events[jobs.Created(k)], events[jobs.Edited(k)], events[jobs.Removed(k)] = true, true, true
		is.True(k.Shape > 0)
		_, err := record.CleanSlug(k.Path)
		is.True(err != nil || k == record.Files || k == record.Links) // no item may have the address of a collection
	}
	is.Equal(len(names), len(record.Kinds))
	is.Equal(len(paths), len(record.Kinds))
	is.Equal(len(events), 3*len(record.Kinds))
	is.True(events["file.uploaded"] && events["shortlink.deleted"] && events["note.updated"])
	is.True(record.KindOf(0) == nil)
	is.True(record.KindOf(byte(len(record.Kinds)+1)) == nil)
	is.True(record.KindOf(255) == nil)
}

func TestBad(t *testing.T) {
	is := is.New(t)
	is.True(record.Bad(nil) == nil)
	is.True(record.Bad(map[string]string{}) == nil)
	err := record.Bad(map[string]string{"url": "is required", "title": "must be text"})
	is.Equal(err.Error(), "The title must be text; the URL is required.")
	is.Equal(fault(err), record.Invalid)
	is.Equal(fault(record.NotFound("tag")), record.Missing)
	is.Equal(record.NotFound("tag").Error(), "There is no such tag.")
}
