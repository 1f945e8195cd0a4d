package admin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/net/dns/dnsmessage"

	"kist/kv/kvtest/needs"
)

// pebbleModule is the test authority of Let's Encrypt. It is built when the test
// runs and is no dependency of kist.
const pebbleModule = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1"

// pebble builds the authority, for which it may have to fetch it.
func pebble(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "install", pebbleModule)
	cmd.Dir = dir // outside of this module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, out)
		needs.Lacks(t, "certificates from another authority", "pebble cannot be built")
	}
	return filepath.Join(dir, "pebble")
}

// A server gets its certificate from an authority that is named, over TLS-ALPN on
// its own port, with an account that is bound to one there.
func TestACMEDirectory(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	program := pebble(t)
	is := is.New(t)
	p := newPlace(t)
	_, port, err := net.SplitHostPort(p.addr)
	is.NoErr(err)
	directory, manage := freeAddr(t), freeAddr(t)
	root := p.authority()
	key := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": directory, "managementListenAddress": manage, "certificate": p.path("ca.pem"), "privateKey": p.path("ca-key.pem"),
		"httpPort": 1, "tlsPort": json.Number(port), "externalAccountBindingRequired": true, "externalAccountMACKeys": map[string]string{"kid-1": key},
	}})
	is.NoErr(err)
	p.write("pebble.json", string(config))
	authority := exec.Command(program, "-config", p.path("pebble.json"), "-dnsserver", nameServer(t), "-strict")
	authority.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	var said strings.Builder
	authority.Stdout, authority.Stderr = &said, &said
	is.NoErr(authority.Start())
	t.Cleanup(func() {
		_ = authority.Process.Kill()
		_ = authority.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := tls.Dial("tcp", directory, &tls.Config{RootCAs: root})
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("pebble does not listen: %v", err)
		}
	}

	p.write("eab.key", key+"\n")
	p.env = []string{
		"KIST_TLS_DOMAIN=kist.example.org", "KIST_ACME_DIRECTORY=https://" + directory + "/dir", "SSL_CERT_FILE=" + p.path("ca.pem"),
		"KIST_ACME_EAB_KID=kid-1", "KIST_ACME_EAB_KEY_FILE=" + p.path("eab.key"),
	}
	s := p.serve()
	serial := func() *big.Int {
		var conn *tls.Conn
		// The first handshake waits for the certificate and may time out.
		p.until("a handshake succeeds", func() (ok bool) {
			// the root of pebble is made when it starts
			conn, err = tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true, ServerName: "kist.example.org"}) //nolint:gosec
			if err != nil {
				t.Logf("%v; the server says: %s", err, s.log.String())
			}
			return err == nil
		})
		defer conn.Close()
		leaf := conn.ConnectionState().PeerCertificates[0]
		is.NoErr(leaf.VerifyHostname("kist.example.org"))
		is.True(strings.HasPrefix(leaf.Issuer.CommonName, "Pebble Intermediate CA"))
		return leaf.SerialNumber
	}
	first := serial()
	s.stop()
	p.serve()
	is.Equal(serial(), first) // it was kept

	// It is not what another authority gave: that has a folder of its own.
	kept, err := filepath.Glob(p.data("cache", "acme", "of-*", "kist.example.org"))
	is.NoErr(err)
	is.Equal(len(kept), 1)
}

// authority writes a certificate for 127.0.0.1 that is its own root.
func (p *place) authority() *x509.CertPool {
	p.t.Helper()
	is := is.New(p.t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	is.NoErr(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	is.NoErr(err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	is.NoErr(err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})
	p.write("ca.pem", string(text))
	p.write("ca-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	pool := x509.NewCertPool()
	is.True(pool.AppendCertsFromPEM(text))
	return pool
}

// nameServer says of each name that it is this machine, until the test ends. It
// speaks DNS over TCP (RFC 7766), as pebble asks.
func nameServer(t *testing.T) string {
	t.Helper()
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				answerName(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return l.Addr().String()
}

// answerName answers one question.
func answerName(conn net.Conn) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	question := make([]byte, int(size[0])<<8|int(size[1]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return
	}
	q := m.Questions[0]
	answer := dnsmessage.Message{
		Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions,
	}
	if q.Type == dnsmessage.TypeA {
		answer.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{
				Name: q.Name, Type: q.Type, Class: q.Class,
			}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	text, err := answer.Pack()
	if err != nil {
		return
	}
	_, _ = conn.Write(append([]byte{byte(len(text) >> 8), byte(len(text))}, text...))
}
