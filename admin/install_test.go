package admin_test

import (
	"encoding/json"
	"encoding/xml"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.yaml.in/yaml/v4"

	"kist/kv/kvtest/needs"
)

// What kist install prints by default is in testdata/install word for word, and
// in no page of the handbook.
func TestInstall(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	install := func(args ...string) string { return p.must(append([]string{"install"}, args...)...) + "\n" }
	for _, what := range []string{"systemd", "docker", "compose", "unraid", "nginx", "caddy", "traefik"} {
		want, err := os.ReadFile("testdata/install/" + what)
		is.NoErr(err)
		is.Equal(p.run("", "install", what, "--listen", "127.0.0.1:7080"), result{
			0, string(want), "kist.example.org in it is an example: put the name of your server in its place, " +
				"or name it with --base-url.\n",
		})
		is.Equal(p.run("", "install", what, "--base-url", "https://home.example.net").err, "")
		first, _, _ := strings.Cut(string(want), "\n")
		for name, text := range documents(t) {
			if strings.Contains(text, first) {
				t.Errorf("%s has what kist install %s prints", name, what)
			}
		}
		out := install(
			what, "--base-url", "https://home.example.net", "--content-url", "https://bytes.example.net", "--listen",
			"127.0.0.1:9000",
		)
		for _, own := range []string{"home.example.net", "bytes.example.net", ":9000"} {
			is.True(strings.Contains(out, own))
		}
		for _, other := range []string{"kist.example.org", "an example", "7080", "<<", ">>"} {
			is.True(!strings.Contains(strings.ReplaceAll(out, "<<'END'", ""), other))
		}
	}
	var made struct{ Name, Content string }
	is.NoErr(json.Unmarshal([]byte(install("caddy", "--json")), &made))
	is.Equal(made.Name, "caddy")
	is.Equal(made.Content, install("caddy"))
	socket := []string{"--listen", "unix:/run/kist/kist.sock"}
	is.True(strings.Contains(install(append(socket, "nginx")...), "proxy_pass http://unix:/run/kist/kist.sock;"))
	is.True(strings.Contains(install(append(socket, "caddy")...), "reverse_proxy unix//run/kist/kist.sock\n"))
	is.True(strings.Contains(install(append(socket, "systemd")...), "RuntimeDirectory=kist\n"))
	for _, what := range []string{"nginx", "systemd"} { // who may open it
		is.True(strings.Contains(install(append(socket, what)...), "group"))
	}

	// The proxy takes the path of the base URL off; the second address has none.
	below := []string{"--base-url", "https://home.example.net/things", "--listen", "127.0.0.1:7080"}
	out := install(append(below, "nginx")...)
	is.True(strings.Contains(out, "location /things/ {\n        proxy_pass http://127.0.0.1:7080/;"))
	is.True(strings.Contains(
		install(slices.Concat(below[:2], socket, []string{"nginx"})...), "proxy_pass http://unix:/run/kist/kist.sock:/;",
	))
	out = install(append(below, "nginx", "--content-url", "https://bytes.example.net")...)
	is.Equal(strings.Count(out, "    server_name bytes.example.net;\n    return 301 https://$host$request_uri;\n"), 1)
	is.Equal(strings.Count(out, "server_name "), 4)
	is.True(strings.Contains(
		out[strings.LastIndex(out, "server_name bytes.example.net;"):],
		"location / {\n        proxy_pass http://127.0.0.1:7080;\n",
	))
	out = install(append(below, "caddy", "--content-url", "https://bytes.example.net")...)
	is.True(strings.Contains(
		out,
		"home.example.net {\n\tredir /things /things/\n\thandle_path /things/* {\n\t\treverse_proxy 127.0.0.1:7080\n\t}\n}\n",
	))
	is.True(strings.Contains(out, "bytes.example.net {\n\treverse_proxy 127.0.0.1:7080\n}\n"))
	out = install(append(below, "traefik")...)
	is.True(strings.Contains(out, "rule: Host(`home.example.net`) && (Path(`/things`) || PathPrefix(`/things/`))\n"))
	is.True(strings.Contains(out, `stripPrefix: { prefixes: ["/things"] }`))
	out = install(append(below, "traefik", "--content-url", "https://bytes.example.net")...)
	is.True(strings.Contains(
		out,
		"    kist-content:\n      rule: Host(`bytes.example.net`)\n      entryPoints: [websecure]\n      service: kist\n      tls:",
	))
	is.Equal(strings.Count(out, "websecure: {"), 1)

	// Ports other than the usual ones are named, and TLS only where it is.
	ports := []string{
		"--base-url", "https://home.example.net:8443", "--content-url", "https://home.example.net:9443", "--listen",
		"127.0.0.1:7080",
	}
	out = install(append(ports, "nginx")...)
	is.Equal(strings.Count(out, "server_name home.example.net;"), 2)
	is.True(strings.Contains(out, "listen 8443 ssl;") && strings.Contains(out, "listen [::]:9443 ssl;"))
	is.True(!strings.Contains(out, "listen 80;"))
	out = install(append(ports, "caddy")...)
	is.True(strings.Contains(out, "\nhome.example.net:8443 {\n") && strings.Contains(out, "\nhome.example.net:9443 {\n"))
	out = install(append(ports, "traefik")...)
	is.True(strings.Contains(
		out, `{ websecure-8443: { address: ":8443",`,
	) && strings.Contains(out, "entryPoints: [websecure-9443]\n"))
	is.True(strings.Contains(install("caddy", "--base-url", "https://[::1]"), "\n[::1] {\n"))
	plain := []string{"--base-url", "http://nas.lan", "--listen", "127.0.0.1:7080"}
	out = install(append(plain, "nginx")...)
	is.True(strings.Contains(out, "    listen 80;\n") && !strings.Contains(out, "ssl"))
	is.True(strings.Contains(install(append(plain, "caddy")...), "\nhttp://nas.lan {\n"))
	out = install(append(plain, "traefik")...)
	is.True(strings.Contains(out, "entryPoints: [web]\n") && !strings.Contains(out, "certResolver") &&
		!strings.Contains(out, "websecure"))
	out = install(append(plain, "traefik", "--content-url", "https://bytes.example.net")...)
	is.Equal(strings.Count(out, "certResolver"), 1)

	// Clients must not say who is signed in.
	signs := []string{
		"--auth-header", "Remote-User", "--content-url", "https://bytes.example.net:8443", "--listen", "127.0.0.1:7080",
	}
	out = install(append(signs, "nginx")...)
	is.Equal(strings.Count(out, "\n        proxy_set_header Remote-User \"\"; "), 2)
	out = install(append(signs, "caddy")...)
	is.Equal(strings.Count(out, "\n\trequest_header -Remote-User # "), 2)
	out = install(append(signs, "caddy", "--base-url", "https://home.example.net/things")...)
	is.True(strings.Contains(out, "\thandle_path /things/* {\n\t\trequest_header -Remote-User # "))
	out = install(append(signs, "traefik")...)
	is.Equal(strings.Count(out, "\n      middlewares: [kist-client]\n"), 2)
	is.True(strings.Contains(out, "\n      headers: { customRequestHeaders: { Remote-User: \"\" } }\n"))
	out = install(append(signs, "traefik", "--base-url", "https://home.example.net/things")...)
	is.Equal(strings.Count(out, "\n      middlewares: [kist-client, kist-path]\n"), 1)
	is.True(strings.Contains(install(append(signs, "systemd")...), "KIST_AUTH_HEADER=Remote-User\n"))
	is.True(strings.Contains(install(append(signs, "docker")...), "-e KIST_AUTH_HEADER=Remote-User \\\n"))

	for _, bad := range [][]string{
		{"nginx", "--auth-header", "Remote User"},
		{"nginx", "--auth-header", "Remote-User;"},
		{"traefik", "--auth-header", "Remote:User"},
		{"nginx", "--auth-header", "$user"},
		{"nginx", "--auth-header", "X-Forwarded-For"},
		{"caddy", "--auth-header", "authorization"},
		{"launchd"},
		{},
		{"nginx", "--base-url", "kist.example.org"},
		{"nginx", "--base-url", "https://a;b"},
		{"nginx", "--base-url", "https://ann@a"},
		{"caddy", "--content-url", "ftp://a"},
		{"caddy", "--content-url", "https://a/b"},
		{"caddy", "--content-url", "https://KIST.example.org"}, // that of the base URL
		{"systemd", "--base-url", "https://a?"},
		{"systemd", "--base-url", "https://a/b%20c"},
		append(socket, "docker"), append(socket, "compose"), append(socket, "unraid"), append(socket, "traefik"),
		{"compose", "--base-url", "https://a/b$c"},
		{"unraid", "--base-url", "https://a/b&c"},
		{"systemd", "--listen", "7080"},
	} {
		r := p.run("", append([]string{"install"}, bad...)...)
		is.Equal(r.code, 2)
		is.Equal(r.out, "")
	}
}

