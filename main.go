// Kist keeps and shares files, notes and links: one program, one folder of data.
// This file runs the server. Package admin has the other commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kist/admin"
	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/ops"
	"kist/admin/process"
	"kist/admin/serve"
	"kist/admin/socket"
	"kist/blobs"
	"kist/blobs/scrub"
	"kist/httpapi"
	"kist/httpapi/captcha"
	"kist/httpapi/oidc"
	"kist/httpapi/outbound"
	"kist/httpapi/public"
	"kist/httpapi/session"
	"kist/httpapi/thumb"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/datadir"
	"kist/kv/people"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
	"kist/search"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() {
	workcopy.Child()
	var cli struct {
		admin.Globals
		Serve serveCommand `cmd:"" help:"Run the server."`
		admin.Commands
	}
	os.Exit(admin.Main(&cli, &cli.Globals, version, operator))
}

// operator makes the API for a command that has opened the store itself.
func operator(store *kv.Store, log *slog.Logger, commands control.Commands) http.Handler {
	return httpapi.Operator(web.Config{Store: store, Passwords: people.NewPasswords(), Log: log, Access: slog.New(slog.DiscardHandler)}, commands)
}

type serveCommand struct {
	serve.AddressFlags
	TrustedProxies []admin.Network `placeholder:"NET" help:"Reverse proxies whose X-Forwarded-For, -Proto and -Host headers are trusted: addresses or ranges, separated by commas."`
	serve.CertificateFlags
	MaxUploadSize  admin.Size         `default:"10GB" placeholder:"SIZE" help:"The largest file that is accepted, such as 500MB or 5GB."`
	MaxConnections int                `default:"2000" placeholder:"N" help:"Maximum number of open connections. One address, or one IPv6 /64, may have 100 of them, unless it is a trusted proxy."`
	AllowOutbound  []outbound.Allowed `placeholder:"HOST" help:"Private hosts, addresses or ranges that the server may connect to for webhooks, bookmarks and remote uploads, separated by commas."`
	serve.CaptchaFlags
	serve.SignInFlags
	serve.StoreFlags
	StoreHistory admin.Span `default:"30d" placeholder:"TIME" help:"With --store: for how long back every moment can be restored from there, such as 30d or 24h. What only earlier moments need is removed from the object store, eight days later. 0 removes nothing."`
	CacheSize    admin.Size `placeholder:"SIZE" help:"With --store: how much of the disk files may take, such as 100GB. Those that were not used for longest are then only in the object store. Without it none is removed from the disk."`
	Metrics      bool       `help:"Serve Prometheus metrics at /metrics, to requests with an administrator's API key."`
	ExpectData   bool       `help:"Refuse to start if the data directory has no data yet, for example because a disk is not mounted."`
	GCDelay      admin.Span `name:"gc-delay" default:"24h" placeholder:"TIME" help:"How long the content of a removed file stays on the disk."`
	Grace        admin.Span `default:"30s" placeholder:"TIME" help:"How long running requests may take after the signal to stop."`
}

