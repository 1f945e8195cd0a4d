package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/admin/exit"
)

// CertificateFlags say where the server gets its certificates.
type CertificateFlags struct {
	TLSCert       string   `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM; read again when it changes."`
	TLSKey        string   `name:"tls-key" placeholder:"FILE" help:"Key of the certificate in PEM."`
	TLSDomain     []string `name:"tls-domain" placeholder:"NAME" help:"Get certificates for these host names, separated by commas, from Let's Encrypt. By using this you agree to its terms. Port 443 of these names must lead to --listen."`
	ACMEDirectory string   `name:"acme-directory" placeholder:"URL" help:"Get the certificates for --tls-domain from another ACME authority, such as step-ca: the https URL of its directory."`
	ACMEKeyID     string   `name:"acme-eab-kid" placeholder:"ID" help:"Key id for external account binding, if the authority requires it, as ZeroSSL does."`
	ACMEKey       string   `name:"acme-eab-key" placeholder:"KEY" help:"That key in base64url. Put it into a file that KIST_ACME_EAB_KEY_FILE names instead: other users can see the command line."`
}

// secure reports whether visitors reach the server over TLS.
func (f *CertificateFlags) secure() bool {
	return f.TLSCert != "" || f.TLSKey != "" || len(f.TLSDomain) > 0
}

// Config returns the TLS configuration of the server, or nil if it speaks plain
// HTTP. Certificates from an ACME authority are kept in the data directory dir.
func (f *CertificateFlags) Config(dir string, log *slog.Logger) (*tls.Config, error) {
	if len(f.TLSDomain) == 0 && (f.ACMEDirectory != "" || f.ACMEKeyID != "" || f.ACMEKey != "") {
		return nil, exit.Misused("--acme-directory, --acme-eab-kid and --acme-eab-key belong to --tls-domain")
	}
	if !f.secure() {
		return nil, nil //nolint:nilnil // plain HTTP has no configuration
	}
	if len(f.TLSDomain) > 0 {
		if f.TLSCert != "" || f.TLSKey != "" {
			return nil, exit.Misused("--tls-domain gets its own certificates: give it, or --tls-cert and --tls-key")
		}
		return f.acme(filepath.Join(dir, "cache", "acme"), log)
	}
	if f.TLSCert == "" || f.TLSKey == "" {
		return nil, exit.Misused("--tls-cert and --tls-key go together: give both or none")
	}
	c := &certificate{cert: f.TLSCert, key: f.TLSKey, log: log}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(time.Now()), nil },
	}, nil
}

// Cover fails with an error of usage if the server gets its own certificates and
// will not get one for the host of the origin for content.
func (f *CertificateFlags) Cover(content string) error {
	u, err := url.Parse(content)
	if err != nil {
		return err
	}
	isContent := func(name string) bool { return strings.EqualFold(name, u.Hostname()) }
	if len(f.TLSDomain) > 0 && !slices.ContainsFunc(f.TLSDomain, isContent) {
		return exit.Misused("--tls-domain must have %s too, the host of --content-url, for there to be a certificate",
			u.Hostname())
	}
	return nil
}

// WarnScheme logs a warning if visitors cannot use the scheme of the base URL, as
// far as that is known at the start. proxies says whether any proxy is trusted.
func (f *CertificateFlags) WarnScheme(log *slog.Logger, base string, proxies bool) {
	switch https := strings.HasPrefix(base, "https:"); {
	case https && !f.secure() && !proxies:
		log.Warn("the base URL is https, but this server speaks plain HTTP and trusts no proxy; "+
			"set --trusted-proxies to the address of the proxy that speaks HTTPS, or --tls-cert or --tls-domain",
			"address", base)
	case !https && f.secure():
		log.Warn("the base URL is http, but this server speaks HTTPS; set --base-url to the https address", "address", base)
	}
}

// certificateCheck is the shortest time between two looks at the files.
const certificateCheck = time.Minute

// certificate is a TLS certificate in two files, which may be replaced while the
// server runs.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	changed [2]time.Time // the files' times when they were loaded
	checked time.Time
}

// load reads the files if they have changed. If they cannot be read, the
// certificate from before stays.
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
