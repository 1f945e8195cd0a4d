package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kist/admin/control"
	"kist/admin/exit"
	"kist/admin/serve"
	"kist/admin/socket"
)

// healthTime bounds a health check.
const healthTime = 5 * time.Second

type healthcheckCommand struct {
	Listen    string   `placeholder:"ADDR" help:"Where the server listens, as for serve. If absent, or if the port is 0, the address is read from the data directory; if there is none, it is ${listen}."`
	TLSCert   string   `name:"tls-cert" placeholder:"FILE" help:"As for serve. If it is set, the check uses TLS."`
	TLSDomain []string `name:"tls-domain" placeholder:"NAME" help:"As for serve. If it is set, the check uses TLS and the first of the names."`
	URL       string   `placeholder:"URL" help:"The server's URL, if it differs from --listen."`
	secure    bool
}

// ask asks the server of the data directory where it listens, unless the flags say
// so.
func (cmd *healthcheckCommand) ask(ctx context.Context, c *Call) error {
	if _, socket := serve.SocketPath(cmd.Listen); socket || cmd.URL != "" {
		return nil
	}
	if cmd.Listen != "" {
		if _, port, err := serve.ReadListen(cmd.Listen); err != nil || strings.Trim(port, "0") != "" {
			return err
		}
	}
	about, err := askServer(ctx, c.DataDir)
	switch {
	case err == nil:
		cmd.Listen, cmd.TLSDomain, cmd.secure = about.Listen, about.TLSDomain, about.Secure
	case cmd.Listen == "":
		cmd.Listen = serve.DefaultListen
	default:
		return fmt.Errorf("--listen %s leaves the port to the system, and it is not known in %s: %w; "+
			"say with --url where the server is found", cmd.Listen, c.DataDir, err)
	}
	return nil
}

// askServer returns what the server of a data directory says about itself.
func askServer(ctx context.Context, dir string) (about control.About, err error) {
	server, err := control.Running(ctx, dir)
	if err != nil {
		return about, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	err = server.Call(ctx, http.MethodGet, "/about", control.Nothing{}, &about)
	return about, err
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
	if path, ok := serve.SocketPath(cmd.Listen); ok && base == "" {
		base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return socket.Dial(ctx, path)
		}
	} else if base == "" {
		local, err := serve.LocalAddress(cmd.Listen, cmd.secure)
		if err != nil {
			return err
		}
		base = local
		// The certificate is for the name that visitors use. The check sends no
		// secret and only trusts that somebody answers.
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
		cause := serve.Cause(err)
		if errors.Is(cause, context.DeadlineExceeded) {
			cause = fmt.Errorf("there was no answer for %v", healthTime)
		}
		return fmt.Errorf("no server answers at %s: %w", base, cause)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server at %s is not well: it answers %s", base, res.Status)
	}
	return c.say(map[string]any{"ok": true, "url": base}, "The server at %s is healthy.", base)
}
