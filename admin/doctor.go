package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"kist/admin/console"
	"kist/admin/control"
	"kist/admin/ops"
	"kist/admin/serve"
	"kist/admin/socket"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/record"
)

type doctorCommand struct {
	Store string `placeholder:"ADDRESS" help:"Also check this object store, such as s3://bucket/prefix."`
	serve.AccessFlags
	CheckUpdate string `placeholder:"URL" help:"Also ask this address once which version is the newest, and compare: a file latest.json of the releases. Nothing is asked without this flag."`
}

// checkup is a Checkup that also asks the running server.
type checkup struct {
	ops.Checkup
	c *Call
}

func (cmd doctorCommand) Run(c *Call) error {
	if cmd.CheckUpdate != "" {
		if err := checkAddress(cmd.CheckUpdate); err != nil {
			return err
		}
	}
	if err := c.requireData(); err != nil {
		return err
	}
	d := &checkup{ops.Checkup{Dir: c.DataDir}, c}
	d.server(cmd.Store != "")
	if cmd.Store != "" {
		store, err := cmd.Open(cmd.Store)
		if err != nil {
			return err
		}
		if d.Remote(context.Background(), cmd.Store, store, store.Ends, store.Bucket) {
			d.History(context.Background(), cmd.Store, store)
		}
		store.Bucket.Close()
	}
	if err := d.Data(); err != nil {
		return err
	}
	if cmd.CheckUpdate != "" {
		d.update(cmd.CheckUpdate, c.Build.Version, updateClient())
	}

	colours := console.Colours(c.Stdout)
	var text strings.Builder
	bad := 0
	for _, f := range d.Findings {
		state := fmt.Sprintf("%-8s", f.State)
		if colours {
			state = stateColours[f.State] + state + "\x1b[0m"
		}
		fmt.Fprintf(&text, "%s %s: %s", state, f.What, console.Printable(f.Text))
		if f.Change != "" {
			fmt.Fprintf(&text, "\n         → %s", console.Printable(f.Change))
		}
		text.WriteString(notesOf(f))
		text.WriteByte('\n')
		if f.State == ops.Problem {
			bad++
		}
	}
	if err := c.say(d.Findings, "%s", strings.TrimSuffix(text.String(), "\n")); err != nil || bad == 0 {
		return err
	}
	return foundProblems(bad, "")
}

// notesOf are the first lines of what is new in the newest version.
func notesOf(f ops.Finding) string {
	if f.State != ops.Warning || f.Notes == "" {
		return ""
	}
	var b strings.Builder
	n := 0
	for line := range strings.Lines(f.Notes) {
		if n == shownNotes {
			b.WriteString("\n         …")
			break
		}
		n++
		line = strings.TrimRight(line, "\r\n")
		if runes := []rune(line); len(runes) > shownColumns {
			line = string(runes[:shownColumns]) + "…"
		}
		b.WriteString("\n         " + console.Printable(line))
	}
	return b.String()
}

// stateColours are how a terminal is told of the colours green, yellow, and red in bold.
var stateColours = map[ops.State]string{ops.OK: "\x1b[32m", ops.Warning: "\x1b[33m", ops.Problem: "\x1b[1;31m"}

// server asks the running server through its socket and at its public address. With compare
// the server first compares its object store with what should be there.
func (d *checkup) server(compare bool) {
	client, err := control.Running(context.Background(), d.Dir)
	if err != nil && !errors.Is(err, socket.ErrNobody) {
		d.Add(ops.Problem, "server", "it cannot be asked: "+err.Error(),
			"run this command as the user of the server or as root")
		return
	}
	if err != nil {
		d.Add(ops.Warning, "server", "no server is running on this data directory",
			"start it with kist serve to have its address checked too")
		return
	}

	if compare {
		err := client.Call(context.Background(), http.MethodPost, "/store", control.Nothing{}, &control.Nothing{})
		if err != nil {
			d.Add(ops.Warning, "object store",
				"the server could not compare it with what should be there: "+err.Error(),
				"look at the store and at the server's log, and run this command again")
		}
	}
	got, err := question(client)
	err = errors.Join(err, client.Close())
	if err != nil {
		d.Add(ops.Problem, "server", "it does not answer: "+err.Error(), "use the kist binary of the server's version")
		return
	}

	about := got.about
	d.Storeless = about.Store == nil
	d.OK("server", "version %s listens on %s", about.Version, about.Listen)
	d.clock(about)
	d.journal(about.Journal)
	if about.Store != nil {
		d.shipped(about.Store)
	}
	if about.Backups != nil {
		d.scheduled(about.Backups)
	}
	d.address(about)
	if about.Content != "" {
		d.content(about)
	}
	d.webhooks(got.targets)
	if about.Issuer != "" {
		d.issuer(got.issuer)
	}
}

