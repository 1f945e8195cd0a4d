package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/web"
	"kist/kv/kvtest/needs"
)

// hurry is how much faster time-outs end on a hasty listener.
const hurry = 100

// hasty is a listener whose connections end their time-outs early, so that a
// test need not wait for those of the server.
type hasty struct{ net.Listener }

func (l hasty) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return hastyConn{c}, nil
}

type hastyConn struct{ net.Conn }

func sooner(t time.Time) time.Time {
	if t.IsZero() || time.Until(t) < time.Second {
		return t
	}
	return time.Now().Add(time.Until(t) / hurry)
}

func (c hastyConn) SetDeadline(t time.Time) error { return c.Conn.SetDeadline(sooner(t)) }

func (c hastyConn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(sooner(t)) }

func (c hastyConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(sooner(t)) }

// watched is a listener that knows how many of its connections are open.
type watched struct {
	net.Listener
	accepted, closed *atomic.Int64
}

func (l watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted.Add(1)
	return &watchedConn{Conn: c, closed: l.closed}, nil
}

type watchedConn struct {
	net.Conn
	closed *atomic.Int64
	once   sync.Once
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { c.closed.Add(1) })
	return c.Conn.Close()
}

// serve runs the server on a real listener until stop is called, which
// returns what Serve returned.
func serve(
	a *apitest.App, wrap func(net.Listener) net.Listener, grace time.Duration,
) (addr string, stop func() error, stopping context.CancelFunc) {
	a.Helper()
	a.Server.Renew = web.WriteRenew / hurry // in step with hasty
	l, err := net.Listen("tcp", "127.0.0.1:0")
	a.NoErr(err)
	ctx, cancel := context.WithCancel(a.Context())
	done := make(chan error, 1)
	wrapped := wrap(l)
	go func() { done <- a.Server.Serve(ctx, wrapped, nil, grace) }()
	return l.Addr().String(), func() error { cancel(); return <-done }, cancel
}

func itself(l net.Listener) net.Listener { return l }

func hastily(l net.Listener) net.Listener { return hasty{l} }

