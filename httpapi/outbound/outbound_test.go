package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestJudge(t *testing.T) {
	of := map[reach]string{
		nobody: `0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 224.0.0.1 239.255.255.255 255.255.255.255 240.0.0.1 192.0.0.8
			168.63.129.16 100.100.100.200 192.0.0.192 192.88.99.1
			:: ::ffff:0.0.0.0 ::ffff:169.254.169.254 ::169.254.169.254 ::127.0.0.1 ::ffff:0:7f00:1 fe80::1 fe80::1%eth0 febf::1 ff02::1 fd00:ec2::254 fd20:ce::254
			64:ff9b::169.254.169.254 64:ff9b::0.0.0.0 64:ff9b:1::1 64:ff9b:1:ffff::127.0.0.1 2002:7f00:1:: 2002:a9fe:a9fe:: 2002:808:808::
			2001::1 2001:0:53aa:64c::1 2001:10::1 2001:2::1 100::1 4000::1 1::1 5f00::1`,
		allowed: `127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 198.18.0.1 198.19.255.255
			192.0.2.1 198.51.100.1 203.0.113.1
			::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 fc00::1 fd12:3456::1 fec0::1 2001:db8::1 64:ff9b::127.0.0.1 64:ff9b::192.168.0.1`,
		anyone: `1.1.1.1 8.8.8.8 172.15.0.1 172.32.0.1 100.63.255.255 100.128.0.1 169.253.0.1 192.0.1.1 198.17.0.1 198.20.0.1 223.255.255.255
			2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2003::1`,
	}
	for want, texts := range of {
		for text := range strings.FieldsSeq(texts) {
			why, got := judge(netip.MustParseAddr(text))
			if got != want || (why == "") != (got == anyone) {
				t.Errorf("%s: %d %q, want %d", text, got, why, want)
			}
		}
	}
	if _, got := judge(netip.Addr{}); got != nobody {
		t.Error("the zero address may be reached")
	}
}

