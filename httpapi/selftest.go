package httpapi

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"sync"
	"time"

	"kist/httpapi/web"
	"kist/kv/record"
)

// probeTime is how long a probe's token is valid.
const probeTime = time.Minute

// probe lets the program send requests to its own public address and see how they arrive.
// One token is valid at a time.
type probe struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// NewProbe makes a token. For a minute, /healthz/{token} reports what the server sees of
// a request.
func (s *Server) NewProbe() string {
	s.probe.mu.Lock()
	defer s.probe.mu.Unlock()
	s.probe.token, s.probe.until = rand.Text(), time.Now().Add(probeTime)
	return s.probe.token
}

func (p *probe) holds(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until) && subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) == 1
}

// seen is what the server sees of a probe's request.
type seen struct {
	Peer      string `json:"peer"`      // the address of the connection; "" for a socket
	Client    string `json:"client"`    // the address that counts as the client's
	Forwarded bool   `json:"forwarded"` // whether the request has headers of a proxy
	Proto     string `json:"proto"`     // X-Forwarded-Proto
	Host      string `json:"host"`
	Apart     bool   `json:"apart"`   // whether it came to the origin for content
	Refused   bool   `json:"refused"` // whether other requests for this host are refused
}

// probed answers a probe. It does not read the body: the probe only tests whether the
// proxy lets it through.
func (s *Server) probed(c *web.Request) error {
	if !s.probe.holds(c.Arg("token")) {
		return record.NotFound("probe")
	}
	host, _, err := net.SplitHostPort(c.R.RemoteAddr)
	if err != nil {
		host = ""
	}
	v := seen{
		Peer: host, Forwarded: isForwarded(c.R), Proto: c.R.Header.Get("X-Forwarded-Proto"), Host: c.R.Host,
		Apart: c.AtContentOrigin(), Refused: !c.Site.AnswersFor(c.R),
	}
	if c.Addr.IsValid() {
		v.Client = c.Addr.String()
	}
	return c.RespondValue(http.StatusOK, v)
}

// isForwarded reports whether a request has headers of a proxy.
func isForwarded(r *http.Request) bool {
	has := func(name string) bool { return r.Header.Get(name) != "" }
	return has("X-Forwarded-For") || has("Forwarded") || has("Via")
}
