// Package web is what handlers are written with: the request and who sent it,
// its body, the answer, errors, lists, and the rows that routes are made of.
package web

import (
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"kist/blobs"
	"kist/httpapi/captcha"
	"kist/httpapi/grant"
	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/httpapi/webhook"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/people"
	"kist/kv/record"
	"kist/search"
)

// Config is what a Server is made of. All but Scrubbed, Absent, Content, Captcha,
// AnyHost, TrustedProxies, MaxConnections, Metrics and Access is required.
type Config struct {
	Store     *kv.Store
	Blobs     *blobs.Store
	Passwords *people.Passwords
	Thumbs    *thumb.Maker
	Icons     *thumb.Icons
	// Outbound sends the requests that go to addresses which people name.
	Outbound *outbound.Client
	// Search finds records. While it does not run, they are read through.
	Search *search.Index
	// Scrubbed is when all stored files were last checked; zero if never.
	Scrubbed func() time.Time
	// Absent is the first contents that records have and that the latest look
	// did not find on the disk, how many records have such contents, and when
	// the look was.
	Absent func() (refs []blobs.Ref, files int, looked time.Time)
	// Base is the absolute address under which visitors reach the server,
	// without a slash at the end. Every generated address begins with it.
	Base string
	// Content is another origin from which stored bytes are served and nothing
	// else, as ContentOrigin returns it; "" is Base's.
	Content string
	// MaxUpload bounds one file in bytes.
	MaxUpload int64
	// Captcha holds while the settings name no provider; zero is CaptchaPow.
	Captcha captcha.Config
	// AnyHost takes requests for whatever Host. Otherwise those for a name that
	// is neither in Base nor in Content are refused.
	AnyHost bool
	// TrustedProxies may say who the client is (X-Forwarded-For), and under
	// which scheme and host it asked (X-Forwarded-Proto, X-Forwarded-Host).
	TrustedProxies []netip.Prefix
	// MaxConnections bounds the connections at one time; 0 is MaxConnections.
	MaxConnections int
	// Metrics turns /metrics on.
	Metrics bool
	Version string // of the program
	Log     *slog.Logger
	// Access takes a line for each request; Log if nil.
	Access *slog.Logger
}

// Site is what the handlers of all rooms share.
type Site struct {
	Config
	shown       shownPool // for owners
	shared      shownPool // for visitors
	Renders     renders
	UploadTurns uploadLocks // on resumable uploads
	Webhooks    *webhook.Sender
	Imports     worker.Imports
	Fetches     *worker.Queue[record.ID] // remote uploads by id
	Grants      *grant.Signer
	Challenges  *captcha.Issuer
	Budget      *budget

	CrossOrigin *http.CrossOriginProtection

	BaseURL                    *url.URL // Base
	ContentScheme, ContentHost string   // of Content
	BaseName, ContentName      string   // their host names: see hostName

	toldProto, toldHost atomic.Bool // see compare

	Renew   time.Duration            // writeRenew, but for tests
	Running sync.WaitGroup           // requests, and what they have begun
	Methods func(path string) string // Server.allowed
}
