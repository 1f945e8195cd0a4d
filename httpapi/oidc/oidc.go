// Package oidc is the client of an issuer of OpenID Connect. It sends browsers to the issuer
// and reads who came back.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"kist/blobs/flight"
	"kist/httpapi/outbound"
	"kist/kv/people"
	"kist/kv/record"
)

// Options configure a Client. Issuer, ClientID and Redirect are required.
type Options struct {
	Issuer, ClientID string
	ClientSecret     string // "" for a public client
	Name             string // of the issuer, for people
	Scopes           []string
	GroupsClaim      string // the claim that has the names of the user's groups
	AllowGroup       string // only its members may sign in; "" means anyone at the issuer
	AdminGroup       string // its members are administrators, and others are not; "" leaves roles alone
	Create           bool   // make an account for who has none
	Redirect         string // address of this server to which the issuer sends browsers back
	Leave            string // address of this server to which it sends them after they signed out
	// Allow lists what the server may connect to besides the public internet and the host of the
	// issuer.
	Allow []outbound.Allowed
	// Now says when to ask the issuer about itself again; nil is time.Now.
	Now func() time.Time
}

// Bounds of requests to the issuer.
const (
	requestTime = 8 * time.Second
	bodyBytes   = 1 << 20
	maxAtOnce   = 8                // sign-ins that wait for the issuer
	retryTime   = 10 * time.Second // between two attempts to read the metadata
	metadataAge = time.Hour
	skew        = time.Minute // how far the issuer's clock may be behind
)

// Client is a client of one issuer. It asks the issuer for its metadata when it is first used. It is
// safe for concurrent use.
type Client struct {
	Options
	http  *http.Client
	turns flight.Turns // to sign in

	asks  flight.Group[struct{}, *metadata]
	known *metadata // nil until the issuer answers; used by asks only, like the following
	tried time.Time
	err   error // of the latest attempt
}

// metadata is what an issuer says about itself.
type metadata struct {
	provider *oidc.Provider
	end      string // its end_session_endpoint; "" if it has none
	read     time.Time
}

// New makes a client. It sends nothing yet.
func New(o Options) *Client {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Client{Options: o, turns: make(flight.Turns, maxAtOnce)}
	var issuer outbound.Allowed // its operator has chosen the address, so it may be private
	if u, err := url.Parse(o.Issuer); err == nil && issuer.UnmarshalText([]byte(u.Hostname())) == nil {
		o.Allow = append(slices.Clip(o.Allow), issuer)
	}
	c.http = &http.Client{
		Timeout: requestTime, Transport: transport{outbound.New(outbound.Options{Allow: o.Allow})},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// transport sends the requests of the libraries by the rules of package outbound, follows no
// redirects and bounds the bodies of answers.
type transport struct{ *outbound.Client }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.Do(r, 0)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, bodyBytes), res.Body}
	return res, nil
}

// Errors for people. They are wrapped with the cause.
var (
	errUnavailable = &record.Error{
		Fault: record.Busy, Code: "issuer_unavailable",
		Text: "The sign-in service cannot be reached at the moment. Try again soon.", Retry: retryTime,
	}
	errRefused = &record.Error{
		Fault: record.Unauthorized, Code: "issuer_refused",
		Text: "The sign-in service did not confirm this sign-in. Start again.",
	}
)

func unavailable(err error) error { return fmt.Errorf("%w (%w)", errUnavailable, err) }

func refused(err error) error { return fmt.Errorf("%w (%w)", errRefused, err) }

// issuer returns what the issuer says about itself. While the issuer is away, metadata that was read
// before stays in use.
func (c *Client) issuer(ctx context.Context) (*metadata, error) {
	m, err := c.asks.Do(ctx, struct{}{}, func(ctx context.Context) (*metadata, error) {
		now := c.Now()
		if (c.known == nil || now.Sub(c.known.read) > metadataAge) && now.Sub(c.tried) > retryTime {
			var got *metadata
			got, c.err = discover(oidc.ClientContext(ctx, c.http), c.Issuer)
			if c.err == nil {
				got.read, c.known = now, got
			}
			c.tried = now
		}
		if c.known == nil {
			return nil, c.err
		}
		return c.known, nil
	})
	if err != nil {
		return nil, unavailable(err)
	}
	return m, nil
}

func discover(ctx context.Context, issuer string) (*metadata, error) {
	p, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return nil, err
	}
	var more struct {
		End string `json:"end_session_endpoint"`
	}
	if err := p.Claims(&more); err != nil {
		return nil, err
	}
	return &metadata{provider: p, end: more.End}, nil
}

func (c *Client) config(m *metadata) *oauth2.Config {
	end := m.provider.Endpoint()
	if c.ClientSecret == "" {
		end.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: end, RedirectURL: c.Redirect, Scopes: c.Scopes,
	}
}

// Begin returns the address at the issuer where a browser signs in. With again, the issuer asks its
// user to prove again who they are, and says when they did (OpenID Connect Core 1.0, section 3.1.2.1).
func (c *Client) Begin(ctx context.Context, state, nonce, verifier string, again bool) (string, error) {
	m, err := c.issuer(ctx)
	if err != nil {
		return "", err
	}
	more := []oauth2.AuthCodeOption{oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)}
	if again {
		age := strconv.Itoa(int(people.RecentTime.Seconds()))
		more = append(more, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", age))
	}
	return c.config(m).AuthCodeURL(state, more...), nil
}

// Identity is who signed in at the issuer.
type Identity struct {
	Subject        string
	UserName, Name string        // as the issuer has them; they may be empty, and anyone's
	Refusal        string        // why AllowGroup keeps the user out, for the log; "" if it does not
	Admin          bool          // by AdminGroup
	Token          string        // the ID token, for End
	SignedIn       time.Duration // how long ago the issuer made sure of the user; negative if it does not say
}

