package record_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"

	"kist/kv/record"
)

// What visitors see through a collection.
func TestThrough(t *testing.T) {
	t.Parallel()
	owner, other, folder, tag := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	picked, live, tagged := record.Collection{}, record.Collection{Folder: folder}, record.Collection{Tag: tag}
	file := func(change func(*record.Record)) *record.Record {
		r := &record.Record{Owner: owner, Kind: record.Files}
		change(r)
		return r
	}
	for _, test := range []struct {
		name  string
		c     record.Collection
		item  *record.Record
		among bool
		in    bool
		why   record.Exclusion
	}{
		{"picked and private", picked, file(func(r *record.Record) {}), true, true, ""},
		{"picked and public", picked, file(func(r *record.Record) { r.Public = true }), true, true, ""},
		{"not picked", picked, file(func(r *record.Record) { r.Public = true }), false, false, ""},
		{"of another", picked, file(func(r *record.Record) { r.Owner = other }), true, false, ""},
		{"a collection", picked, file(func(r *record.Record) { r.Kind = record.Collections }), true, false, ""},
		{"with a password", picked, file(func(r *record.Record) { r.Password = "x" }), true, true, record.OwnPassword},
		{"with a limit", picked, file(func(r *record.Record) { r.Limit = 1 }), true, true, record.OwnLimit},
		{"used up", picked, file(func(r *record.Record) { r.Limit, r.Reached = 1, true }), true, true, record.OwnLimit},
		{"with an end", picked, file(func(r *record.Record) { r.Expires = time.Unix(1<<40, 0) }), true, true, record.OwnEnd},
		{"with all of them", picked, file(func(r *record.Record) {
			r.Password, r.Limit, r.Expires = "x", 1, time.Unix(1, 0)
		}), true, true, record.OwnPassword},
		{"not in it, with a password", picked, file(func(r *record.Record) { r.Password = "x" }), false, false, ""},
		{"in the folder", live, file(func(r *record.Record) { r.Folder = folder }), false, true, ""},
		{"in another folder", live, file(func(r *record.Record) { r.Folder = tag }), true, false, ""},
		{"in no folder", live, file(func(r *record.Record) {}), true, false, ""},
		{"with the tag", tagged, file(func(r *record.Record) { r.Tags = []record.ID{other, tag} }), false, true, ""},
		{"a note with the tag", tagged, file(func(r *record.Record) {
			r.Kind, r.Tags = record.Notes, []record.ID{tag}
		}), false, true, ""},
		{"a collection with the tag", tagged, file(func(r *record.Record) {
			r.Kind, r.Tags = record.Collections, []record.ID{tag}
		}), false, false, ""},
		{"without the tag", tagged, file(func(r *record.Record) { r.Tags = []record.ID{other} }), true, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			in, why := test.c.Through(&record.Record{Owner: owner, Kind: record.Collections}, test.item, test.among)
			is.Equal(in, test.in)
			is.Equal(why, test.why)
		})
	}
}