// answers are what a running server said.
type answers struct {
	targets []target
	about   control.About
	issuer  control.SignInHealth // if it has one
}

// question asks a running server for everything that is checked.
func question(client *control.Client) (got answers, err error) {
	got.targets, err = listTargets(client)
	if err != nil {
		return got, err
	}
	err = client.Call(context.Background(), http.MethodGet, "/about", control.Nothing{}, &got.about)
	if err != nil || got.about.Issuer == "" {
		return got, err
	}
	err = client.Call(context.Background(), http.MethodPost, "/signin", control.Nothing{}, &got.issuer)
	return got, err
}

// clock compares the clocks of the server and of its store.
func (d *checkup) clock(about control.About) {
	if about.Doubt != nil {
		clock, now := about.Doubt.Clock.Format(time.RFC3339), about.Now.Format(time.RFC3339)
		d.Add(ops.Problem, "clock",
			fmt.Sprintf("it jumped to %s and is not believed yet; the store's time is %s", clock, now),
			fmt.Sprintf("set the clock (timedatectl set-ntp true); a clock that stays where it is is believed in %s",
				about.Doubt.Wait.Round(time.Minute)))
	} else if ahead := time.Until(about.Now); ahead > time.Minute {
		d.Add(ops.Problem, "clock",
			fmt.Sprintf("the store has seen a time %s ahead of the clock and stays there until the clock catches up",
				ahead.Round(time.Second)),
			"if this machine's clock is wrong, set it (timedatectl set-ntp true); if it is right, wait, "+
				"or do what kist help repair says; what expires does so early until then")
	} else {
		d.OK("clock", "%s", time.Now().Format(time.RFC3339))
	}
}

// scheduled reports how the backups by schedule are doing.
func (d *checkup) scheduled(st *datadir.BackupStatus) {
	const layout = "2006-01-02 15:04"
	if st.Error != "" {
		d.Add(ops.Problem, "backups by schedule", strings.TrimSuffix(st.Error, "."),
			"look at "+st.Folder+" and at the server's log; the next one is made at "+st.Next.Local().Format(layout))
		return
	}
	last := "none is made yet"
	if !st.Last.IsZero() {
		last = "the latest is of " + st.Last.Local().Format(layout)
	}
	d.OK("backups by schedule", "at %s to %s, keeping %s, %s; the next one at %s",
		st.At, st.Folder, st.Keep, last, st.Next.Local().Format(layout))
}

// issuer reports what came of a question to the issuer of OpenID Connect.
func (d *checkup) issuer(h control.SignInHealth) {
	switch {
	case h.Problem != "":
		d.Add(ops.Problem, "issuer", fmt.Sprintf("%s: %s", h.Issuer, strings.TrimSuffix(h.Problem, ".")),
			"look at --oidc-issuer and at the issuer; users with a password can sign in meanwhile, "+
				"unless --password-login is off")
		return
	case h.Refused != "":
		d.Add(ops.Problem, "issuer", fmt.Sprintf("%s refuses to start a sign-in (%s)", h.Issuer, h.Refused),
			fmt.Sprintf("there, look at the client's id and allow the redirect address %s", h.Redirect))
	case h.Ahead.Abs() > issuerSkew:
		d.Add(ops.Problem, "issuer",
			fmt.Sprintf("its clock differs by %s, and its tokens count as expired or not valid yet",
				h.Ahead.Abs().Round(time.Second)),
			"set both clocks (timedatectl set-ntp true)")
	default:
		d.OK("issuer", "%s answers and sends browsers back to %s", h.Issuer, h.Redirect)
	}
}

