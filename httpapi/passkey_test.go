package httpapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv/people"
)

// A softKey is an authenticator with one passkey (WebAuthn, ES256, no attestation). Its
// fields can be set to what a wrong one would send.
type softKey struct {
	key    *ecdsa.PrivateKey
	id     []byte
	user   []byte
	count  uint32
	flags  byte // of authenticator data: 1 user present, 4 verified
	rp     string
	origin string
}

func newSoftKey(a *app) *softKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.fatal(err)
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	return &softKey{key: key, id: id, flags: 5, rp: "kist.example.org", origin: "https://kist.example.org"}
}

var urlText = base64.RawURLEncoding.EncodeToString

func (k *softKey) client(kind string, challenge any) []byte {
	return fmt.Appendf(nil, `{"type":"webauthn.%s","challenge":%q,"origin":%q,"crossOrigin":false}`, kind, challenge, k.origin)
}

func (k *softKey) data(flags byte) []byte {
	rp := sha256.Sum256([]byte(k.rp))
	return binary.BigEndian.AppendUint32(append(rp[:], flags), k.count)
}

// create answers the options of navigator.credentials.create.
func (k *softKey) create(t testing.TB, options map[string]any) string {
	t.Helper()
	user, err := base64.RawURLEncoding.DecodeString(options["user"].(map[string]any)["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	k.user = user
	pub, err := k.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	cose := slices.Concat([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, pub[1:33], []byte{0x22, 0x58, 32}, pub[33:])
	data := slices.Concat(k.data(k.flags|0x40), make([]byte, 16), []byte{0, byte(len(k.id))}, k.id, cose)
	object := slices.Concat([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), []byte{byte(len(data))}, data)
	return fmt.Sprintf(`{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"attestationObject":%q,"transports":["internal"]}}`,
		urlText(k.id), urlText(k.id), urlText(k.client("create", options["challenge"])), urlText(object))
}

// get answers the options of navigator.credentials.get, with the next count.
func (k *softKey) get(t testing.TB, options map[string]any) string {
	t.Helper()
	k.count++
	client, data := k.client("get", options["challenge"]), k.data(k.flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(slices.Clone(data), hash[:]...))
	sig, err := ecdsa.SignASN1(rand.Reader, k.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"id":%q,"rawId":%q,"type":"public-key","response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":%q,"userHandle":%q}}`,
		urlText(k.id), urlText(k.id), urlText(client), urlText(data), urlText(sig), urlText(k.user))
}

// addPasskey adds the passkey in the browser with the cookie.
func (a *app) addPasskey(cookie string, k *softKey, name string) *answer {
	a.Helper()
	ask := a.do(as(cookie, "POST", "/api/v1/me/passkeys/options", nil)).want(200)
	return a.do(as(cookie, "POST", "/api/v1/me/passkeys", map[string]string{"name": name, "ticket": ask.text("ticket"), "passkey": k.create(a, ask.at("passkey").(map[string]any))}))
}

// nameless signs in with the passkey alone.
func (a *app) nameless(k *softKey) *answer {
	a.Helper()
	ask := a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey/options", anyone: true}).want(200)
	return a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey", anyone: true, json: map[string]string{"ticket": ask.text("ticket"), "passkey": k.get(a, ask.at("passkey").(map[string]any))}})
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	mine := a.enter("ann", "correct horse")
	phone, stick := newSoftKey(a), newSoftKey(a)
	got := a.addPasskey(mine, phone, "phone").want(201)
	is.Equal(got.text("data.name"), "phone")
	is.Equal(len(got.at("recoveryCodes").([]any)), people.RecoveryCodes)
	is.Equal(a.addPasskey(mine, phone, "again").want(409).code(), "passkey_taken")
	is.Equal(len(a.addPasskey(mine, stick, "stick").want(201).at("recoveryCodes").([]any)), 0)
	list := a.do(as(mine, "GET", "/api/v1/me/passkeys", nil)).want(200)
	is.Equal(list.at("total"), 2.0)

	for _, k := range []*softKey{phone, stick} {
		got := a.nameless(k).want(200)
		is.Equal(got.text("data.username"), "ann")
		a.do(as(got.cookieOf(sessionName), "GET", "/api/v1/me", nil)).want(200)
	}
	// As the second step.
	ask := func() *answer {
		t.Helper()
		got := a.login("", "ann", "correct horse").want(401)
		is.Equal(got.code(), "second_factor_required")
		is.Equal(fmt.Sprint(got.at("methods")), "[passkey recoveryCode]")
		is.Equal(len(got.at("passkey.allowCredentials").([]any)), 2)
		return got
	}
	first := ask()
	phone.flags = 1 // after a password, the authenticator need not check who its user is
	answer := phone.get(a, first.at("passkey").(map[string]any))
	a.step("", first.text("ticket"), map[string]string{"passkey": answer}).want(200)
	is.Equal(a.step("", first.text("ticket"), map[string]string{"passkey": answer}).want(401).code(), "ticket_ended")
	is.Equal(a.step("", ask().text("ticket"), map[string]string{"passkey": answer}).want(401).code(), "wrong_passkey") // the challenge is another
	is.Equal(a.nameless(phone).want(401).code(), "wrong_passkey")                                                      // without a password it must
	phone.flags = 5

	// A ticket is for one purpose.
	open := a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey/options", anyone: true}).want(200)
	is.Equal(a.step("", open.text("ticket"), map[string]string{"passkey": phone.get(a, open.at("passkey").(map[string]any))}).want(401).code(), "ticket_ended")

	// A copy of a passkey has an older counter.
	good := phone.count
	phone.count = 0
	is.Equal(a.nameless(phone).want(401).code(), "passkey_refused")
	phone.count = good
	a.nameless(phone).want(200)
	is.True(strings.Contains(string(a.do(as(mine, "GET", "/api/v1/activity", nil)).want(200).body), `"passkey_refused"`))

	for name, change := range map[string]func(k *softKey){
		"relying party": func(k *softKey) { k.rp = "evil.example.org" },
		"origin":        func(k *softKey) { k.origin = "https://evil.example.org" },
		"presence":      func(k *softKey) { k.flags = 4 },
		"key":           func(k *softKey) { k.key = newSoftKey(a).key },
		"id":            func(k *softKey) { k.id = newSoftKey(a).id },
		"user":          func(k *softKey) { k.user = make([]byte, 16) },
		"short user":    func(k *softKey) { k.user = k.user[:15] },
		"no user":       func(k *softKey) { k.user = nil },
		"backup":        func(k *softKey) { k.flags |= 8 },
	} {
		wrong := *phone
		change(&wrong)
		if got := a.nameless(&wrong).want(401); got.code() != "wrong_passkey" {
			t.Errorf("%s: %s", name, got.code())
		}
		phone.count = wrong.count
	}
	for _, bad := range []string{"x", "{}", "null", `{"id":"AA","rawId":"AA","type":"public-key","response":{}}`, strings.Repeat("a", 4096)} {
		ask := a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey/options", anyone: true}).want(200)
		is.Equal(a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey", anyone: true, json: map[string]string{"ticket": ask.text("ticket"), "passkey": bad}}).want(401).code(), "wrong_passkey")
		ask = a.do(as(mine, "POST", "/api/v1/me/passkeys/options", nil)).want(200)
		a.do(as(mine, "POST", "/api/v1/me/passkeys", map[string]string{"name": "x", "ticket": ask.text("ticket"), "passkey": bad})).want(422)
	}

	// Another user can neither use the ticket nor change the passkeys.
	bob := a.addUser("bob", people.Member)
	a.withPassword(bob, "correct horse")
	his := a.enter("bob", "correct horse")
	offer := a.do(as(mine, "POST", "/api/v1/me/passkeys/options", nil)).want(200)
	third := newSoftKey(a)
	made := third.create(a, offer.at("passkey").(map[string]any))
	is.Equal(a.do(as(his, "POST", "/api/v1/me/passkeys", map[string]string{"name": "x", "ticket": offer.text("ticket"), "passkey": made})).want(409).code(), "ticket_ended")
	id := list.at("data").([]any)[0].(map[string]any)["id"].(string)
	a.do(as(his, "PATCH", "/api/v1/me/passkeys/"+id, `{"name":"x"}`)).want(404)
	a.do(as(his, "DELETE", "/api/v1/me/passkeys/"+id, nil)).want(404)
	is.Equal(a.do(as(mine, "PATCH", "/api/v1/me/passkeys/"+id, `{"name":"desk"}`)).want(200).text("data.name"), "desk")
	for _, v := range list.at("data").([]any) {
		a.do(as(mine, "DELETE", "/api/v1/me/passkeys/"+v.(map[string]any)["id"].(string), nil)).want(200)
	}
	is.Equal(a.nameless(phone).want(401).code(), "wrong_passkey")
	a.enter("ann", "correct horse") // no second step is left
}

// A form that is sent twice is no copy of a passkey: one request signs in, the others are too late.
func TestPasskeyTwice(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	mine := a.enter("ann", "correct horse")
	phone := newSoftKey(a)
	a.addPasskey(mine, phone, "phone").want(201)
	for range 5 {
		ask := a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey/options", anyone: true}).want(200)
		body := map[string]string{"ticket": ask.text("ticket"), "passkey": phone.get(a, ask.at("passkey").(map[string]any))}
		var wg sync.WaitGroup
		var got [4]*answer
		for i := range got {
			wg.Go(func() {
				got[i] = a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey", anyone: true, json: body})
			})
		}
		wg.Wait()
		entered := 0
		for _, one := range got {
			if one.status == 200 {
				entered++
			} else {
				is.Equal(one.want(401).code(), "ticket_ended")
			}
		}
		is.Equal(entered, 1)
	}
	is.True(!strings.Contains(string(a.do(as(mine, "GET", "/api/v1/activity", nil)).want(200).body), `"passkey_refused"`))
}

// The page of sign-in offers passkeys once anybody has one, and its form works.
func TestPasskeyForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	a.withPassword(a.user, "correct horse")
	is.True(!strings.Contains(string(a.visit("/login", "Accept", "text/html").want(200).body), "data-passkey"))
	k := newSoftKey(a)
	a.addPasskey(a.enter("ann", "correct horse"), k, "phone").want(201)
	page := a.visit("/login", "Accept", "text/html").want(200)
	is.True(strings.Contains(string(page.body), "data-passkey"))
	is.True(strings.Contains(page.header.Get("Content-Security-Policy"), "script-src 'self'"))
	post := func(values url.Values) *answer {
		h := withHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html")
		return a.do(apiRequest{method: "POST", path: "/login/passkey", anyone: true, header: h, body: strings.NewReader(values.Encode())})
	}
	ask := a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey/options", anyone: true}).want(200)
	values := url.Values{"ticket": {ask.text("ticket")}, "passkey": {k.get(a, ask.at("passkey").(map[string]any))}, "next": {"/files"}}
	is.Equal(post(values).want(303).header.Get("Location"), "/files")
	is.True(strings.Contains(string(post(values).want(401).body), "Begin again."))
	is.True(strings.Contains(string(post(url.Values{}).want(401).body), "Begin again."))
}

// Browsers have passkeys only for names, and over HTTPS or on this machine.
func TestPasskeyAddresses(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]int{
		"https://kist.example.org": 200, "https://kist.example.org:8443/kist": 200, "http://localhost:7080": 200, "http://kist.localhost": 200,
		"http://kist.example.org": 403, "https://192.0.2.1": 403, "http://127.0.0.1:7080": 403, "https://[2001:db8::1]": 403,
	} {
		a := start(t, func(c *web.Config) { c.Base = base })
		got := a.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey/options", anyone: true}).want(want)
		if want == 403 && got.code() != "no_passkeys_here" {
			t.Errorf("%s: %s", base, got.code())
		}
	}
}

// FuzzPasskeyAnswer sends answers of authenticators that are not ours.
func FuzzPasskeyAnswer(f *testing.F) {
	a := start(f)
	k := newSoftKey(a)
	options := map[string]any{"challenge": "AAAA", "user": map[string]any{"id": urlText(a.user.ID[:])}}
	f.Add(k.create(f, options))
	f.Add(k.get(f, options))
	f.Add(`{"id":"","rawId":"","type":"public-key","response":{"clientDataJSON":"e30","authenticatorData":"AA","signature":""}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		ticket, _ := a.server.Tickets.Issue(grant.Ticket{For: grant.ForPasskey, Network: sha256.Sum256([]byte("127.0.0.1/32"))}, a.server.Store.Now())
		body, err := json.Marshal(map[string]string{"ticket": ticket, "passkey": answer})
		if err != nil {
			t.Skip()
		}
		one := *a
		one.TB = t
		if got := one.do(apiRequest{method: "POST", path: "/api/v1/auth/passkey", anyone: true, json: string(body)}); got.status == 200 || got.status >= 500 {
			t.Errorf("status %d", got.status)
		}
	})
}