// service is a service of a compose file.
type service struct {
	Image       string
	User        string
	ReadOnly    bool `yaml:"read_only"`
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Healthcheck struct{ Test []string }
	Labels      map[string]string
}

// TestInstallCompose: the compose file is YAML that says what was asked for, and its labels lead each proxy there.
func TestInstallCompose(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	p := newPlace(t)
	for _, c := range []struct {
		name, args string
		labels     map[string]string
		not        []string // labels that must not be there
	}{
		{"a host", "--base-url https://home.example.net", map[string]string{
			"caddy":                                               "home.example.net",
			"caddy.1_reverse_proxy":                               "{{upstreams 9000}}",
			"traefik.enable":                                      "true",
			"traefik.http.routers.kist.rule":                      "Host(`home.example.net`)",
			"traefik.http.routers.kist.entrypoints":               "websecure",
			"traefik.http.routers.kist.tls.certresolver":          "letsencrypt",
			"traefik.http.services.kist.loadbalancer.server.port": "9000",
		}, []string{"caddy_1", "traefik.http.routers.kist.middlewares"}},
		{"an address", "--base-url https://[::1]:8443", map[string]string{
			"caddy": "[::1]:8443", "traefik.http.routers.kist.entrypoints": "websecure-8443",
		}, nil},
		{"no TLS", "--base-url http://nas.lan", map[string]string{
			"caddy": "http://nas.lan", "traefik.http.routers.kist.entrypoints": "web",
		}, []string{"traefik.http.routers.kist.tls.certresolver"}},
		{"two hosts", "--base-url https://home.example.net --content-url https://bytes.example.net", map[string]string{
			"caddy":                          "home.example.net, bytes.example.net",
			"traefik.http.routers.kist.rule": "Host(`home.example.net`) || Host(`bytes.example.net`)",
		}, []string{"caddy_1"}},
		{"a path", "--base-url https://home.example.net/things --content-url https://bytes.example.net", map[string]string{
			"caddy.redir":                           "/things /things/",
			"caddy.handle_path":                     "/things/*",
			"caddy.handle_path.1_reverse_proxy":     "{{upstreams 9000}}",
			"caddy_1":                               "bytes.example.net",
			"caddy_1.1_reverse_proxy":               "{{upstreams 9000}}",
			"traefik.http.routers.kist.rule":        "Host(`home.example.net`) && (Path(`/things`) || PathPrefix(`/things/`))",
			"traefik.http.routers.kist.middlewares": "kist-path",
			"traefik.http.middlewares.kist-path.stripprefix.prefixes": "/things",
			"traefik.http.routers.kist-content.rule":                  "Host(`bytes.example.net`)",
			"traefik.http.routers.kist-content.service":               "kist",
		}, []string{"caddy.1_reverse_proxy", "traefik.http.routers.kist-content.middlewares"}},
		{"a header", "--base-url https://home.example.net/things --auth-header Remote-User", map[string]string{
			"caddy.handle_path.0_request_header":                                            "-Remote-User",
			"traefik.http.routers.kist.middlewares":                                         "kist-client,kist-path",
			"traefik.http.middlewares.kist-client.headers.customrequestheaders.Remote-User": "",
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			args := append([]string{"install", "compose", "--listen", "127.0.0.1:9000"}, strings.Fields(c.args)...)
			var made struct {
				Services map[string]service
				Volumes  map[string]any
			}
			is.NoErr(yaml.Unmarshal([]byte(p.must(args...)), &made))
			s := made.Services["kist"]
			is.Equal(s.Image, "kist:1.2.3-test")
			is.Equal(s.User, "65532:65532")
			is.True(s.ReadOnly)
			is.Equal(s.Volumes, []string{"kist:/data"})
			is.Equal(s.Ports, []string{"127.0.0.1:9000:9000"})
			is.Equal(s.Healthcheck.Test, []string{"CMD", "/kist", "healthcheck"})
			is.Equal(s.Environment["KIST_BASE_URL"], strings.Fields(c.args)[1])
			is.Equal(s.Environment["KIST_LISTEN"], ":9000")
			_, named := made.Volumes["kist"]
			is.True(named)
			for name, want := range c.labels {
				got, there := s.Labels[name]
				is.True(there)
				is.Equal(got, want)
			}
			for _, name := range c.not {
				_, there := s.Labels[name]
				is.True(!there)
			}
		})
	}
}

