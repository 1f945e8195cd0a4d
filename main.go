// Kist keeps and shares files, notes and links: one program, one folder of data.
// This file runs the server. Package admin has the other commands.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"kist/admin"
	"kist/admin/backups"
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
	"kist/kv/jobs"
	"kist/kv/people"
	"kist/kv/ship"
	"kist/kv/tables"
	"kist/kv/workcopy"
	"kist/search"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3". Without it, Go's own knowledge of the source counts.
var version string

func main() {
	workcopy.Child()
	var cli struct {
		admin.Globals
		Serve serveCommand `cmd:"" help:"Run the server."`
		admin.Commands
	}
	os.Exit(admin.Main(&cli, &cli.Globals, admin.BuildOf(version), operator))
}

// operator makes the API for a command that has opened the store itself.
func operator(store *kv.Store, log *slog.Logger, commands control.Commands) http.Handler {
	c := web.Config{Store: store, Passwords: people.NewPasswords(), Log: log, Access: slog.New(slog.DiscardHandler)}
	return httpapi.Operator(c, commands)
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
	StoreHistory admin.Span        `default:"30d" placeholder:"TIME" help:"With --store: for how long back every moment can be restored from there, such as 30d or 24h. What only earlier moments need is removed from the object store, eight days later. 0 removes nothing."`
	CacheSize    admin.Size        `placeholder:"SIZE" help:"With --store: how much of the disk files may take, such as 100GB. Those that were not used for longest are then only in the object store. Without it none is removed from the disk."`
	BackupTo     string            `placeholder:"DIR" help:"Make backups by schedule in this folder, which kist backup init has marked."`
	BackupAt     backups.TimeOfDay `default:"03:30" placeholder:"HH:MM" help:"With --backup-to: the time of the day, in the zone of the server."`
	BackupKeep   backups.Keep      `default:"7d,4w,6m" placeholder:"LIST" help:"With --backup-to: how many backups stay, the newest of each of so many days (d), weeks (w), months (m) and years (y)."`
	Metrics      bool              `help:"Serve Prometheus metrics at /metrics, to requests with an administrator's API key."`
	ExpectData   bool              `help:"Refuse to start if the data directory has no data yet, for example because a disk is not mounted."`
	GCDelay      admin.Span        `name:"gc-delay" default:"24h" placeholder:"TIME" help:"How long the content of a removed file stays on the disk."`
	Grace        admin.Span        `default:"30s" placeholder:"TIME" help:"How long running requests may take after the signal to stop."`
}

// Run serves until SIGINT or SIGTERM and returns when everything is closed. A
// second signal ends the process at once. Acknowledged data survives that.
func (cmd *serveCommand) Run(c *admin.Call) (err error) {
	secure, err := cmd.check(c)
	if err != nil {
		return err
	}

	process.RaiseThreads()
	ctx, cancel := context.WithCancel(context.Background())
	defer process.WatchSignals(ctx, cancel)() // runs last: a second signal counts until everything is closed

	s := &server{serveCommand: cmd, call: c, secure: secure}
	defer func() { err = errors.Join(err, s.close()) }()
	defer cancel() // from here on, one signal ends the process, also while it closes
	if err := s.open(); err != nil {
		return err
	}

	front, err := s.starting.End()
	if err != nil {
		return err
	}
	defer front.Close()
	cmd.Listen = serve.Bound(cmd.Listen, front)

	if err := s.wire(); err != nil {
		return err
	}
	return s.serve(ctx, cancel, front)
}

// check finds mistakes in the flags before anything is opened. It returns what HTTPS needs, nil
// for plain HTTP.
func (cmd *serveCommand) check(c *admin.Call) (*tls.Config, error) {
	if _, _, err := cmd.addresses(); err != nil {
		return nil, err
	}
	if err := cmd.CaptchaFlags.Check(); err != nil {
		return nil, err
	}
	if err := cmd.SignInFlags.Check(cmd.proxies()); err != nil {
		return nil, err
	}
	if err := cmd.checkBackups(c); err != nil {
		return nil, err
	}
	secure, err := cmd.CertificateFlags.Config(c.DataDir, c.Log)
	if err != nil {
		return nil, err
	}
	if cmd.ExpectData {
		if err := ops.ExpectData(c.DataDir); err != nil {
			return nil, err
		}
	}
	return secure, nil
}

