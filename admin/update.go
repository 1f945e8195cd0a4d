package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/serve"
)

// Bounds of the question for the newest version.
const (
	updateTime      = 15 * time.Second
	updateBytes     = 64 << 10
	updateRedirects = 5
	shownNotes      = 20 // lines
	shownColumns    = 200
)

// newest is what a file of releases says.
type newest struct {
	Version string `json:"version"`
	Notes   string `json:"notes"`
}

// release is a version: three numbers, and perhaps what precedes that release, such as -rc.1.
var release = regexp.MustCompile(`^v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})` +
	`(?:-([0-9A-Za-z.-]{1,64}))?(?:\+[0-9A-Za-z.-]{1,64})?$`)

// developed are versions that Go gives to a program that was built between releases.
var developed = regexp.MustCompile(`-(?:0\.)?\d{14}-[0-9a-f]{12}(?:\+dirty)?$|^dev$`)

// checkAddress refuses an address that cannot be asked for the newest version.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return exit.Misused("--check-update must be an http or https address without a password, "+
			"such as https://example.org/latest.json; it is %q", address)
	}
	return nil
}

// update asks the address once for the newest version and compares it with the one of this program.
func (d *checkup) update(address, mine string, client *http.Client) {
	got, err := askNewest(address, client)
	if err != nil {
		d.Add(ops.Problem, "update", fmt.Sprintf("the newest version is not known: %s: %v", address, err),
			"look at the address, and at the way to it from this machine")
		return
	}

	there := strings.TrimPrefix(got.Version, "v")
	order, known := compareVersions(mine, there)
	switch {
	case !known:
		d.OK("update", "the newest version is %s; this program (%s) was not built as a release, "+
			"so the two cannot be compared", there, mine)
	case order < 0:
		d.Add(ops.Warning, "update", fmt.Sprintf("version %s is there; this is %s", there, mine),
			"make a backup and install it: kist help updating")
	case order > 0:
		d.OK("update", "this is %s, which is newer than %s, the newest version at %s", mine, there, address)
	default:
		d.OK("update", "this is the newest version, %s", mine)
	}
	last := &d.Findings[len(d.Findings)-1]
	last.Version, last.Notes = there, got.Notes
}

// askNewest reads what the address says about the newest version.
func askNewest(address string, client *http.Client) (got newest, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), updateTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return got, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "kist") // nothing about this machine
	res, err := client.Do(req)
	if err != nil {
		cause := serve.Cause(err)
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = fmt.Errorf("there was no answer for %v", updateTime)
		}
		return got, cause
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return got, fmt.Errorf("it answers %s", res.Status)
	}

	text, err := io.ReadAll(io.LimitReader(res.Body, updateBytes+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return got, fmt.Errorf("the answer did not end within %v", updateTime)
	case err != nil:
		return got, fmt.Errorf("the answer ended early: %w", err)
	case len(text) > updateBytes:
		return got, fmt.Errorf("the answer has more than %d bytes", updateBytes)
	case json.Unmarshal(text, &got) != nil:
		return got, errors.New(`the answer is no JSON object such as {"version": "1.2.3", "notes": "…"}`)
	case !release.MatchString(got.Version):
		return got, fmt.Errorf("the answer has no version such as 1.2.3; it says %.40q", got.Version)
	}
	return got, nil
}

// updateClient asks for the newest version. It keeps no cookies, and follows redirects to http and
// https, but not from https to http.
func updateClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10,
		},
		CheckRedirect: followUpdate,
	}
}

func followUpdate(next *http.Request, before []*http.Request) error {
	switch {
	case len(before) > updateRedirects:
		return fmt.Errorf("it redirects more than %d times", updateRedirects)
	case next.URL.Scheme != "http" && next.URL.Scheme != "https":
		return fmt.Errorf("it redirects to %q, which is no web address", next.URL.Scheme)
	case next.URL.Scheme == "http" && before[len(before)-1].URL.Scheme == "https":
		return errors.New("it redirects from https to http, which anybody in between can change")
	}
	next.Header.Del("Referer")
	return nil
}

// compareVersions compares two versions: less than 0 if a comes first. known is false if one of them is
// no release.
func compareVersions(a, b string) (order int, known bool) {
	x, y := release.FindStringSubmatch(a), release.FindStringSubmatch(b)
	if x == nil || y == nil || developed.MatchString(a) || developed.MatchString(b) {
		return 0, false
	}
	for i := 1; i <= 3; i++ {
		order = cmp.Or(order, compareNumbers(x[i], y[i]))
	}
	return cmp.Or(order, comparePrereleases(x[4], y[4])), true
}

// compareNumbers compares decimal numbers, which are short enough to be parsed.
func compareNumbers(a, b string) int {
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	return cmp.Compare(x, y)
}

// comparePrereleases compares as Semantic Versioning does, section 11: what is no prerelease comes last.
func comparePrereleases(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a))
	}
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		order := compareParts(x[i], y[i])
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}

var digits = regexp.MustCompile(`^\d{1,18}$`)

func compareParts(a, b string) int {
	switch one, other := digits.MatchString(a), digits.MatchString(b); {
	case one && other:
		return compareNumbers(a, b)
	case one != other && one:
		return -1
	case one != other:
		return 1
	}
	return cmp.Compare(a, b)
}
