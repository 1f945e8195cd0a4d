package control

import (
	"net/http"
	"net/netip"
	"time"

	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/ship"
)

// About is what a running server says about itself.
type About struct {
	Version        string         `json:"version"`
	Commit         string         `json:"commit,omitempty"` // as admin.Build has it
	Date           string         `json:"date,omitempty"`   // of the commit
	Base           string         `json:"base"`
	Content        string         `json:"content,omitempty"` // the origin for content, if it is another
	Listen         string         `json:"listen"`
	Secure         bool           `json:"secure"`              // it speaks TLS there
	TLSDomain      []string       `json:"tlsDomain,omitempty"` // the names that it gets certificates for
	MaxUpload      int64          `json:"maxUpload"`
	TrustedProxies []netip.Prefix `json:"trustedProxies"`
	GCDelay        time.Duration  `json:"gcDelay"`
	Issuer         string         `json:"issuer,omitempty"` // of OpenID Connect
	Now            time.Time      `json:"now"`              // the store's
	// Doubt is nil if the server trusts the machine's clock.
	Doubt   *kv.ClockDoubt        `json:"doubt,omitempty"`
	Probe   string                `json:"probe"` // a token for one minute
	Journal kv.JournalHealth      `json:"journal"`
	Store   *StoreHealth          `json:"store,omitempty"`   // nil without an object store
	Backups *datadir.BackupStatus `json:"backups,omitempty"` // nil without backups by schedule
}

// StoreHealth is how far the server is with its object store.
type StoreHealth struct {
	Address      string        `json:"address"`
	Commits      uint64        `json:"commits"` // that are not there
	Lag          time.Duration `json:"lag"`     // since the first of them
	LastSlot     time.Time     `json:"lastSlot"`
	LastSnapshot time.Time     `json:"lastSnapshot"`
	Oldest       time.Time     `json:"oldest"`   // moment that a restore can give; zero if it is not known yet
	Complete     bool          `json:"complete"` // a restore gives everything but those commits
	Exact        bool          `json:"exact"`    // one writer wins
	Problem      string        `json:"problem,omitempty"`
	Damage       string        `json:"damage,omitempty"` // of an object in the store
	Lacks        string        `json:"lacks,omitempty"`  // what a restore gives if that is not everything
	Healed       string        `json:"healed,omitempty"` // what was wrong there
	Compared     time.Time     `json:"compared"`         // when the store was last compared with what should be there
}

// StoreHealthOf describes what was shipped to the address. It is nil without a Shipper.
func StoreHealthOf(address string, s *ship.Shipper) *StoreHealth {
	if s == nil {
		return nil
	}
	st := s.Status()
	h := &StoreHealth{
		Address: address, Commits: st.Records, Lag: st.Lag, LastSlot: st.LastPut, LastSnapshot: st.LastSnapshot,
		Oldest: st.Oldest, Complete: st.Complete, Exact: st.Exact,
		Damage: st.Damage, Lacks: st.Lacks, Healed: st.Healed, Compared: st.Compared,
	}
	if st.Failure != nil {
		h.Problem = st.Failure.Error()
	}
	return h
}

// SignInHealth is how the server and its issuer of OpenID Connect get along.
type SignInHealth struct {
	Issuer   string        `json:"issuer"`
	Redirect string        `json:"redirect"`          // the address that the issuer has to know
	Problem  string        `json:"problem,omitempty"` // why the issuer cannot be used
	Refused  string        `json:"refused,omitempty"` // how it refuses a sign-in that comes back to Redirect
	Ahead    time.Duration `json:"ahead"`             // of its clock
	Leaves   bool          `json:"leaves"`            // users can sign out there
}

// about adds to what the server knows about itself what its store knows.
func (v handler) about(*http.Request, Nothing) (About, error) {
	got := v.About()
	got.Now, got.Journal = v.Store.Now(), v.Store.JournalHealth()
	if doubt, ok := v.Store.ClockDoubt(); ok {
		got.Doubt = &doubt
	}
	return got, nil
}
