package session

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"

	"kist/embed"
	"kist/httpapi/grant"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

const stepPasskey = "passkey"

// maxPasskeyAnswer is how many bytes an authenticator's answer may have.
const maxPasskeyAnswer = 8 << 10

// relyingParty checks passkeys for the host of the server's address. It fails where browsers
// have none: without HTTPS, except on this machine, and at addresses without a name.
func relyingParty(c *web.Request) (*webauthn.WebAuthn, error) {
	u := c.Site.BaseURL
	if !PasskeysAt(u) {
		return nil, errNoPasskeys
	}
	return webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "kist", RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey:      protocol.ResidentKeyRequirementPreferred,
			UserVerification: protocol.VerificationPreferred,
		},
	})
}

// PasskeysAt reports whether browsers have passkeys for a server with the address.
func PasskeysAt(u *url.URL) bool {
	host := u.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	_, err := netip.ParseAddr(host)
	return err != nil && (u.Scheme == "https" || local)
}

var (
	errNoPasskeys = &record.Error{
		Fault: record.Denied, Code: "no_passkeys_here",
		Text: "Passkeys need HTTPS and a name such as kist.example.org as the server's address. " +
			"The operator sets it with --base-url.",
	}
	errPasskey = &record.Error{
		Fault: record.Unauthorized, Code: "wrong_passkey",
		Text: "This passkey does not sign in here. It may have been removed from the account.",
	}
	errClone = &record.Error{
		Fault: record.Unauthorized, Code: "passkey_refused",
		Text: "This passkey was refused, because there may be a copy of it. Sign in another way and remove it.",
	}
)

// passkeyUser is an account with its passkeys, for package webauthn.
type passkeyUser struct {
	*people.User
	keys []people.Passkey
}

func (u *passkeyUser) WebAuthnID() []byte          { return u.ID[:] }
func (u *passkeyUser) WebAuthnName() string        { return u.Name }
func (u *passkeyUser) WebAuthnDisplayName() string { return u.Name }
func (u *passkeyUser) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, k := range u.keys {
		c := webauthn.Credential{
			ID: k.Credential, PublicKey: k.Key, Flags: webauthn.NewCredentialFlags(protocol.AuthenticatorFlags(k.Flags)),
			Authenticator: webauthn.Authenticator{SignCount: uint32(k.Count)},
		}
		for _, t := range k.Transports {
			c.Transport = append(c.Transport, protocol.AuthenticatorTransport(t))
		}
		all = append(all, c)
	}
	return all
}

func withPasskeys(c *web.Request, id record.ID) (*passkeyUser, error) {
	u := new(passkeyUser)
	return u, c.Site.Store.View(func(tx *kv.Tx) (err error) {
		u.User, err = people.ReadUser(tx, id)
		if err != nil {
			return err
		}
		u.keys, err = people.Passkeys(tx, id)
		return err
	})
}

// passkeyOptions issues a ticket and the options for navigator.credentials.get. u is nil for a
// sign-in without a name.
func passkeyOptions(c *web.Request, purpose grant.Purpose, u *passkeyUser) (ticket string, options []byte, err error) {
	rp, err := relyingParty(c)
	if err != nil {
		return "", nil, err
	}
	var owner *people.User
	if u != nil {
		owner = u.User
	}
	ticket, k := issue(c, purpose, owner)
	with := []webauthn.LoginOption{
		webauthn.WithChallenge(k.Challenge[:]), webauthn.WithUserVerification(verification(purpose)),
	}
	var ask *protocol.CredentialAssertion
	if u == nil {
		ask, _, err = rp.BeginDiscoverableLogin(with...)
	} else {
		ask, _, err = rp.BeginLogin(u, with...)
	}
	if err != nil {
		return "", nil, err
	}
	options, err = json.Marshal(ask.Response)
	return ticket, options, err
}

// verification says whether the authenticator must check who its user is. After a password
// it need not.
func verification(purpose grant.Purpose) protocol.UserVerificationRequirement {
	if purpose == grant.ForSecondStep {
		return protocol.VerificationPreferred
	}
	return protocol.VerificationRequired
}