// issuerSkew is how much the clocks may differ. Tokens are accepted for a minute longer than they say.
const issuerSkew = 45 * time.Second

// journal reports what the running server found when it read its journal.
func (d *checkup) journal(h kv.JournalHealth) {
	damage := strings.Join(h.Damaged, "; ")
	switch {
	case damage == "":
	case h.Healed.IsZero():
		d.Add(ops.Problem, "journal", damage+"; a new one could not be written",
			"run kist backup DEST now, while the server runs, and look at the disk and at the server's log")
	default:
		d.Add(ops.Warning, "journal",
			fmt.Sprintf("%s; that was healed at %s and nothing was lost", damage, h.Healed.Format(time.RFC3339)),
			"look at the health of the disk (smartctl -a) and of the memory: something has changed bytes that were written")
	}
}

// shipped reports how far the running server is with its object store.
func (d *checkup) shipped(h *control.StoreHealth) {
	gives := fmt.Sprintf("a restore from %s gives everything", h.Address)
	if h.Compared.IsZero() {
		gives = fmt.Sprintf("everything was sent to %s; whether all of it is still there is not known yet", h.Address)
	}
	if h.Commits > 0 {
		gives += fmt.Sprintf(" up to %s ago; %s not there yet", h.Lag.Round(time.Second),
			record.Plural(h.Commits, "commit")+console.Word(h.Commits == 1, " is", " are"))
	}
	change := "look at the store, and run: kist doctor --store " + h.Address

	if h.Healed != "" {
		d.Add(ops.Warning, "object store", h.Healed+"; the server has put everything there again",
			"find out what removes or changes objects in the bucket; moments of the past may be lost: kist verify "+h.Address)
	}
	switch {
	case h.Lacks != "":
		d.Add(ops.Problem, "copying to the object store",
			fmt.Sprintf("a restore from %s gives %s", h.Address, h.Lacks), change)
	case h.Problem != "":
		problem := h.Problem + "; last write: " + when(h.LastSlot)
		if !h.Complete {
			problem += "; when the store can be reached, everything is copied again, " +
				"because the history there has a gap or is not complete yet"
		}
		d.Add(ops.Problem, "copying to the object store", problem, change)
	case !h.Complete:
		d.Add(ops.Warning, "copying to the object store",
			"everything is still being copied to "+h.Address+", and a restore from there may give nothing yet",
			"wait until the log says that everything is in the object store")
	case h.Lag > time.Minute:
		d.Add(ops.Warning, "copying to the object store", gives, change)
	default:
		if !h.Oldest.IsZero() {
			gives += ", or any moment since " + when(h.Oldest)
		}
		d.OK("copying to the object store", "%s; last write: %s, last snapshot: %s",
			gives, when(h.LastSlot), when(h.LastSnapshot))
	}

	if h.Damage != "" && h.Lacks == "" {
		d.Add(ops.Problem, "history in the object store",
			h.Damage+"; moments around it may be lost, and old files are not removed",
			"run kist verify "+h.Address+"; if you have a copy of the bucket, put the object back from there")
	}
	if !h.Exact && h.Problem == "" {
		d.Add(ops.Warning, "copying to the object store",
			"the store lets several writers win, so no other server can take over",
			"use it as a backup only, or another version of the store")
	}
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// target is where a webhook sends events.
type target struct {
	user     string
	Name     string
	URL      string
	Enabled  bool
	Failures int        `json:"consecutiveFailures"`
	Error    string     `json:"lastError"`
	Paused   *time.Time `json:"pausedAt"` // nil if it is not paused
}

// listTargets lists the targets of everyone's enabled webhooks.
func listTargets(from *control.Client) ([]target, error) {
	users, err := listUsers(from)
	if err != nil {
		return nil, err
	}
	var all []target
	for _, u := range users {
		some, err := call[[]target](from, http.MethodGet, as(u.Name, "/api/v1/integrations/webhooks"), nil)
		if err != nil {
			return nil, err
		}
		for _, t := range some {
			t.user = u.Name
			if t.Enabled {
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// webhooks reports the targets that did not accept the latest delivery.
func (d *checkup) webhooks(targets []target) {
	failing := 0
	for _, t := range targets {
		if t.Failures == 0 && t.Paused == nil {
			continue
		}
		failing++
		host := t.URL // the rest may be a secret
		if u, err := url.Parse(t.URL); err == nil {
			host = u.Host
		}
		what := fmt.Sprintf("%q of %s, to %s, fails: %s", t.Name, t.user, host, t.Error)
		change := "look at the target, and at the log of the webhook in the app; " +
			"a target in your own network needs --allow-outbound"
		if t.Paused != nil {
			d.Add(ops.Problem, "webhook",
				fmt.Sprintf("%s; nothing is sent since %s", what, t.Paused.Format(time.RFC3339)),
				change+"; test it there to go on")
		} else {
			d.Add(ops.Warning, "webhook", what, change)
		}
	}
	if n := len(targets); n > 0 && failing == 0 {
		d.OK("webhooks", "all of %d take what is sent to them", n)
	}
}

// probeTime bounds one request to the public address.
const probeTime = 15 * time.Second

// address checks the base URL from outside, as far as this machine can.
func (d *checkup) address(about control.About) {
	base, err := url.Parse(about.Base)
	if err != nil {
		d.Add(ops.Problem, "base URL", err.Error(), "set --base-url")
		return
	}
	if isLocal(base) {
		d.Add(ops.Warning, "base URL",
			about.Base+" can only be reached from this machine, and shared links begin with it",
			"put a reverse proxy in front of kist and set --base-url to its address")
	}

	seen := d.reach("base URL", about.Base, about)
	if seen == nil {
		return
	}
	d.OK("base URL", "%s leads here", about.Base)
	d.proxy(seen, base, about)
	d.bodies(about.Base+"/healthz/"+about.Probe, about.MaxUpload)
}

// proxy checks what a proxy in between passes on of a request to the base URL.
func (d *checkup) proxy(seen *seen, base *url.URL, about control.About) {
	if seen.Refused {
		d.Add(ops.Problem, "proxy",
			fmt.Sprintf("requests arrive with Host %q, not %q, and are refused with status 421", seen.Host, base.Host),
			"have the proxy pass the Host on (nginx: proxy_set_header Host $http_host), "+
				"or tell it in X-Forwarded-Host and trust the proxy")
	} else if seen.Host != base.Host {
		d.Add(ops.Warning, "proxy", fmt.Sprintf("requests arrive with Host %q, not %q", seen.Host, base.Host),
			"nothing has to change: kist makes its links of --base-url")
	}

	peer, err := netip.ParseAddr(seen.Peer)
	trusted := err != nil && len(about.TrustedProxies) > 0
	for _, p := range about.TrustedProxies {
		trusted = trusted || err == nil && p.Contains(peer.Unmap())
	}
	switch {
	case seen.Forwarded && !trusted:
		d.Add(ops.Problem, "proxy",
			"requests come by way of a proxy that is not trusted: all visitors look alike, "+
				"and limits of guesses hold for all together",
			"set --trusted-proxies "+cmp.Or(seen.Peer, "127.0.0.1"))
	case !seen.Forwarded && trusted && len(about.TrustedProxies) > 0 && !own(base, about):
		d.Add(ops.Problem, "proxy", "the proxy is trusted but does not say for whom it asks",
			"have it set X-Forwarded-For")
	case seen.Forwarded && seen.Proto != "" && !strings.EqualFold(seen.Proto, base.Scheme):
		d.Add(ops.Warning, "proxy",
			fmt.Sprintf("it says that visitors use %s, and the base URL is %s", seen.Proto, base.Scheme),
			"set --base-url to the address that visitors use, or correct X-Forwarded-Proto")
	case seen.Forwarded && seen.Proto == "" && base.Scheme == "https":
		d.Add(ops.Warning, "proxy",
			"it does not say whether visitors use HTTPS, so browsers are not told to stay with it",
			"have it set X-Forwarded-Proto")
	case seen.Forwarded:
		d.OK("proxy", "it says for whom it asks; this request was taken to come from %s", seen.Client)
	default:
		d.OK("proxy", "none in between")
	}
}

// own reports whether the base URL is the address of this machine at which the server itself listens. The proxy may be
// trusted before it is there.
func own(base *url.URL, about control.About) bool {
	_, port, err := net.SplitHostPort(about.Listen)
	if err != nil { // a socket
		return false
	}
	scheme := console.Word(about.Secure, "https", "http")
	usual := map[string]string{"http": "80", "https": "443"}[scheme]
	return isLocal(base) && base.Scheme == scheme && cmp.Or(base.Port(), usual) == port
}

// isLocal reports whether an address can only be reached from the machine that it is on.
func isLocal(u *url.URL) bool {
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// reach asks the server at one of its addresses. If the server does not answer there,
// reach adds a finding and returns nil.
func (d *checkup) reach(what, address string, about control.About) *seen {
	seen, status, err := probe(http.MethodGet, address+"/healthz/"+about.Probe, 0)
	switch {
	case err != nil:
		d.Add(ops.Problem, what, fmt.Sprintf("%s cannot be reached from here (%v)", address, err),
			"look at the name's address, the proxy and its certificate; "+
				"if only this machine cannot reach it, ask from another")
		return nil
	case status != http.StatusOK || seen == nil:
		change := "have the proxy pass every path on, unchanged, to " + about.Listen
		if u, err := url.Parse(address); err == nil && u.Path != "" {
			change = fmt.Sprintf("have the proxy pass every path below %s on to %s", u.Path, about.Listen)
		}
		d.Add(ops.Problem, what,
			fmt.Sprintf("%s is answered with status %d, not by this server", address, status), change)
		return nil
	}
	return seen
}

// content checks the origin for content. If the proxy does not pass the host on, a
// request for content is redirected to the same address forever.
func (d *checkup) content(about control.About) {
	seen := d.reach("content URL", about.Content, about)
	switch {
	case seen == nil:
	case !seen.Apart:
		d.Add(ops.Problem, "content URL",
			fmt.Sprintf("requests to %s arrive with Host %q, as if they were for the base URL",
				about.Content, seen.Host),
			"have the proxy pass the Host on, or tell it in X-Forwarded-Host and trust the proxy")
	default:
		d.OK("content URL", "%s leads here", about.Content)
	}
}

// bodies checks how large a body the proxy accepts. It sends no body: a proxy refuses
// when it sees the length (RFC 9110, section 10.1.1).
func (d *checkup) bodies(address string, limit int64) {
	passes := int64(0)
	for _, n := range []int64{1 << 20, 10 << 20, 100 << 20, 1 << 30, limit} {
		if n > limit {
			continue
		}
		_, status, err := probe(http.MethodPost, address, n)
		switch {
		case status == http.StatusRequestEntityTooLarge:
			d.Add(ops.Problem, "uploads",
				fmt.Sprintf("the proxy refuses bodies of %s; %s pass, and kist takes up to %s",
					console.Bytes(n), console.Bytes(passes), console.Bytes(limit)),
				"raise the proxy's limit (nginx: client_max_body_size 0; Apache: LimitRequestBody 0), "+
					"or lower --max-upload-size")
			return
		case err != nil || status != http.StatusOK:
			d.Add(ops.Warning, "uploads",
				fmt.Sprintf("it cannot be found out whether bodies of %s pass (status %d, %v)",
					console.Bytes(n), status, err),
				"try an upload")
			return
		}
		passes = n
	}
	d.OK("uploads", "bodies up to %s pass", console.Bytes(limit))
}

// probe asks the server at its public address. It announces a body of the length but
// does not send it.
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
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: t, CheckRedirect: stay}
	resp, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address, which has the token
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var s seen
	if err != nil || resp.StatusCode != http.StatusOK ||
		json.Unmarshal(text, &s) != nil || !bytes.Contains(text, []byte(`"forwarded"`)) {
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
