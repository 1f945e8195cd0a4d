package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// HSTS tells browsers to use HTTPS alone for a year (RFC 6797). It says nothing
// of subdomains, which are not ours, and asks for no preload list, which is hard
// to leave.
var HSTS = []string{"max-age=31536000"}

// lastValue is the last value of a header that proxies add to; "" if there is none.
func lastValue(h http.Header, name string) string {
	values := h.Values(name)
	if len(values) == 0 {
		return ""
	}
	last := values[len(values)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

// proto is the scheme that a trusted proxy says the client used
// (X-Forwarded-Proto), in lower case; "" if none says so.
func (s *Site) proto(r *http.Request) string {
	if _, proxy := s.peer(r); !proxy {
		return ""
	}
	return strings.ToLower(lastValue(r.Header, "X-Forwarded-Proto"))
}

// ByHTTPS reports whether the client reached the server over HTTPS. A trusted
// proxy knows better than the connection, which leads to the proxy alone.
func (s *Site) ByHTTPS(r *http.Request) bool {
	if proto := s.proto(r); proto != "" {
		return proto == "https"
	}
	return r.TLS != nil
}

// Secure reports whether the cookies of this call are for HTTPS alone: the
// address of the server is https, or the request came by HTTPS.
func (c *Request) Secure() bool {
	of := c.Site.BaseURL.Scheme
	if c.AtContentOrigin() {
		of = c.Site.ContentScheme
	}
	return of == "https" || c.Site.ByHTTPS(c.R)
}

// SiteCookie is the name of a cookie for the whole site. With the prefix,
// browsers take it over HTTPS from this host alone (RFC 6265bis, section
// 4.1.3). Without it, another host of the domain could have set the cookie, so
// over HTTPS no other name is read.
func (c *Request) SiteCookie(name string) string {
	if c.Secure() {
		return "__Host-" + name
	}
	return name
}

// HostName is the name or address in a Host: in lower case, without port,
// brackets and final dot.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isOwnHost reports whether a host name is the base URL's or the content URL's.
func (s *Site) isOwnHost(name string) bool {
	return name == s.BaseName || s.Content != "" && name == s.ContentName
}

// isFixedHost reports whether a host name cannot be made to lead here by somebody's
// DNS: localhost, an address, or none.
func isFixedHost(name string) bool {
	if name == "" || name == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// AnswersFor reports whether the server answers a request for this host. It
// refuses names that it does not know, so that a page of another site whose name
// was made to lead here (DNS rebinding) reaches nothing.
func (s *Site) AnswersFor(r *http.Request) bool {
	name := HostName(s.host(r))
	return s.AnyHost || s.isOwnHost(name) || isFixedHost(name)
}

// IsProbe reports whether a path is one that monitors ask, by whatever name.
func IsProbe(path string) bool {
	return path == "/healthz" || strings.HasPrefix(path, "/healthz/") || path == "/readyz" || path == "/metrics"
}

// WarnProxyMismatch writes to the log, once for each, that what a trusted proxy says of
// the client's scheme or host is not what the base URL says.
func (s *Site) WarnProxyMismatch(r *http.Request) {
	if len(s.TrustedProxies) == 0 || s.toldProto.Load() && s.toldHost.Load() || IsProbe(r.URL.Path) {
		return
	}
	if _, proxy := s.peer(r); !proxy {
		return
	}
	name := HostName(s.host(r))
	ours := s.Base
	scheme := s.BaseURL.Scheme
	if s.AtContent(r) {
		ours, scheme = s.Content, s.ContentScheme
	}
	if proto := s.proto(r); (proto == "http" || proto == "https") && proto != scheme && s.toldProto.CompareAndSwap(false, true) {
		s.Log.Warn("a trusted proxy says that visitors use another scheme than the address in the settings has; set --base-url to the address that visitors use, or correct X-Forwarded-Proto",
			"address", ours, "proxySays", proto)
	}
	if !s.isOwnHost(name) && !isFixedHost(name) && s.toldHost.CompareAndSwap(false, true) {
		s.Log.Warn("a trusted proxy passes on requests for a host that is not the base URL's; set --base-url to the address that visitors use, or have the proxy pass the Host on",
			"address", ours, "proxySays", CutTo(name, maxLogged))
	}
}

// HidesPath reports whether a path hides what separates segments or leads out of
// them: an escaped slash, a backslash, or a segment of dots. The router sees
// the path without escapes and would take them for what they hide.
func HidesPath(u *url.URL) bool {
	if strings.Contains(u.Path, `\`) || strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return true
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}