// checkPasskey returns the account whose passkey has answered the ticket, and uses the ticket
// up. A wrong answer leaves the ticket. If several requests have the same answer, one succeeds.
// The others are not taken for copies of the passkey.
func checkPasskey(c *web.Request, k grant.Ticket, answer string) (*people.User, error) {
	rp, err := relyingParty(c)
	if err != nil {
		return nil, err
	}
	refused := func(err error) error {
		c.Site.Log.Debug("passkey refused", "requestId", c.ID, "error", err)
		return errPasskey
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer))
	if err != nil {
		return nil, refused(err)
	}
	owner := k.Owner
	if k.For == grant.ForPasskey {
		if len(parsed.Response.UserHandle) != len(owner) {
			return nil, errPasskey
		}
		owner = record.ID(parsed.Response.UserHandle)
	}
	u, err := withPasskeys(c, owner)
	if kv.Missing(err) {
		return nil, errPasskey
	}
	if err != nil {
		return nil, err
	}
	if u.Disabled {
		return nil, errPasskey
	}

	asked := webauthn.SessionData{
		Challenge: grant.GrantText.EncodeToString(k.Challenge[:]), UserID: owner[:],
		UserVerification: verification(k.For),
	}
	if _, err := rp.ValidateLogin(u, asked, parsed); err != nil {
		return nil, refused(err)
	}
	k.Owner = u.ID
	if err := c.Site.Tickets.Use(k, c.Site.Store.Now()); err != nil {
		return nil, err
	}

	i := slices.IndexFunc(u.keys, func(p people.Passkey) bool { return string(p.Credential) == string(parsed.RawID) })
	ok := false
	err = c.Site.Store.Update(func(tx *kv.Tx) (err error) {
		ok, err = people.UsePasskey(tx, u.ID, u.keys[i].ID, int64(parsed.Response.AuthenticatorData.Counter), address(c))
		return err
	})
	if kv.Missing(err) {
		return nil, errPasskey
	}
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errClone
	}
	return u.User, nil
}

var AskPasskey = web.Operation{
	Tag: "sign-in",
	Summary: "Begins a sign-in with a passkey, without a name. " +
		"In a browser that is signed in, it begins a confirmation.",
	Reply: web.Reply{
		Status: 200, Doc: "What the browser needs to ask for the passkey.", Body: web.BodyOf("PasskeyRequest"),
	},
	Fails: []int{403, 409}, Serve: askPasskey,
}

func askPasskey(c *web.Request) error {
	var u *passkeyUser
	purpose := grant.ForPasskey
	if c.Caller != nil && c.Caller.Key.Session {
		var err error
		u, err = withPasskeys(c, c.Owner())
		if err != nil {
			return err
		}
		if len(u.keys) == 0 {
			return &record.Error{Fault: record.Taken, Code: "no_passkey", Text: "This account has no passkey."}
		}
		purpose = grant.ForConfirming
	}
	ticket, options, err := passkeyOptions(c, purpose, u)
	if err != nil {
		return err
	}
	return c.RespondValue(http.StatusOK, map[string]any{"ticket": ticket, "passkey": json.RawMessage(options)})
}

// PasskeyForm is the answer of a passkey.
type PasskeyForm struct{ ticket, passkey string }

func (f *PasskeyForm) Fields(s *field.Set) {
	s.Text("ticket", &f.ticket, 512, field.Required, field.Filled).
		Says("The ticket that came with the options.", `"2mUq…"`)
	s.LongText(stepPasskey, &f.passkey, maxPasskeyAnswer, field.Required, field.Filled).
		Says("The credential from the browser, as JSON text.", `"{\"id\":\"…\",\"type\":\"public-key\",…}"`)
}

var PasskeyLogin = web.Operation{
	Tag: "sign-in", Summary: "Signs a browser in with a passkey.",
	Body: web.BodyOf("PasskeyLogin"), Reply: web.Reply{Status: 200, Doc: "The account.", Body: web.DataOf("User")},
	Fails: []int{401, 403, 429, 503}, Serve: passkeyLogin,
}

