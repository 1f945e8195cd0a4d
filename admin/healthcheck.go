package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kist/admin/exit"
	"kist/admin/socket"
)

// healthTime bounds a health check.
const healthTime = 5 * time.Second

// unixPrefix begins the address of a socket to listen on.
const unixPrefix = "unix:"

// SocketPath is the path of an address like unix:/run/kist.sock.
func SocketPath(listen string) (path string, ok bool) { return strings.CutPrefix(listen, unixPrefix) }

// readListen takes the address of a server on TCP apart.
func readListen(listen string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(listen)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return "", "", exit.Misused("--listen must be an address and a port of 0 to 65535, such as 127.0.0.1:7080, or unix: and a path; it is %q", listen)
	}
	return host, port, nil
}

// LocalAddress is where a server that listens on host:port is found from the
// same machine, without a slash at the end. A server on all addresses is
// found on localhost.
func LocalAddress(listen string, secure bool) (string, error) {
	host, port, err := readListen(listen)
	if err != nil {
		return "", err
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

// ListenPublic listens for visitors, on host:port or on the socket of an
// address like unix:/run/kist.sock. A reverse proxy that runs as another user
// reaches the socket by its group.
func ListenPublic(listen string) (net.Listener, error) {
	if path, ok := SocketPath(listen); ok {
		l, err := socket.ListenUnix(path, 0o660)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: %w", listen, reason(err))
		}
		return l, nil
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("cannot listen on %s: %w; end what uses it, or choose another --listen", listen, reason(err))
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another --listen", listen, reason(err))
	}
	return l, nil
}

// Bound is listen with the port that l has, where listen leaves the choice to
// the system, as 127.0.0.1:0 does.
func Bound(listen string, l net.Listener) string {
	at, ok := l.Addr().(*net.TCPAddr)
	host, port, err := net.SplitHostPort(listen)
	if !ok || err != nil || strings.Trim(port, "0") != "" {
		return listen
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// reason is the innermost of an error of the network, without the addresses
// that the caller tells on its own.
func reason(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("there was no answer for %v", healthTime)
	}
	return err
}

type healthcheckCommand struct {
	Listen    string   `placeholder:"ADDR" help:"Where the server listens, as for serve. If absent, or if the port is 0, the address is read from the data directory; if there is none, it is ${listen}."`
	TLSCert   string   `name:"tls-cert" placeholder:"FILE" help:"As for serve. If it is set, the check uses TLS."`
	TLSDomain []string `name:"tls-domain" placeholder:"NAME" help:"As for serve. If it is set, the check uses TLS and the first of the names."`
	URL       string   `placeholder:"URL" help:"The server's URL, if it differs from --listen."`
	secure    bool
}

// usualListen is where serve listens if it is not told; ${listen} in flags.
const usualListen = "127.0.0.1:7080"

// ask has the server of the data directory say where it listens, where the
// flags do not.
func (cmd *healthcheckCommand) ask(ctx context.Context, c *Call) error {
	if _, socket := SocketPath(cmd.Listen); socket || cmd.URL != "" {
		return nil
	}
	if cmd.Listen != "" {
		if _, port, err := readListen(cmd.Listen); err != nil || strings.Trim(port, "0") != "" {
			return err
		}
	}
	var about About
	server, err := c.running(ctx)
	if err == nil {
		err = errors.Join(server.call(ctx, http.MethodGet, "/about", nothing{}, &about), server.close())
	}
	switch {
	case err == nil:
		cmd.Listen, cmd.TLSDomain, cmd.secure = about.Listen, about.TLSDomain, about.Secure
	case cmd.Listen == "":
		cmd.Listen = usualListen
	default:
		return fmt.Errorf("--listen %s leaves the port to the system, and it is not known in %s: %w; say with --url where the server is found", cmd.Listen, c.DataDir, err)
	}
	return nil
}

func (cmd *healthcheckCommand) Run(c *Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), healthTime)
	defer cancel()
	cmd.secure = cmd.TLSCert != "" || len(cmd.TLSDomain) > 0
	if err := cmd.ask(ctx, c); err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	base := strings.TrimRight(cmd.URL, "/")
	if path, ok := SocketPath(cmd.Listen); ok && base == "" {
		base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return socket.Dial(ctx, path) }
	} else if base == "" {
		var err error
		if base, err = LocalAddress(cmd.Listen, cmd.secure); err != nil {
			return err
		}
		// The certificate is for the name that visitors use. Nothing secret is
		// sent, and nothing is believed but that somebody answers.
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- see above
		if len(cmd.TLSDomain) > 0 {
			transport.TLSClientConfig.ServerName = cmd.TLSDomain[0]
		}
	}
	if u, err := url.Parse(base); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return exit.Misused("--url must be an http or https address, such as http://127.0.0.1:7080; it is %q", cmd.URL)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", http.NoBody)
	if err != nil {
		return fmt.Errorf("cannot make the request: %w", err)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("no server answers at %s: %w", base, reason(err))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server at %s is not well: it answers %s", base, res.Status)
	}
	return c.say(map[string]any{"ok": true, "url": base}, "The server at %s is healthy.", base)
}
