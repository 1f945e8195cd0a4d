// Package outbound sends requests to addresses that users enter. For each connection it checks the
// address that the name has at that moment. So neither a name that changes its address nor a redirect
// can lead into the server's own network.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds of a request, in addition to its deadline.
const (
	connectTime = 5 * time.Second // for each address of a host, and for TLS
	headBytes   = 32 << 10        // of an answer's head
	maxTried    = 4               // addresses of a host that are tried
)

// Options configure a Client.
type Options struct {
	// Allow lists what may be reached besides the public internet.
	Allow []Allowed
	// Lookup resolves a host name; nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that passed the check; nil means the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Own lists the server's addresses with the prefix lengths of their networks; nil means
	// net.InterfaceAddrs.
	Own func() ([]net.Addr, error)
}

// A Client sends http and https requests. It ignores proxy settings, keeps no connections, and neither
// requests nor decodes compression. Each request dials, and each dial checks the address. It is safe
// for concurrent use.
type Client struct {
	allow     []Allowed
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	connect   func(ctx context.Context, network, address string) (net.Conn, error)
	own       func() ([]net.Addr, error)
	only      *string // the only host to which allow applies; nil means any
	jar       http.CookieJar
	transport http.RoundTripper
}

// New makes a client.
func New(o Options) *Client {
	c := &Client{allow: o.Allow, lookup: o.Lookup, connect: o.Dial, own: o.Own}
	if c.connect == nil {
		c.connect = (&net.Dialer{Timeout: connectTime}).DialContext
	}
	if c.lookup == nil {
		c.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.own == nil {
		c.own = net.InterfaceAddrs
	}
	c.transport = c.dials()
	return c
}

func (c *Client) dials() http.RoundTripper {
	return &http.Transport{
		DialContext: c.dial, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: headBytes,
		DisableKeepAlives: true, DisableCompression: true,
	}
}

// Only is a client that reaches public addresses, and of those allowed beyond that only the one host.
// It is for addresses that a host names, not a person.
func (c *Client) Only(host string) *Client {
	one, host := *c, canonical(host)
	one.only = &host
	one.transport = one.dials()
	return &one
}

// Session is a client that returns the cookies that it gets, as some sites want for their first page. It is for the
// requests for one page, and keeps what the heads of their answers have.
func (c *Client) Session() *Client {
	one := *c
	one.jar, _ = cookiejar.New(nil) // never fails without options
	return &one
}

// Do sends a request and follows up to redirects redirects; a further one is returned as the answer.
// The deadline of the request's context includes reading the body. The caller may stop reading it at
// any point. The error for an address that must not be reached is a *Refused.
func (c *Client) Do(r *http.Request, redirects int) (*http.Response, error) {
	if err := acceptable(r.URL); err != nil {
		return nil, err
	}
	client := http.Client{Transport: c.transport, Jar: c.jar, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > redirects {
			return http.ErrUseLastResponse
		}
		next.Header.Del("Referer")
		return acceptable(next.URL)
	}}
	res, err := client.Do(r)
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // its text has the whole address, which may contain a secret
		err = wrapped.Err
	}
	return res, err
}

// acceptable refuses addresses that are never requested.
func acceptable(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return &Refused{Host: canonical(u.Hostname()), Why: "is not an http or https address"}
	case u.User != nil:
		return &Refused{Host: canonical(u.Hostname()), Why: "must not have a user name or a password"}
	case canonical(u.Hostname()) == "":
		return &Refused{Host: canonical(u.Hostname()), Why: "is not a host"}
	}
	return nil
}