// checkBackups refuses a folder of --backup-to that nobody can have meant: see backups.CheckStart.
func (cmd *serveCommand) checkBackups(c *admin.Call) error {
	if cmd.BackupTo == "" {
		return nil
	}
	path, err := filepath.Abs(cmd.BackupTo) // people restore from another folder
	if err != nil {
		return err
	}
	cmd.BackupTo = path
	return backups.CheckStart(path, c.DataDir)
}

// proxies returns the networks of --trusted-proxies.
func (cmd *serveCommand) proxies() []netip.Prefix {
	all := make([]netip.Prefix, 0, len(cmd.TrustedProxies))
	for _, n := range cmd.TrustedProxies {
		all = append(all, n.Prefix)
	}
	return all
}

// server is the one server of a process. Run alone uses it: each step sets fields for the steps
// after it.
type server struct {
	*serveCommand
	call   *admin.Call
	secure *tls.Config // nil for plain HTTP

	// Set by open.
	starting *serve.Starting
	shipping ship.Options
	shipper  *ship.Shipper // nil without --store
	store    *kv.Store
	content  *blobs.Store
	thumbs   *thumb.Maker
	icons    *thumb.Icons
	opened   []func() error // closes what open has opened, the last first

	// Set by wire.
	base, separate string // see addresses
	index          *search.Index
	sweeper        *ops.Sweeper
	scrubber       *scrub.Scrubber
	scheduler      *backups.Scheduler // nil without --backup-to
	signIn         *oidc.Client       // nil without --oidc-issuer
	site           *httpapi.Server
}

