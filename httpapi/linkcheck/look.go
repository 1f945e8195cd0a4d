package linkcheck

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"kist/httpapi/outbound"
	"kist/httpapi/thumb"
	"kist/kv/field"
	"kist/kv/record"
)

// client requests pages and the icons of their sites.
type client struct {
	*outbound.Client
	icons *thumb.Icons
	log   *slog.Logger
}

// Bounds of a check.
const (
	// for the whole check; GET after a failed HEAD has as much again. A resolver without an answer gives up earlier
	lookTime  = 30 * time.Second
	redirects = 10
	refreshes = 3       // pages that only lead to the next one
	maxDrain  = 4 << 10 // bytes of an unwanted body
)

// ask requests the page at an address. With fill, it also reads the page's title and description.
func (c *client) ask(all context.Context, address string, fill bool) record.Look {
	ctx, cancel := context.WithTimeout(all, lookTime)
	defer cancel()
	c = &client{c.Session(), c.icons, c.log}
	if fill {
		found, a := c.read(ctx, address)
		if found.Verdict == record.Answers {
			found.Icon = c.icon(ctx, a, func() response { return a })
		}
		return found
	}
	res, err := c.head(ctx, http.MethodHead, address)
	found := judge(res, err)
	if found.Verdict == record.Fails || err == nil && res.StatusCode >= 400 &&
		res.StatusCode != http.StatusTooManyRequests {
		// Some sites do not support HEAD, and say so in various ways or not at all.
		ctx, cancel = context.WithTimeout(all, lookTime)
		defer cancel()
		res, err = c.head(ctx, http.MethodGet, address)
		found = judge(res, err)
	}
	if found.Verdict == record.Answers {
		found.SignIn = asksFirst(address, res.Request.URL)
		found.Icon = c.icon(ctx, from(res), func() response {
			_, a := c.read(ctx, address)
			return a
		})
	}
	return found
}

// response says who answered for a page, and has the page's data.
type response struct {
	page
	at   *url.URL // after redirects; nil if there was no answer
	busy bool     // the site asked for fewer requests
}

func from(res *http.Response) response {
	return response{at: res.Request.URL, busy: res.StatusCode == http.StatusTooManyRequests}
}

// read requests a page and reads its data. It follows pages that lead to another one by themselves. The data of a page
// where people sign in is not that of the page that was asked for.
func (c *client) read(ctx context.Context, address string) (record.Look, response) {
	found, a := c.readOne(ctx, address)
	for range refreshes {
		next := a.refreshed()
		if next == "" {
			break
		}
		found, a = c.readOne(ctx, next)
	}
	if !found.Read {
		return found, a
	}
	found.SignIn = asksFirst(address, a.at)
	if !found.SignIn {
		found.Title, found.Description, found.Image = a.title, a.description, imageOf(a.page, a.at)
	}
	return found, a
}

// readOne requests a page and reads its HTML.
func (c *client) readOne(ctx context.Context, address string) (record.Look, response) {
	res, err := c.send(ctx, http.MethodGet, address, acceptPage)
	found := judge(res, err)
	if err != nil {
		return found, response{}
	}
	defer res.Body.Close()
	a := from(res)
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return found, a
	}
	found.Read = true
	if media := res.Header.Get("Content-Type"); isPage(media) {
		a.page = parse(decoded(res), media)
	}
	return found, a
}

// refreshed is the address to which a page leads without a click; "" if it stays.
func (a response) refreshed() string {
	if a.refresh == "" {
		return ""
	}
	next, err := a.baseAt(a.at).Parse(a.refresh)
	if err != nil || next.Scheme != "http" && next.Scheme != "https" || next.String() == a.at.String() {
		return ""
	}
	return next.String()
}

// decoded is the body of an answer. Some sites have pages only in a compressed form, whatever is asked for. The body is
// empty if its coding is not known. The caller bounds what it reads.
func decoded(res *http.Response) io.Reader {
	var body io.Reader
	var err error
	switch strings.ToLower(res.Header.Get("Content-Encoding")) {
	case "", "identity":
		return res.Body
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(res.Body)
	case "deflate":
		body, err = zlib.NewReader(res.Body)
	default:
		return http.NoBody
	}
	if err != nil {
		return http.NoBody
	}
	return body
}

// entrances are the parts of addresses where people sign in, agree to something or prove their age.
var entrances = regexp.MustCompile(`^(?:(?:wp-|user-?|account-?)?(?:log|sign)[-_]?(?:in|on)|auth|oauth2?|authori[sz]e|` +
	`sso|saml2?|cas|idp|anmeld(?:en|ung)|connexion|captcha|(?:cookie[-_]?)?(?:consent|wall)|gdpr|` +
	`age[-_]?(?:gate|check|verification))$`)

// asksFirst reports whether a site answers for an address with a page where people sign in or agree to something.
func asksFirst(address string, at *url.URL) bool {
	asked, err := url.Parse(address)
	return err == nil && isEntrance(at) && !isEntrance(asked)
}

// isEntrance reports whether a label of the host or a segment of the path is one of entrances.
func isEntrance(u *url.URL) bool {
	for part := range strings.FieldsFuncSeq(strings.ToLower(u.Hostname()+"."+u.Path), func(r rune) bool {
		return r == '.' || r == '/'
	}) {
		if entrances.MatchString(part) {
			return true
		}
	}
	return false
}

// head sends a request and needs only the head of the answer.
func (c *client) head(ctx context.Context, method, address string) (*http.Response, error) {
	res, err := c.send(ctx, method, address, acceptPage)
	if err != nil {
		return res, err
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxDrain) // errors do not matter
	return res, res.Body.Close()
}

// acceptPage is the Accept header for pages.
const acceptPage = "text/html, application/xhtml+xml, */*;q=0.5"

func (c *client) send(ctx context.Context, method, address, accept string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, field.SentURL(address), nil)
	if err != nil {
		return nil, err
	}
	// Many sites refuse clients that do not claim to be like a browser.
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; kist)")
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "identity")
	return c.Do(r, redirects)
}

// judge draws a conclusion about a page from an answer or an error.
func judge(res *http.Response, err error) record.Look {
	var refused *outbound.Refused
	var name *net.DNSError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		return record.Look{Verdict: record.Barred}
	case errors.As(err, &name) && !name.IsNotFound, errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return record.Look{Verdict: record.Offline}
	default:
		return record.Look{Verdict: record.Fails}
	}
	found := record.Look{Verdict: record.Answers, Wait: outbound.RetryAfter(res.Header, time.Now())}
	if s := res.StatusCode; s == http.StatusNotFound || s == http.StatusGone || s >= 500 {
		found.Verdict = record.Fails
	}
	if s := res.StatusCode; s != http.StatusTooManyRequests && s != http.StatusServiceUnavailable {
		found.Wait = 0 // Retry-After has another meaning with other statuses
	}
	return found
}
