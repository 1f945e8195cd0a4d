// Kist keeps and shares files, notes and links: one program, one folder of
// data. This file runs the server; package admin holds the other commands.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"kist/admin"
	"kist/admin/exit"
	"kist/admin/process"
	"kist/admin/socket"
	"kist/blobs"
	"kist/blobs/disk"
	"kist/httpapi"
	"kist/httpapi/captcha"
	"kist/httpapi/outbound"
	"kist/httpapi/public"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/record"
	"kist/search"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() {
	kv.Child()
	var cli struct {
		admin.Globals
		Serve serve `cmd:"" help:"Run the server."`
		admin.Commands
	}
	os.Exit(admin.Main(&cli, &cli.Globals, version))
}

type serve struct {
	Listen         string                 `default:"${listen}" placeholder:"ADDR" help:"Address and port to listen on, or unix:/path of a socket."`
	BaseURL        string                 `name:"base-url" placeholder:"URL" help:"The URL under which visitors reach the server. Every generated link begins with it, and requests for other host names are refused. If absent, it is made from --listen, and every host name is answered."`
	ContentURL     string                 `name:"content-url" placeholder:"URL" help:"A second URL of the server, with a different host name, that serves only uploaded content. If absent, the base URL serves it."`
	TrustedProxies []admin.Network        `placeholder:"NET" help:"Reverse proxies whose X-Forwarded-For, -Proto and -Host headers are trusted: addresses or ranges, separated by commas."`
	TLSCert        string                 `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; read again when it changes."`
	TLSKey         string                 `name:"tls-key" placeholder:"FILE" help:"Key of the certificate in PEM."`
	TLSDomain      []string               `name:"tls-domain" placeholder:"NAME" help:"Get certificates for these host names, separated by commas, from Let's Encrypt. By using this you agree to its terms. Port 443 of these names must lead to --listen."`
	ACMEDirectory  string                 `name:"acme-directory" placeholder:"URL" help:"Get the certificates for --tls-domain from another ACME authority, such as step-ca: the https URL of its directory."`
	ACMEKeyID      string                 `name:"acme-eab-kid" placeholder:"ID" help:"Key id for external account binding, if the authority requires it, as ZeroSSL does."`
	ACMEKey        string                 `name:"acme-eab-key" placeholder:"KEY" help:"That key in base64url. Put it into a file that KIST_ACME_EAB_KEY_FILE names instead: other users can see the command line."`
	WritesPerHour  admin.Size             `default:"4GiB" placeholder:"SIZE" help:"How many bytes of records one user may write in an hour. Files are not counted."`
	MaxUploadSize  admin.Size             `default:"10GiB" placeholder:"SIZE" help:"The largest file that is accepted, such as 500MB or 5GiB."`
	MaxConnections int                    `default:"2000" placeholder:"N" help:"Maximum number of open connections. One address, or one IPv6 /64, may have 100 of them, unless it is a trusted proxy."`
	AllowOutbound  []outbound.Allowed     `placeholder:"HOST" help:"Private hosts, addresses or ranges that the server may connect to for webhooks, bookmarks and remote uploads, separated by commas."`
	Captcha        record.CaptchaProvider `default:"pow" enum:"pow,turnstile,hcaptcha,none" placeholder:"PROVIDER" help:"The captcha for upload requests that ask for one: pow (built in), turnstile, hcaptcha or none. A choice in the admin settings takes precedence."`
	CaptchaSiteKey string                 `placeholder:"KEY" help:"Site key from Turnstile or hCaptcha."`
	CaptchaSecret  string                 `placeholder:"SECRET" help:"Secret from Turnstile or hCaptcha. Put it into a file that KIST_CAPTCHA_SECRET_FILE names instead: other users can see the command line."`
	CaptchaURL     string                 `name:"captcha-verify-url" placeholder:"URL" help:"Where tokens are verified. If absent, the provider's own URL."`
	Metrics        bool                   `help:"Serve Prometheus metrics at /metrics, to requests with an administrator's API key."`
	ExpectData     bool                   `help:"Refuse to start if the data directory has no data yet, for example because a disk is not mounted."`
	GCDelay        admin.Span             `name:"gc-delay" default:"24h" placeholder:"TIME" help:"How long the content of a removed file stays on the disk."`
	Grace          admin.Span             `default:"30s" placeholder:"TIME" help:"How long running requests may take after the signal to stop."`
}

