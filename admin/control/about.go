package control

import (
	"net/http"
	"net/netip"
	"time"

	"kist/kv"
)

// About is what a running server says about itself.
type About struct {
	Version        string         `json:"version"`
	Base           string         `json:"base"`
	Content        string         `json:"content,omitempty"` // the origin for content, if it is another
	Listen         string         `json:"listen"`
	Secure         bool           `json:"secure"`              // it speaks TLS there
	TLSDomain      []string       `json:"tlsDomain,omitempty"` // the names that it gets certificates for
	MaxUpload      int64          `json:"maxUpload"`
	TrustedProxies []netip.Prefix `json:"trustedProxies"`
	GCDelay        time.Duration  `json:"gcDelay"`
	Now            time.Time      `json:"now"` // the store's
	// Doubt is nil if the server trusts the machine's clock.
	Doubt   *kv.ClockDoubt   `json:"doubt,omitempty"`
	Probe   string           `json:"probe"` // a token for one minute
	Journal kv.JournalHealth `json:"journal"`
}

// A Target is where a webhook sends events.
type Target struct {
	User, Name, URL string
	Failures        int // in a row
	Error           string
	Paused          time.Time // zero if it is not paused
}

// webhooks lists the enabled webhooks, without secrets.
func (v handler) webhooks(*http.Request, Nothing) ([]Target, error) {
	return view(v, func(tx *kv.Tx) ([]Target, error) {
		all := []Target{}
		users, err := tx.Users()
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			hooks, err := tx.Webhooks(u.ID)
			if err != nil {
				return nil, err
			}
			for _, h := range hooks {
				if h.Enabled {
					all = append(all, Target{u.Name, h.Name, h.URL, h.Failures, h.LastError, h.Paused})
				}
			}
		}
		return all, nil
	})
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
