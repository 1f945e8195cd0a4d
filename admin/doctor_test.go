package admin_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/kvtest/needs"
)

// proxy is a reverse proxy before the place's server that refuses bodies over
// most bytes, and says for whom it asks if told to. Each of change may change
// what it passes on.
func (p *place) proxy(most int64, forwards bool, change ...func(*http.Request)) *httptest.Server {
	p.t.Helper()
	target, err := url.Parse("http://" + p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		if forwards {
			r.SetXForwarded()
		}
		for _, fn := range change {
			fn(r.Out)
		}
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > most {
			w.Header().Set("Connection", "close")
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	p.t.Cleanup(s.Close)
	return s
}

// Each thing that is wrong between visitors and the server is found, and what
// is said to change mends it.
func TestDoctor(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for name, row := range map[string]struct {
		most     int64
		forwards bool
		args     []string
		code     int
		state    string // of the finding
		what     string
		says     string
	}{
		"all well": {
			1 << 40, true, []string{"--trusted-proxies", "127.0.0.1"}, 0, "ok", "uploads", "bodies up to 10 GB pass",
		},
		"small bodies": {
			20 << 20, true,
			[]string{"--trusted-proxies", "127.0.0.1"},
			4, "problem", "uploads",
			"refuses bodies of 104.9 MB; 10.5 MB pass",
		},
		"not trusted": {1 << 40, true, nil, 4, "problem", "proxy", "a proxy that is not trusted"},
		"does not say": {
			1 << 40, false, []string{"--trusted-proxies", "127.0.0.1"}, 4, "problem", "proxy", "does not say for whom it asks",
		},
		"another scheme": {
			1 << 40, true,
			[]string{"--trusted-proxies", "127.0.0.1"},
			0, "warning", "proxy",
			"says that visitors use https, and the base URL is http",
		},
		"another host": {
			1 << 40, true, []string{"--trusted-proxies", "127.0.0.1"}, 4, "problem", "proxy", "and are refused with status 421",
		},
		"nothing between": {1 << 40, false, nil, 0, "ok", "proxy", "none in between"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			s := p.serve(append(row.args, "--base-url", p.proxy(row.most, row.forwards, func(r *http.Request) {
				switch name {
				case "another scheme":
					r.Header.Set("X-Forwarded-Proto", "https")
				case "another host":
					r.Header.Set("X-Forwarded-Host", "kist.lan")
				}
			}).URL)...)
			r := s.run("", "doctor", "--json")
			is.Equal(r.code, row.code)
			var all []struct{ What, State, Text, Change string }
			is.NoErr(json.Unmarshal([]byte(r.out), &all))
			found := false
			for _, f := range all {
				found = found || f.What == row.what && f.State == row.state && strings.Contains(f.Text, row.says)
				is.True(f.State == "ok" || f.Change != "")
			}
			if !found {
				t.Error(r.out)
			}
		})
	}
	t.Run("fresh", func(t *testing.T) { // as a package starts it: the proxy is trusted before it is there
		is := is.New(t)
		s := newPlace(t).serve("--trusted-proxies", "127.0.0.1,::1")
		newest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"version":"1.2.3"}`))
		}))
		defer newest.Close()
		r := s.run("", "doctor", "--check-update", newest.URL)
		is.Equal(r.code, 0)
		is.True(strings.Contains(r.out, "ok       proxy: none in between"))
		is.True(strings.Contains(r.out, "ok       uploads: "))
		s.stop()
		is.True(!strings.Contains(s.log.String(), "msg=request")) // the probes fill no log
	})
	t.Run("content apart", func(t *testing.T) {
		is := is.New(t)
		p := newPlace(t)
		apart := p.proxy(1<<40, false)
		s := p.serve("--base-url", "http://"+p.addr, "--content-url", apart.URL)
		is.True(strings.Contains(s.must("doctor"), "content URL: "+apart.URL+" leads here"))
		s.stop()

		target, err := url.Parse("http://" + p.addr)
		is.NoErr(err)
		loop := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
		defer loop.Close()
		s = p.serve("--base-url", "http://"+p.addr, "--content-url", loop.URL)
		r := s.run("", "doctor")
		is.Equal(r.code, 4)
		is.True(strings.Contains(r.out, "content URL: requests to "+loop.URL+" arrive with Host"))
	})
	t.Run("webhooks", func(t *testing.T) {
		is := is.New(t)
		var well atomic.Bool
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer target.Close()
		p := newPlace(t)
		p.ann()
		s := p.serve("--allow-outbound", "127.0.0.1")
		key := p.must("key", "create", "--user", "ann", "--name", "laptop")
		hook := p.send(
			"POST", "/api/v1/integrations/webhooks", key, "application/json",
			strings.NewReader(`{"name":"lamp","url":"`+target.URL+`/secret","events":["*"]}`),
		)
		var made struct{ Webhook struct{ ID string } }
		is.NoErr(json.Unmarshal([]byte(hook), &made))
		try := func() {
			p.send("POST", "/api/v1/integrations/webhooks/"+made.Webhook.ID+"/test", key, "application/json", nil)
		}
		try()
		r := s.run("", "doctor")
		is.True(strings.Contains(r.out, `webhook: "lamp" of ann, to `+target.Listener.Addr().String()+", fails: "))
		is.True(!strings.Contains(r.out, "/secret"))
		well.Store(true)
		try()
		is.True(strings.Contains(s.run("", "doctor").out, "all of 1 take what is sent to them"))
	})
	t.Run("somebody else", func(t *testing.T) {
		is := is.New(t)
		other := httptest.NewServer(http.NotFoundHandler())
		defer other.Close()
		s := newPlace(t).serve("--base-url", other.URL)
		r := s.run("", "doctor")
		is.Equal(r.code, 4)
		is.True(strings.Contains(r.out, "answered with status 404, not by this server"))
		is.True(strings.Contains(r.out, "have the proxy pass every path on, unchanged, to "))
		other.Close()
		r = s.run("", "doctor")
		is.Equal(r.code, 4)
		is.True(strings.Contains(r.out, "cannot be reached from here"))
	})
	t.Run("a path that the proxy leaves on", func(t *testing.T) {
		is := is.New(t)
		p := newPlace(t)
		s := p.serve("--base-url", p.proxy(1<<40, true).URL+"/things", "--trusted-proxies", "127.0.0.1")
		r := s.run("", "doctor")
		is.Equal(r.code, 0) // the server takes both forms
		is.True(strings.Contains(r.out, "/things leads here"))
	})
	t.Run("stopped", func(t *testing.T) {
		is := is.New(t)
		s := newPlace(t).serve()
		s.inhabit()
		s.must("backup", "copy")
		s.stop()
		is.NoErr(os.Chmod(s.data("journal"), 0o755))
		r := s.run("", "doctor")
		is.Equal(r.code, 0)
		is.True(strings.Contains(r.out, "others on this machine may reach 1 files and folders"))
		is.True(strings.Contains(r.out, "the latest is of"))
		is.True(strings.Contains(r.out, "5 of 5 were read and are intact"))
		is.Equal(s.run("", "--data-dir", "nowhere", "doctor").code, 3)
	})
	t.Run("damaged", func(t *testing.T) {
		is := is.New(t)
		s := newPlace(t).serve()
		s.inhabit()
		s.must("backup", "copy")
		// what a file has already
		s.upload(s.must("key", "create", "--user", "ann", "--name", "other"), "again.txt", "1"+strings.Repeat("1", 999))
		all, err := filepath.Glob(s.data("blobs", "??", "*"))
		is.NoErr(err)
		is.Equal(len(all), 5)
		damaged := false
		for _, path := range all { // of 0, 1000, 2000, 3000 and 4000 bytes
			info, err := os.Stat(path)
			is.NoErr(err)
			switch info.Size() {
			case 1000: // of two files
				is.NoErr(os.Remove(path))
			case 2000:
				is.NoErr(os.WriteFile(path, []byte(strings.Repeat("x", 2000)), 0o600))
				damaged = true
			}
		}
		is.True(damaged)
		old := time.Now().Add(-8 * 24 * time.Hour)
		is.NoErr(os.Chtimes(s.data("BACKUP"), old, old))
		for _, running := range []bool{true, false} {
			if !running {
				s.stop()
			}
			r := s.run("", "doctor")
			is.Equal(r.code, 4)
			is.True(strings.Contains(r.out, "contents: 2 files are without their bytes and answer 404"))
			is.True(strings.Contains(r.out, "problem  contents: the bytes of "))
			is.True(strings.Contains(r.out, "warning  backup: the latest is 8 days old"))
			is.True(strings.Contains(r.out, "ok       journal: intact"))
			is.True(strings.Contains(
				r.out,
				"a plain copy of the data directory (cp, rsync) is good if it takes less than 72 h (limited by how long kist "+
					"keeps old logs, at ",
			))

			is.NoErr(os.WriteFile(s.data("STORE"), []byte(`{"format":1,"files":"s3://bucket/home"}`), 0o600))
			found := "ok       contents: 2 files are not on this disk; "
			if running {
				found = "problem  contents: 2 files are not on this disk but in s3://bucket/home, and the server was started " +
					"without it\n" +
					"         → start it with --store s3://bucket/home\n"
			}
			is.True(strings.Contains(s.run("", "doctor").out, found))
			is.NoErr(os.Remove(s.data("STORE")))
		}
		is.NoErr(os.RemoveAll(s.data("blobs")))
		is.True(strings.Contains(s.run("", "doctor").out, "contents: 6 files are without their bytes"))
		is.NoErr(os.RemoveAll(s.data("journal")))
		r := s.run("", "doctor")
		is.Equal(r.code, 4)
		is.True(strings.Contains(r.out, "problem  journal: "))
	})
}

// Who answers on the socket and is no server is not taken for nobody.
// doctor asks the issuer of OpenID Connect whether it is there, knows the redirect address and has
// the same time.
func TestDoctorIssuer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var state atomic.Value
	state.Store("")
	var at string
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := state.Load()
		switch {
		case now == "away":
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/.well-known/openid-configuration":
			named := at
			if now == "another" {
				named += "/"
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": named, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/keys",
				"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
			})
		case now == "unknown address":
			w.WriteHeader(http.StatusBadRequest)
		default:
			if now == "late" {
				w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			}
			w.Header().Set("Location", r.FormValue("redirect_uri")+"?error=login_required")
			w.WriteHeader(http.StatusFound)
		}
	}))
	defer issuer.Close()
	at = issuer.URL
	p := newPlace(t)
	s := p.serve("--oidc-issuer", at, "--oidc-client-id", "kist")
	for name, row := range map[string]struct {
		state, says, change string
	}{
		"":        {"ok", at + " answers and sends browsers back to http://" + p.addr + "/login/oidc/callback", ""},
		"away":    {"problem", at + ": ", "--oidc-issuer"},
		"another": {"problem", "did not match", "--oidc-issuer"},
		"unknown address": {
			"problem", "refuses to start a sign-in (status 400)",
			"allow the redirect address http://" + p.addr + "/login/oidc/callback",
		},
		"late": {"problem", "its clock differs by 1h0m", "set both clocks"},
	} {
		state.Store(name)
		r := s.run("", "doctor", "--json")
		var all []struct{ What, State, Text, Change string }
		is.NoErr(json.Unmarshal([]byte(r.out), &all))
		i := slices.IndexFunc(all, func(f struct{ What, State, Text, Change string }) bool { return f.What == "issuer" })
		if i < 0 || all[i].State != row.state || !strings.Contains(all[i].Text, row.says) ||
			!strings.Contains(all[i].Change, row.change) {
			t.Errorf("%s: %s", name, r.out)
		}
	}
}

func TestDoctorSocket(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.key()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.data("kist.sock"), Net: "unixgram"})
	is.NoErr(err)
	defer l.Close()
	r := p.run("", "doctor")
	is.Equal(r.code, 4)
	is.True(!strings.Contains(r.out, "no server answers"))
	is.True(strings.Contains(r.out, "problem  server: it cannot be asked: "))
}