// close closes what open has opened, also after a start that failed.
func (s *server) close() error {
	var errs []error
	for _, end := range slices.Backward(s.opened) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// open opens the store and everything that is kept beside it. It may take long: s.starting answers
// visitors meanwhile.
func (s *server) open() error {
	base, _, err := s.addresses()
	if err != nil {
		return err
	}
	dir, log := s.call.DataDir, s.call.Log
	shipping, release, err := s.StoreFlags.Open(base, s.CacheSize > 0, time.Duration(s.StoreHistory), log)
	if err != nil {
		return err
	}
	s.shipping = shipping
	s.opened = append(s.opened, func() error {
		release()
		return nil
	})

	s.starting = &serve.Starting{Listen: s.Listen, Secure: s.secure, Log: log}
	s.opened = append(s.opened, s.starting.Close)
	_, onSocket := serve.SocketPath(s.Listen) // which may be in the folder
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !onSocket {
		// Before there is a folder, which a start that fails would leave behind.
		if _, err := s.starting.Open(); err != nil {
			return err
		}
	}

	if err := s.openStore(); err != nil {
		return err
	}
	if err := ops.SweepScratch(dir); err != nil {
		log.Warn("what a command has left in the data directory could not be removed", "error", err)
	}
	process.PaceGC() // not earlier: opening a large store takes as much memory as it may
	return s.openContent()
}

// openStore opens the store, and connects it with the object store.
func (s *server) openStore() error {
	if s.shipping.Remote != nil {
		s.shipper = ship.New(s.shipping)
	}
	o := kv.Options{Schema: tables.All, Log: s.call.Log, Rebuild: s.starting.Rebuild, Ship: s.shipper}
	store, err := kv.Open(s.call.DataDir, o)
	if errors.As(err, new(*datadir.InUse)) {
		return fmt.Errorf("%w; stop that one first, or choose another --data-dir", err)
	}
	if err != nil {
		return err
	}
	s.store = store
	s.opened = append(s.opened, store.Close)
	return nil
}

// openContent opens the uploaded contents and the pictures made of them.
func (s *server) openContent() error {
	dir, log := s.call.DataDir, s.call.Log
	content, err := serve.OpenContent(dir, log)
	if err != nil {
		return err
	}
	s.content = content
	s.opened = append(s.opened, content.Close)
	if s.shipper != nil {
		content.OnKeep = s.shipper.Ahead
		content.PutBehind(s.shipping.Remote, int64(s.CacheSize), s.store.FreeForContent, log)
	}

	s.thumbs, err = thumb.New(filepath.Join(dir, "cache", "thumbs"))
	if err != nil {
		return fmt.Errorf("cannot open the cache of thumbnails: %w", err)
	}
	s.opened = append(s.opened, s.thumbs.Close)
	s.icons, err = s.thumbs.Icons(filepath.Join(dir, "cache", "icons"))
	if err != nil {
		return fmt.Errorf("cannot open the cache of icons: %w", err)
	}
	return nil
}

// wire makes the site and the work behind it from what is open. Nothing runs yet. The address is
// known by now, with the port that was bound.
func (s *server) wire() (err error) {
	log := s.call.Log
	s.base, s.separate, err = s.addresses()
	if err != nil {
		return err
	}
	s.index, err = ops.NewIndex(s.store, s.content, log)
	if err != nil {
		return err
	}
	s.sweeper = &ops.Sweeper{
		Store: s.store, Blobs: s.content, Remote: s.shipper.Remote(), Delay: time.Duration(s.GCDelay), Log: log,
		Thumbs: s.thumbs.Sweep, Posters: s.thumbs.SweepPosters, Icons: s.icons.Sweep,
	}
	s.scrubber = &scrub.Scrubber{
		Store: s.content, Dir: filepath.Join(s.call.DataDir, "cache", "scrub"), Log: log,
	}
	if s.BackupTo != "" {
		s.scheduler = s.schedule()
	}
	if s.OIDCIssuer != "" {
		s.signIn = oidc.New(oidc.Options{
			Issuer: s.OIDCIssuer, ClientID: s.OIDCClientID, ClientSecret: s.OIDCClientSecret,
			Name: s.OIDCName, Scopes: s.OIDCScopes, Create: s.OIDCCreate,
			GroupsClaim: s.OIDCGroupsClaim, AllowGroup: s.OIDCAllowGroup, AdminGroup: s.OIDCAdminGroup,
			Redirect: s.base + session.OIDCPath + "/callback", Leave: s.base + "/login", Allow: s.AllowOutbound,
		})
	}

	s.WarnScheme(log, s.base, len(s.TrustedProxies) > 0)
	s.site, err = httpapi.New(s.config())
	if err != nil {
		return fmt.Errorf("cannot make the server: %w", err)
	}
	s.scrubber.Busy = s.site.Busy
	return nil
}

// schedule makes the backups of --backup-to.
func (s *server) schedule() *backups.Scheduler {
	log := s.call.Log
	return backups.New(backups.Options{
		Folder: s.BackupTo, At: s.BackupAt, Keep: s.BackupKeep, Clock: backups.SystemClock(), Log: log,
		Job: ops.Job{Dir: s.call.DataDir, Log: log, Remote: s.shipper.Remote()},
		Failed: func(why string, last time.Time) {
			if err := jobs.TellBackupFailed(s.store, why, last); err != nil {
				log.Error("the webhooks of administrators could not be told of a failed backup", "error", err)
			}
		},
	})
}

// config is what the site serves, and how.
func (s *server) config() web.Config {
	dir, log := s.call.DataDir, s.call.Log
	c := web.Config{
		Store: s.store, Blobs: s.content, Thumbs: s.thumbs, Icons: s.icons, Search: s.index, Ship: s.shipper,
		Base: s.base, Content: s.separate, AnyHost: s.BaseURL == "", TrustedProxies: s.proxies(),
		MaxUpload: int64(s.MaxUploadSize), MaxConnections: s.MaxConnections,
		Passwords: people.NewPasswords(), NoPasswords: s.PasswordLogin == "off",
		AuthHeader: s.AuthHeader, OIDC: s.signIn,
		Captcha: captcha.Config{
			Provider: s.Captcha, SiteKey: s.CaptchaSiteKey, Secret: s.CaptchaSecret, VerifyURL: s.CaptchaURL,
		},
		Outbound: outbound.New(outbound.Options{Allow: s.AllowOutbound}),
		Metrics:  s.Metrics, Log: log, Access: s.call.Access,
		Version: s.call.Build.Version, Commit: s.call.Build.Commit, Date: s.call.Build.Date,
		Scrubbed: s.scrubber.Finished, Absent: s.sweeper.Absent,
		Backup: func(w io.Writer) error {
			return ops.Job{Dir: dir, Stderr: io.Discard, Log: log, Remote: s.shipper.Remote()}.Stream(w)
		},
		LastBackup: func() time.Time {
			at, _ := ops.LastBackup(dir)
			return at // zero without a backup
		},
	}
	if s.scheduler != nil {
		c.Backups = s.scheduler
	}
	if s.shipper == nil {
		c.Elsewhere = ship.FilesIn(dir)
	}
	return c
}

// serve answers requests and commands until ctx is done, and then ends what it has started.
func (s *server) serve(ctx context.Context, cancel context.CancelFunc, front net.Listener) error {
	c, grace := s.call, time.Duration(s.Grace)
	if err := s.CheckAdmins(s.store); err != nil {
		return err
	}
	back, err := socket.Listen(c.DataDir)
	if err != nil {
		return err
	}
	link, err := serve.ClaimLink(s.store, s.base)
	if err != nil {
		return errors.Join(err, back.Close())
	}

	var work sync.WaitGroup
	shipped := ops.Shipped(s.store, s.content)
	work.Go(func() { s.sweeper.Hourly(ctx) })
	work.Go(func() { s.scrubber.Run(ctx) })
	work.Go(func() { s.shipper.Tend(ctx, shipped) })
	work.Go(func() { s.index.Run(ctx) })
	if s.scheduler != nil {
		work.Go(func() { s.scheduler.Run(ctx) })
	}
	work.Go(func() { serve.WatchClaim(ctx, s.store, c.Log) })
	stopControl := control.Serve(back, s.site.Operator(control.NewCommands(s.backend(ctx, shipped))), c.Log)

	serve.Announce(c.Stdout, c.Build.Version, s.Listen, s.base, link)
	work.Go(func() { process.Supervise(ctx, s.site.Lives, c.Log) })
	err = s.site.Serve(ctx, front, s.secure, grace)

	cancel()
	err = errors.Join(err, stopControl(grace))
	work.Wait()
	return errors.Join(err, serve.TidyClaim(s.store))
}

// backend is what the commands of the same machine may ask of the server.
func (s *server) backend(ctx context.Context, shipped ship.Contents) control.Backend {
	b := control.Backend{
		Store: s.store, Sweep: s.sweeper.Within(ctx), About: s.about,
		Compare:  func(ctx context.Context) error { return s.shipper.Compare(ctx, shipped) },
		Index:    func() (*search.Index, error) { return s.index, nil },
		Contents: func(fn func(*blobs.Store) error) error { return fn(s.content) },
	}
	if s.scheduler != nil {
		b.BackUp = s.scheduler.Make
	}
	if s.signIn != nil {
		b.SignIn = func(ctx context.Context) control.SignInHealth {
			return control.SignInHealth(s.signIn.Check(ctx))
		}
	}
	return b
}

// about says how the server was started, for kist doctor.
func (s *server) about() control.About {
	return control.About{
		Version: s.call.Build.Version, Commit: s.call.Build.Commit, Date: s.call.Build.Date,
		Base: s.base, Content: s.separate, Listen: s.Listen,
		Secure: s.secure != nil, TLSDomain: s.TLSDomain, TrustedProxies: s.proxies(), Issuer: s.OIDCIssuer,
		MaxUpload: int64(s.MaxUploadSize), GCDelay: time.Duration(s.GCDelay), Probe: s.site.NewProbe(),
		Store: control.StoreHealthOf(s.shipping.Address, s.shipper), Backups: s.scheduler.Status(),
	}
}

// addresses returns the URLs that generated links begin with: base for pages, and
// content for uploaded content, which is "" if base serves it.
func (cmd *serveCommand) addresses() (base, content string, err error) {
	base, err = cmd.Base(&cmd.CertificateFlags)
	if err != nil || cmd.ContentURL == "" {
		return base, "", err
	}
	content, err = public.ContentOrigin(cmd.ContentURL, base)
	if err != nil {
		return "", "", exit.Misused("--content-url %v", err)
	}
	return base, content, cmd.Cover(content)
}
