package admin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthTime bounds a health check.
const healthTime = 5 * time.Second

// unixPrefix begins the address of a socket to listen on.
const unixPrefix = "unix:"

// SocketPath is the path of an address like unix:/run/kist.sock.
func SocketPath(listen string) (path string, ok bool) { return strings.CutPrefix(listen, unixPrefix) }

// LocalAddress is where a server that listens on host:port is found from the
// same machine, without a slash at the end. A server on all addresses is
// found on localhost.
func LocalAddress(listen string, secure bool) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("--listen must be an address and a port, such as 127.0.0.1:7080, or unix: and a path; it is %q", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme, usual := "http", "80"
	if secure {
		scheme, usual = "https", "443"
	}
	if port == usual {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host, nil
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

type healthcheckCommand struct {
	Listen  string `default:"127.0.0.1:7080" placeholder:"ADDR" help:"Where the server listens, as for serve."`
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"Set as for serve: the server is asked over TLS."`
	URL     string `placeholder:"URL" help:"Where the server is found, if not by --listen."`
}

func (cmd *healthcheckCommand) Run(c *Call) error {
	transport := &http.Transport{DisableKeepAlives: true}
	base := strings.TrimRight(cmd.URL, "/")
	if path, ok := SocketPath(cmd.Listen); ok && base == "" {
		base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialUnix(ctx, path) }
	} else if base == "" {
		var err error
		if base, err = LocalAddress(cmd.Listen, cmd.TLSCert != ""); err != nil {
			return &usageError{err.Error()}
		}
		// The certificate is for the name that visitors use. Nothing secret is
		// sent, and nothing is believed but that somebody answers.
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", http.NoBody)
	if err != nil {
		return Misused("%q is no address to ask: %v", base, err)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("no server answers at %s: %w", base, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server at %s is not well: it answers %s", base, res.Status)
	}
	return c.say(map[string]any{"ok": true, "url": base}, "The server at %s is well.", base)
}
