package httpapi

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net"
	"sync"
	"time"

	"kist/httpapi/web"
	"kist/kv/record"
)

// probeTime is how long a probe's token holds.
const probeTime = time.Minute

// probe lets the program ask itself by way of its public address what reaches
// it there. One token at a time holds.
type probe struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// NewProbe makes a token with which /healthz/{token} says for a minute what it
// sees of a request.
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
	Client    string `json:"client"`    // who it takes for the client
	Forwarded bool   `json:"forwarded"` // whether the request says that it was passed on
	Proto     string `json:"proto"`     // X-Forwarded-Proto
	Host      string `json:"host"`
	Apart     bool   `json:"apart"`   // whether it came to the origin for content
	Refused   bool   `json:"refused"` // whether other requests for this host are refused
}

var probeOp = web.Operation{
	Tag: "server", Summary: "Tells kist doctor what reaches the server of a request.",
	Reply: web.Reply{Status: 200, Doc: "What the server sees.", Body: web.JSONOf(web.Object{"type": "object"}, web.Object{"client": "192.0.2.1"})},
	Fails: []int{404}, AtContentOrigin: true,
}

var probeBodyOp = web.Operation{
	Tag: "server", Summary: "Tells kist doctor that a body would reach the server; it is not read.",
	Reply: web.Reply{Status: 200, Doc: "What the server sees.", Body: web.JSONOf(web.Object{"type": "object"}, web.Object{"client": "192.0.2.1"})},
	Fails: []int{404},
}

// probed answers a probe. The body, if there is one, is not read: that it was
// let through is what the probe is about.
func (s *Server) probed(c *web.Request) error {
	if !s.probe.holds(c.Arg("token")) {
		return record.NotFound("probe")
	}
	host, _, err := net.SplitHostPort(c.R.RemoteAddr)
	if err != nil {
		host = ""
	}
	v := seen{Peer: host, Proto: c.R.Header.Get("X-Forwarded-Proto"), Host: c.R.Host, Apart: c.AtContentOrigin(), Refused: !c.Site.AnswersFor(c.R)}
	if c.Addr.IsValid() {
		v.Client = c.Addr.String()
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "Via"} {
		v.Forwarded = v.Forwarded || c.R.Header.Get(name) != ""
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.RespondJSON(200, body)
}
