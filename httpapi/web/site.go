// Package web is the base for handlers: the request and its caller, bodies, answers,
// errors, lists, and the type of routes.
package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"kist/blobs"
	"kist/httpapi/archive"
	"kist/httpapi/captcha"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/httpapi/linkcheck"
	"kist/httpapi/metadata"
	"kist/httpapi/oidc"
	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/httpapi/webhook"
	"kist/httpapi/worker"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/people"
	"kist/kv/record"
	"kist/kv/ship"
	"kist/search"
)

// Config is what a Server needs. All fields are required except Scrubbed, Absent, Backups, Ship,
// Content, Captcha, OIDC, AuthHeader, NoPasswords, AnyHost, TrustedProxies, MaxConnections, Metrics and Access.
type Config struct {
	Store     *kv.Store
	Blobs     *blobs.Store
	Passwords *people.Passwords
	Thumbs    *thumb.Maker
	Icons     *thumb.Icons
	// Outbound sends requests to addresses that users enter.
	Outbound *outbound.Client
	// Search finds records. While it does not run, searches read the records.
	Search *search.Index
	// Scrubbed says when all stored files were last checked; zero if never.
	Scrubbed func() time.Time
	// Absent returns the contents of records that the latest check did not find on the
	// disk (only the first ones), how many records have such contents, and when the
	// check was.
	Absent func() (refs []blobs.Ref, files int, looked time.Time)
	// Elsewhere is the address of the object store that has contents which are not on the
	// disk, if the server was started without that store; otherwise "".
	Elsewhere string
	// Backup writes a backup of the running server as a tar. It ends at the first write
	// that fails.
	Backup func(io.Writer) error
	// LastBackup says when the latest backup was made; zero if never.
	LastBackup func() time.Time
	// Backups are those that the server makes by schedule. Nil means none.
	Backups Backups
	// Ship copies the store to an object store. It may be nil.
	Ship *ship.Shipper
	// Base is the absolute address by which visitors reach the server, without a final
	// slash. Every generated address begins with it.
	Base string
	// Content is a separate origin that serves stored bytes and nothing else, as
	// ContentOrigin returns it; "" means Base.
	Content string
	// MaxUpload is the maximum size of a file in bytes.
	MaxUpload int64
	// Captcha applies if the settings choose no provider; the zero value is CaptchaPow.
	Captcha captcha.Config
	// OIDC is the issuer that users can sign in through. It may be nil.
	OIDC *oidc.Client
	// AuthHeader is the header in which a trusted proxy names the user; "" if none does.
	AuthHeader string
	// NoPasswords refuses sign-ins with a password.
	NoPasswords bool
	// AnyHost accepts requests for any Host. Otherwise the server refuses names that are
	// neither in Base nor in Content.
	AnyHost bool
	// TrustedProxies are believed about the client (X-Forwarded-For) and the scheme and
	// host that it used (X-Forwarded-Proto, X-Forwarded-Host).
	TrustedProxies []netip.Prefix
	// MaxConnections is the maximum number of connections; 0 means the constant.
	MaxConnections int
	// Metrics turns /metrics on.
	Metrics bool
	// Version, Commit and Date say what the program was made from, as kist version does. Commit and Date are "" if
	// nobody knows.
	Version, Commit, Date string

	Log *slog.Logger
	// Access receives a line for each request; nil means Log.
	Access *slog.Logger
}

// Backups are made by schedule. The methods answer at once.
type Backups interface {
	Status() *datadir.BackupStatus
	List() []datadir.Backup // the newest first; callers must not change it
	Begin() bool            // has one made now; false if one is being made
}

// Site has what the handlers of all packages share.
type Site struct {
	Config
	shown       shownPool // for owners
	shared      shownPool // for visitors
	reached     shownPool // for members of collections
	Renders     *Renders
	UploadLocks uploadLocks  // of resumable uploads
	Repeats     repeatGuards // of requests with an Idempotency-Key
	Webhooks    *webhook.Sender
	Imports     worker.Imports
	Fetches     *worker.Queue[record.ID] // remote uploads by id
	Plans       *metadata.Plans
	Zips        *archive.Zips
	Pictures    *linkcheck.Pictures
	Grants      *grant.Signer
	Resumes     grant.Resumes
	Tickets     *grant.Tickets
	Challenges  *captcha.Issuer
	Limits      *limit.Limits

	CrossOrigin *http.CrossOriginProtection

	BaseURL                    *url.URL // Base, parsed
	ContentScheme, ContentHost string   // of Content
	BaseName, ContentName      string   // their host names: see HostName

	warnedProto, warnedHost atomic.Bool // see WarnProxyMismatch

	Renew   time.Duration            // WriteRenew, except in tests
	Running sync.WaitGroup           // requests and what they started
	Methods func(path string) string // Server.allowed
}
