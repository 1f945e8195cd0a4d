package admin

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/template"
)

//go:embed install
var installFiles embed.FS

// installCommand prints what runs kist, or leads visitors to it, for someone to
// look at and put in its place: it changes nothing.
type installCommand struct {
	What string `arg:"" enum:"systemd,docker,nginx,caddy,traefik" help:"What to print the file for: systemd, docker, nginx, caddy or traefik."`

	BaseURL    string `name:"base-url" default:"https://kist.example.org" placeholder:"URL" help:"The address under which visitors will reach the server."`
	ContentURL string `name:"content-url" placeholder:"URL" help:"A second address, for stored bytes alone."`
	Listen     string `default:"127.0.0.1:7080" placeholder:"ADDR" help:"Where the server is to listen, and the proxy finds it."`
}

// installation is what the files are made with.
type installation struct {
	Base, Content string // as given
	Host, Apart   string // their hosts; Apart may be ""
	Path          string // of Base, without a slash at its end; may be ""
	Listen, Port  string
	Socket        string // the path of Listen if that is a socket
}

// site is what a proxy serves under one set of host names.
type site struct {
	Host, Also string // Also may be ""
	Path       string // what the proxy takes off; may be ""
}

// Sites are the hosts of in. The second address has no path, so that the two
// differ where the first has one.
func (in installation) Sites() []site {
	if in.Path == "" || in.Apart == "" {
		return []site{{Host: in.Host, Also: in.Apart, Path: in.Path}}
	}
	return []site{{Host: in.Host, Path: in.Path}, {Host: in.Apart}}
}

func (cmd *installCommand) Run(c *Call) error {
	text, err := cmd.text()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.Stdout, text); err != nil {
		return fmt.Errorf("cannot write the file: %w", err)
	}
	return nil
}

func (cmd *installCommand) text() (string, error) {
	in := installation{Base: strings.TrimRight(cmd.BaseURL, "/"), Content: strings.TrimRight(cmd.ContentURL, "/"), Listen: cmd.Listen}
	u, err := hostOf("--base-url", in.Base)
	if err != nil {
		return "", err
	}
	in.Host, in.Path = u.Hostname(), u.Path
	if in.Content != "" {
		if u, err = hostOf("--content-url", in.Content); err != nil {
			return "", err
		}
		in.Apart = u.Hostname()
	}
	if path, ok := SocketPath(cmd.Listen); ok {
		in.Socket = path
	} else if _, in.Port, err = readListen(cmd.Listen); err != nil {
		return "", err
	}
	if in.Socket != "" && (cmd.What == "docker" || cmd.What == "traefik") {
		return "", Misused("%s needs a port: give --listen an address such as 127.0.0.1:7080", cmd.What)
	}
	all, err := template.New("").Delims("<<", ">>").ParseFS(installFiles, "install/*")
	if err != nil {
		return "", fmt.Errorf("the files are badly made: %w", err)
	}
	var b bytes.Buffer
	if err := all.ExecuteTemplate(&b, cmd.What, in); err != nil {
		return "", fmt.Errorf("cannot make the file: %w", err)
	}
	return b.String(), nil
}

// PlainHost reports whether a host, with a port or without, has letters and digits of ASCII and ".-_:[]" alone: net/url
// takes more, which would mean something to pages, headers and files that the host is put into.
func PlainHost(host string) bool {
	return strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == ""
}

// hostOf takes an address apart of which no character means anything to the
// files that it is put into.
func hostOf(flag, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!PlainHost(u.Host) || !PlainHost(strings.ReplaceAll(u.Path, "/", "")) {
		return nil, Misused("%s must be an address such as https://kist.example.org; it is %q", flag, address)
	}
	return u, nil
}