// talk sends text and reads what comes until the server closes.
func talk(a *apitest.App, addr, text string) string {
	a.Helper()
	conn, err := net.Dial("tcp", addr)
	a.NoErr(err)
	defer conn.Close()
	a.NoErr(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	_, _ = io.WriteString(conn, text) // the server may close before it has all
	var got bytes.Buffer
	_, err = got.ReadFrom(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.Errorf("the server does not close; it answered %q", got.String())
	}
	return got.String()
}

// TestDoorSlowClients: who sends or takes too slowly is cut off.
func TestDoorSlowClients(t *testing.T) {
	needs.Alone(t)
	needs.Time(t)
	is := is.New(t)
	a := apitest.Start(t)
	big := a.Share(strings.Repeat("0123456789abcdef", 1<<20)) // 16 MiB: more than the system buffers
	addr, stop, _ := serve(a, hastily, time.Minute)
	began := time.Now()
	is.Equal(talk(a, addr, ""), "")
	is.Equal(talk(a, addr, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "), "")
	// then idle
	is.True(strings.HasPrefix(talk(a, addr, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 200 OK\r\n"))
	for _, length := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		upload := "POST /api/v1/upload HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + a.Key + "\r\nContent-Type: multipart/form-data; boundary=b\r\n" + length + "\r\n\r\n"
		got := talk(a, addr, upload+"3e8\r\n--b\r\n")
		is.True(strings.HasPrefix(got, "HTTP/1.1 400 "))
		note := strings.NewReplacer(
			"upload ", "notes ", "multipart/form-data; boundary=b", "application/json",
		).Replace(upload)
		is.True(strings.HasPrefix(talk(a, addr, note+"3e8\r\n{"), "HTTP/1.1 400 "))
	}
	held := a.Share("held")
	var all sync.WaitGroup
	for request, status := range map[string]string{ // whose bodies no handler reads
		"GET /healthz":       "200",
		"GET /nothing":       "404",
		"GET /x/" + held:     "200",
		"PUT /healthz":       "405",
		"POST /api/v1/notes": "401",
		"GET /healthz?" + strings.Repeat("a", web.MaxQuery+1): "400",
	} {
		for _, length := range []string{"Content-Length: 10", "Content-Length: 10000000", "Transfer-Encoding: chunked"} {
			for _, sent := range []string{"", "5\r\nh"} {
				all.Go(func() {
					got := talk(a, addr, request+" HTTP/1.1\r\nHost: localhost\r\n"+length+"\r\n\r\n"+sent)
					if !strings.HasPrefix(got, "HTTP/1.1 "+status+" ") {
						t.Errorf("%.40s, %s, %q: %.40q, want %s", request, length, sent, got, status)
					}
				})
			}
		}
	}
	all.Wait()
	a.Delete("/api/v1/files/" + held).Want(200)
	is.True(time.Since(began) < 30*time.Second)

	// A download that is not taken, the first of its connection or right after
	// other answers.
	for _, before := range []int{0, 3} {
		conn, err := net.Dial("tcp", addr)
		is.NoErr(err)
		defer conn.Close()
		_, err = fmt.Fprintf(
			conn, "%sGET /x/%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
			strings.Repeat("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", before), big,
		)
		is.NoErr(err)
		answers := bufio.NewReader(conn)
		for range before {
			res, err := http.ReadResponse(answers, nil)
			is.NoErr(err)
			_, err = io.Copy(io.Discard, res.Body)
			is.NoErr(err)
		}
		_, err = answers.ReadByte() // it is under way
		is.NoErr(err)
	}
	ended := make(chan struct{})
	go func() { a.Server.Running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("a download that is not taken goes on")
	}
	is.NoErr(stop())
	a.Delete("/api/v1/files/" + big).Want(200)
	a.Sweep()
	// The download that was cut off has the rest of the content checked.
	for deadline := time.Now().Add(time.Minute); len(a.Staged()) > 0 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	a.NothingLeft()
}

// TestDoorCrowd: clients that send and take as slowly as they can, many at
// once, are cut off, and meanwhile others are served without delay.
func TestDoorCrowd(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	is := is.New(t)
	a := apitest.Start(t)
	big := a.Share(strings.Repeat("0123456789abcdef", 1<<20)) // 16 MiB: more than the system buffers
	small := a.Share("small")
	var accepted, closed atomic.Int64
	addr, stop, _ := serve(a, func(l net.Listener) net.Listener {
		return watched{hasty{l}, &accepted, &closed}
	}, time.Minute)
	upload := "POST /api/v1/upload HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + a.Key + "\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n--b\r\n"
	sorts := []struct {
		begin, more string
		slowly      bool // takes the answer in small pieces
	}{
		// never ends its head
		{"GET /x/" + small + " HTTP/1.1\r\nHost: localhost\r\n", "X: a\r\n", false},
		// nor its body
		{
			"POST /api/v1/notes HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + a.Key + "\r\nContent-Length: 1000000\r\n\r\n{",
			" ", false,
		},
		{upload, "x", false},
		{"GET /x/" + big + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "", true},
		{
			"GET /x/" + big + " HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + strings.Repeat("0-,", 999) + "0-\r\n\r\n", "",
			true,
		},
	}
	const each = 30
	tiny := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { return raw.Control(smallWindow) }}
	var crowd sync.WaitGroup
	var conns []net.Conn
	for range each {
		for _, sort := range sorts {
			conn, err := tiny.Dial("tcp", addr)
			is.NoErr(err)
			_, err = io.WriteString(conn, sort.begin)
			is.NoErr(err)
			answered := make(chan struct{}) // an upload too many is refused: then its client sends no more
			if !sort.slowly {
				crowd.Go(func() {
					defer close(answered)
					_, _ = conn.Read(make([]byte, 1)) // an answer, or the end
				})
			}
			crowd.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for {
					var err error
					if sort.slowly {
						_, err = conn.Read(make([]byte, 32))
					} else {
						_, err = io.WriteString(conn, sort.more)
					}
					if err != nil {
						return
					}
					select {
					case <-tick.C:
					case <-answered:
						return
					}
				}
			})
			conns = append(conns, conn)
		}
	}
	// Who is served while they hold on waits for none of them: this ends, however
	// long it takes, only if each of these is answered and each of those cut off.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for closed.Load() < int64(len(conns)) {
		res, err := client.Get(a.URL + "/x/" + small) // without the haste
		is.NoErr(err)
		is.NoErr(res.Body.Close())
		is.Equal(res.StatusCode, 200)
	}
	is.Equal(accepted.Load(), int64(len(conns)))
	for _, conn := range conns { // what the system still has for them is not taken
		is.NoErr(conn.Close())
	}
	crowd.Wait()
	is.NoErr(stop())
}

// TestDoorAnswersAtOnce: no one waits for a body that will not be read, when
// its client waits for the answer first or when it is too long to be taken.
func TestDoorAnswersAtOnce(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	addr, stop, _ := serve(a, itself, time.Minute) // whose time-outs are longer than talk's
	for _, head := range []string{
		"Content-Length: 10\r\nExpect: 100-continue", "Content-Length: 10000000\r\nExpect: 100-continue",
		"Transfer-Encoding: chunked\r\nExpect: 100-continue", "Content-Length: 10000000",
	} {
		got := talk(a, addr, "POST /api/v1/notes HTTP/1.1\r\nHost: localhost\r\n"+head+"\r\n\r\n")
		is.True(strings.HasPrefix(got, "HTTP/1.1 401 "))
	}
	is.NoErr(stop())
}

// TestDoorRefusesLongBodies: a client that reads only after it has sent everything, as many
// programs and proxies do, gets the answer that refuses its body.
func TestDoorRefusesLongBodies(t *testing.T) {
	t.Parallel()
	a := apitest.Start(t)
	link := a.Post("/api/v1/upload-requests", `{"title":"In","password":"open sesame"}`).Want(201).At("data.slug").(string)
	addr, stop, _ := serve(a, itself, time.Minute)
	const size = 40 << 20 // more than the system buffers
	for name, c := range map[string]struct{ head, status string }{
		"no key":             {"POST /api/v1/upload", "401"},
		"a bad key":          {"POST /api/v1/upload HTTP/1.1\r\nX-Api-Key: kist_nope", "401"},
		"an unknown address": {"POST /api/v1/nothing", "404"},
		"a wrong method":     {"PUT /api/v1/upload", "405"},
		"a wrong type":       {"POST /api/v1/upload HTTP/1.1\r\nX-Api-Key: " + a.Key, "415"},
		"too much JSON": {
			"POST /api/v1/notes HTTP/1.1\r\nContent-Type: application/json\r\nX-Api-Key: " + a.Key, "413",
		},
		"a link with a password":   {"POST /api/v1/upload-requests/p/" + link + "/files", "401"},
		"a link that is not there": {"POST /api/v1/upload-requests/p/nothing/files", "404"},
		"a page":                   {"POST /v/nothing", "415"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, length := range []string{"Content-Length: " + strconv.Itoa(size), "Transfer-Encoding: chunked"} {
				is := is.New(t)
				conn, err := net.Dial("tcp", addr)
				is.NoErr(err)
				defer conn.Close()
				line, headers, _ := strings.Cut(c.head, " HTTP/1.1\r\n")
				_, err = io.WriteString(
					conn, line+" HTTP/1.1\r\nHost: localhost\r\n"+length+"\r\n"+headers+strings.Repeat("\r\n", 1+min(1, len(headers))),
				)
				is.NoErr(err)
				to := io.Writer(conn)
				if strings.HasSuffix(length, "chunked") {
					to = httputil.NewChunkedWriter(conn)
				}
				piece := bytes.Repeat([]byte(" "), 1<<20)
				for range size / len(piece) {
					_, err := to.Write(piece)
					is.NoErr(err) // the server reads on
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				is.NoErr(err)
				defer res.Body.Close()
				is.Equal(strconv.Itoa(res.StatusCode), c.status)
			}
		})
	}
	is.New(t).NoErr(stop())
}

// sendAtPace connects and sends the head of a request, then its body piece by
// piece, and skips a time before each. It returns the connection, and whether the
// server had read every piece but the last when the next was due.
func sendAtPace(
	a *apitest.App, addr string, l *skipping, head string, body []byte, piece int, pause time.Duration,
) (net.Conn, bool) {
	a.Helper()
	conn, err := net.Dial("tcp", addr)
	a.NoErr(err)
	a.Cleanup(func() { _ = conn.Close() })
	there := <-l.accepted
	sent, err := io.WriteString(conn, head)
	a.NoErr(err)
	for len(body) > 0 {
		if !there.caughtUp(sent) {
			return conn, false
		}
		a.NoErr(there.skip(pause))
		n, err := conn.Write(body[:min(piece, len(body))])
		if err != nil {
			return conn, false
		}
		sent += n
		body = body[n:]
	}
	return conn, true
}

// TestDoorSteadyClients: who keeps sending is not cut off, however long it
// takes, and a connection can be used again after long answers. Who sends half as
// much is cut off.
func TestDoorSteadyClients(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	var l *skipping
	addr, stop, _ := serve(a, func(inner net.Listener) net.Listener {
		a.Server.Renew = 0 // the clock does not show what is skipped
		l = newSkipping(inner)
		return l
	}, time.Minute)
	answers := func(in *bufio.Reader, status int) {
		t.Helper()
		res, err := http.ReadResponse(in, nil)
		is.NoErr(err)
		_, err = io.Copy(io.Discard, res.Body)
		is.NoErr(err)
		is.NoErr(res.Body.Close())
		is.Equal(res.StatusCode, status)
	}
	const health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

	q := a.UploadRequest(nil, apitest.File("a.txt", "", strings.Repeat("x", 10*web.PaceBytes)))
	upload, err := io.ReadAll(q.Body)
	is.NoErr(err)
	uploadHead := fmt.Sprintf(
		"POST /api/v1/upload HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		a.Key, q.Header.Get("Content-Type"), len(upload),
	)
	// A body that no handler reads, at the same pace: the answer is not cut
	// off by it, and the connection goes on.
	unread := make([]byte, 6*web.PaceBytes)
	unreadHead := fmt.Sprintf("POST /api/v1/notes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(unread))
	for _, c := range []struct {
		head   string
		body   []byte
		pause  time.Duration
		status int
	}{
		{uploadHead, upload, web.PaceTime / 4, 201},
		{unreadHead, unread, web.PaceTime / 2, 401},
	} {
		is.True(len(c.body)/web.PaceBytes*int(c.pause) > 2*int(web.PaceTime)) // longer than anyone may be silent
		conn, all := sendAtPace(a, addr, l, c.head, c.body, web.PaceBytes, c.pause)
		is.True(all)
		in := bufio.NewReader(conn)
		answers(in, c.status)
		_, err := io.WriteString(conn, health)
		is.NoErr(err)
		answers(in, 200)

		_, all = sendAtPace(a, addr, l, c.head, c.body, web.PaceBytes/2, web.PaceTime*3/4)
		is.True(!all)
	}
	is.NoErr(stop())
}

// TestDoorMalformed sends what is no HTTP, or HTTP that is read in two ways.
func TestDoorMalformed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	addr, stop, _ := serve(a, itself, time.Minute)
	const end = "\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for name, c := range map[string]struct{ send, status string }{
		"no HTTP":                {"\x16\x03\x01\x00\r\n\r\n", "400"},
		"10 MB of header":        {"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 10<<20) + end, "431"},
		"10 MB of headers":       {"GET / HTTP/1.1\r\n" + strings.Repeat("X: a\r\n", 2<<20) + end, "431"},
		"1 M query parameters":   {"GET /api/v1/notes?" + strings.Repeat("a=b&", 1_000_000) + " HTTP/1.1" + end, "431"},
		"a query over 8 KiB":     {"GET /api/v1/notes?" + strings.Repeat("a", web.MaxQuery+1) + " HTTP/1.1" + end, "400"},
		"no host":                {"GET /healthz HTTP/1.1\r\n\r\n", "400"},
		"two hosts":              {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		"a host that is none":    {"GET /healthz HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n", "400"},
		"a path as host":         {"GET /healthz HTTP/1.1\r\nHost: a/../b\r\nConnection: close\r\n\r\n", "400"},
		"HTTP/1.0":               {"GET /healthz HTTP/1.0\r\n\r\n", "200"},
		"HTTP/1.0 in chunks":     {"POST /api/v1/notes HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "401"},
		"HTTP/0.9":               {"GET /healthz\r\n\r\n", "400"},
		"a folded header":        {"GET /healthz HTTP/1.1\r\nX: a\r\n b" + end, "200"},
		"a space before a colon": {"GET /healthz HTTP/1.1\r\nX-A : b" + end, "400"},
		"NUL in a header":        {"GET /healthz HTTP/1.1\r\nX-A: \x00" + end, "400"},
		"an unknown encoding":    {"POST /api/v1/notes HTTP/1.1\r\nTransfer-Encoding: xchunked" + end, "501"},
		"two encodings": {
			"POST /api/v1/notes HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity" + end, "501",
		},
		"two lengths":             {"POST /api/v1/notes HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2" + end, "400"},
		"a negative length":       {"POST /api/v1/notes HTTP/1.1\r\nContent-Length: -1" + end, "400"},
		"a length with a sign":    {"POST /api/v1/notes HTTP/1.1\r\nContent-Length: +1" + end, "400"},
		"a version from tomorrow": {"GET /healthz HTTP/9.9" + end, "505"},
		"options of the server":   {"OPTIONS * HTTP/1.1" + end, "404"},
		"an absolute address":     {"GET http://evil.example/healthz HTTP/1.1" + end, "200"},
		"a fragment":              {"GET /healthz#a HTTP/1.1" + end, "404"},
		"a bad escape":            {"GET /x/%zz HTTP/1.1" + end, "400"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got := talk(a, addr, c.send)
			_, status, _ := strings.Cut(got, " ")
			is.Equal(status[:min(3, len(status))], c.status)
			is.Equal(strings.Count(got, "HTTP/1."), 1) // one answer
		})
	}
	key := "\r\nX-Api-Key: " + a.Key
	for name, send := range map[string]string{
		"bad chunk":         "POST /api/v1/notes HTTP/1.1\r\nHost: localhost" + key + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"bare line end":     "POST /api/v1/notes HTTP/1.1\r\nHost: localhost" + key + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2;a\nxx\r\n{}\r\n0\r\n\r\n",
		"length and chunks": "POST /api/v1/notes HTTP/1.1\r\nHost: localhost" + key + "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got := talk(a, addr, send)
			is.True(strings.HasPrefix(got, "HTTP/1.1 400 "))
			is.Equal(strings.Count(got, "HTTP/1.1 "), 1)
			is.True(!strings.Contains(a.Logged.String(), "smuggled"))
		})
	}
	is.Equal(a.Get("/api/v1/notes").Want(200).At("total"), 0.0)

	// With a body that is good, the answer is the last on its connection.
	got := talk(a, addr, "POST /api/v1/notes HTTP/1.1\r\nHost: localhost"+key+"\r\nContent-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"f\r\n{\"content\":\"x\"}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
	is.True(strings.HasPrefix(got, "HTTP/1.1 201 "))
	is.Equal(strings.Count(got, "HTTP/1.1 "), 1)
	is.True(!strings.Contains(a.Logged.String(), "smuggled"))
	is.NoErr(stop())
}

// TestDoorStops: a server that is told to stop lets an upload finish, takes no
// other request, and returns when all is done.
func TestDoorStops(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	addr, stop, stopping := serve(a, itself, time.Minute)
	conn := beginUpload(a, addr)
	defer conn.Close()
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n')
	is.NoErr(err)
	is.Equal(line, "HTTP/1.1 100 Continue\r\n")
	_, err = in.ReadString('\n')
	is.NoErr(err)
	stopping()
	for { // until it is heard
		again, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		_ = again.Close()
	}
	_, err = io.WriteString(conn, strings.ReplaceAll(apitest.FilePart+"--b--\n", "\n", "\r\n"))
	is.NoErr(err)
	res, err := http.ReadResponse(in, nil)
	is.NoErr(err)
	is.Equal(res.StatusCode, 201)
	is.NoErr(res.Body.Close())
	is.NoErr(stop())
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 1.0)

	// What does not finish within the grace is cut off, and leaves nothing.
	addr, stop, _ = serve(a, itself, time.Millisecond)
	conn = beginUpload(a, addr)
	defer conn.Close()
	line, err = bufio.NewReader(conn).ReadString('\n')
	is.NoErr(err)
	is.Equal(line, "HTTP/1.1 100 Continue\r\n")
	is.NoErr(stop())
	is.Equal(len(a.Staged()), 0)
	is.Equal(a.Get("/api/v1/files").Want(200).At("total"), 1.0)
}

// beginUpload sends the head of an upload.
func beginUpload(a *apitest.App, addr string) net.Conn {
	a.Helper()
	conn, err := net.Dial("tcp", addr)
	a.NoErr(err)
	a.NoErr(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	_, err = fmt.Fprintf(conn, "POST /api/v1/upload HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\nContent-Type: "+
		"multipart/form-data; boundary=b\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
		a.Key, len(strings.ReplaceAll(apitest.FilePart+"--b--\n", "\n", "\r\n")))
	a.NoErr(err)
	return conn
}

// TestDoorCutsOff: an answer that fails on its way does not look whole.
func TestDoorCutsOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	for name, fail := range map[string]func(*web.Request) error{
		"error": func(*web.Request) error { return web.ErrInternal },
		"panic": func(*web.Request) error { panic("on the way") },
	} {
		h := a.Server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a.Server.ServeOperation(w, r, "half", func(c *web.Request) error {
				_, _ = c.W.Write(bytes.Repeat([]byte("half"), 1<<20))
				return fail(c)
			})
		}))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		is.NoErr(err)
		srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(l) }()
		res, err := apitest.Plain.Get("http://" + l.Addr().String() + "/healthz")
		is.NoErr(err)
		_, err = io.Copy(io.Discard, res.Body)
		is.True(err != nil) // the client is told
		is.NoErr(res.Body.Close())
		is.NoErr(srv.Close())
		a.Server.Running.Wait()
		if !strings.Contains(a.Logged.String(), `"op":"half"`) {
			t.Errorf("%s: no line in the log", name)
		}
	}
	// Before the answer has begun, a panic is an error like any other.
	h := a.Server.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Server.ServeOperation(w, r, "", func(*web.Request) error { panic("at once") })
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	res, err := apitest.Plain.Get("http://" + l.Addr().String() + "/api/v1/me")
	is.NoErr(err)
	is.Equal(res.StatusCode, 500)
	text, err := io.ReadAll(res.Body)
	is.NoErr(err)
	is.True(!bytes.Contains(text, []byte("at once")))
	is.NoErr(res.Body.Close())
	is.NoErr(srv.Close())
}

