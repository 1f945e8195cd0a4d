package record

import "time"

// FetchState is how far a remote upload is.
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
	ID       ID     `json:"ID"`
	Owner    ID     `json:"Owner"`
	URL      string `json:"URL"`
	Fields   string `json:"Fields"`      // what is said of the file, as JSON, without the password
	Password string `json:"Password"`    // hash; "" means none
	Slug     string `json:"Slug"`        // kept free for the file; "" has one made
	By       ID     `json:"By,omitzero"` // the API key that asked for it; zero of a session, which ends when its user signs out

	State   FetchState `json:"State"`
	Created time.Time  `json:"Created"`
	Due     time.Time  `json:"Due"`     // of one that waits: when it may be tried, on the store's steady clock
	Ended   time.Time  `json:"Ended"`   // zero: it is not over
	Tries   int        `json:"Tries"`   // that were begun
	Problem string     `json:"Problem"` // what went wrong with the last try; "" if nothing did

	Name  string `json:"Name"`  // of the file, once it is known
	Bytes int64  `json:"Bytes"` // that came in, of the try that runs or was made last
	Total int64  `json:"Total"` // that are to come in; -1 is not known
	File  ID     `json:"File"`  // that was made of it; zero until then
}

// Over reports whether nothing more happens to it on its own.
func (f *Fetch) Over() bool { return f.State != FetchWaits && f.State != FetchRuns }

// Reserved is how many bytes are reserved for it.
func (f *Fetch) Reserved() int64 {
	if f.State != FetchRuns {
		return 0
	}
	return max(f.Total, f.Bytes)
}

// fetchWaits is how long a remote upload waits after each try that failed by
// what may pass. When they are used up it has failed.
var fetchWaits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute}

// Failed notes that a try failed, and why. passes says that another may not.
// asked is how long the other server wants to be left alone, of which an hour
// is heeded.
func (f *Fetch) Failed(why string, passes bool, asked time.Duration, now, monotonic time.Time) {
	f.Problem = why
	if !passes || f.Tries > len(fetchWaits) {
		f.end(FetchFailed, now)
		return
	}
	f.State, f.Due = FetchWaits, monotonic.Add(max(fetchWaits[max(f.Tries, 1)-1], min(asked, time.Hour)))
}

// Done notes that the file was made.
func (f *Fetch) Done(file ID, size int64, now time.Time) {
	f.File, f.Bytes, f.Total, f.Problem = file, size, size, ""
	f.end(FetchDone, now)
}

// Cancel notes that its owner does not want the file any more.
func (f *Fetch) Cancel(now time.Time) { f.end(FetchCancelled, now) }

func (f *Fetch) end(s FetchState, now time.Time) { f.State, f.Due, f.Ended = s, time.Time{}, now }

// Again has it tried once more, with all its tries.
func (f *Fetch) Again(monotonic time.Time) {
	f.State, f.Due, f.Ended, f.Tries, f.Problem, f.Bytes, f.Total = FetchWaits, monotonic, time.Time{}, 0, "", 0, -1
}