// TestInstallUnraid: the template is XML with a field for each variable.
func TestInstallUnraid(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	out := newPlace(t).must(
		"install", "unraid", "--listen", "127.0.0.1:9000", "--base-url", "https://home.example.net/things",
		"--content-url", "https://bytes.example.net", "--auth-header", "Remote-User",
	)
	var made struct {
		XMLName    xml.Name `xml:"Container"`
		Repository string
		WebUI      string
		Config     []struct {
			Target  string `xml:",attr"`
			Default string `xml:",attr"`
			Type    string `xml:",attr"`
			Value   string `xml:",chardata"`
		}
	}
	is.NoErr(xml.Unmarshal([]byte(out), &made))
	is.Equal(made.Repository, "kist:1.2.3-test")
	is.Equal(made.WebUI, "http://[IP]:[PORT:9000]/")
	got := map[string]string{}
	for _, c := range made.Config {
		is.Equal(c.Value, c.Default)
		got[c.Type+" "+c.Target] = c.Value
	}
	is.Equal(got, map[string]string{
		"Path /data":                    "/mnt/user/appdata/kist",
		"Port 9000":                     "9000",
		"Variable KIST_DATA_DIR":        "/data",
		"Variable KIST_LISTEN":          ":9000",
		"Variable KIST_BASE_URL":        "https://home.example.net/things",
		"Variable KIST_CONTENT_URL":     "https://bytes.example.net",
		"Variable KIST_AUTH_HEADER":     "Remote-User",
		"Variable KIST_TRUSTED_PROXIES": "127.0.0.1,::1,172.16.0.0/12",
	})
}

