package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"kist/admin/console"
	"kist/admin/exit"
	"kist/admin/socket"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/kv"
	"kist/kv/journal"
)

type doctorCommand struct {
	ResetClock bool `help:"Set the store's time back to this machine's clock, after the clock was far ahead for a while."`
}

// A Finding is one thing that doctor looked at.
type Finding struct {
	What   string `json:"what"`
	State  state  `json:"state"`
	Text   string `json:"text"`
	Change string `json:"change,omitempty"` // what to do about it
}

type state string

const (
	well    state = "ok"
	unusual state = "warning" // works, and may not be what is wanted
	wrong   state = "problem"
)

// About is what a running server tells of itself.
type About struct {
	Version        string         `json:"version"`
	Base           string         `json:"base"`
	Content        string         `json:"content,omitempty"` // the origin for content, if it is another
	Listen         string         `json:"listen"`
	Secure         bool           `json:"secure"`              // it speaks TLS there
	TLSDomain      []string       `json:"tlsDomain,omitempty"` // names that it gets certificates for
	MaxUpload      int64          `json:"maxUpload"`
	TrustedProxies []netip.Prefix `json:"trustedProxies"`
	GCDelay        time.Duration  `json:"gcDelay"`
	Now            time.Time      `json:"now"` // the store's
	// Doubt is nil if the machine's clock is believed.
	Doubt   *kv.ClockDoubt   `json:"doubt,omitempty"`
	Probe   string           `json:"probe"` // a token for one minute
	Journal kv.JournalHealth `json:"journal"`
}

// checkup gathers findings.
type checkup struct {
	c   *Call
	all []Finding
}

func (d *checkup) well(what, format string, args ...any) {
	d.all = append(d.all, Finding{what, well, fmt.Sprintf(format, args...), ""})
}

func (d *checkup) say(s state, what, text, change string) {
	d.all = append(d.all, Finding{what, s, text, change})
}

func (cmd doctorCommand) Run(c *Call) error {
	if cmd.ResetClock {
		return resetClock(c)
	}
	if there, err := hasData(c.DataDir); err != nil {
		return err
	} else if !there {
		return exit.Absent("data directory at", c.DataDir)
	}
	d := &checkup{c: c}
	d.server()
	d.disk()
	d.modes()
	d.backup()
	d.copies()
	if err := d.truth(); err != nil {
		return err
	}
	var text strings.Builder
	bad := 0
	for _, f := range d.all {
		fmt.Fprintf(&text, "%-8s %s: %s", f.State, f.What, console.Printable(f.Text))
		if f.Change != "" {
			fmt.Fprintf(&text, "\n         → %s", console.Printable(f.Change))
		}
		text.WriteByte('\n')
		if f.State == wrong {
			bad++
		}
	}
	if err := c.say(d.all, "%s", strings.TrimSuffix(text.String(), "\n")); err != nil || bad == 0 {
		return err
	}
	return foundProblems(bad, "")
}

// resetClock sets the store's time to the machine's clock, in the running
// server or in its data directory.
func resetClock(c *Call) error {
	client, err := c.connect(context.Background(), false)
	if err != nil {
		return err
	}
	var done kv.ClockReset
	if err := errors.Join(client.call(context.Background(), http.MethodPost, "/clock", nothing{}, &done), client.close()); err != nil {
		return err
	}
	const layout = "2006-01-02 15:04:05"
	return c.say(done, `The store's time is %s; it was %s.
%s open again, though webhooks were told that they had expired; %s now dated today.
What was removed because its time had come stays removed: sessions, unfinished uploads, codes for new devices.
If items were unshared or removed by hand meanwhile, or limits of views were spent, that stays too.`,
		done.Now.Local().Format(layout), done.Was.Local().Format(layout),
		fmt.Sprintf("%d %s", done.Reopened, console.Word(done.Reopened == 1, "item is", "items are")),
		fmt.Sprintf("%d %s", done.Redated, console.Word(done.Redated == 1, "record of the time ahead is", "records of the time ahead are")))
}