// The server's own addresses are not for anyone, be they public, nor is the
// IPv6 network that it is in.
func TestOwnAddresses(t *testing.T) {
	is := is.New(t)
	own := func() (all []net.Addr, err error) {
		for _, text := range []string{
			"127.0.0.1/8", "198.41.0.4/24", "2a01:4f8:1:2::1/128", "fe80::1/64", "2606:4700::5/48",
		} {
			ip, n, err := net.ParseCIDR(text)
			is.NoErr(err)
			all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return append(all, &net.UnixAddr{Name: "/x"}), nil
	}
	of := map[bool]string{
		true:  "198.41.0.4 ::ffff:198.41.0.4 64:ff9b::c629:4 2a01:4f8:1:2::1 2a01:4f8:1:2:ffff::9 2606:4700::5 2606:4700::6",
		false: "198.41.0.5 2a01:4f8:1:3::1 2606:4700:0:1::5 64:ff9b::c629:5 1.1.1.1",
	}
	c, c2 := New(Options{Own: own}), New(Options{Own: own, Allow: allow(t, "198.41.0.4", "2000::/3", "64:ff9b::/96")})
	for want, texts := range of {
		for text := range strings.FieldsSeq(texts) {
			r := refusedBy(c.refuse("x.example", netip.MustParseAddr(text)))
			if (r != nil) != want || r != nil && !r.Private {
				t.Errorf("%s: %v", text, r)
			}
			if err := c2.refuse("x.example", netip.MustParseAddr(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	u, err := url.Parse("http://198.41.0.4:8080/")
	is.NoErr(err)
	is.Equal(
		c.Check(u).Error(),
		"The host 198.41.0.4 has the address 198.41.0.4, which is the server itself; an administrator can allow it with "+
			"--allow-outbound 198.41.0.4.",
	)
	_, err = get(
		t, New(Options{Own: own, Lookup: names(map[string][]string{"home.example": {"198.41.0.4"}}).lookup}),
		"http://home.example/", 0,
	)
	is.True(refusedBy(err) != nil)

	// Where they are not known, nothing is taken for public.
	blind := New(Options{Own: func() ([]net.Addr, error) { return nil, errors.New("no") }})
	is.True(refusedBy(blind.refuse("x.example", netip.MustParseAddr("1.1.1.1"))).Private)
}

func allow(t testing.TB, texts ...string) []Allowed {
	t.Helper()
	var all []Allowed
	for _, text := range texts {
		var x Allowed
		if err := x.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func TestAllowedReads(t *testing.T) {
	is := is.New(t)
	for _, bad := range []string{
		"", " ", "http://nas.lan", "nas.lan:80", "a b", "10.0.0.0/33", "fe80::1%eth0", "user@nas", "nas/", ".",
		"::ffff:192.168.0.0/112",
	} {
		var x Allowed
		if x.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	a := netip.MustParseAddr("192.168.1.5")
	for text, want := range map[string]bool{
		"nas.lan": true, "NAS.LAN.": true, "192.168.1.5": true, " 192.168.0.0/16 ": true, "::ffff:192.168.1.5": true,
		"lan": false, "other.lan": false, "192.168.1.6": false, "10.0.0.0/8": false, "::1": false, "[::1]": false,
	} {
		if got := allow(t, text)[0].covers("nas.lan", a); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	is.True(allow(t, "[::1]")[0].covers("x", netip.MustParseAddr("::1")))
}

// The answers of the resolver in these tests; each call takes the next of a
// host, and the last one for good.
type fakeNames struct {
	of    map[string][]string
	asked map[string]*atomic.Int64
}

func names(of map[string][]string) *fakeNames {
	f := &fakeNames{of: of, asked: map[string]*atomic.Int64{}}
	for host := range of {
		f.asked[host] = new(atomic.Int64)
	}
	return f
}

func (f *fakeNames) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	turns := f.of[host]
	if turns == nil {
		return nil, fmt.Errorf("no such host")
	}
	n := int(f.asked[host].Add(1)) - 1
	var all []netip.Addr
	for text := range strings.FieldsSeq(turns[min(n, len(turns)-1)]) {
		all = append(all, netip.MustParseAddr(text))
	}
	return all, nil
}

func get(t testing.TB, c *Client, address string, redirects int) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r, redirects)
	if err == nil {
		t.Cleanup(func() { res.Body.Close() })
	}
	return res, err
}

func refusedBy(err error) *Refused {
	var r *Refused
	errors.As(err, &r)
	return r
}

// receiver is a server on 127.0.0.1 that counts what reaches it.
func receiver(t testing.TB, h http.HandlerFunc) (port string, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port(), reached
}

func fine(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }

// Every spelling of the server's own and of the network's addresses is
// refused, before a byte is sent.
func TestRefusedSpellings(t *testing.T) {
	is := is.New(t)
	port, reached := receiver(t, fine)
	f := names(map[string][]string{
		"localhost": {"127.0.0.1"}, "internal.example": {"10.0.0.1 192.168.1.1"}, "meta.example": {"169.254.169.254"},
		"127.0.0.1.nip.io": {"127.0.0.1"}, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"},
		// As a C library reads them.
		"2130706433": {"127.0.0.1"}, "0x7f.1": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "017700000001": {"127.0.0.1"}, "127.1": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"}, "0": {"0.0.0.0"},
	})
	c := New(Options{Lookup: f.lookup})
	for host := range strings.FieldsSeq(`127.0.0.1 localhost LOCALHOST localhost. [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] 0.0.0.0 [::] [::127.0.0.1]
		2130706433 0x7f.1 0x7f000001 017700000001 127.1 0177.0.0.1 0 127.0.0.1. 169.254.169.254 [64:ff9b::7f00:1] [64:ff9b:1::7f00:1]
		[2002:7f00:1::] [2001:0:53aa:64c::1] [fe80::1] [fe80::1%25lo] internal.example meta.example 127.0.0.1.nip.io six.example mapped.example`) {
		_, err := get(t, c, "http://"+host+":"+port+"/", 5)
		if refusedBy(err) == nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, address := range []string{
		"ftp://example.org/", "gopher://example.org/", "file:///etc/passwd", "unix:///x", "http://user:pw@example.org/",
		"http:///x", "http://./",
	} {
		if _, err := get(t, c, address, 0); refusedBy(err) == nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	_, err := get(t, c, "http://unknown.example/secret-token", 0)
	is.True(err != nil && strings.Contains(err.Error(), "unknown.example cannot be found"))
	is.True(!strings.Contains(err.Error(), "secret-token"))
	is.Equal(reached.Load(), int64(0))
}

// What can be told without asking the network is told when it is entered.
func TestCheck(t *testing.T) {
	is := is.New(t)
	c := New(Options{Allow: allow(t, "192.168.1.5", "nas.local"), Lookup: names(nil).lookup})
	for text, want := range map[string]bool{
		"http://example.org/": true, "https://1.1.1.1:8443/x": true, "http://192.168.1.5/": true, "http://nas.local": true, "http://printer.lan/": true, "http://1password.com/": true,
		"http://127.0.0.1/": false, "http://localhost./": false, "http://x.localhost/": false, "http://2130706433/": false, "http://0x7f.1/": false,
		"http://127.1/": false, "http://[fe80::1]/": false, "http://192.168.1.6/": false, "http://a.0x7f/": false, "http://169.254.169.254/": false,
	} {
		u, err := url.Parse(text)
		is.NoErr(err)
		if got := c.Check(u); (got == nil) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	u, err := url.Parse("http://127.0.0.1:9/")
	is.NoErr(err)
	is.Equal(
		c.Check(u).Error(),
		"The host 127.0.0.1 has the address 127.0.0.1, which is the server itself; an administrator can allow it with "+
			"--allow-outbound 127.0.0.1.",
	)
}

// A name that was public a moment ago and is not now is refused: the address
// that is checked is the one that is connected to, at each try.
func TestRebinding(t *testing.T) {
	is := is.New(t)
	port, reached := receiver(t, fine)
	f := names(map[string][]string{
		"flips.example": {"127.0.0.2", "127.0.0.1", "127.0.0.2"}, "both.example": {"127.0.0.1 127.0.0.2"},
	})
	c := New(Options{Allow: allow(t, "127.0.0.2/32"), Lookup: f.lookup}) // stands for what is public
	closed := httptest.NewServer(nil)
	closed.Close()
	_, err := get(t, c, "http://flips.example:"+closed.URL[strings.LastIndexByte(closed.URL, ':')+1:]+"/", 0)
	is.True(err != nil && refusedBy(err) == nil) // it was dialled
	_, err = get(t, c, "http://flips.example:"+port+"/", 0)
	is.Equal(refusedBy(err).Addr.String(), "127.0.0.1")
	is.Equal(f.asked["flips.example"].Load(), int64(2)) // once for each try
	_, err = get(t, c, "http://both.example:"+port+"/", 0)
	is.True(err != nil && refusedBy(err) == nil) // of two addresses, the one that may be
	is.Equal(reached.Load(), int64(0))
}

func TestAllowedHosts(t *testing.T) {
	is := is.New(t)
	port, reached := receiver(t, fine)
	f := names(map[string][]string{"nas.lan": {"127.0.0.1"}, "evil.lan": {"127.0.0.1"}, "meta.lan": {"169.254.169.254"}})
	c := New(Options{Allow: allow(t, "nas.lan", "meta.lan", "169.254.0.0/16"), Lookup: f.lookup})
	res, err := get(t, c, "http://NAS.lan.:"+port+"/", 0)
	is.NoErr(err)
	is.Equal(res.StatusCode, 200)
	_, err = get(t, c, "http://evil.lan:"+port+"/", 0)
	is.True(refusedBy(err).Private)
	_, err = get(t, c, "http://meta.lan/", 0) // allowed or not
	is.True(refusedBy(err) != nil && !refusedBy(err).Private)
	is.Equal(reached.Load(), int64(1))
}

// A client for one host does not reach other hosts, not even allowed ones.
func TestOnly(t *testing.T) {
	is := is.New(t)
	var port string
	port, reached := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/on" {
			http.Redirect(w, r, "http://other.lan:"+port+"/", http.StatusFound)
		}
	})
	f := names(map[string][]string{"nas.lan": {"127.0.0.1"}, "other.lan": {"127.0.0.1"}})
	c := New(Options{Allow: allow(t, "127.0.0.0/8"), Lookup: f.lookup})
	one := c.Only("NAS.lan.")
	_, err := get(t, one, "http://nas.lan:"+port+"/", 0)
	is.NoErr(err)
	for _, address := range []string{"http://other.lan:" + port + "/", "http://127.0.0.1:" + port + "/"} {
		_, err = get(t, one, address, 0)
		is.True(refusedBy(err) != nil)
		_, err = get(t, c.Only(""), address, 0)
		is.True(refusedBy(err) != nil)
	}
	_, err = get(t, one, "http://nas.lan:"+port+"/on", 1)
	is.True(refusedBy(err) != nil)
	is.Equal(reached.Load(), int64(2))
	is.NoErr(one.refuse("public.example", netip.MustParseAddr("1.1.1.1")))
	_, err = get(t, c, "http://nas.lan:"+port+"/on", 1)
	is.NoErr(err)
}

func TestRedirects(t *testing.T) {
	is := is.New(t)
	var port string
	port, reached := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Referer") != "" {
			t.Error("the referrer is told")
		}
		switch n := r.URL.Query().Get("n"); n {
		case "":
			fine(w, r)
		case "in":
			http.Redirect(w, r, "http://inside.example:"+port+"/", http.StatusFound)
		case "file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "user":
			http.Redirect(w, r, "http://u:p@good.example:"+port+"/", http.StatusFound)
		case "0":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, "/?n="+string(n[0]-1), http.StatusTemporaryRedirect)
		}
	})
	f := names(map[string][]string{"good.example": {"127.0.0.1"}, "inside.example": {"127.0.0.3"}})
	c := New(Options{Allow: allow(t, "good.example"), Lookup: f.lookup})
	at := "http://good.example:" + port + "/?n="
	res, err := get(t, c, at+"in", 0) // not followed
	is.NoErr(err)
	is.Equal(res.StatusCode, http.StatusFound)
	is.Equal(reached.Load(), int64(1))
	res, err = get(t, c, at+"4", 5) // five redirects
	is.NoErr(err)
	is.Equal(res.StatusCode, 200)
	res, err = get(t, c, at+"5", 5) // six
	is.NoErr(err)
	is.Equal(res.StatusCode, http.StatusTemporaryRedirect)
	before := reached.Load()
	for _, n := range []string{"in", "file", "user"} {
		_, err = get(t, c, at+n, 5)
		is.True(refusedBy(err) != nil)
	}
	is.Equal(reached.Load(), before+3)
}

// A proxy of the environment is not asked, a long head ends the request, and
// what is compressed is not unpacked.
func TestTransport(t *testing.T) {
	is := is.New(t)
	proxy, asked := receiver(t, fine)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+proxy)
	t.Setenv("http_proxy", "http://127.0.0.1:"+proxy)
	port, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Error("it asks for compression")
		}
		if r.URL.Path == "/long" {
			w.Header().Set("X-Long", strings.Repeat("x", headBytes+4096+1))
		}
		w.Header().Set("Content-Encoding", "gzip")
		fine(w, r)
	})
	f := names(map[string][]string{"good.example": {"127.0.0.1"}})
	c := New(Options{Allow: allow(t, "127.0.0.0/8"), Lookup: f.lookup})
	res, err := get(t, c, "http://good.example:"+port+"/", 0)
	is.NoErr(err)
	body, err := io.ReadAll(res.Body)
	is.NoErr(err)
	is.Equal(string(body), "fine")
	_, err = get(t, c, "http://good.example:"+port+"/long", 0)
	is.True(err != nil)
	is.Equal(asked.Load(), int64(0))
	is.Equal(f.asked["good.example"].Load(), int64(2)) // no connection is kept
}