// A filed listener's connections note how much of files they are given to send
// by themselves, as net.TCPConn does with sendfile: it knows a file, and a
// limited reader of one, and nothing else.
type filed struct {
	net.Listener
	sent *atomic.Int64
}

func (l filed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return filedConn{c, l.sent}, nil
}

type filedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c filedConn) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(c.Conn, r)
	if limited, ok := r.(*io.LimitedReader); ok {
		r = limited.R
	}
	if _, ok := r.(*os.File); ok {
		c.sent.Add(n)
	}
	return n, err
}

// TestDoorSendsFiles: the bytes of files do not pass through the process.
func TestDoorSendsFiles(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	const size = 1 << 20
	slug := a.Share(strings.Repeat("0123456789abcdef", size/16))
	var sent atomic.Int64
	addr, stop, _ := serve(a, func(l net.Listener) net.Listener { return filed{l, &sent} }, time.Minute)
	for _, c := range []struct {
		header string
		length int64
	}{{"", size}, {"Range: bytes=1000-\r\n", size - 1000}} {
		sent.Store(0)
		got := talk(a, addr, "GET /x/"+slug+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+c.header+"\r\n")
		is.True(strings.HasPrefix(got, "HTTP/1.1 20"))
		is.True(int64(len(got)) > c.length)
		is.True(sent.Load() >= c.length-512) // net/http looks at the beginning
	}
	is.NoErr(stop())
}
