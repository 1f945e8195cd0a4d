package admin_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"io/fs"
	"math/big"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/net/http2"

	"kist/admin/socket"
	"kist/kv/kvtest/needs"
)

func pid(n int) string { return strconv.Itoa(n) }

func TestSecondServer(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	var r result
	took := time.Hour
	for range 3 { // a busy machine may be late once
		start := time.Now()
		r = p.run("", "serve", "--listen", freeAddr(t))
		took = min(took, time.Since(start))
		if took < 2*time.Second {
			break
		}
	}
	is.True(took < 2*time.Second)
	is.Equal(
		r,
		result{
			1, "",
			"The data directory is in use by process " + pid(s.cmd.Process.Pid) + "; stop that one first, or choose another --data-dir.\n",
		},
	)
	is.Equal(p.must("healthcheck"), "The server at http://"+p.addr+" is healthy.") // the first is none the worse
	s.stop()
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	l, err := net.Listen("tcp", p.addr)
	is.NoErr(err)
	defer l.Close()
	r := p.run("", "serve")
	is.Equal(r.code, 1)
	is.True(matches(
		"Cannot listen on "+p.addr+": address already in use; end what uses it, or choose another --listen.\n", r.err,
	))
	is.True(!p.exists(p.data()))
}

// slowUpload begins an upload and returns when the server reads its body;
// finish sends the rest and returns the status of the answer.
func slowUpload(t *testing.T, addr, key string) (finish func() int) {
	t.Helper()
	body, in := io.Pipe()
	form := multipart.NewWriter(in)
	reading := make(chan struct{})
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() {
		close(reading)
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/upload", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Expect", "100-continue")
	type ended struct {
		status int
		err    error
	}
	answer := make(chan ended, 1)
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patience}}
	go func() {
		res, err := client.Do(req)
		if err != nil {
			answer <- ended{0, err}
			return
		}
		_, err = io.Copy(io.Discard, res.Body)
		answer <- ended{res.StatusCode, err}
		res.Body.Close()
		client.CloseIdleConnections()
	}()
	t.Cleanup(func() { in.CloseWithError(io.ErrUnexpectedEOF) })
	select {
	case <-reading:
	case e := <-answer:
		t.Fatalf("answered too early: %+v", e)
	case <-time.After(patience):
		t.Fatal("the server does not read")
	}
	part, err := form.CreateFormFile("file", "slow.bin")
	if err == nil {
		_, err = part.Write(bytes.Repeat([]byte("first half "), 1000))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() int {
		t.Helper()
		if _, err := part.Write(bytes.Repeat([]byte("second half "), 1000)); err != nil {
			t.Fatal(err)
		}
		if err := form.Close(); err != nil {
			t.Fatal(err)
		}
		in.Close()
		e := <-answer
		if e.err != nil {
			t.Fatal(e.err)
		}
		return e.status
	}
}

func (p *place) refused() bool {
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		return true
	}
	conn.Close()
	return false
}

func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")
	finish := slowUpload(t, p.addr, key)
	s.signal(syscall.SIGTERM)
	p.until("new connections are refused", p.refused)
	is.Equal(finish(), http.StatusCreated)
	is.Equal(s.end(), 0)

	s = p.serve()
	status, body := p.get("/api/v1/files", key)
	is.Equal(status, 200)
	is.True(strings.Contains(body, `"originalName":"slow.bin"`))
	s.stop()
}

func TestStopCutsOffAfterTheGrace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve("--grace", "100ms")
	p.ann()
	slowUpload(t, p.addr, p.must("key", "create", "--user", "ann", "--name", "laptop"))
	s.signal(os.Interrupt)
	is.Equal(s.end(), 0)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	slowUpload(t, p.addr, p.must("key", "create", "--user", "ann", "--name", "laptop"))
	s.signal(syscall.SIGTERM)
	p.until("new connections are refused", p.refused)
	s.signal(syscall.SIGTERM)
	is.Equal(s.end(), 1)

	s = p.serve() // the lock went with the process, and the socket it left is taken over
	is.True(strings.Contains(p.must("user", "list"), "ann"))
	s.stop()
}

