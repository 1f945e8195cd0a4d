package admin

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/template"

	"kist/admin/exit"
	"kist/admin/serve"
)

//go:embed install
var installFiles embed.FS

// installCommand prints a configuration file for a program that runs kist or leads
// visitors to it. It changes nothing.
type installCommand struct {
	What string `arg:"" enum:"systemd,docker,compose,unraid,nginx,caddy,traefik" help:"The program to configure: systemd, docker, compose, unraid, nginx, caddy or traefik."`

	BaseURL    string `name:"base-url" default:"https://kist.example.org" placeholder:"URL" help:"The URL under which visitors will reach the server."`
	ContentURL string `name:"content-url" placeholder:"URL" help:"A second URL, for uploaded content only."`
	AuthHeader string `placeholder:"NAME" help:"The header in which the proxy names who is signed in. The file removes it from the requests of clients."`
	Listen     string `default:"${listen}" placeholder:"ADDR" help:"The address at which the server will listen and the proxy will reach it."`
}

// exampleHost stands in what is printed for a server whose name is not known: the default of --base-url has it.
const exampleHost = "kist.example.org"

// installation is the data of the templates.
type installation struct {
	Base, Content  string // as given
	Sites          []site // of Base, and of Content if it differs in more than its host
	AuthHeader     string // "" if the proxy does not sign in
	Listen, Port   string
	Socket         string // the path of Listen if that is a socket
	Example        string // says that the host is an example; "" if it is not
	Image, Archive string // the container image of this program's version, and the file of the release that has it
}

// site is what a proxy serves under one set of host names.
type site struct {
	Host, Also string // as in addresses: an IPv6 address has brackets; Also may be ""
	Port       string
	Plain      bool   // without TLS
	Path       string // what the proxy removes, without a slash at its end; may be ""
}

func siteOf(u *url.URL) site {
	s := site{Host: strings.TrimSuffix(u.Host, ":"+u.Port()), Port: u.Port(), Plain: u.Scheme == "http", Path: u.Path}
	s.Port = cmp.Or(s.Port, s.Usual())
	return s
}

// Usual is the default port of the scheme.
func (s site) Usual() string {
	if s.Plain {
		return "80"
	}
	return "443"
}

// Address is the address of the site as Caddy writes it.
func (s site) Address() string { return s.With(s.Host) }

// With is Address with another host.
func (s site) With(host string) string {
	if s.Port != s.Usual() {
		host += ":" + s.Port
	}
	if s.Plain {
		host = "http://" + host
	}
	return host
}

func (cmd *installCommand) Run(c *Call) error {
	text, err := cmd.text(c.Build.Version)
	if err != nil {
		return err
	}
	if strings.Contains(text, exampleHost) {
		fmt.Fprintf(c.Stderr, "%s in it is an example: put the name of your server in its place, "+
			"or name it with --base-url.\n", exampleHost)
	}
	return c.say(map[string]string{"name": cmd.What, "content": text}, "%s", strings.TrimSuffix(text, "\n"))
}

func (cmd *installCommand) text(version string) (string, error) {
	in := installation{
		Base: strings.TrimRight(cmd.BaseURL, "/"), Content: strings.TrimRight(cmd.ContentURL, "/"),
		AuthHeader: cmd.AuthHeader, Listen: cmd.Listen,
		Image:   "kist:" + strings.ReplaceAll(version, "+", "-"), // a tag has no +
		Archive: "kist-" + version + "-oci.tar",
	}
	u, err := serve.PublicAddress("--base-url", in.Base)
	if err != nil {
		return "", err
	}
	if !serve.PlainHost(strings.ReplaceAll(u.Path, "/", "")) {
		return "", exit.Misused("--base-url must have a path of letters, digits, dots, "+
			"hyphens and underscores to stand in a file; it is %q", in.Base)
	}
	if in.AuthHeader != "" && !(serve.CanNameUser(in.AuthHeader) && serve.PlainHost(in.AuthHeader)) {
		return "", exit.Misused("--auth-header must name a header for the user, such as Remote-User; it is %q",
			in.AuthHeader)
	}

	if u.Hostname() == exampleHost {
		in.Example = exampleHost + " is an example: put the name of your server in its place, everywhere in this file."
	}
	in.Sites = []site{siteOf(u)}
	if in.Content != "" {
		u, err := serve.PublicAddress("--content-url", in.Content)
		if err != nil {
			return "", err
		}
		one, other := &in.Sites[0], siteOf(u)
		switch {
		case other.Path != "":
			return "", exit.Misused("--content-url must have no path, as %s has", in.Content)
		case strings.EqualFold(one.Host, other.Host) && one.Port == other.Port:
			return "", exit.Misused("--content-url must have another host than --base-url, %s", in.Base)
		case one.Path == "" && one.Port == other.Port && one.Plain == other.Plain:
			one.Also = other.Host
		default:
			in.Sites = append(in.Sites, other)
		}
	}

	path, onSocket := serve.SocketPath(cmd.Listen)
	if onSocket {
		in.Socket = path
	} else {
		_, port, err := serve.ReadListen(cmd.Listen)
		if err != nil {
			return "", err
		}
		in.Port = port
	}
	if in.Socket != "" && slices.Contains([]string{"docker", "compose", "unraid", "traefik"}, cmd.What) {
		return "", exit.Misused("%s needs a port: give --listen an address such as 127.0.0.1:7080", cmd.What)
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