// server asks the running server, by its socket and by its public address.
func (d *checkup) server() {
	client, err := d.c.running(context.Background())
	if err != nil && !errors.Is(err, socket.ErrNobody) {
		d.say(wrong, "server", "it cannot be asked: "+err.Error(), "run this command as the user of the server or as root")
		return
	}
	if err != nil {
		d.say(unusual, "server", "no server is running on this data directory", "start it with kist serve to have its address checked too")
		return
	}
	var about About
	var targets []Target
	err = errors.Join(
		client.call(context.Background(), http.MethodGet, "/about", nothing{}, &about),
		client.call(context.Background(), http.MethodGet, "/webhooks", nothing{}, &targets), client.close())
	if err != nil {
		d.say(wrong, "server", "it does not tell of itself: "+err.Error(), "use the kist binary of the server's version")
		return
	}
	d.well("server", "version %s listens on %s", about.Version, about.Listen)
	if about.Doubt != nil {
		d.say(wrong, "clock", fmt.Sprintf("it jumped to %s and is not believed yet; the store's time is %s", about.Doubt.Clock.Format(time.RFC3339), about.Now.Format(time.RFC3339)),
			fmt.Sprintf("set the clock (timedatectl set-ntp true); a clock that stays where it is is believed in %s", about.Doubt.Wait.Round(time.Minute)))
	} else if ahead := time.Until(about.Now); ahead > time.Minute {
		d.say(wrong, "clock", fmt.Sprintf("the store has seen a time %s ahead of the clock and stays there until the clock catches up", ahead.Round(time.Second)),
			"if this machine's clock is right, run: kist doctor --reset-clock; else set it (timedatectl set-ntp true); what expires does so early until then")
	} else {
		d.well("clock", "%s", time.Now().Format(time.RFC3339))
	}
	d.journal(about.Journal)
	d.address(about)
	if about.Content != "" {
		d.content(about)
	}
	d.webhooks(targets)
}

// journal tells what the running server has seen when it read its journal.
func (d *checkup) journal(h kv.JournalHealth) {
	damage := strings.Join(h.Damaged, "; ")
	switch {
	case damage == "":
	case h.Healed.IsZero():
		d.say(wrong, "journal", damage+"; a new one could not be written", "run kist backup DEST now, while the server runs, and look at the disk and at the server's log")
	default:
		d.say(unusual, "journal", fmt.Sprintf("%s; that was healed at %s and nothing was lost", damage, h.Healed.Format(time.RFC3339)),
			"look at the health of the disk (smartctl -a) and of the memory: something has changed bytes that were written")
	}
}

// webhooks tells which targets did not take what was sent to them last.
func (d *checkup) webhooks(targets []Target) {
	failing := 0
	for _, t := range targets {
		if t.Failures == 0 && t.Paused.IsZero() {
			continue
		}
		failing++
		host := t.URL // the rest may be a secret
		if u, err := url.Parse(t.URL); err == nil {
			host = u.Host
		}
		what := fmt.Sprintf("%q of %s, to %s, fails: %s", t.Name, t.User, host, t.Error)
		change := "look at the target, and at the log of the webhook in the app; a target in your own network needs --allow-outbound"
		if !t.Paused.IsZero() {
			d.say(wrong, "webhook", fmt.Sprintf("%s; nothing is sent since %s", what, t.Paused.Format(time.RFC3339)), change+"; test it there to go on")
		} else {
			d.say(unusual, "webhook", what, change)
		}
	}
	if n := len(targets); n > 0 && failing == 0 {
		d.well("webhooks", "all of %d take what is sent to them", n)
	}
}

// probeTime bounds one request to the public address.
const probeTime = 15 * time.Second