// The second signal is heard to the very end of the stop.
func TestSecondSignalLate(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	// The claim file is looked at when nearly all is closed. As a pipe it
	// keeps the server there, and shows that it has come so far.
	is.NoErr(os.Remove(p.data("CLAIM")))
	is.NoErr(syscall.Mkfifo(p.data("CLAIM"), 0o600))
	s.signal(syscall.SIGTERM)
	var pipe *os.File
	p.until("the server reads the claim file", func() (read bool) {
		var err error
		pipe, err = os.OpenFile(p.data("CLAIM"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	defer pipe.Close()
	s.signal(syscall.SIGTERM)
	is.Equal(s.end(), 1)
}

// A killed server leaves its socket, which keeps neither a command nor the
// next server away.
func TestStaleSocket(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	is.NoErr(s.cmd.Process.Kill())
	s.end()
	_, err := os.Stat(p.data("kist.sock"))
	is.NoErr(err)
	is.True(strings.Contains(p.must("user", "list"), "ann"))
	s = p.serve()
	is.True(strings.Contains(p.must("user", "list"), "ann"))
	s.stop()
}

// A disk that is not mounted must not become a new, empty instance.
func TestExpectData(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.env = []string{"KIST_EXPECT_DATA=true"}
	want := result{
		1, "",
		"There is no data in ./kist-data, and --expect-data is set: see that the disk is mounted and --data-dir is right, " +
			"or start once without it (nothing was changed).\n",
	}
	is.Equal(p.run("", "serve"), want)
	is.True(!p.exists(p.data())) // not even the directory
	is.NoErr(os.Mkdir(p.data(), 0o700))
	is.Equal(p.run("", "serve"), want)
	left, err := os.ReadDir(p.data())
	is.NoErr(err)
	is.Equal(len(left), 0)

	p.serve("--expect-data=false").stop()
	p.serve().stop()
}

var claimLink = regexp.MustCompile(`http://\S+/claim/[0-9A-Za-z]{43}`)

func TestClaim(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	link := claimLink.FindString(s.log.String())
	is.True(strings.HasPrefix(link, "http://"+p.addr+"/claim/"))
	text, err := os.ReadFile(p.data("CLAIM"))
	is.NoErr(err)
	is.Equal(string(text), link+"\n")
	info, err := os.Stat(p.data("CLAIM"))
	is.NoErr(err)
	is.Equal(info.Mode(), fs.FileMode(0o600))
	status, page := p.get(strings.TrimPrefix(link, "http://"+p.addr), "")
	is.Equal(status, 200)
	is.True(strings.Contains(page, "At least 8 characters."))
	s.stop()

	s = p.serve("--base-url", "https://kist.example.org/")
	is.Equal(claimLink.FindString(s.log.String()), "") // it is https now
	token := link[strings.LastIndex(link, "/")+1:]
	is.True(strings.Contains(s.log.String(), "https://kist.example.org/claim/"+token+"\n")) // the same claim
	s.stop()

	s = p.serve("--base-url", "http://"+p.addr+"/kist")
	below := claimLink.FindString(s.log.String())
	is.Equal(below, "http://"+p.addr+"/kist/claim/"+token)
	status, _ = p.get("/kist/claim/"+token, "")
	is.Equal(status, 200) // without a proxy, too
	s.stop()

	is.NoErr(os.Remove(p.data("CLAIM")))
	s = p.serve()
	again := claimLink.FindString(s.log.String())
	is.True(again != "" && again != link)
	status, _ = p.get("/claim/"+token, "")
	is.Equal(status, 404) // the new link took the place of the old one

	p.ann()
	status, _ = p.get(strings.TrimPrefix(again, "http://"+p.addr), "")
	is.Equal(status, 404) // an administrator ends the claim
	s.stop()
	_, err = os.Stat(p.data("CLAIM"))
	is.True(os.IsNotExist(err))

	p.write("kist-data/CLAIM", again+"\n") // as a crash may leave it
	s = p.serve()
	is.Equal(claimLink.FindString(s.log.String()), "")
	_, err = os.Stat(p.data("CLAIM"))
	is.True(os.IsNotExist(err))
	s.stop()
}

// With port 0 the system chooses; what is printed and kept has the port that
// it chose.
func TestPortOfTheSystem(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.addr = "127.0.0.1:0"
	s := p.serve()
	said := regexp.MustCompile(`listens on (127\.0\.0\.1:\d+) and is reachable at http://(\S+)\n`).FindStringSubmatch(s.log.String())
	is.Equal(len(said), 3)
	is.Equal(said[1], said[2])
	p.addr = said[1]
	link := claimLink.FindString(s.log.String())
	status, _ := p.get(strings.TrimPrefix(link, "http://"+p.addr), "")
	is.Equal(status, 200)
	text, err := os.ReadFile(p.data("CLAIM"))
	is.NoErr(err)
	is.Equal(string(text), link+"\n")
	s.stop()
}

// A new password from the command line ends the sessions of its user, and of
// no one else, in the running server.
func TestPasswdEndsSessions(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	is.Equal(p.run("battery staple\n", "user", "add", "ben", "--password-stdin").code, 0)
	enter := func(name, password string) *http.Client {
		jar, err := cookiejar.New(nil)
		is.NoErr(err)
		c := &http.Client{Jar: jar}
		res, err := c.PostForm("http://"+p.addr+"/login", url.Values{"username": {name}, "password": {password}})
		is.NoErr(err)
		res.Body.Close()
		return c
	}
	me := func(c *http.Client) int {
		res, err := c.Get("http://" + p.addr + "/api/v1/me")
		is.NoErr(err)
		res.Body.Close()
		return res.StatusCode
	}
	laptop, phone, bens := enter("ann", "correct horse"), enter("ann", "correct horse"), enter("ben", "battery staple")
	for _, c := range []*http.Client{laptop, phone, bens} {
		is.Equal(me(c), 200)
	}
	is.Equal(p.run("correct house\n", "user", "passwd", "ann", "--password-stdin").code, 0)
	is.Equal(me(laptop), 401)
	is.Equal(me(phone), 401)
	is.Equal(me(bens), 200)
	is.Equal(me(enter("ann", "correct horse")), 401)
	is.Equal(me(enter("ann", "correct house")), 200)

	// The filter for fail2ban in the handbook finds the refused one.
	filter := regexp.MustCompile(`failregex = (.+)`).FindStringSubmatch(documents(t)["embed/help/signing-in.md"])
	is.Equal(len(filter), 2)
	found := regexp.MustCompile(strings.ReplaceAll(filter[1], "<HOST>", `(\S+)`)).FindAllStringSubmatch(s.log.String(), -1)
	is.Equal(len(found), 1)
	is.Equal(found[0][1], "127.0.0.1")
	s.stop()
}

// Whatever the umask, the files are their owner's alone.
func TestModes(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	old := syscall.Umask(0)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	syscall.Umask(old)
	seen := map[string]fs.FileMode{}
	is.NoErr(filepath.WalkDir(p.data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			seen[d.Name()] = info.Mode()
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
		}
		return err
	}))
	is.Equal(seen["kist-data"], fs.ModeDir|0o700)
	is.Equal(seen["kist.sock"], fs.ModeSocket|0o600)
	is.Equal(seen["kist.db"], fs.FileMode(0o600))
	s.stop()

	is.NoErr(os.Chmod(p.data(), 0o777))
	r := p.run("", "serve")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "can be written by others"))
}