// Run serves until SIGINT or SIGTERM and returns when everything is closed. A
// second signal ends the process at once, which loses nothing acknowledged.
func (cmd *serve) Run(c *admin.Call) (err error) {
	if _, _, err := cmd.addresses(); err != nil { // before anything is opened
		return err
	}
	captcha, err := cmd.captcha()
	if err != nil {
		return err
	}
	if len(cmd.TLSDomain) == 0 && (cmd.ACMEDirectory != "" || cmd.ACMEKeyID != "" || cmd.ACMEKey != "") {
		return exit.Misused("--acme-directory, --acme-eab-kid and --acme-eab-key belong to --tls-domain")
	}
	var secure *tls.Config // nil speaks plain HTTP
	if cmd.secure() {
		if secure, err = cmd.tls(c.DataDir, c.Log); err != nil {
			return err
		}
	}
	process.RaiseThreads()
	if cmd.ExpectData {
		if there, err := c.HasData(); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("there is no data in %s, and --expect-data is set: see that the disk is mounted and --data-dir is right, or start once without it (nothing was changed)", c.DataDir)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	// The last of what is deferred: the second signal is heard until all is
	// closed.
	defer watchSignals(ctx, cancel)()

	starting := &admin.Starting{Listen: cmd.Listen, Secure: secure, Log: c.Log}
	defer func() { err = errors.Join(err, starting.Close()) }()
	store, err := kv.Open(c.DataDir, kv.Options{Log: c.Log, Rebuild: starting.Rebuild, WritesPerHour: int64(cmd.WritesPerHour)})
	if errors.As(err, new(*kv.InUse)) {
		return fmt.Errorf("%w; stop that one first, or choose another --data-dir", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := admin.SweepScratch(c.DataDir); err != nil {
		c.Log.Warn("what a command has left in the data directory could not be removed", "error", err)
	}
	process.PaceGC() // not earlier: opening a large store takes as much memory as it may
	content, err := blobs.OpenIn(c.DataDir)
	if err != nil {
		return fmt.Errorf("cannot open the content: %w", err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	content.OnFailure(func(err error) {
		if err == nil {
			c.Log.Warn("files can be stored again")
			return
		}
		c.Log.Error("files cannot be stored; what is stored can be read", "folder", filepath.Join(c.DataDir, "blobs"), "error", err)
	})
	content.OnDamage(func(ref blobs.Ref, reason error) {
		c.Log.Warn("the stored bytes of a file are damaged; upload the same file again, or run kist restore --missing with a backup", "sha256", ref.String(), "error", reason)
	})

	thumbs, err := thumb.New(filepath.Join(c.DataDir, "cache", "thumbs"))
	if err != nil {
		return fmt.Errorf("cannot open the cache of thumbnails: %w", err)
	}
	defer func() { err = errors.Join(err, thumbs.Close()) }()

	icons, err := thumbs.Icons(filepath.Join(c.DataDir, "cache", "icons"))
	if err != nil {
		return fmt.Errorf("cannot open the cache of icons: %w", err)
	}

	index, err := admin.NewIndex(store, content, c.Log)
	if err != nil {
		return err
	}
	front, err := starting.End()
	if err != nil {
		return err
	}
	defer front.Close()
	cmd.Listen = admin.Bound(cmd.Listen, front)
	base, separate, err := cmd.addresses() // with the port that was bound
	if err != nil {
		return err
	}
	passwords := kv.NewPasswords()
	sweeper := &admin.Sweeper{Store: store, Blobs: content, Delay: time.Duration(cmd.GCDelay), Log: c.Log, Thumbs: thumbs.Sweep, Icons: icons.Sweep}
	scrubber := &blobs.Scrubber{Store: content, Dir: filepath.Join(c.DataDir, "cache", "scrub"), Log: c.Log}
	config := web.Config{
		Store: store, Blobs: content, Passwords: passwords, Thumbs: thumbs, Icons: icons, Search: index,
		Base: base, Content: separate, MaxUpload: int64(cmd.MaxUploadSize), MaxConnections: cmd.MaxConnections, Metrics: cmd.Metrics, Version: version, Log: c.Log, Access: c.Access, Captcha: captcha,
		AnyHost: cmd.BaseURL == "", Outbound: outbound.New(outbound.Options{Allow: cmd.AllowOutbound}), Scrubbed: scrubber.Finished, Absent: sweeper.Absent,
	}
	for _, n := range cmd.TrustedProxies {
		config.TrustedProxies = append(config.TrustedProxies, n.Prefix)
	}
	cmd.doubt(c.Log, base, len(config.TrustedProxies) > 0)
	site, err := httpapi.New(config)
	if err != nil {
		return fmt.Errorf("cannot make the server: %w", err)
	}
	back, err := socket.Listen(c.DataDir)
	if err != nil {
		return err
	}
	link, err := claim(store, base)
	if err != nil {
		return errors.Join(err, back.Close())
	}

	scrubber.Busy = site.Busy
	var work sync.WaitGroup
	work.Go(func() { sweeper.Hourly(ctx) })
	work.Go(func() { scrubber.Run(ctx) })
	work.Go(func() { index.Run(ctx) })
	about := func() admin.About {
		got := admin.About{
			Version: version, Base: base, Content: separate, Listen: cmd.Listen, Secure: secure != nil, TLSDomain: cmd.TLSDomain, MaxUpload: int64(cmd.MaxUploadSize), TrustedProxies: config.TrustedProxies,
			GCDelay: time.Duration(cmd.GCDelay), Now: store.Now(), Probe: site.NewProbe(), Journal: store.JournalHealth(),
		}
		if doubt, ok := store.ClockDoubt(); ok {
			got.Doubt = &doubt
		}
		return got
	}
	office := &http.Server{Handler: admin.Handler(store, passwords, sweeper.Within(ctx), func() (*search.Index, error) { return index, nil }, about, func(fn func(*blobs.Store) error) error { return fn(content) }), ReadHeaderTimeout: time.Minute}
	work.Go(func() {
		if err := office.Serve(back); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the admin socket has ended", "error", err)
		}
	})

	hello := fmt.Sprintf("Kist %s listens on %s and is reachable at %s\n", version, cmd.Listen, base)
	if link != "" {
		hello += fmt.Sprintf("There is no administrator yet. Open this link to create the first administrator:\n%s\n", link)
	}
	fmt.Fprint(c.Stdout, hello) // as one piece, for those who wait for it
	work.Go(func() { process.Supervise(ctx, site.Lives, c.Log) })
	err = site.Serve(ctx, front, secure, time.Duration(cmd.Grace))
	cancel()
	end, done := context.WithTimeout(context.Background(), time.Duration(cmd.Grace))
	defer done()
	if office.Shutdown(end) != nil {
		err = errors.Join(err, office.Close())
	}
	work.Wait()
	_, claimErr := openClaim(store)
	return errors.Join(err, claimErr)
}

// watchSignals calls cancel at the first SIGINT or SIGTERM and ends the process
// at the second; at the first already if ctx has ended on its own. It does so
// until the function it returns is called.
func watchSignals(ctx context.Context, cancel func()) (end func()) {
	signals := make(chan os.Signal, 2) // both are kept, however close together they come
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		case <-ended:
		}
		select {
		case <-signals:
			os.Exit(1)
		case <-ended:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
		cancel()
	}
}

// doubt warns of a scheme in the base URL that visitors cannot use, as far as
// that is known at the start.
func (cmd *serve) doubt(log *slog.Logger, base string, proxies bool) {
	switch https := strings.HasPrefix(base, "https:"); {
	case https && !cmd.secure() && !proxies:
		log.Warn("the base URL is https, but this server speaks plain HTTP and trusts no proxy; set --trusted-proxies to the address of the proxy that speaks HTTPS, or --tls-cert or --tls-domain", "address", base)
	case !https && cmd.secure():
		log.Warn("the base URL is http, but this server speaks HTTPS; set --base-url to the https address", "address", base)
	}
}

// addresses are those that generated links begin with: base, and apart for
// stored bytes, which is "" if they are served from base.
func (cmd *serve) addresses() (base, separate string, err error) {
	if base, err = cmd.base(); err == nil {
		separate, err = cmd.content(base)
	}
	return base, separate, err
}

// base is the address that every generated link begins with.
func (cmd *serve) base() (string, error) {
	_, socket := admin.SocketPath(cmd.Listen)
	local := ""
	if !socket {
		var err error
		if local, err = admin.LocalAddress(cmd.Listen, cmd.secure()); err != nil {
			return "", err
		}
	}
	switch {
	case cmd.BaseURL == "" && len(cmd.TLSDomain) > 0:
		return "https://" + cmd.TLSDomain[0], nil
	case cmd.BaseURL == "" && socket:
		return "", exit.Misused("with --listen %s, --base-url must say under which address visitors reach the server", cmd.Listen)
	case cmd.BaseURL == "":
		return local, nil
	}
	u, err := admin.PublicAddress("--base-url", cmd.BaseURL)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// content is the origin that stored bytes are served from; "" is base's.
func (cmd *serve) content(base string) (string, error) {
	if cmd.ContentURL == "" {
		return "", nil
	}
	origin, err := public.ContentOrigin(cmd.ContentURL, base)
	if err != nil {
		return "", exit.Misused("--content-url %v", err)
	}
	u, err := url.Parse(origin)
	if err != nil {
		return "", err
	}
	if len(cmd.TLSDomain) > 0 && !slices.ContainsFunc(cmd.TLSDomain, func(name string) bool { return strings.EqualFold(name, u.Hostname()) }) {
		return "", exit.Misused("--tls-domain must have %s too, the host of --content-url, for there to be a certificate", u.Hostname())
	}
	return origin, nil
}

// captcha is the provider of captchas where the settings name none.
func (cmd *serve) captcha() (captcha.Config, error) {
	d := captcha.Config{Provider: cmd.Captcha, SiteKey: cmd.CaptchaSiteKey, Secret: cmd.CaptchaSecret, VerifyURL: cmd.CaptchaURL}
	asks := cmd.Captcha == record.CaptchaTurnstile || cmd.Captcha == record.CaptchaHCaptcha
	u, err := url.Parse(d.VerifyURL)
	switch {
	case asks && (d.SiteKey == "" || d.Secret == ""):
		return d, exit.Misused("--captcha %s needs --captcha-site-key and --captcha-secret", cmd.Captcha)
	case !asks && (d.SiteKey != "" || d.Secret != "" || d.VerifyURL != ""):
		return d, exit.Misused("--captcha-site-key, --captcha-secret and --captcha-verify-url belong to --captcha turnstile or hcaptcha")
	case d.VerifyURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""):
		return d, exit.Misused("--captcha-verify-url must be an absolute http or https address; it is %q", d.VerifyURL)
	}
	return d, nil
}

// claimFile keeps the claim link in the data directory while it holds.
const claimFile = "CLAIM"

// openClaim reads the token of the open claim that this data directory's
// claim file has; "" if there is none. The file of a claim that is over is
// removed.
func openClaim(store *kv.Store) (token string, err error) {
	name := filepath.Join(store.Dir(), claimFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the claim link: %w", err)
	}
	token = path.Base(strings.TrimSpace(string(text)))
	err = store.View(func(tx *kv.Tx) error {
		all, err := tx.Users()
		if err != nil {
			return err
		}
		for _, u := range all {
			if u.Role == record.Admin {
				return record.NotFound("claim")
			}
		}
		return tx.Claimable(token)
	})
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Missing {
		if err := os.Remove(name); err != nil {
			return "", fmt.Errorf("cannot remove the claim link: %w", err)
		}
		return "", nil
	}
	return token, err
}

// claim is the link by which the first administrator is made; "" if there is
// one. The link stays the same over restarts until it is used.
func claim(store *kv.Store, base string) (link string, err error) {
	token, err := openClaim(store)
	if err == nil && token == "" {
		err = store.Update(func(tx *kv.Tx) (err error) { token, err = tx.Claim(); return err })
	}
	if err != nil || token == "" {
		return "", err
	}
	link = base + "/claim/" + token
	if err := keepClaim(store.Dir(), link+"\n"); err != nil {
		return "", fmt.Errorf("cannot keep the claim link: %w", err)
	}
	return link, nil
}

// keepClaim writes the claim file whole, as a torn one would cost the link.
func keepClaim(dir, text string) error {
	if now, err := os.ReadFile(filepath.Join(dir, claimFile)); err == nil && string(now) == text {
		return nil
	}
	f, err := disk.ReadFolder(dir)
	if err != nil {
		return err
	}
	f.Aside(filepath.Join(dir, "cache"))
	err = f.Publish(claimFile, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	return errors.Join(err, f.Close())
}

// certificateCheck is how often, at most, the files are looked at.
const certificateCheck = time.Minute

// certificate is a TLS certificate in two files, which may be renewed while
// the server runs.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed [2]time.Time // the files' times when they were loaded
	checked time.Time
}

// secure reports whether visitors are spoken to over TLS.
func (cmd *serve) secure() bool {
	return cmd.TLSCert != "" || cmd.TLSKey != "" || len(cmd.TLSDomain) > 0
}

// tls is the configuration of a server that is secure.
func (cmd *serve) tls(dir string, log *slog.Logger) (*tls.Config, error) {
	if len(cmd.TLSDomain) > 0 {
		if cmd.TLSCert != "" || cmd.TLSKey != "" {
			return nil, exit.Misused("--tls-domain gets its own certificates: give it, or --tls-cert and --tls-key")
		}
		return cmd.acme(filepath.Join(dir, "cache", "acme"), log)
	}
	if cmd.TLSCert == "" || cmd.TLSKey == "" {
		return nil, exit.Misused("--tls-cert and --tls-key go together: give both or none")
	}
	c := &certificate{cert: cmd.TLSCert, key: cmd.TLSKey, log: log}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(time.Now()), nil },
	}, nil
}

// acme gets certificates as they are needed and renews them in time. The
// authority checks the names by tls-alpn-01 (RFC 8737), on the port that
// visitors come to, so that no second one has to be open. Certificates, their
// keys and the account are kept in the folder; they are requested again if it is
// deleted.
func (cmd *serve) acme(folder string, log *slog.Logger) (*tls.Config, error) {
	for _, name := range cmd.TLSDomain {
		u, err := url.Parse("https://" + name)
		if err != nil || u.Hostname() != name || !strings.Contains(strings.Trim(name, "."), ".") || net.ParseIP(name) != nil || strings.Contains(name, "*") {
			return nil, exit.Misused("--tls-domain must be public host names such as kist.example.org; it has %q", name)
		}
	}
	allowed := autocert.HostWhitelist(cmd.TLSDomain...)
	manager := &autocert.Manager{Prompt: autocert.AcceptTOS, HostPolicy: allowed}
	if cmd.ACMEDirectory != "" {
		// Another authority has an account and certificates of its own.
		sum := sha256.Sum256([]byte(cmd.ACMEDirectory))
		folder = filepath.Join(folder, "of-"+hex.EncodeToString(sum[:8]))
		manager.Client = &acme.Client{DirectoryURL: cmd.ACMEDirectory}
	}
	manager.Cache = autocert.DirCache(folder)
	binding, err := cmd.accountBinding()
	if err != nil {
		return nil, err
	}
	manager.ExternalAccountBinding = binding
	config := manager.TLSConfig()
	config.MinVersion = tls.VersionTLS12
	var told atomic.Int64 // the minute of the last complaint
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := manager.GetCertificate(hello)
		if err != nil && allowed(hello.Context(), strings.ToLower(hello.ServerName)) == nil {
			// Visitors see a broken connection; only the log can tell why.
			if now := time.Now().Unix() / 60; told.Swap(now) != now {
				log.Error("there is no certificate for a visitor", "name", hello.ServerName, "error", err)
			}
		}
		return cert, err
	}
	return config, nil
}

