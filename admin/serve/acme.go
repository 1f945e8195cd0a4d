package serve

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"kist/admin/exit"
)

// acme gets certificates when they are needed and renews them in time. Whether they
// come from here or from files is decided in certificate.go. The
// authority checks the names by tls-alpn-01 (RFC 8737) on the port that visitors
// use, so no second port has to be open. The folder keeps the certificates, their
// keys and the account. If it is deleted, they are requested again.
func (f *CertificateFlags) acme(folder string, log *slog.Logger) (*tls.Config, error) {
	for _, name := range f.TLSDomain {
		u, err := url.Parse("https://" + name)
		if err != nil || u.Hostname() != name || !strings.Contains(strings.Trim(name, "."), ".") ||
			net.ParseIP(name) != nil || strings.Contains(name, "*") {
			return nil, exit.Misused("--tls-domain must be public host names such as kist.example.org; it has %q", name)
		}
	}
	allowed := autocert.HostWhitelist(f.TLSDomain...)
	manager := &autocert.Manager{Prompt: autocert.AcceptTOS, HostPolicy: allowed}
	if f.ACMEDirectory != "" {
		// Each authority has its own account and certificates.
		sum := sha256.Sum256([]byte(f.ACMEDirectory))
		folder = filepath.Join(folder, "of-"+hex.EncodeToString(sum[:8]))
		manager.Client = &acme.Client{DirectoryURL: f.ACMEDirectory}
	}
	manager.Cache = autocert.DirCache(folder)
	binding, err := f.accountBinding()
	if err != nil {
		return nil, err
	}
	manager.ExternalAccountBinding = binding
	config := manager.TLSConfig()
	config.MinVersion = tls.VersionTLS12
	var logged atomic.Int64 // the minute of the latest log line
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := manager.GetCertificate(hello)
		if err != nil && allowed(hello.Context(), strings.ToLower(hello.ServerName)) == nil {
			// Visitors see a broken connection. Only the log can say why.
			if now := time.Now().Unix() / 60; logged.Swap(now) != now {
				log.Error("there is no certificate for a visitor", "name", hello.ServerName, "error", err)
			}
		}
		return cert, err
	}
	return config, nil
}

// accountBinding returns the external account binding (RFC 8555, 7.3.4), or nil if
// the flags give none. It fails if the flags do not go together.
func (f *CertificateFlags) accountBinding() (*acme.ExternalAccountBinding, error) {
	u, err := url.Parse(f.ACMEDirectory)
	if f.ACMEDirectory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return nil, exit.Misused("--acme-directory must be an absolute https address; it is %q", f.ACMEDirectory)
	}
	if (f.ACMEKeyID == "") != (f.ACMEKey == "") {
		return nil, exit.Misused("--acme-eab-kid and --acme-eab-key go together: give both or none")
	}
	if f.ACMEKey == "" {
		return nil, nil //nolint:nilnil // most authorities need none
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(f.ACMEKey, "="))
	if err != nil {
		return nil, exit.Misused("--acme-eab-key must be a key in base64url, of letters, digits, - and _")
	}
	return &acme.ExternalAccountBinding{KID: f.ACMEKeyID, Key: key}, nil
}