// Whatever is said to be allowed, it is read or refused, and never lets the
// metadata address through.
func FuzzAllowed(f *testing.F) {
	for _, seed := range []string{
		"nas.lan", "10.0.0.0/8", "::1", "[::1]", "0.0.0.0/0", "::/0", "http://x", "a:1", "\x00", "é",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var x Allowed
		if x.UnmarshalText([]byte(text)) != nil {
			return
		}
		c := New(Options{Allow: []Allowed{x}})
		for _, a := range []string{"169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0", "ff02::1", "fe80::1"} {
			if c.refuse(canonical(text), netip.MustParseAddr(a)) == nil {
				t.Errorf("%q lets %s through", text, a)
			}
		}
	})
}

// A sentence that is not for administrators has no address in it.
func TestHide(t *testing.T) {
	is := is.New(t)
	for _, text := range []string{"10.0.0.5", "fd00::7", "::ffff:127.0.0.1"} {
		r := &Refused{Host: "nas.example", Addr: netip.MustParseAddr(text), Why: "is private", Private: true}
		is.True(strings.Contains(r.Error(), "has the address "+text))
		is.Equal(
			Hide(r.Error()), "The host nas.example is private; an administrator can allow it with --allow-outbound nas.example.",
		)
	}
	is.Equal(Hide("The target answered 500."), "The target answered 500.")
}