// Check refuses an address that is known to be forbidden without using the network. The address of a
// name is known only when it is dialled.
func (c *Client) Check(u *url.URL) error {
	if err := acceptable(u); err != nil {
		return err
	}
	host := canonical(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		return c.refuse(host, a)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch {
	case last == "localhost":
		return c.refuse(host, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case strings.Trim(last, "0123456789") == "", strings.HasPrefix(last, "0x"):
		// Some resolvers read 2130706433, 127.1 and 0x7f.1 as addresses.
		return &Refused{Host: host, Why: "is neither a name nor an address in its usual form"}
	}
	return nil
}

// Refuses says why the server may not call an address, as far as that can be known in advance; "" if it may.
// It completes the sentence "<name> …".
func (c *Client) Refuses(address string) (why string) {
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return ""
	}
	var refused *Refused
	if !errors.As(c.Check(u), &refused) {
		return ""
	}
	text := strings.TrimSuffix(refused.Error(), ".")
	return "must be an address that the server may call: " + strings.ToLower(text[:1]) + text[1:]
}

// canonical is a host in the form for comparisons: lower case, without the final dot, and an IPv4 address that is
// written as IPv6 as the IPv4 address.
func canonical(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	a, err := netip.ParseAddr(host)
	if err != nil || !a.Is4In6() {
		return host
	}
	return a.Unmap().WithZone("").String()
}

// dial resolves the host and connects to the first of its allowed addresses that answers.
func (c *Client) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	host = canonical(host)
	addrs, err := c.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var refused error
	open := slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		err := c.refuse(host, a)
		if refused == nil {
			refused = err
		}
		return err != nil
	})
	if len(open) == 0 {
		return nil, refused
	}
	var failed error
	for _, a := range open[:min(len(open), maxTried)] {
		conn, err := c.connect(ctx, network, net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		failed = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.lookup(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("the host %s cannot be found: %w", host, err)
	}
	return slices.Clone(addrs), nil
}

// Refused says why the server does not connect to an address.
type Refused struct {
	Host    string
	Addr    netip.Addr // the zero Addr if the host was refused already
	Why     string     // completes the sentence "The address …" or "The host …"
	Private bool       // an administrator may allow it
}

func (r *Refused) Error() string {
	text := "The host " + r.Host
	if r.Addr.IsValid() {
		text += hasAddress + r.Addr.String() + whichAddress
	}
	text += " " + r.Why
	if r.Private {
		text += "; an administrator can allow it with --allow-outbound " + r.Host
	}
	return text + "."
}

// The words around a host's address in a sentence.
const hasAddress, whichAddress = " has the address ", ", which"

var addressOfHost = regexp.MustCompile(hasAddress + `[0-9A-Fa-f:.]+` + whichAddress)

// Hide removes the addresses of hosts from a sentence made by Refused or Explain, because they reveal
// the server's network to users.
func Hide(text string) string { return addressOfHost.ReplaceAllString(text, "") }

// refuse returns nil if the host may be reached at the address.
func (c *Client) refuse(host string, a netip.Addr) error {
	why, reach := judge(a)
	if reach == anyone {
		if owned, err := c.own(); err != nil {
			why, reach = "may be the server's own address, because the system does not list those", allowed
		} else {
			why, reach = near(a, owned)
		}
	}
	switch reach {
	case anyone:
		return nil
	case allowed:
		if (c.only == nil || *c.only == host) && slices.ContainsFunc(c.allow, func(x Allowed) bool {
			return x.covers(host, a.Unmap().WithZone(""))
		}) {
			return nil
		}
	}
	return &Refused{Host: host, Addr: a.Unmap(), Why: why, Private: reach == allowed}
}

// Allowed is a host or a range of addresses that may be reached although it is not public.
type Allowed struct {
	host string
	net  netip.Prefix
}

// UnmarshalText reads a host name (nas.lan), an address (192.168.1.5) or a range (192.168.0.0/16).
func (x *Allowed) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	bad := fmt.Errorf("%q must be a host, an address or a range, such as nas.lan, 192.168.1.5 or 10.0.0.0/8", t)
	if p, err := netip.ParsePrefix(t); err == nil {
		if p.Addr().Is4In6() {
			return fmt.Errorf("%q must be written as a range of IPv4 addresses, such as 10.0.0.0/8", t)
		}
		*x = Allowed{net: p.Masked()}
		return nil
	}
	if a, err := netip.ParseAddr(strings.Trim(t, "[]")); err == nil {
		if a.Zone() != "" {
			return bad
		}
		a = a.Unmap()
		*x = Allowed{net: netip.PrefixFrom(a, a.BitLen())}
		return nil
	}
	host := canonical(t)
	u, err := url.Parse("http://" + host)
	if err != nil || u.Hostname() != host || host == "" {
		return bad
	}
	*x = Allowed{host: host}
	return nil
}

func (x Allowed) covers(host string, a netip.Addr) bool {
	if x.host != "" {
		return x.host == host
	}
	return x.net.Contains(a)
}
