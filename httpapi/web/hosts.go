package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// HSTS tells browsers to use only HTTPS for a year (RFC 6797). It leaves out subdomains,
// which may not be ours, and preload lists, which are hard to leave.
var HSTS = []string{"max-age=31536000"}

// lastValue is the last value of a header to which proxies append, or "".
func lastValue(h http.Header, name string) string {
	values := h.Values(name)
	if len(values) == 0 {
		return ""
	}
	last := values[len(values)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

// ByProxy reports whether the request came from a trusted proxy.
func (s *Site) ByProxy(r *http.Request) bool {
	_, proxy := s.peer(r)
	return proxy
}

// proto is the client's scheme according to a trusted proxy (X-Forwarded-Proto), in lower
// case; "" if no trusted proxy says it.
func (s *Site) proto(r *http.Request) string {
	if !s.ByProxy(r) {
		return ""
	}
	return strings.ToLower(lastValue(r.Header, "X-Forwarded-Proto"))
}

// ByHTTPS reports whether the client used HTTPS. A trusted proxy knows better than the
// connection, which leads only to the proxy.
func (s *Site) ByHTTPS(r *http.Request) bool {
	if proto := s.proto(r); proto != "" {
		return proto == "https"
	}
	return r.TLS != nil
}

// Secure reports whether the cookies of this request are only for HTTPS: the server's
// address is https, or the request came by HTTPS.
func (c *Request) Secure() bool {
	of := c.Site.BaseURL.Scheme
	if c.AtContentOrigin() {
		of = c.Site.ContentScheme
	}
	return of == "https" || c.Site.ByHTTPS(c.R)
}

// HostName is the name or address in a Host header: in lower case, without port, brackets
// and final dot.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// IsOwnHost reports whether a host name is the base URL's or the content URL's.
func (s *Site) IsOwnHost(name string) bool {
	return name == s.BaseName || s.Content != "" && name == s.ContentName
}

// AtContentOrigin reports whether the request came to the separate origin for content,
// if the server has one. That origin serves only content, and only grants identify
// visitors there.
func (c *Request) AtContentOrigin() bool { return c.W.Away }

// AtContent reports whether a request came to the separate origin for content, if the
// server has one.
func (s *Site) AtContent(r *http.Request) bool {
	return s.Content != "" && CanonicalHost(s.ContentScheme, s.host(r)) == s.ContentHost
}

// CanonicalHost is a host with its port as origins compare them (RFC 6454, section 4):
// in lower case, without the scheme's default port.
func CanonicalHost(scheme, host string) string {
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), port), ":")
}

// isFixedHost reports whether DNS cannot make a host name lead here: localhost, an
// address, or an empty name.
func isFixedHost(name string) bool {
	if name == "" || name == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// AnswersFor reports whether the server answers a request for this host. It refuses
// unknown names, so that another site's page reaches nothing under a name that DNS makes
// lead here (DNS rebinding).
func (s *Site) AnswersFor(r *http.Request) bool {
	name := HostName(s.host(r))
	return s.AnyHost || s.IsOwnHost(name) || isFixedHost(name)
}

// IsProbe reports whether a path is one for monitors, which may use any host name.
func IsProbe(path string) bool {
	return path == "/healthz" || strings.HasPrefix(path, "/healthz/") || path == "/readyz" || path == "/metrics"
}

// WarnProxyMismatch logs, once each, that a trusted proxy's scheme or host differs from
// the base URL's.
func (s *Site) WarnProxyMismatch(r *http.Request) {
	if len(s.TrustedProxies) == 0 || s.warnedProto.Load() && s.warnedHost.Load() || IsProbe(r.URL.Path) {
		return
	}
	if !s.ByProxy(r) {
		return
	}

	ours, scheme := s.Base, s.BaseURL.Scheme
	if s.AtContent(r) {
		ours, scheme = s.Content, s.ContentScheme
	}
	proto, name := s.proto(r), HostName(s.host(r))
	differs := (proto == "http" || proto == "https") && proto != scheme
	if differs && s.warnedProto.CompareAndSwap(false, true) {
		s.Log.Warn("a trusted proxy reports another scheme than that of the base URL; "+
			"set --base-url to the address that visitors use, or correct X-Forwarded-Proto",
			"address", ours, "proxySays", proto)
	}
	foreign := !s.IsOwnHost(name) && !isFixedHost(name)
	if foreign && s.warnedHost.CompareAndSwap(false, true) {
		s.Log.Warn("a trusted proxy forwards requests for a host that is not the base URL's; "+
			"set --base-url to the address that visitors use, or make the proxy forward the Host header",
			"address", ours, "proxySays", CutTo(name, maxLogged))
	}
}

// HidesPath reports whether a path hides separators or leads out of its folder: an escaped
// slash, a backslash, or a segment of dots. The router sees the path without escapes and
// would act on what they hide.
func HidesPath(u *url.URL) bool {
	if strings.Contains(u.Path, `\`) || strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return true
	}
	dots := func(segment string) bool { return segment == "." || segment == ".." }
	return slices.ContainsFunc(strings.Split(u.Path, "/"), dots)
}

// Prefix is the path below which the server's addresses are, escaped: "" or "/kist".
func (s *Site) Prefix() string {
	u, err := url.Parse(s.Base)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.EscapedPath(), "/")
}