// address looks at the base URL from outside, as far as that goes from here.
func (d *checkup) address(about About) {
	base, err := url.Parse(about.Base)
	if err != nil {
		d.say(wrong, "base URL", err.Error(), "set --base-url")
		return
	}
	host := base.Hostname()
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		d.say(unusual, "base URL", about.Base+" can only be reached from this machine, and shared links begin with it",
			"put a reverse proxy before kist and set --base-url to its address")
	}
	seen := d.reach("base URL", about.Base, about)
	if seen == nil {
		return
	}
	d.well("base URL", "%s leads here", about.Base)
	if seen.Refused {
		d.say(wrong, "proxy", fmt.Sprintf("requests arrive with Host %q, not %q, and are refused with status 421", seen.Host, base.Host),
			"have the proxy pass the Host on (nginx: proxy_set_header Host $http_host), or tell it in X-Forwarded-Host and trust the proxy")
	} else if seen.Host != base.Host {
		d.say(unusual, "proxy", fmt.Sprintf("requests arrive with Host %q, not %q", seen.Host, base.Host), "nothing has to change: kist makes its links of --base-url")
	}
	peer, err := netip.ParseAddr(seen.Peer)
	trusted := err != nil && len(about.TrustedProxies) > 0
	for _, p := range about.TrustedProxies {
		trusted = trusted || err == nil && p.Contains(peer.Unmap())
	}
	switch {
	case seen.Forwarded && !trusted:
		from := seen.Peer
		if from == "" {
			from = "127.0.0.1"
		}
		d.say(wrong, "proxy", "requests come by way of a proxy that is not trusted: all visitors look alike, and limits of guesses hold for all together",
			"set --trusted-proxies "+from)
	case !seen.Forwarded && trusted && len(about.TrustedProxies) > 0:
		d.say(wrong, "proxy", "the proxy is trusted but does not say for whom it asks", "have it set X-Forwarded-For")
	case seen.Forwarded && seen.Proto != "" && !strings.EqualFold(seen.Proto, base.Scheme):
		d.say(unusual, "proxy", fmt.Sprintf("it says that visitors use %s, and the base URL is %s", seen.Proto, base.Scheme),
			"set --base-url to the address that visitors use, or correct X-Forwarded-Proto")
	case seen.Forwarded && seen.Proto == "" && base.Scheme == "https":
		d.say(unusual, "proxy", "it does not say whether visitors use HTTPS, so browsers are not told to stay with it", "have it set X-Forwarded-Proto")
	case seen.Forwarded:
		d.well("proxy", "it says for whom it asks; this request was taken to come from %s", seen.Client)
	default:
		d.well("proxy", "none in between")
	}
	d.bodies(about.Base+"/healthz/"+about.Probe, about.MaxUpload)
}

// reach asks the server at an address of its and says why if it does not
// answer there: the result is nil then.
func (d *checkup) reach(what, address string, about About) *seen {
	seen, status, err := probe(http.MethodGet, address+"/healthz/"+about.Probe, 0)
	switch {
	case err != nil:
		d.say(wrong, what, fmt.Sprintf("%s cannot be reached from here (%v)", address, err),
			"look at the name's address, the proxy and its certificate; if only this machine cannot reach it, ask from another")
		return nil
	case status != http.StatusOK || seen == nil:
		change := "have the proxy pass every path on, unchanged, to " + about.Listen
		if u, err := url.Parse(address); err == nil && u.Path != "" {
			change = fmt.Sprintf("have the proxy pass every path below %s on to %s", u.Path, about.Listen)
		}
		d.say(wrong, what, fmt.Sprintf("%s is answered with status %d, not by this server", address, status), change)
		return nil
	}
	return seen
}

// content looks at the origin for content. A proxy that does not tell under
// which host it was asked makes a loop of it: the base sends there.
func (d *checkup) content(about About) {
	seen := d.reach("content URL", about.Content, about)
	switch {
	case seen == nil:
	case !seen.Apart:
		d.say(wrong, "content URL", fmt.Sprintf("requests to %s arrive with Host %q, as if they were for the base URL", about.Content, seen.Host),
			"have the proxy pass the Host on, or tell it in X-Forwarded-Host and trust the proxy")
	default:
		d.well("content URL", "%s leads here", about.Content)
	}
}

