package web

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"kist/httpapi/limit"
	"kist/kv/people"
	"kist/kv/record"
)

// A Request is a request that is being answered.
type Request struct {
	Site   *Site
	W      *AnswerWriter
	R      *http.Request
	Args   httprouter.Params
	ID     string         // of the request
	Addr   netip.Addr     // of the client
	Caller *people.Caller // nil for a visitor
	held   limit.Held     // of Site.Limits.Memory

	counted counted // of Site.Limits.Changes or Sent

	Status int     // that the operation answers with
	At     string  // below which what the operation makes can be read; "" if it cannot
	Repeat *Repeat // nil without an Idempotency-Key
}

// A client must read an answer at least at this rate, so that it cannot hold a connection
// and an open file forever.
const (
	writeTime  = 2 * time.Minute
	writeBytes = 128 << 10
	WriteRenew = time.Second // how old a deadline may be before it is set again
)

// Header values of every answer. They are put into the map directly, which saves an
// allocation each. Nobody changes them.
var (
	HeadNoSniff    = []string{"nosniff"}
	HeadNoReferrer = []string{"no-referrer"}
	HeadNoStore    = []string{"no-store"}
	headNoIndex    = []string{"noindex"}
	headJSON       = []string{JSONType}
	headVary       = []string{"Origin, Accept-Encoding"}
	headSameOrigin = []string{"same-origin"}
	// Pages use the clipboard, the share sheet and full screen, which are allowed
	// by default, and none of these.
	headPermissions = []string{"accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), " +
		"magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()"}
)

// DeletionPath is the prefix of deletion addresses. Anyone who has such an address can
// delete its one item, for as long as the item exists: a program that cannot send a
// request opens the address in a browser. Only the answer to the creation of the item
// has the address. The first segment of the path is not a valid slug.
const DeletionPath = "/share/delete/"

const RequestsPath = APIPath + "upload-requests"

// SentPath is the path of senders' resumable uploads. It is followed by a secret, which is
// all that is needed to continue the upload.
const SentPath = RequestsPath + "/tus"

// TakeBackPath is the path of sent files. It is followed by a secret too.
const TakeBackPath = RequestsPath + "/sent/"

// CutTo cuts a text to limit bytes, and says so.
func CutTo(t string, limit int) string {
	if len(t) > limit {
		return t[:limit] + "…"
	}
	return t
}

// SaneID reports whether a client's request id may be used and logged.
func SaneID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	return strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// NewID makes a request id. It identifies a line of the log and is not a secret. The
// runtime's generator is different in each process and needs no system call.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())  // #nosec G404 -- names a request, no secret
	binary.BigEndian.PutUint64(b[8:], rand.Uint64()) // #nosec G404 -- names a request, no secret
	return hex.EncodeToString(b[:12])
}

// CrossOrigin lets pages of any origin call the API with a key (CORS, Fetch standard),
// never with cookies. It reports whether the request is a pre-flight, which is answered
// with these headers alone.
func CrossOrigin(h http.Header, r *http.Request) (preflight bool) {
	if !inAPI(r.URL.Path) {
		return false
	}
	h["Vary"] = headVary
	// CORS requests, as below, are not subject to it (Fetch standard, section 3.7). It
	// stops pages of other sites from embedding answers.
	h["Cross-Origin-Resource-Policy"] = headSameOrigin
	if r.Header.Get("Origin") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Location, ETag, Preference-Applied, "+
		"Content-Disposition, Content-Range, Accept-Ranges, Allow, Accept-Patch, Last-Modified, "+
		"RateLimit, RateLimit-Policy, "+tusHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "content-type, x-api-key, authorization, x-upload-password, x-share-password, "+
		"x-captcha-token, x-captcha-pass, idempotency-key, if-match, if-none-match, prefer, x-request-id, "+
		"x-requested-with, cache-control, pragma, range, if-range, if-modified-since, if-unmodified-since, "+
		"content-disposition, "+tusAsked)
	h.Set("Access-Control-Max-Age", "86400")
	return true
}

func (c *Request) Owner() record.ID { return c.Caller.User.ID }

// Arg is a segment of the path.
func (c *Request) Arg(name string) string { return c.Args.ByName(name) }