// asNobody runs the program as a user without rights; only root can do that.
func asNobody(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	is := is.New(t)
	dir, err := os.MkdirTemp("", "kist-other") // not a folder of the test, which is root's alone
	is.NoErr(err)
	defer os.RemoveAll(dir)
	is.NoErr(os.Chmod(dir, 0o755))
	// A link, because a copy cannot be run while a process that another test has
	// just forked holds it open for writing.
	is.NoErr(os.Link(binary, filepath.Join(dir, "kist")))
	p := &place{t: t, dir: dir, addr: "127.0.0.1:1"}
	cmd := p.command(args...)
	cmd.Path = filepath.Join(dir, "kist")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// A user who may not use the data directory is told so, and what to do.
func TestDataDirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	if os.Getuid() != 0 {
		needs.LeaveOut(t, "a data directory of another user", "only root can become another user")
	}
	dir, err := os.MkdirTemp("", "kist-root")
	is.NoErr(err)
	defer os.RemoveAll(dir)
	is.NoErr(os.Chmod(dir, 0o755)) // it can be read, not written
	closed := filepath.Join(dir, "closed")
	is.NoErr(os.Mkdir(closed, 0o700))
	for _, of := range []struct{ command, at string }{
		{"serve", dir}, {"serve", closed}, {"verify", closed}, {"doctor", closed},
	} {
		out, err := asNobody(t, of.command, "--data-dir", of.at)
		is.True(err != nil)
		is.True(strings.HasPrefix(out, "This user cannot use the data directory "+of.at+": ")) // out
		is.True(strings.HasSuffix(
			out, ": permission denied; run kist as the user that the directory belongs to, or as root (sudo).\n",
		))
	}
}

// The socket answers its own user even where the file modes let others in.
func TestSocketRefusesOtherUsers(t *testing.T) {
	needs.Alone(t)
	is := is.New(t)
	if os.Getuid() != 0 {
		needs.LeaveOut(t, "the socket and other users", "only root can become another user")
	}
	dir, err := os.MkdirTemp("", "kist-open")
	is.NoErr(err)
	defer os.RemoveAll(dir)
	is.NoErr(os.Chmod(dir, 0o777))
	is.NoErr(os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600)) // as each server has it
	l, err := socket.Listen(dir)
	is.NoErr(err)
	sock := filepath.Join(dir, socket.Name)
	info, err := os.Stat(sock)
	is.NoErr(err)
	is.Equal(info.Mode(), fs.ModeSocket|0o600)
	is.NoErr(os.Chmod(sock, 0o777))
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()

	out, err := asNobody(t, "user", "list", "--data-dir", dir)
	is.True(err != nil)
	is.True(strings.Contains(out, "The server went away before it answered"))

	mine, err := net.Dial("unix", sock)
	is.NoErr(err)
	defer mine.Close()
	conn := <-accepted
	is.True(conn != nil) // the only one that was let in
	conn.Close()
	is.NoErr(l.Close())
	_, more := <-accepted
	is.True(!more)
}