// bodies finds out how large a body the proxy lets through. None is sent: a
// proxy says so when it sees the length (RFC 9110, section 10.1.1).
func (d *checkup) bodies(address string, limit int64) {
	passes := int64(0)
	for _, n := range []int64{1 << 20, 10 << 20, 100 << 20, 1 << 30, limit} {
		if n > limit {
			continue
		}
		_, status, err := probe(http.MethodPost, address, n)
		switch {
		case status == http.StatusRequestEntityTooLarge:
			d.say(wrong, "uploads", fmt.Sprintf("the proxy refuses bodies of %s; %s pass, and kist takes up to %s", console.Bytes(n), console.Bytes(passes), console.Bytes(limit)),
				"raise the proxy's limit (nginx: client_max_body_size 0; Apache: LimitRequestBody 0), or lower --max-upload-size")
			return
		case err != nil || status != http.StatusOK:
			d.say(unusual, "uploads", fmt.Sprintf("it cannot be found out whether bodies of %s pass (status %d, %v)", console.Bytes(n), status, err), "try an upload")
			return
		}
		passes = n
	}
	d.well("uploads", "bodies up to %s pass", console.Bytes(limit))
}

// probe asks the server by its public address. A body of the length is
// announced and not sent.
func probe(method, address string, length int64) (*seen, int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	var body io.Reader = http.NoBody
	if length > 0 {
		body = io.LimitReader(withheld{ctx}, length)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, 0, err
	}
	if length > 0 {
		req.ContentLength = length
		req.Header.Set("Expect", "100-continue")
	}
	t := &http.Transport{ExpectContinueTimeout: probeTime, DisableKeepAlives: true}
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address has the token
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var s seen
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(text, &s) != nil || !bytes.Contains(text, []byte(`"forwarded"`)) {
		return nil, resp.StatusCode, err
	}
	return &s, resp.StatusCode, nil
}

// seen is what the server says it saw of a probe.
type seen struct {
	Peer, Client string
	Forwarded    bool
	Proto        string // X-Forwarded-Proto
	Host         string
	Apart        bool
	Refused      bool // other requests for this host are refused
}

// withheld is a body that never comes.
type withheld struct{ ctx context.Context }

func (w withheld) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

// disk looks at the room.
func (d *checkup) disk() {
	room, err := disk.Space(d.c.DataDir)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		d.say(wrong, "disk", "its room cannot be found out: "+err.Error(), "look at the disk")
		return
	}
	keep := kv.Reserve(room.Total)
	text := fmt.Sprintf("%s of %s are free", console.Bytes(int64(room.Free)), console.Bytes(int64(room.Total)))
	change := "make room: remove files and run kist gc --now, or move the data directory to a larger disk"
	switch {
	case room.Free < keep:
		d.say(wrong, "disk", text+"; no uploads are taken below "+console.Bytes(int64(keep)), change)
	case room.Free < 4*keep:
		d.say(unusual, "disk", text+"; uploads end at "+console.Bytes(int64(keep)), change)
	default:
		d.well("disk", "%s", text)
	}
	if room.Files > 0 && room.FreeFiles < room.Files/100 {
		d.say(wrong, "disk", fmt.Sprintf("only %d more files can be made (inodes)", room.FreeFiles), "remove small files elsewhere on this disk, or move the data directory")
	}
}

// modes looks who else may read.
func (d *checkup) modes() {
	if runtime.GOOS == "windows" {
		return
	}
	var open []string
	err := filepath.WalkDir(d.c.DataDir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another command's scratch folder
		}
		if err != nil {
			return err
		}
		if e.IsDir() && filepath.Dir(path) == filepath.Join(d.c.DataDir, "blobs") {
			return fs.SkipDir // below a folder that was looked at
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 && info.Mode()&fs.ModeSymlink == 0 {
			open = append(open, path)
		}
		return err
	})
	switch {
	case err != nil:
		d.say(wrong, "files", err.Error(), "run this as the user that the server runs as")
	case len(open) > 0:
		d.say(unusual, "files", fmt.Sprintf("others on this machine may reach %d files and folders, such as %s", len(open), open[0]), "run: chmod -R go= "+d.c.DataDir)
	default:
		d.well("files", "no other user of this machine can read them")
	}
}

// When a backup is old.
const oldBackup = 7 * 24 * time.Hour