// TestRefusalsShowIPv4: a refusal shows an IPv4 address as one, however it is written or resolved.
func TestRefusalsShowIPv4(t *testing.T) {
	t.Parallel()
	c := New(Options{Lookup: names(map[string][]string{"nas.example": {"::ffff:192.168.1.5"}}).lookup})
	for address, want := range map[string]string{
		"http://[::ffff:192.168.1.5]/":    "The host 192.168.1.5 has the address 192.168.1.5, which is private",
		"http://[::ffff:c0a8:105]:80/":    "The host 192.168.1.5 has the address 192.168.1.5, which is private",
		"http://[::FFFF:169.254.169.254]": "The host 169.254.169.254 has the address 169.254.169.254, which is",
		"ftp://[::ffff:192.168.1.5]/":     "The host 192.168.1.5 is not an http or https address",
		"http://a:b@[::ffff:192.0.2.1]/":  "The host 192.0.2.1 must not have a user name",
		"http://nas.example/":             "The host nas.example has the address 192.168.1.5, which is private",
	} {
		_, err := get(t, c, address, 0)
		if err == nil || !strings.HasPrefix(Explain(err, "It"), want) || strings.Contains(err.Error(), "::ffff") {
			t.Errorf("%s: %v", address, err)
		}
		u, err := url.Parse(address)
		is.New(t).NoErr(err)
		err = c.Check(u)
		if err != nil && strings.Contains(strings.ToLower(err.Error()), "::ffff") {
			t.Errorf("%s: %v", address, err)
		}
	}
	open := New(Options{Allow: allow(t, "192.168.1.5"), Own: func() ([]net.Addr, error) { return nil, nil }})
	u, err := url.Parse("http://[::ffff:c0a8:105]/")
	is.New(t).NoErr(err)
	is.New(t).NoErr(open.Check(u))
}