// Finish exchanges the code that a browser brought back, and checks the ID token. Where that does not
// have the user's name or a group that counts, it asks for the user info too.
func (c *Client) Finish(ctx context.Context, code, nonce, verifier string) (*Identity, error) {
	if !c.turns.Try() {
		return nil, unavailable(errors.New("too many sign-ins at once"))
	}
	defer c.turns.Give()
	m, err := c.issuer(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, c.http)
	tokens, err := c.config(m).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.Response.StatusCode/100 == 4 {
		return nil, refused(fmt.Errorf("status %d, %s", e.Response.StatusCode, outbound.Printable([]byte(e.ErrorCode), 64)))
	}
	if err != nil {
		return nil, unavailable(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	subject, said, err := c.read(ctx, m, raw, nonce, tokens.AccessToken)
	if err != nil {
		return nil, err
	}

	// Some issuers say little in the token, or leave groups out to keep it short.
	all := claims{}
	groups := said.groups(c.GroupsClaim)
	undecided := !groups.meet(c.AllowGroup) || !groups.meet(c.AdminGroup)
	if (undecided || said.text("preferred_username") == "") && m.provider.UserInfoEndpoint() != "" {
		more, about, err := userInfo(ctx, m, tokens)
		if err != nil && undecided { // a short outage must not take rights away
			return nil, unavailable(err)
		}
		if err == nil && about != subject {
			return nil, refused(errors.New("the user info is about another subject"))
		}
		groups = append(groups, more.groups(c.GroupsClaim)...)
		maps.Copy(all, more)
	}
	maps.Copy(all, said)

	id := &Identity{
		Subject: subject, UserName: all.userName(), Name: all.text("name"), Token: raw,
		Admin:    c.AdminGroup != "" && groups.meet(c.AdminGroup),
		SignedIn: said.signedIn(time.Now()), // from the signed token only
	}
	if !groups.meet(c.AllowGroup) {
		id.Refusal = c.refusal(groups, all)
	}
	return id, nil
}

// read checks an ID token. It returns its subject and what it says.
func (c *Client) read(ctx context.Context, m *metadata, raw, nonce, access string) (string, claims, error) {
	token, err := m.provider.Verifier(&oidc.Config{ClientID: c.ClientID, Now: func() time.Time {
		return time.Now().Add(-skew)
	}}).Verify(ctx, raw)
	if err != nil {
		return "", nil, refused(err)
	}
	var said claims
	if err := token.Claims(&said); err != nil {
		return "", nil, refused(err)
	}
	switch by := said.text("azp"); {
	case token.Nonce != nonce:
		return "", nil, refused(errors.New("the nonce is another"))
	case token.Subject == "" || len(token.Subject) > maxSubject:
		return "", nil, refused(errors.New("the subject is missing or too long"))
	case by != "" && by != c.ClientID:
		return "", nil, refused(errors.New("the token is for another client"))
	case token.AccessTokenHash != "" && token.VerifyAccessToken(access) != nil:
		return "", nil, refused(errors.New("the access token is another"))
	}
	return token.Subject, said, nil
}

// userInfo asks the issuer what else it says about a user, and about whom it speaks.
func userInfo(ctx context.Context, m *metadata, tokens *oauth2.Token) (said claims, subject string, err error) {
	info, err := m.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil { // with the whole answer
		return nil, "", errors.New(outbound.Printable([]byte(err.Error()), 256))
	}
	if err := info.Claims(&said); err != nil {
		return nil, "", err
	}
	return said, info.Subject, nil
}

// maxSubject is the maximum length of a subject in bytes (OpenID Connect Core 1.0, section 2).
const maxSubject = 255

// End returns the address at the issuer that ends the browser's session there; "" if the issuer has
// none or is away. token is the ID token of the session, or "".
func (c *Client) End(ctx context.Context, token string) string {
	m, err := c.issuer(ctx)
	if err != nil || m.end == "" {
		return ""
	}
	u, err := url.Parse(m.end)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	q := u.Query()
	q.Set("client_id", c.ClientID)
	q.Set("post_logout_redirect_uri", c.Leave)
	if token != "" {
		q.Set("id_token_hint", token)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Health is how a client and its issuer get along.
type Health struct {
	Issuer, Redirect string
	Problem          string        // why the issuer cannot be used
	Refused          string        // how it answers a sign-in that would come back to Redirect, if it refuses it
	Ahead            time.Duration // of its clock
	Leaves           bool          // it can end its sessions
}

// Check asks the issuer now.
func (c *Client) Check(ctx context.Context) Health {
	h := Health{Issuer: c.Issuer, Redirect: c.Redirect}
	m, err := discover(oidc.ClientContext(ctx, c.http), c.Issuer)
	if err != nil {
		h.Problem = outbound.Explain(err, "The issuer")
		return h
	}
	h.Leaves = m.end != ""
	// An issuer that knows the redirect address sends the browser back there even with an error
	// (OpenID Connect Core 1.0, section 3.1.2.6).
	at := c.config(m).AuthCodeURL(
		"doctor", oidc.Nonce("doctor"), oauth2.S256ChallengeOption(oauth2.GenerateVerifier()),
		oauth2.SetAuthURLParam("prompt", "none"),
	)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		h.Problem = err.Error()
		return h
	}
	res, err := c.http.Do(r)
	if err != nil && res == nil {
		h.Problem = outbound.Explain(err, "The issuer")
		return h
	}
	defer res.Body.Close()
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		h.Ahead = time.Until(at)
	}
	if res.StatusCode >= 400 {
		h.Refused = fmt.Sprintf("status %d", res.StatusCode)
	}
	return h
}
