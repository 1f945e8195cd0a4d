package serve

import (
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"kist/admin/exit"
	"kist/kv"
	"kist/kv/people"
)

// SignInFlags say how users sign in besides with a password.
type SignInFlags struct {
	OIDCIssuer       string   `name:"oidc-issuer" placeholder:"URL" help:"Issuer of OpenID Connect that users can sign in through, exactly as it calls itself."`
	OIDCClientID     string   `name:"oidc-client-id" placeholder:"ID" help:"The id of kist at the issuer."`
	OIDCClientSecret string   `name:"oidc-client-secret" placeholder:"SECRET" help:"The secret of kist at the issuer; none for a public client. Put it into a file that KIST_OIDC_CLIENT_SECRET_FILE names instead: other users can see the command line."`
	OIDCName         string   `name:"oidc-name" placeholder:"NAME" help:"Name of the issuer on the sign-in page. If absent, its host."`
	OIDCScopes       []string `name:"oidc-scopes" default:"openid,profile" placeholder:"SCOPE" help:"Scopes to ask for, separated by commas."`
	OIDCGroupsClaim  string   `name:"oidc-groups-claim" default:"groups" placeholder:"CLAIM" help:"The claim that has a user's groups, or the path to it, such as realm_access.roles."`
	OIDCAllowGroup   string   `name:"oidc-allow-group" placeholder:"GROUP" help:"Only members of this group may sign in through the issuer."`
	OIDCAdminGroup   string   `name:"oidc-admin-group" placeholder:"GROUP" help:"Members of this group are administrators, and other users of the issuer are not."`
	OIDCCreate       bool     `name:"oidc-create" help:"Create an account for each user of the issuer who signs in and has none."`
	PasswordLogin    string   `default:"on" enum:"on,off" placeholder:"on|off" help:"Whether users can sign in with a password: on or off."`
	AuthHeader       string   `placeholder:"NAME" help:"Header in which trusted proxies name the user who is signed in, such as Remote-User."`
}

// Check fails with an error of usage if the flags do not go together. It completes them.
func (f *SignInFlags) Check(proxies []netip.Prefix) error {
	u, err := url.Parse(f.OIDCIssuer)
	switch {
	case f.OIDCIssuer == "" && (f.OIDCClientID != "" || f.OIDCClientSecret != "" || f.OIDCName != "" ||
		f.OIDCAllowGroup != "" || f.OIDCAdminGroup != "" || f.OIDCCreate):
		return exit.Misused("the other flags that begin with --oidc need --oidc-issuer")
	case f.OIDCIssuer != "" && (err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && !(u.Scheme == "http" && isLocal(u.Hostname()))):
		return exit.Misused("--oidc-issuer must be an absolute https address without query and fragment; "+
			"http only for this machine; it is %q", f.OIDCIssuer)
	case f.OIDCIssuer != "" && f.OIDCClientID == "":
		return exit.Misused("--oidc-issuer needs --oidc-client-id")
	case f.OIDCIssuer != "" && !slices.Contains(f.OIDCScopes, "openid"):
		return exit.Misused("--oidc-scopes must contain openid")
	case f.PasswordLogin == "off" && f.OIDCIssuer == "" && f.AuthHeader == "":
		return exit.Misused("--password-login off needs --oidc-issuer or --auth-header: nobody could sign in")
	case f.AuthHeader == "":
	case !CanNameUser(f.AuthHeader):
		return exit.Misused("--auth-header must name a header for the user, such as Remote-User; it is %q",
			f.AuthHeader)
	case len(proxies) == 0:
		return exit.Misused("--auth-header needs --trusted-proxies: anybody could send the header")
	case slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Bits() == 0 }):
		return exit.Misused("--auth-header needs narrower --trusted-proxies: every address is one, " +
			"so anybody could send the header")
	}
	if f.OIDCName == "" && u != nil {
		f.OIDCName = u.Hostname()
	}
	return nil
}

// CanNameUser reports whether a proxy can name the user in a header of that name.
func CanNameUser(header string) bool {
	own := slices.Contains(ownHeaders, textproto.CanonicalMIMEHeaderKey(header)) ||
		strings.HasPrefix(strings.ToLower(header), "x-forwarded-")
	return httpguts.ValidHeaderFieldName(header) && !own
}

// CheckAdmins fails if passwords are off and no administrator has another way to sign in. The
// server that will run knows the ways.
func (f *SignInFlags) CheckAdmins(store *kv.Store) error {
	if f.PasswordLogin != "off" || f.OIDCCreate && f.OIDCAdminGroup != "" {
		return nil
	}
	return store.View(func(tx *kv.Tx) error {
		enters, err := people.AdminEnters(tx)
		if err != nil {
			return err
		}
		if !enters {
			return exit.Misused("--password-login off would lock out every administrator: "+
				"none has a passkey or a link to %s. Start without the flag, link an account on its Security page, "+
				"and stop again; or use kist user link", f.OIDCIssuer)
		}
		return nil
	})
}

// ownHeaders are read for other purposes.
var ownHeaders = []string{
	"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Origin",
	"User-Agent", "X-Api-Key", "X-Request-Id",
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