func passkeyLogin(c *web.Request) error {
	if err := c.SameOrigin(); err != nil {
		return err
	}
	form := new(PasskeyForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	u, err := finish(c, grant.ForPasskey, &StepForm{ticket: form.ticket, passkey: form.passkey})
	if err != nil {
		return err
	}
	return AnswerUser(c, u.ID)
}

// ShownPasskey is a passkey as its owner sees it.
type ShownPasskey struct{ people.Passkey }

func (v *ShownPasskey) Fields(s *field.Set) {
	s.ID("id", &v.ID, field.ReadOnly, field.Always).Says("Id of the passkey.", web.SampleID)
	s.Name("name", &v.Name, record.MaxName, field.Required, field.Filled).Says("Its name.", `"phone"`)
	s.Time("createdAt", &v.Created, field.ReadOnly, field.Always).Says("When it was added.", `"2026-01-02T03:04:05.678Z"`)
	s.Time("lastUsedAt", &v.LastUsed, field.ReadOnly).Says("When it last signed in.", `"2026-02-03T04:05:06.789Z"`)
}

var passkeys = &web.Resource[people.Passkey, *ShownPasskey]{
	Name: "passkey", All: people.Passkeys, Load: people.ReadPasskey, Save: people.SavePasskey,
	Drop: func(s *kv.Store, owner, id record.ID) error {
		return s.Update(func(tx *kv.Tx) error { return people.RemovePasskey(tx, owner, id) })
	},
	Place: func(p *people.Passkey) (record.ID, string) { return p.ID, p.Name },
	Show: func(_ *web.Request, _ *kv.Tx, p *people.Passkey) (*ShownPasskey, error) {
		return &ShownPasskey{*p}, nil
	},
}

var (
	ListPasskeys  = web.ListOp("sign-in", "Lists the caller's passkeys.", "A page of passkeys.", "Passkey", passkeys.List)
	RemovePasskey = web.DoneOp("sign-in", "Removes a passkey.", passkeys.Remove, 404)
	EditPasskey   = web.EditOp("sign-in", "Renames a passkey.", "The passkey.", "Passkey", editPasskey, 404)
)

func editPasskey(c *web.Request) error {
	return passkeys.EditBy(c, new(ShownPasskey), func(p *people.Passkey, in field.Object) error {
		form := &ShownPasskey{*p}
		err := field.Patch(form, in)
		p.Name = form.Name
		return err
	})
}

var OfferPasskey = web.Operation{
	Tag: "sign-in", Summary: "Begins to add a passkey.",
	Reply: web.Reply{Status: 200, Doc: "What the browser needs to make the passkey.", Body: web.BodyOf("PasskeyRequest")},
	Serve: offerPasskey,
}

func offerPasskey(c *web.Request) error {
	rp, err := relyingParty(c)
	if err != nil {
		return err
	}
	u, err := withPasskeys(c, c.Owner())
	if err != nil {
		return err
	}
	ticket, k := issue(c, grant.ForAdding, u.User)
	var known []protocol.CredentialDescriptor
	for _, other := range u.WebAuthnCredentials() {
		known = append(known, other.Descriptor())
	}
	challenge := func(o *protocol.PublicKeyCredentialCreationOptions) error {
		o.Challenge = k.Challenge[:]
		return nil
	}
	creation, _, err := rp.BeginRegistration(u, webauthn.WithExclusions(known), challenge)
	if err != nil {
		return err
	}
	return c.RespondValue(http.StatusOK, map[string]any{"ticket": ticket, "passkey": creation.Response})
}

// NewPasskeyForm is a passkey that a browser has made.
type NewPasskeyForm struct {
	PasskeyForm
	name string
}

func (f *NewPasskeyForm) Fields(s *field.Set) {
	f.PasskeyForm.Fields(s)
	s.Name("name", &f.name, record.MaxName, field.Required, field.Filled).
		Says("A name to recognise the passkey by.", `"phone"`)
}

var AddPasskey = web.Operation{
	Tag: "sign-in", Summary: "Adds a passkey. From then on, the password alone does not sign in.",
	Body: web.BodyOf("PasskeyCreate"),
	Reply: web.Reply{
		Status: 201, Doc: "The passkey, and recovery codes if the account had none. They are shown only once.",
		Body: web.BodyOf("PasskeyCreated"),
	},
	Fails: []int{409, 429}, Once: web.MadePasskey, Serve: addPasskey,
}

func addPasskey(c *web.Request) error {
	form := new(NewPasskeyForm)
	if err := c.DecodeNew(form); err != nil {
		return err
	}
	rp, err := relyingParty(c)
	if err != nil {
		return err
	}

	now := c.Site.Store.Now()
	k, err := c.Site.Tickets.Open(form.ticket, grant.ForAdding, network(c), now)
	if err != nil {
		return wrongly(err)
	}
	if k.Owner != c.Owner() {
		return wrongly(grant.ErrTicket)
	}
	u, err := withPasskeys(c, k.Owner)
	if err != nil {
		return err
	}

	made, err := madePasskey(rp, u, k, form.passkey)
	if err != nil {
		c.Site.Log.Debug("passkey not added", "requestId", c.ID, "error", err)
		return record.Bad(map[string]string{stepPasskey: "was not accepted"})
	}
	if err := c.Site.Tickets.Use(k, now); err != nil {
		return wrongly(err)
	}

	p := rowOf(k.Owner, form.name, made)
	return c.Create(func(tx *kv.Tx) (web.Created, error) {
		added, recovery, err := people.AddPasskey(tx, p)
		if err != nil {
			return web.Created{}, err
		}
		return web.Created{ID: added.ID, Append: func(dst []byte) ([]byte, error) {
			dst = field.AppendJSON(append(dst, `{"data":`...), &ShownPasskey{*added})
			dst = field.AppendStrings(append(dst, `,"recoveryCodes":`...), recovery)
			return append(dst, '}'), nil
		}}, nil
	})
}

// rowOf is the row of a passkey that was just made.
func rowOf(owner record.ID, name string, made *webauthn.Credential) people.Passkey {
	p := people.Passkey{
		Owner: owner, Name: name, Credential: made.ID, Key: made.PublicKey,
		Count: int64(made.Authenticator.SignCount), Flags: int64(made.Flags.ProtocolValue()),
	}
	for _, t := range made.Transport {
		p.Transports = append(p.Transports, string(t))
	}
	return p
}

// OfferFirst is what a page needs to make a passkey for an account that is not made yet. It is empty where browsers have
// no passkeys.
func OfferFirst(c *web.Request) (embed.PasskeyAsk, error) {
	rp, err := relyingParty(c)
	if errors.Is(err, errNoPasskeys) {
		return embed.PasskeyAsk{}, nil
	}
	if err != nil {
		return embed.PasskeyAsk{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return embed.PasskeyAsk{}, err
	}
	ticket, k := c.Site.Tickets.Issue(grant.Ticket{For: grant.ForJoining, Owner: id, Network: network(c)}, c.Site.Store.Now())
	creation, _, err := rp.BeginRegistration(
		&passkeyUser{User: &people.User{ID: id, Name: "kist"}}, // the script sets the name
		webauthn.WithAuthenticatorSelection(protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
		}),
		func(o *protocol.PublicKeyCredentialCreationOptions) error {
			o.Challenge = k.Challenge[:]
			return nil
		},
	)
	if err != nil {
		return embed.PasskeyAsk{}, err
	}
	options, err := json.Marshal(creation.Response)
	return embed.PasskeyAsk{Ticket: ticket, Options: string(options)}, err
}

// FirstPasskey checks what a browser has made with OfferFirst. The account to be made must have the id of its owner.
func FirstPasskey(c *web.Request, ticket, answer string) (p people.Passkey, err error) {
	rp, err := relyingParty(c)
	if err != nil {
		return p, err
	}
	k, err := c.Site.Tickets.Open(ticket, grant.ForJoining, network(c), c.Site.Store.Now())
	if err != nil {
		return p, err
	}
	made, err := madePasskey(rp, &passkeyUser{User: &people.User{ID: k.Owner, Name: "kist"}}, k, answer)
	if err != nil {
		c.Site.Log.Debug("passkey not made", "requestId", c.ID, "error", err)
		return p, errPasskey
	}
	if !made.Flags.UserVerified { // it signs in alone
		return p, errPasskey
	}
	return rowOf(k.Owner, "Passkey", made), c.Site.Tickets.Use(k, c.Site.Store.Now())
}

// madePasskey checks what a browser has answered to a ticket for adding a passkey.
func madePasskey(rp *webauthn.WebAuthn, u *passkeyUser, k grant.Ticket, answer string) (*webauthn.Credential, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer))
	if err != nil {
		return nil, err
	}
	return rp.CreateCredential(u, webauthn.SessionData{
		Challenge: grant.GrantText.EncodeToString(k.Challenge[:]), UserID: k.Owner[:],
		UserVerification: protocol.VerificationPreferred, CredParams: webauthn.CredentialParametersDefault(),
	}, parsed)
}

// wrongly turns 401 into 409 for a caller who is signed in: 401 would say that the session
// is over.
func wrongly(err error) error {
	if e, ok := errors.AsType[*record.Error](err); ok && e.Fault == record.Unauthorized {
		return &record.Error{Fault: record.Taken, Code: e.Code, Text: e.Text}
	}
	return err
}