// TestInstallDocker: the printed command is one command line that a shell takes.
func TestInstallDocker(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	out := p.must("install", "docker", "--listen", ":9000", "--content-url", "https://bytes.example.net")
	for build, want := range map[bool]string{
		false: "run -d --name kist --restart unless-stopped --stop-timeout 60 --user 65532:65532 --read-only --cap-drop ALL " +
			"--security-opt no-new-privileges -p 127.0.0.1:9000:9000 -v kist:/data -e KIST_DATA_DIR=/data " +
			"-e KIST_LISTEN=:9000 -e KIST_BASE_URL=https://kist.example.org -e KIST_CONTENT_URL=https://bytes.example.net " +
			"-e KIST_TRUSTED_PROXIES=127.0.0.1,::1,172.16.0.0/12 kist:1.2.3-test\n",
		true: "build -t kist:1.2.3-test -f - .\n",
	} {
		text := out
		if build {
			_, text, _ = strings.Cut(out, "\n# docker build ")
			text = strings.ReplaceAll("docker build "+text, "\n# ", "\n")
		}
		cmd := exec.Command("sh", "-eu", "-c", "docker() { echo \"$@\"; }\n"+text)
		said, err := cmd.CombinedOutput()
		is.NoErr(err)
		is.Equal(string(said), want)
	}
}

// systemd is told when the server is ready, that it lives, and when it ends.
func TestSupervised(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir, err := os.MkdirTemp("", "kist") // t.TempDir may be too long for a socket
	is.NoErr(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	is.NoErr(err)
	defer l.Close()
	hear := func() string {
		is.NoErr(l.SetReadDeadline(time.Now().Add(patience)))
		b := make([]byte, 100)
		n, err := l.Read(b)
		is.NoErr(err)
		return string(b[:n])
	}
	p := newPlace(t)
	p.env = []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=100000"}
	s := p.serve()
	is.Equal(hear(), "READY=1")
	is.Equal(hear(), "WATCHDOG=1")
	is.Equal(hear(), "WATCHDOG=1")
	s.stop()
	for said := ""; said != "STOPPING=1"; {
		said = hear()
		is.True(slices.Contains([]string{"WATCHDOG=1", "STOPPING=1"}, said))
	}
}