// accountBinding is the external account binding (RFC 8555, 7.3.4), nil if none
// was given. It fails if the flags do not hold together.
func (cmd *serve) accountBinding() (*acme.ExternalAccountBinding, error) {
	if u, err := url.Parse(cmd.ACMEDirectory); cmd.ACMEDirectory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return nil, exit.Misused("--acme-directory must be an absolute https address; it is %q", cmd.ACMEDirectory)
	}
	if (cmd.ACMEKeyID == "") != (cmd.ACMEKey == "") {
		return nil, exit.Misused("--acme-eab-kid and --acme-eab-key go together: give both or none")
	}
	if cmd.ACMEKey == "" {
		return nil, nil //nolint:nilnil // none is a good answer
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(cmd.ACMEKey, "="))
	if err != nil {
		return nil, exit.Misused("--acme-eab-key must be a key in base64url, of letters, digits, - and _")
	}
	return &acme.ExternalAccountBinding{KID: cmd.ACMEKeyID, Key: key}, nil
}

// load reads the files if they have changed; what was loaded stays when they
// cannot be read.
func (c *certificate) load() error {
	var changed [2]time.Time
	for i, name := range []string{c.cert, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if c.loaded != nil && changed == c.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	c.loaded, c.changed = &pair, changed
	return nil
}

// current is the certificate for a handshake.
func (c *certificate) current(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.checked) >= certificateCheck {
		c.checked = now
		if err := c.load(); err != nil {
			c.log.Error("the certificate cannot be read again; the one from before stays", "error", err)
		}
	}
	return c.loaded
}