func TestListenOnASocket(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.addr = "unix:" + p.path("front.sock")
	s := p.serve("--base-url", "https://kist.example.org")
	is.Equal(p.must("healthcheck"), "The server at http://localhost is healthy.")
	info, err := os.Stat(p.path("front.sock"))
	is.NoErr(err)
	is.Equal(info.Mode(), fs.ModeSocket|0o660)
	s.stop()
	_, err = os.Stat(p.path("front.sock"))
	is.True(os.IsNotExist(err))

	p.write("front.sock", "precious")
	r := p.run("", "serve", "--base-url", "https://kist.example.org")
	is.Equal(r.code, 1)
	is.True(strings.Contains(r.err, "that is no socket; move it away"))
}

// certificate makes a self-signed certificate that holds for the name, and
// its key, in PEM.
func certificate(t *testing.T, serial int64, name string, days int) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, days),
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// certify writes a self-signed certificate with the serial number.
func (p *place) certify(serial int64) {
	p.t.Helper()
	cert, key := certificate(p.t, serial, "kist", 1)
	p.write("cert.pem", string(cert))
	p.write("key.pem", string(key))
	for _, name := range []string{"cert.pem", "key.pem"} {
		if err := os.Chtimes(p.path(name), time.Time{}, time.Unix(1e9+serial, 0)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Certificates for --tls-domain come from the cache in the data directory, a
// check of the authority's is answered on the same port, and nobody can have a
// certificate asked for under another name.
func TestTLSDomain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	is.NoErr(os.MkdirAll(p.data("cache", "acme"), 0o700))
	cert, key := certificate(t, 1, "kist.example.org", 90) // renewed in the last 30 days only
	p.write("kist-data/cache/acme/kist.example.org", string(key)+string(cert))
	cert, key = certificate(t, 2, "kist.example.org", 1)
	p.write("kist-data/cache/acme/kist.example.org+token", string(key)+string(cert))
	p.env = []string{"KIST_TLS_DOMAIN=kist.example.org,www.example.org"}
	s := p.serve()
	is.True(strings.Contains(s.log.String(), "is reachable at https://kist.example.org\n"))
	is.Equal(p.must("healthcheck"), "The server at https://"+p.addr+" is healthy.")

	for want, protos := range map[int64][]string{1: {"h2", "http/1.1"}, 2: {"acme-tls/1"}} {
		conn, err := tls.Dial(
			"tcp", p.addr, &tls.Config{InsecureSkipVerify: true, ServerName: "KIST.example.org", NextProtos: protos},
		)
		is.NoErr(err)
		is.Equal(conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), want)
		is.Equal(conn.ConnectionState().NegotiatedProtocol, protos[0])
		if want == 1 { // a connection does not get around the limit of connections by many requests at a time
			_, err := io.WriteString(conn, http2.ClientPreface)
			is.NoErr(err)
			frame, err := http2.NewFramer(conn, conn).ReadFrame()
			is.NoErr(err)
			streams, _ := frame.(*http2.SettingsFrame).Value(http2.SettingMaxConcurrentStreams)
			is.Equal(streams, uint32(32))
		}
		is.NoErr(conn.Close())
	}
	for _, name := range []string{"other.example.org", ""} {
		_, err := tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true, ServerName: name})
		is.True(err != nil)
	}
	is.True(!strings.Contains(s.log.String(), "no certificate"))
	s.stop()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.certify(1)
	p.env = []string{"KIST_TLS_CERT=cert.pem", "KIST_TLS_KEY=key.pem"}
	s := p.serve()
	is.True(strings.Contains(s.log.String(), "https://"+p.addr+"/claim/"))
	p.certify(2) // renewed while the server runs
	conn, err := tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true})
	is.NoErr(err)
	is.Equal(conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), int64(2))
	is.NoErr(conn.Close())
	_, err = tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	is.True(err != nil)
	is.Equal(p.must("healthcheck"), "The server at https://"+p.addr+" is healthy.")
	s.stop()

	p.write("cert.pem", "no certificate")
	r := p.run("", "serve")
	is.Equal(r.code, 1)
	is.True(strings.HasPrefix(r.err, "Cannot read the certificate: "))
}