func (d *checkup) backup() {
	at, err := lastBackup(d.c.DataDir)
	age := time.Since(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.say(unusual, "backup", "kist backup was never run here", "run kist backup DEST now and then, or copy the data directory with your own tool")
	case err != nil:
		d.say(wrong, "backup", err.Error(), "look at the file "+backupMark)
	case age > oldBackup:
		d.say(unusual, "backup", fmt.Sprintf("the latest is %d days old", int(age.Hours()/24)), "run kist backup DEST, or copy the data directory with your own tool")
	default:
		d.well("backup", "the latest is of %s", at.Local().Format("2006-01-02 15:04"))
	}
}

// shortCopy is how long a copy must be able to take.
const shortCopy = 6 * time.Hour

// copies says how long a copy of the running server's directory may take.
func (d *checkup) copies() {
	r, err := kv.Retention(d.c.DataDir)
	if err != nil {
		return // truth says what is wrong with the journal
	}
	limit := "time"
	if r.For < journal.Keep {
		limit = "free space"
	}
	text := fmt.Sprintf("at the current rate of %s/h a copy may take up to %d h (limited by %s)", console.Bytes(r.PerHour), int(r.For.Hours()), limit)
	if r.For < shortCopy {
		d.say(unusual, "copies", text, "make room on the disk, or use kist backup, which does not depend on how long it takes")
		return
	}
	d.well("copies", "%s", text)
}

// sample is how many contents are read.
const sample = 50

// truth reads the journal, and some of the contents.
func (d *checkup) truth() error {
	change := "run kist verify, which reads all data"
	j, err := journal.Read(filepath.Join(d.c.DataDir, "journal"), kv.Format)
	if err != nil {
		d.say(wrong, "journal", err.Error(), change)
		return nil
	}
	defer j.Close()
	holders := kv.Holders{}
	done, broken := j.Replay(holders.Begin, holders.Note)
	if broken != nil {
		d.say(wrong, "journal", broken.Error(), change)
		clear(holders) // of which some may be gone
	} else {
		d.well("journal", "intact; %s, %d of them since the latest usable snapshot", console.Count(done.Seq, "commit"), done.Records)
	}
	store, err := blobs.Read(filepath.Join(d.c.DataDir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		d.bare(len(holders))
		return nil
	}
	if err != nil {
		return err
	}
	defer store.Close()
	gone := 0
	for ref := range holders.Refs() {
		if _, err := store.Stat(ref); errors.Is(err, fs.ErrNotExist) {
			gone++
		}
	}
	d.bare(gone)
	var some []blobs.Ref
	n := 0
	for info, err := range store.All() {
		if err != nil {
			d.say(unusual, "contents", err.Error(), "move it away")
			continue
		}
		if n++; len(some) < sample {
			some = append(some, info.Ref)
		} else if i := rand.IntN(n); i < sample { // #nosec G404 -- a sample, no secret
			some[i] = info.Ref
		}
	}
	bad := 0
	heal := change + "; to repair it, upload the same file again, or run kist restore --missing with a backup"
	for i, q := range store.Damaged() {
		if bad++; i < sample {
			d.say(wrong, "contents", fmt.Sprintf("the bytes of %s are damaged, which was found at %s", q.Ref, q.Found.UTC().Format(time.RFC3339)), heal)
		}
	}
	if more := bad - sample; more > 0 {
		d.say(wrong, "contents", fmt.Sprintf("%d more are damaged", more), heal)
	}
	for _, ref := range some {
		if store.Quarantined(ref) != nil {
			continue
		}
		if err := store.Check(ref); errors.Is(err, blobs.ErrDamaged) {
			bad++
			d.say(wrong, "contents", fmt.Sprintf("the bytes of %s are damaged", ref), heal)
		}
	}
	if bad == 0 {
		d.well("contents", "%d of %d were read and are intact", len(some), n)
	}
	return nil
}

// bare tells of files whose content is not there.
func (d *checkup) bare(n int) {
	if n > 0 {
		d.say(wrong, "contents", console.Count(n, "file")+console.Word(n == 1, " is without its bytes and answers", " are without their bytes and answer")+" 404",
			"kist verify names them; upload the same files again, or run kist restore --missing with a backup")
	}
}
