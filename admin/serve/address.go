// Package serve has what the server needs around its handler: the rules of its
// addresses, its certificates, the claim link, and the answers while it starts.
package serve

import (
	"context"
	"net"
	"net/url"
	"strings"

	"kist/admin/exit"
)

// DefaultListen is where the server listens by default; ${listen} in flags.
const DefaultListen = "127.0.0.1:7080"

// AddressFlags say where the server listens and how visitors reach it.
type AddressFlags struct {
	Listen     string `default:"${listen}" placeholder:"ADDR" help:"Address and port to listen on, or unix:/path of a socket."`
	BaseURL    string `name:"base-url" placeholder:"URL" help:"The URL under which visitors reach the server. Every generated link begins with it, and requests for other host names are refused. If absent, it is made from --listen, and every host name is answered."`
	ContentURL string `name:"content-url" placeholder:"URL" help:"A second URL of the server, with a different host name, that serves only uploaded content. If absent, the base URL serves it."`
}

// Base returns the URL that every generated link begins with, without a slash at
// the end. Its scheme and host depend on the certificates if --base-url is absent.
func (f *AddressFlags) Base(certificates *CertificateFlags) (string, error) {
	_, onSocket := SocketPath(f.Listen)
	local := ""
	if !onSocket {
		var err error
		local, err = LocalAddress(f.Listen, certificates.secure())
		if err != nil {
			return "", err
		}
	}
	switch {
	case f.BaseURL == "" && len(certificates.TLSDomain) > 0:
		return "https://" + certificates.TLSDomain[0], nil
	case f.BaseURL == "" && onSocket:
		return "", exit.Misused("with --listen %s, --base-url must say under which address visitors reach the server",
			f.Listen)
	case f.BaseURL == "":
		return local, nil
	}
	u, err := PublicAddress("--base-url", f.BaseURL)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// SocketPath returns the path of a socket in a listen address such as
// unix:/run/kist.sock.
func SocketPath(listen string) (path string, ok bool) { return strings.CutPrefix(listen, "unix:") }

// ReadListen splits a listen address on TCP into host and port. It fails with an
// error of usage, which names the flag.
func ReadListen(listen string) (host, port string, err error) {
	misused := exit.Misused("--listen must be an address and a port of 0 to 65535, such as 127.0.0.1:7080, "+
		"or unix: and a path; it is %q", listen)
	host, port, err = net.SplitHostPort(listen)
	if err != nil {
		return "", "", misused
	}
	if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil {
		return "", "", misused
	}
	return host, port, nil
}

// LocalAddress returns the URL of a server that listens on host:port, as seen from
// the same machine, without a slash at the end. A server on all addresses is
// reached by the name localhost.
func LocalAddress(listen string, secure bool) (string, error) {
	host, port, err := ReadListen(listen)
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

// PublicAddress reads the URL under which visitors reach a server. It must be an
// absolute http or https URL without query, fragment and user, and its host must
// be a PlainHost. The error is one of usage and names the flag.
func PublicAddress(flag, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, exit.Misused("%s must be an absolute http or https address without query and fragment, "+
			"such as https://kist.example.org; it is %q", flag, address)
	}
	if !PlainHost(u.Host) {
		return nil, exit.Misused("%s must have a host of letters, digits, dots and hyphens, "+
			"such as https://kist.example.org; names in other scripts in their form that begins with xn--; it is %q",
			flag, address)
	}
	return u, nil
}

// PlainHost reports whether a host, with or without a port, consists of ASCII
// letters, digits and ".-_:[]". net/url accepts more characters, and some of them
// have a meaning in the pages, headers and files that hosts are put into.
func PlainHost(host string) bool {
	return strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == ""
}
