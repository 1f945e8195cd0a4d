package jobs

import (
	"time"

	"kist/kv/record"
)

// FetchState is the state of a remote upload.
type FetchState string

// The states of a remote upload.
const (
	FetchWaits     FetchState = "waiting" // for its turn, or for the next try
	FetchRuns      FetchState = "running"
	FetchDone      FetchState = "done"
	FetchFailed    FetchState = "failed"
	FetchCancelled FetchState = "cancelled" // by its owner
)

// FetchStates lists the states.
var FetchStates = []FetchState{FetchWaits, FetchRuns, FetchDone, FetchFailed, FetchCancelled}

// Fetch is a remote upload: a file that the server fetches from an address.
type Fetch struct {
	ID       record.ID `json:"ID"`
	Owner    record.ID `json:"Owner"`
	URL      string    `json:"URL"`
	Fields   string    `json:"Fields"`      // the file's fields as JSON, without the password
	Password string    `json:"Password"`    // hash; "" means none
	Slug     string    `json:"Slug"`        // reserved for the file; "" generates one
	By       record.ID `json:"By,omitzero"` // the API key or session that requested it; zero: a session whose user has signed out, or one of a time before this was kept

	State   FetchState `json:"State"`
	Created time.Time  `json:"Created"`
	Due     time.Time  `json:"Due"`     // of a waiting one: when it may be tried, on the store's monotonic clock
	Ended   time.Time  `json:"Ended"`   // zero: unfinished
	Tries   int        `json:"Tries"`   // tries so far
	Problem string     `json:"Problem"` // the error of the last try; "" if it had none

	Name  string    `json:"Name"`  // of the file, once known
	Bytes int64     `json:"Bytes"` // received bytes of the current or latest try
	Total int64     `json:"Total"` // expected bytes; -1 is unknown
	File  record.ID `json:"File"`  // the resulting file; zero until then
}

// Over reports whether nothing more happens to it automatically.
func (f *Fetch) Over() bool { return f.State != FetchWaits && f.State != FetchRuns }

// Reserved is how many bytes are reserved for it.
func (f *Fetch) Reserved() int64 {
	if f.State != FetchRuns {
		return 0
	}
	return max(f.Total, f.Bytes)
}

// fetchWaits are the waits after each try that failed for a temporary reason.
// After the last of them the upload fails for good.
var fetchWaits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute}

// Failed records that a try failed, and why. passes says that another try may
// succeed. asked is how long the other server asks to be left alone; at most an
// hour of it counts.
func (f *Fetch) Failed(why string, passes bool, asked time.Duration, now, monotonic time.Time) {
	f.Problem = why
	if !passes || f.Tries > len(fetchWaits) {
		f.end(FetchFailed, now)
		return
	}
	f.State, f.Due = FetchWaits, monotonic.Add(max(fetchWaits[max(f.Tries, 1)-1], min(asked, time.Hour)))
}

// Done records that the file was created.
func (f *Fetch) Done(file record.ID, size int64, now time.Time) {
	f.File, f.Bytes, f.Total, f.Problem = file, size, size, ""
	f.end(FetchDone, now)
}

// Cancel records that its owner does not want the file any more.
func (f *Fetch) Cancel(now time.Time) { f.end(FetchCancelled, now) }

func (f *Fetch) end(s FetchState, now time.Time) { f.State, f.Due, f.Ended = s, time.Time{}, now }

// Again restarts it with a full set of tries.
func (f *Fetch) Again(monotonic time.Time) {
	f.State, f.Due, f.Ended, f.Tries, f.Problem, f.Bytes, f.Total = FetchWaits, monotonic, time.Time{}, 0, "", 0, -1
}
