package api

import (
	"fmt"
	"net/http"

	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/catalog"
	"kist/kv/field"
	"kist/kv/inbox"
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/record"
	"kist/search"
)

// Stats are the figures about the whole instance for administrators.
type Stats struct {
	Users, Bytes     int64
	Counts           map[string]int64
	Trashed          int64
	Pending, Waiting int64 // uploads, deliveries
	index            search.State
}

func (v *Stats) Fields(s *field.Set) {
	s.Number("users", &v.Users, 0, 1<<53).Says("Number of accounts.", `3`)
	s.Number("bytes", &v.Bytes, 0, 1<<53).Says("Bytes of all files, counted for each record.", `48213`)
	s.Shown("counts", field.Schema{
		Type: "object", Free: true, Items: &field.Schema{Type: "integer"},
	}, func(dst []byte) []byte {
		return web.AppendCounts(dst, v.Counts)
	}).Says("Number of records, by kind.", `{"file":3,"note":1}`)
	s.Number("trashed", &v.Trashed, 0, 1<<53).Says("Number of records in the trash.", `5`)
	s.Number("pendingUploads", &v.Pending, 0, 1<<53).Says("Received files waiting for approval.", `2`)
	s.Number("waitingDeliveries", &v.Waiting, 0, 1<<53).Says("Webhook deliveries that are still waiting.", `0`)
	s.Shown("index", field.ObjectOf(&indexState{&v.index}), func(dst []byte) []byte {
		return field.AppendJSON(dst, &indexState{&v.index})
	}).Says("The search index.", `{"state":"ready","documents":4,"behind":0,"problem":""}`)
}

type indexState struct{ *search.State }

func (v *indexState) Fields(s *field.Set) {
	behind := int64(v.Latest - min(v.Latest, v.Place))
	s.Shown("state", field.Schema{Type: "string", Enum: search.Phases()}, func(dst []byte) []byte {
		return field.AppendString(dst, string(v.Phase))
	}).Says("ready, or why searches read the records instead.", `"ready"`)
	s.Number("documents", &v.Documents, 0, 1<<53).Says("Records indexed since the server started.", `4`)
	s.Number("behind", &behind, 0, 1<<53).Says(
		"Changes that are not in the index yet. Searches find them nevertheless.", `0`,
	)
	s.LongText("problem", &v.Problem, record.MaxContent).Says("The problem, if there is one.", `""`)
}

var ReadStats = web.ReadOp(
	"admin", "Counts accounts, records and bytes of the instance.", "The figures.", "Stats", readStats,
)

func readStats(c *web.Request) error {
	v, err := CollectStats(c.Site)
	if err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, v)
}

// CollectStats counts accounts, records and bytes of the instance.
func CollectStats(s *web.Site) (*Stats, error) {
	v := &Stats{Counts: map[string]int64{}}
	err := s.Store.View(func(tx *kv.Tx) error {
		users, err := people.Users(tx)
		if err != nil {
			return err
		}
		for i := range users {
			if err := v.add(tx, &users[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot count the records: %w", err)
	}
	v.index = s.Search.State()
	return v, nil
}

// add counts what a user has.
func (v *Stats) add(tx *kv.Tx, u *people.User) error {
	usage, err := catalog.UsageOf(tx, u)
	if err != nil {
		return err
	}
	v.Users++
	v.Bytes += usage.Bytes
	v.Trashed += catalog.TrashCount(tx, u.ID, nil)
	v.Pending += inbox.PendingCount(tx, u.ID)
	for kind, n := range usage.Count {
		v.Counts[kind] += n
	}
	hooks, err := jobs.Webhooks(tx, u.ID)
	if err != nil {
		return err
	}
	for _, h := range hooks {
		v.Waiting += jobs.Queued(tx, h.ID)
	}
	return nil
}