// Run serves until SIGINT or SIGTERM and returns when everything is closed. A
// second signal ends the process at once. Acknowledged data survives that.
func (cmd *serveCommand) Run(c *admin.Call) (err error) {
	if _, _, err := cmd.addresses(); err != nil { // before anything is opened
		return err
	}
	if err := cmd.CaptchaFlags.Check(); err != nil {
		return err
	}
	proxies := make([]netip.Prefix, 0, len(cmd.TrustedProxies))
	for _, n := range cmd.TrustedProxies {
		proxies = append(proxies, n.Prefix)
	}
	if err := cmd.SignInFlags.Check(proxies); err != nil {
		return err
	}
	secure, err := cmd.CertificateFlags.Config(c.DataDir, c.Log)
	if err != nil {
		return err
	}
	process.RaiseThreads()
	if cmd.ExpectData {
		if err := ops.ExpectData(c.DataDir); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer process.WatchSignals(ctx, cancel)() // runs last: a second signal counts until everything is closed

	base, _, err := cmd.addresses()
	if err != nil {
		return err
	}
	shipping, release, err := cmd.StoreFlags.Open(base, cmd.CacheSize > 0, time.Duration(cmd.StoreHistory), c.Log)
	if err != nil {
		return err
	}
	defer release()
	starting := &serve.Starting{Listen: cmd.Listen, Secure: secure, Log: c.Log}
	defer func() { err = errors.Join(err, starting.Close()) }()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	_, onSocket := serve.SocketPath(cmd.Listen) // which may be in the folder
	if _, err := os.Stat(c.DataDir); errors.Is(err, fs.ErrNotExist) && !onSocket {
		if _, err := starting.Open(); err != nil { // before there is a folder, which a start that fails would leave behind
			return err
		}
	}
	var shipper *ship.Shipper
	if shipping.Remote != nil {
		shipper = ship.New(shipping)
	}
	store, err := kv.Open(c.DataDir, kv.Options{Schema: tables.All, Log: c.Log, Rebuild: starting.Rebuild, Ship: shipper})
	if errors.As(err, new(*datadir.InUse)) {
		return fmt.Errorf("%w; stop that one first, or choose another --data-dir", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := ops.SweepScratch(c.DataDir); err != nil {
		c.Log.Warn("what a command has left in the data directory could not be removed", "error", err)
	}
	process.PaceGC() // not earlier: opening a large store takes as much memory as it may
	content, err := serve.OpenContent(c.DataDir, c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if shipper != nil {
		content.OnKeep = shipper.Ahead
		content.PutBehind(shipping.Remote, int64(cmd.CacheSize), store.FreeForContent, c.Log)
	}
	thumbs, err := thumb.New(filepath.Join(c.DataDir, "cache", "thumbs"))
	if err != nil {
		return fmt.Errorf("cannot open the cache of thumbnails: %w", err)
	}
	defer func() { err = errors.Join(err, thumbs.Close()) }()

	icons, err := thumbs.Icons(filepath.Join(c.DataDir, "cache", "icons"))
	if err != nil {
		return fmt.Errorf("cannot open the cache of icons: %w", err)
	}

	index, err := ops.NewIndex(store, content, c.Log)
	if err != nil {
		return err
	}
	front, err := starting.End()
	if err != nil {
		return err
	}
	defer front.Close()
	cmd.Listen = serve.Bound(cmd.Listen, front)
	base, separate, err := cmd.addresses() // now with the port that was bound
	if err != nil {
		return err
	}
	sweeper := &ops.Sweeper{Store: store, Blobs: content, Remote: shipper.Remote(), Delay: time.Duration(cmd.GCDelay), Log: c.Log, Thumbs: thumbs.Sweep, Posters: thumbs.SweepPosters, Icons: icons.Sweep}
	scrubber := &scrub.Scrubber{Store: content, Dir: filepath.Join(c.DataDir, "cache", "scrub"), Log: c.Log}
	config := web.Config{
		Store: store, Blobs: content, Passwords: people.NewPasswords(), Thumbs: thumbs, Icons: icons, Search: index,
		Base: base, Content: separate, MaxUpload: int64(cmd.MaxUploadSize), MaxConnections: cmd.MaxConnections,
		Metrics: cmd.Metrics, Version: version, Log: c.Log, Access: c.Access,
		Captcha:        captcha.Config{Provider: cmd.Captcha, SiteKey: cmd.CaptchaSiteKey, Secret: cmd.CaptchaSecret, VerifyURL: cmd.CaptchaURL},
		TrustedProxies: proxies, AuthHeader: cmd.AuthHeader, NoPasswords: cmd.PasswordLogin == "off",
		AnyHost: cmd.BaseURL == "", Outbound: outbound.New(outbound.Options{Allow: cmd.AllowOutbound}), Scrubbed: scrubber.Finished, Absent: sweeper.Absent,
		Ship: shipper,
		Backup: func(w io.Writer) error {
			return ops.Job{Dir: c.DataDir, Stderr: io.Discard, Log: c.Log, Remote: shipper.Remote()}.Stream(w)
		},
		LastBackup: func() time.Time { at, _ := ops.LastBackup(c.DataDir); return at }, // zero without a backup
	}
	if shipper == nil {
		config.Elsewhere = ship.FilesIn(c.DataDir)
	}
	var signIn func(context.Context) control.SignInHealth
	if cmd.OIDCIssuer != "" {
		config.OIDC = oidc.New(oidc.Options{
			Issuer: cmd.OIDCIssuer, ClientID: cmd.OIDCClientID, ClientSecret: cmd.OIDCClientSecret, Name: cmd.OIDCName, Scopes: cmd.OIDCScopes,
			GroupsClaim: cmd.OIDCGroupsClaim, AllowGroup: cmd.OIDCAllowGroup, AdminGroup: cmd.OIDCAdminGroup, Create: cmd.OIDCCreate,
			Redirect: base + session.OIDCPath + "/callback", Leave: base + "/login", Allow: cmd.AllowOutbound,
		})
		signIn = func(ctx context.Context) control.SignInHealth { return control.SignInHealth(config.OIDC.Check(ctx)) }
	}
	cmd.WarnScheme(c.Log, base, len(proxies) > 0)
	site, err := httpapi.New(config)
	if err != nil {
		return fmt.Errorf("cannot make the server: %w", err)
	}
	if err := cmd.CheckAdmins(store); err != nil {
		return err
	}
	back, err := socket.Listen(c.DataDir)
	if err != nil {
		return err
	}
	link, err := serve.ClaimLink(store, base)
	if err != nil {
		return errors.Join(err, back.Close())
	}

	scrubber.Busy = site.Busy
	work.Go(func() { sweeper.Hourly(ctx) })
	work.Go(func() { scrubber.Run(ctx) })
	shipped := ops.Shipped(store, content)
	work.Go(func() { shipper.Tend(ctx, shipped) })
	work.Go(func() { index.Run(ctx) })
	work.Go(func() { serve.WatchClaim(ctx, store, c.Log) })
	about := func() control.About {
		return control.About{
			Version: version, Base: base, Content: separate, Listen: cmd.Listen, Secure: secure != nil, TLSDomain: cmd.TLSDomain,
			MaxUpload: int64(cmd.MaxUploadSize), TrustedProxies: proxies, Issuer: cmd.OIDCIssuer, GCDelay: time.Duration(cmd.GCDelay), Probe: site.NewProbe(),
			Store: control.StoreHealthOf(shipping.Address, shipper),
		}
	}
	stopControl := control.Serve(back, site.Operator(control.NewCommands(control.Backend{
		Store: store, Sweep: sweeper.Within(ctx), About: about, SignIn: signIn,
		Compare:  func(ctx context.Context) error { return shipper.Compare(ctx, shipped) },
		Index:    func() (*search.Index, error) { return index, nil },
		Contents: func(fn func(*blobs.Store) error) error { return fn(content) },
	})), c.Log)

	serve.Announce(c.Stdout, version, cmd.Listen, base, link)
	work.Go(func() { process.Supervise(ctx, site.Lives, c.Log) })
	err = site.Serve(ctx, front, secure, time.Duration(cmd.Grace))
	cancel()
	err = errors.Join(err, stopControl(time.Duration(cmd.Grace)))
	work.Wait()
	return errors.Join(err, serve.TidyClaim(store))
}

// addresses returns the URLs that generated links begin with: base for pages, and
// content for uploaded content, which is "" if base serves it.
func (cmd *serveCommand) addresses() (base, content string, err error) {
	if base, err = cmd.Base(&cmd.CertificateFlags); err != nil || cmd.ContentURL == "" {
		return base, "", err
	}
	if content, err = public.ContentOrigin(cmd.ContentURL, base); err != nil {
		return "", "", exit.Misused("--content-url %v", err)
	}
	return base, content, cmd.Cover(content)
}
