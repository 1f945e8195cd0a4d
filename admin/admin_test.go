package admin_test

import (
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv"
	"kist/kv/kvtest/needs"
	"kist/kv/tables"
)

// commands is what must hold whether a server runs or not.
const commands = `
kist user list
out There are no users yet; kist user add NAME --admin makes the first one.

kist user add ann --admin --password-stdin
< correct horse
out Added ann, an administrator.

kist user add Bob --display-name 'Bob Bobson' --password-stdin
< correct horse
out Added Bob, a user.

kist user add bob --password-stdin
< correct horse
err There is a user named "bob" already; choose another name.
exit 1

kist user add 'no way' --password-stdin
< correct horse
err <name>: must be 1 to 64 characters of A-Z a-z 0-9 . _ - and begin with a letter or digit; kist user add --help shows how it is used.
exit 2

kist user add carol --password-stdin
< short
err The password must be at least 8 characters long.
exit 2

kist user add carol --password-stdin
< two lines
< of text
err The password must be one line without control characters.
exit 2

kist user add carol
err A password is needed and there is no terminal to ask on: use --password-stdin, or set KIST_PASSWORD or KIST_PASSWORD_FILE.
exit 2

kist user list
out NAME  ROLE   STATE   API KEYS  STORAGE  CREATED …  DISPLAY NAME
out ann   admin  active  on        …B …20…
out Bob   user   active  on        …B …20…  Bob Bobson

kist user passwd bob --password-stdin
< another horse
out Bob has a new password.

kist user passwd nobody --password-stdin
< another horse
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user passwd nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user passwd bob --password-stdin
< short
err The password must be at least 8 characters long.
exit 2

kist user role ann user
err This is the last administrator; make another one first.
exit 1

kist user role bob admin
out Bob is now an administrator.

kist user role bob user
out Bob is now a user.

kist user link bob --issuer https://id.example.org --subject 42
out bob is linked to 42 at https://id.example.org.

kist user link ann --issuer https://id.example.org --subject 42
err This identity is linked to another account.
exit 1

kist user link nobody --issuer https://id.example.org --subject 43
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user link ann --issuer id.example.org --subject 43
err --issuer must be an http or https address, and --subject 1 to 255 bytes.
exit 2

kist user link Bob --issuer https://id.example.org --subject 43 --json
out {
out   "username": "Bob",
out   "issuer": "https://id.example.org",
out   "subject": "43"
out }

kist user unlink bob --subject 43 --json
out [
out   {
out     "id": "…",
out     "issuer": "https://id.example.org",
out     "subject": "43",
out     "name": "",
out     "createdAt": "…Z"
out   }
out ]

kist user unlink bob --issuer https://other.example.org
out Removed 0 links of bob.

kist user reset-login bob --base-url kist.example.org
err --base-url must be an absolute http or https address …
exit 2

kist user unlink bob
out Removed 1 link of bob.

kist user role bob king
err <role> must be one of "admin", "user"; it is "king"; kist user role --help shows how it is used.
exit 2

kist user disable bob
out Bob is disabled: the account's keys and passwords are refused from the next request on.

kist user enable bob
out Bob is enabled.

kist user reset-login bob
out The password of bob no longer works, nor do the sessions, connected devices, one-time codes, passkeys and linked sign-ins. The account has no API key.
out Nothing signs in to the account before bob sets a new password with this link, once, until 20…
out http://127.0.0.1:…/login/reset/…

kist user invite --base-url kist.example.org
err --base-url must be an absolute http or https address …
exit 2

kist user invite
err With this link one person makes an account, once, until 20…:
out http://127.0.0.1:…/join/…

kist user invite --user bob
err Only administrators invite people.
exit 1

kist user invite --user nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user invite --collection 01890a5d-ac96-774b-bcce-b302099a8057
err There is no such collection.
exit 3

kist user invite --collection x
err Collections has a bad entry: number 1 is not right: id must be a UUID.
exit 2

kist user invite --role owner
err --role must be one of "see", "add", "edit"; it is "owner"; kist user invite --help shows how it is used.
exit 2

kist user invite --expires 91d
err …
exit 2

kist user reset-login nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user disable nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist trash restore zz --user bob
err The trash of bob has no item with the id "zz"; kist trash list --user bob shows the ids.
exit 3

kist trash restore 01890000-0000-7000-8000-000000000000 --user bob
err The trash of bob has no item with the id "01890000-0000-7000-8000-000000000000"; kist trash list --user bob shows the ids.
exit 3

kist trash restore zz --user nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist key list
out There are no API keys; kist key create makes one.

kist key create --user bob --name 'a label' --scope read,upload --scope write --expires 90d
out kist_…
err The key "a label" of Bob (id …) expires at …Z. It is shown only once. Keep it safe.

kist key create --user nobody --name x
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist key create --user bob --name x --scope everything
err --scope: must be one of: all, read, write, upload, admin; kist key create --help shows how it is used.
exit 2

kist key create --user bob --name x --expires soon
err --expires: "soon" must be a time to come such as 90d, 720h or 2030-01-31T00:00:00Z; kist key create --help shows how it is used.
exit 2

kist key create --user bob --name x --expires 2001-01-01T00:00:00Z
err --expires: must be in the future; kist key create --help shows how it is used.
exit 2

kist key create --user bob --name ' '
err --name must not be empty.
exit 2

kist key list --user bob
out ID …  USER  NAME     SCOPES             STATE   EXPIRES           LAST USED
out …  Bob   a label  read,upload,write  active  20…  -

kist key list --user ann
out There are no API keys; kist key create makes one.

kist key list --user nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist key revoke laptop
err There is no key with the id "laptop"; kist key list shows the ids.
exit 3

kist key revoke 01890000-0000-7000-8000-000000000000
err There is no key with the id "01890000-0000-7000-8000-000000000000"; kist key list shows the ids.
exit 3

kist tokens status
out API keys are on for everyone.

kist tokens disable --user bob
out API keys are off for: Bob.

kist tokens status --user ann
out API keys are on for: ann.

kist tokens disable
out API keys are off for everyone, and by themselves for: Bob.

kist tokens status --json
out {
out   "disabled": true,
out   "disabledUsers": [
out     "Bob"
out   ]
out }

kist tokens enable --user bob
out API keys are off for everyone.

kist tokens enable
out API keys are on for everyone.

kist tokens enable --user nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user remove nobody
err There is no user named "nobody"; kist user list shows the names.
exit 3

kist user remove bob
err This removes the account and everything it keeps (0 items, 0 B of files): add --yes to confirm.
exit 2

kist user remove bob --yes
out Removed Bob and everything the account kept (0 items, 0 B of files).

kist user remove bob --yes
err There is no user named "bob"; kist user list shows the names.
exit 3

kist user remove ann --yes
err This is the last administrator; make another one first.
exit 1

kist key list
out There are no API keys; kist key create makes one.
`

func TestCommandsLive(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	p.script(commands)
	s.stop()
}

func TestCommandsStopped(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	store, err := kv.Open(p.data(), kv.Options{Schema: tables.All})
	is.NoErr(err)
	is.NoErr(store.Close())
	p.script(commands)
}

func TestUserAddMakesTheDataDirectory(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	is.Equal(p.run("correct horse\n", "user", "add", "ann", "--admin", "--password-stdin"), result{
		0, "Added ann, an administrator.\n", "There is no data directory yet; ./kist-data becomes one.\n",
	})
	info, err := os.Stat(p.data())
	is.NoErr(err)
	is.Equal(info.Mode(), fs.ModeDir|0o700)
}

// Commands that can only read or change make no data directory by mistake.
func TestNoDataDirectory(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for _, command := range []string{
		"user list", "user role ann admin", "user disable ann", "user remove ann --yes",
		"key list", "key create --user ann --name x", "key revoke 1", "tokens status", "tokens disable", "gc", "gc --now",
	} {
		t.Run(command, func(t *testing.T) {
			is := is.New(t)
			p := newPlace(t)
			r := p.run("", strings.Fields(command)...)
			is.Equal(
				r,
				result{
					3, "",
					"There is no data directory at ./kist-data; kist serve and kist user add make one, and --data-dir names another.\n",
				},
			)
			left, err := os.ReadDir(p.dir)
			is.NoErr(err)
			is.Equal(len(left), 0)
		})
	}
}

func TestUsage(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	newPlace(t).script(`
kist frob
err Unexpected argument frob; kist --help shows how it is used.
exit 2

kist version --json extra
err {"code":"usage","error":"Unexpected argument extra; kist version --help shows how it is used."}
exit 2

kist user bob
err Unexpected argument bob; kist user --help shows how it is used.
exit 2

kist start
err Unexpected argument start (did you mean kist serve?); kist --help shows how it is used.
exit 2

kist user delete bob
err Unexpected argument delete (did you mean kist user remove?); kist user --help shows how it is used.
exit 2

kist passwd
err Unexpected argument passwd (did you mean kist user passwd?); kist --help shows how it is used.
exit 2

kist key delete
err Unexpected argument delete (did you mean kist key revoke?); kist key --help shows how it is used.
exit 2

kist ls
err Unexpected argument ls (did you mean kist user list or kist key list or kist backup list or kist trash list?); kist --help shows how it is used.
exit 2

kist serve --port 80
err Unknown flag --port (did you mean --listen?); kist serve --help shows how it is used.
exit 2

kist user add
err <name> is missing; kist user add --help shows how it is used.
exit 2

kist export a.zip
err --user=NAME is missing; kist export --help shows how it is used.
exit 2

kist key create
err These are missing: --name=LABEL, --user=NAME; kist key create --help shows how it is used.
exit 2

kist serve --grac 1s
err Unknown flag --grac (did you mean "--grace"?); kist serve --help shows how it is used.
exit 2

kist serve --grace -5s
err --grace needs a value, and "-5s" looks like another flag; if it is the value, write --grace="-5s"; kist serve --help shows how it is used.
exit 2

kist serve --grace=-5s
err --grace: "-5s" must be a length of time such as 90d, 24h or 30s; kist serve --help shows how it is used.
exit 2

kist serve --grace
err --grace needs a value; kist serve --help shows how it is used.
exit 2

kist user add --display-name --admin ann
err --display-name needs a value, and "--admin" looks like another flag; if it is the value, write --display-name="--admin"; kist user add --help shows how it is used.
exit 2

kist user remove ann --yes=perhaps
err --yes must be true or false; it is "perhaps"; kist user remove --help shows how it is used.
exit 2

kist version --log-level loud
err --log-level must be one of "debug", "info", "warn", "error"; it is "loud"; kist version --help shows how it is used.
exit 2

kist healthcheck --url kist.example.org
err --url must be an http or https address, such as http://127.0.0.1:7080; it is "kist.example.org".
exit 2

kist user list --data-dir=
err --data-dir must not be empty; kist user list --help shows how it is used.
exit 2

kist verify ''
err DIR must not be empty; kist verify --help shows how it is used.
exit 2

kist backup ''
err DEST must not be empty; kist backup to --help shows how it is used.
exit 2

kist restore ''
err SRC must not be empty; kist restore --help shows how it is used.
exit 2

kist import '' --user ann
err SRC must not be empty; kist import --help shows how it is used.
exit 2

kist export '' --user ann
err DEST must not be empty; kist export --help shows how it is used.
exit 2

kist extension ''
err DIR must not be empty; kist extension --help shows how it is used.
exit 2

kist user list --frob
err Unknown flag --frob; kist user list --help shows how it is used.
exit 2

kist key create --user ann
err --name=LABEL is missing; kist key create --help shows how it is used.
exit 2

kist serve --base-url kist.example.org
err --base-url must be an absolute http or https address without query and fragment, such as https://kist.example.org; it is "kist.example.org".
exit 2

kist serve --base-url https://kist.example.org/?a=1
err --base-url must be …
exit 2

kist serve --base-url https://ki"st.example.org
err --base-url must have a host of letters, digits, dots and hyphens, …; it is "https://ki\"st.example.org".
exit 2

kist serve --base-url https://<kist>.example.org
err --base-url must have a host of …
exit 2

kist serve --base-url https://kist.exämple.org
err --base-url must have a host of …
exit 2

kist serve --content-url https://kist-content.example.org/x
err --content-url must be an absolute http or https address without path, query and fragment, such as https://kist-content.example.org; it is "https://kist-content.example.org/x".
exit 2

kist serve --base-url https://kist.example.org --content-url https://KIST.example.org:443
err --content-url must have another host than the base URL, https://kist.example.org, …
exit 2

kist serve --base-url https://kist.example.org --content-url http://kist-content.example.org
err --content-url must be an https address like the base URL, …
exit 2

kist serve --tls-domain kist.example.org --content-url https://kist-content.example.org
err --tls-domain must have kist-content.example.org too, the host of --content-url, for there to be a certificate.
exit 2

kist serve --tls-cert cert.pem
err --tls-cert and --tls-key go together: give both or none.
exit 2

kist serve --tls-domain kist.example.org --tls-cert cert.pem
err --tls-domain gets its own certificates: give it, or --tls-cert and --tls-key.
exit 2

kist serve --acme-directory https://ca.lan/dir
err --acme-directory, --acme-eab-kid and --acme-eab-key belong to --tls-domain.
exit 2

kist serve --tls-domain kist.example.org --acme-directory http://ca.lan/dir
err --acme-directory must be an absolute https address; it is "http://ca.lan/dir".
exit 2

kist serve --tls-domain kist.example.org --acme-eab-kid kid
err --acme-eab-kid and --acme-eab-key go together: give both or none.
exit 2

kist serve --tls-domain kist.example.org --acme-eab-kid kid --acme-eab-key a/b+
err --acme-eab-key must be a key in base64url, of letters, digits, - and _.
exit 2

kist serve --store-endpoint https://s3.example.org --cache-size 1GB
err There is no --store, so leave out --store-endpoint and --cache-size, or add --store.
exit 2

kist serve --store-history 7d
err There is no --store, so leave out --store-history, or add --store.
exit 2

kist restore s3://bucket/home --at 2999-01-01T00:00:00Z
err --at must be a moment in the past; 2999-01-01T00:00:00Z is in the future.
exit 2

kist serve --tls-domain https://kist.example.org
err --tls-domain must be public host names such as kist.example.org; it has "https://kist.example.org".
exit 2

kist serve --tls-domain kist.example.org,localhost
err --tls-domain must be public host names such as kist.example.org; it has "localhost".
exit 2

kist serve --tls-domain 192.0.2.1
err --tls-domain must be public host names such as kist.example.org; it has "192.0.2.1".
exit 2

kist serve --listen 7080
err --listen must be an address and a port of 0 to 65535, such as 127.0.0.1:7080, or unix: and a path; it is "7080".
exit 2

kist serve --listen 127.0.0.1:99999
err --listen must be an address and a port of 0 to 65535, …; it is "127.0.0.1:99999".
exit 2

kist serve --listen 127.0.0.1:99999 --base-url http://127.0.0.1
err --listen must be an address and a port of 0 to 65535, …; it is "127.0.0.1:99999".
exit 2

kist serve --listen 192.0.2.1:7080
err Cannot listen on 192.0.2.1:7080: cannot assign requested address; choose another --listen.
exit 1

kist serve --listen unix:/tmp/x
err With --listen unix:/tmp/x, --base-url must say under which address visitors reach the server.
exit 2

kist serve --max-upload-size big
err --max-upload-size: "big" must be a number of bytes such as 500MB, 5GiB or 1048576; kist serve --help shows how it is used.
exit 2

kist serve --trusted-proxies 10.0.0.0/8,proxy
err --trusted-proxies: "proxy" must be an address or a range such as 192.0.2.1 or 10.0.0.0/8; kist serve --help shows how it is used.
exit 2

kist serve --gc-delay soon
err --gc-delay: "soon" must be a length of time such as 90d, 24h or 30s; kist serve --help shows how it is used.
exit 2

kist version
out kist 1.2.3-test, data format 8, go…

kist version --json
out {
out   "version": "1.2.3-test",
out   "dataFormat": 8,
out   "go": "go…"
out }
`)
}

// Without a command the help is printed, and it is a mistake all the same: a
// script that has lost its command must not go on.
func TestNoCommand(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	for _, command := range []string{"", "user", "key", "tokens"} {
		help := p.must(append(strings.Fields(command), "--help")...)
		is.Equal(p.run("", strings.Fields(command)...), result{2, "", help + "\n"})
	}
}

// A flag that configures shows its variable. One that says what a command is
// to do has none.
func TestHelp(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	acts := strings.Fields("help admin display-name password-stdin yes user name scope expires now url")
	for _, command := range []string{
		"serve", "user add", "user remove", "key create", "key list", "tokens disable", "gc", "healthcheck",
	} {
		r := p.run("", append(strings.Fields(command), "--help")...)
		is.Equal(r.code, 0)
		flags := regexp.MustCompile(`(?m)^ +(?:-h, )?--([a-z-]+)`).FindAllStringSubmatch(r.out, -1)
		is.True(len(flags) >= 4) // the global ones at least
		for _, f := range flags {
			name := "$KIST_" + strings.ToUpper(strings.ReplaceAll(f[1], "-", "_")) + ")."
			if strings.Contains(r.out, name) == slices.Contains(acts, f[1]) {
				t.Errorf("kist %s --help: %s", command, name)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	r := p.run("", "key", "create", "--user", "ann", "--name", "laptop")
	is.Equal(r.code, 0)
	is.True(regexp.MustCompile(`\Akist_[0-9A-Za-z]{43}\n\z`).MatchString(r.out)) // the key alone
	key := strings.TrimSpace(r.out)
	status, _ := p.get("/api/v1/files", key)
	is.Equal(status, 200)

	var made struct {
		Key  string
		Data struct {
			ID, Name, Username string
			Scopes             []string
			ExpiresAt          *time.Time
			LastUsedAt         *time.Time
		}
	}
	is.NoErr(json.Unmarshal(
		[]byte(p.must("key", "create", "--user", "ann", "--name", "phone", "--scope", "read", "--expires", "2h", "--json")),
		&made,
	))
	is.True(strings.HasPrefix(made.Key, "kist_"))
	is.Equal(made.Data.Name, "phone")
	is.Equal(made.Data.Username, "ann")
	is.Equal(made.Data.Scopes, []string{"read"})
	is.True(time.Until(*made.Data.ExpiresAt) > time.Hour)
	is.True(made.Data.LastUsedAt == nil)

	var all []map[string]any
	is.NoErr(json.Unmarshal([]byte(p.must("key", "list", "--json")), &all))
	is.Equal(len(all), 2)
	is.Equal(all[0]["name"], "laptop")
	is.Equal(all[0]["expiresAt"], nil)
	is.Equal(
		p.run("", "key", "create", "--user", "ann", "--name", "\x1b[2J"),
		result{2, "", "--name: must not contain control characters; kist key create --help shows how it is used.\n"},
	)
	_, told := all[0]["key"]
	is.True(!told) // a secret is shown once

	p.must("key", "create", "--user", "ann", "--name", "twice")
	p.must("key", "create", "--user", "ann", "--name", "twice")
	for _, row := range []struct {
		args []string
		code int
		err  string
	}{
		{[]string{"laptop"}, 3, `There is no key with the id "laptop"`},
		{[]string{"desk", "--user", "ann"}, 3, `Ann has no key with the name or id "desk"`},
		{[]string{"laptop", "--user", "nobody"}, 3, `There is no user named "nobody"`},
		{[]string{"twice", "--user", "ann"}, 2, `Ann has 2 keys named "twice"; give the id of one: `},
		{[]string{"--user", "ann"}, 2, `<id> is missing`},
	} {
		r := p.run("", append([]string{"key", "revoke"}, row.args...)...)
		if r.code != row.code || !strings.Contains(strings.ToLower(r.err), strings.ToLower(row.err)) {
			t.Errorf("%q: %+v", row.args, r)
		}
	}
	is.Equal(
		p.must("key", "revoke", all[1]["id"].(string)),
		`The key "phone" of ann is revoked: it is refused from the next request on.`,
	)
	is.Equal(
		p.must("key", "revoke", "--user", "ann", "laptop"),
		`The key "laptop" of ann is revoked: it is refused from the next request on.`,
	)
	status, _ = p.get("/api/v1/files", key)
	is.Equal(status, 401)
	s.stop()
}

// A new password revokes the keys that --revoke says, names them, and no other
// user's.
func TestPasswdRevokes(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	p.env = []string{"KIST_PASSWORD=correct horse"}
	p.must("user", "add", "bob")
	for _, name := range []string{"laptop", "phone"} {
		p.must("key", "create", "--user", "bob", "--name", name)
	}
	p.must("key", "create", "--user", "ann", "--name", "desk")
	is.Equal(p.must("user", "passwd", "bob"), "bob has a new password.") // neither is a device's
	is.Equal(p.must("user", "passwd", "bob", "--revoke", "none"), "bob has a new password.")
	is.Equal(strings.Count(p.must("key", "list"), "\n"), 3)
	is.Equal(p.must("user", "passwd", "BOB", "--revoke", "all"), "bob has a new password. Revoked: laptop, phone.")
	s.stop()
	is.True(strings.HasSuffix(p.must("key", "list"), " -"))
	is.Equal(strings.Count(p.must("key", "list"), "\n"), 1) // the head and the other user's
	is.Equal(p.must("key", "list", "--user", "Bob"), "There are no API keys; kist key create makes one.")
}

// The list of keys says which work.
func TestKeyStates(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	p.env = []string{"KIST_PASSWORD=correct horse"}
	p.must("user", "add", "bob")
	p.must("key", "create", "--user", "bob", "--name", "laptop")
	p.must("key", "create", "--user", "bob", "--name", "brief", "--expires", "1s")
	p.until("the key has expired", func() bool { return strings.Contains(p.must("key", "list"), " expired ") })
	shows := func(state string, n int) {
		t.Helper()
		is.Equal(strings.Count(p.must("key", "list"), " "+state+" "), n)
	}
	shows("active", 1)
	p.must("tokens", "disable", "--user", "bob")
	shows("tokens disabled", 2)
	p.must("user", "disable", "bob")
	shows("user disabled", 2)
	p.must("user", "enable", "bob")
	p.must("tokens", "enable", "--user", "bob")
	shows("active", 1)
}

func TestTokensTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	s := p.serve()
	p.ann()
	key := p.must("key", "create", "--user", "ann", "--name", "laptop")
	for _, user := range [][]string{nil, {"--user", "ann"}} {
		status, _ := p.get("/api/v1/files", key)
		is.Equal(status, 200)
		p.must(append([]string{"tokens", "disable"}, user...)...)
		status, body := p.get("/api/v1/files", key)
		is.Equal(status, 401)
		is.True(strings.Contains(body, `"api_tokens_disabled"`))
		p.must(append([]string{"tokens", "enable"}, user...)...)
	}
	status, _ := p.get("/api/v1/files", key)
	is.Equal(status, 200)
	s.stop()
}

// A password that is no UTF-8 would be kept as another one.
func TestPasswordInUTF8(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	is.Equal(
		p.run("gr\xfcne Wiese\n", "user", "add", "ann", "--admin", "--password-stdin"),
		result{2, "", "The password must be valid UTF-8.\n"},
	)
	is.Equal(p.run("gr\u00fcne Wiese\n", "user", "add", "ann", "--admin", "--password-stdin").code, 0)
}

func TestCommonPasswords(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	common, named := result{
		2, "", "The password is one of the most common passwords. Choose another.\n",
	}, result{
		2, "",
		"The password is easy to guess: repeats, rows such as 1234 or qwerty, and the names of user and server count as " +
			"one character. Choose another.\n",
	}
	is.Equal(p.run("Iloveyou\n", "user", "add", "ann", "--admin", "--password-stdin"), common)
	is.Equal(p.run("Ann-Anna\n", "user", "add", "ann", "--admin", "--password-stdin"), named)
	p.ann()
	is.Equal(p.run("Iloveyou\n", "user", "passwd", "ann", "--password-stdin"), common)
	is.Equal(p.run("Ann-Anna\n", "user", "passwd", "ann", "--password-stdin"), named)
}

func TestUsersInJSON(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	var all []map[string]any
	is.NoErr(json.Unmarshal([]byte(p.must("user", "list", "--json")), &all))
	is.Equal(len(all), 1)
	delete(all[0], "id")
	delete(all[0], "createdAt")
	is.Equal(all[0], map[string]any{
		"username": "ann", "displayName": "", "role": "admin", "disabled": false,
		"apiTokensDisabled": false, "quotaBytes": nil, "usedBytes": 0.0,
	})
}

func TestRemoveUserTells(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.env = []string{"KIST_PASSWORD=correct horse"}
	p.must("user", "add", "ann", "--admin")
	p.must("user", "add", "bob")
	is.NoErr(os.Mkdir(p.path("in"), 0o700))
	p.write("in/a.txt", "hello")
	p.write("in/b.txt", "hi")
	p.must("import", "in", "--user", "bob")
	is.Equal(
		p.run("", "user", "remove", "bob").err,
		"This removes the account and everything it keeps (2 items, 7 B of files): add --yes to confirm.\n",
	)
	var left struct{ Items, Bytes int }
	is.NoErr(json.Unmarshal([]byte(p.must("user", "remove", "bob", "--yes", "--json")), &left))
	is.Equal(left.Items, 2)
	is.Equal(left.Bytes, 7)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.write("where", "  elsewhere\n")
	p.write("secret", "correct horse\n")

	p.env = []string{"KIST_DATA_DIR_FILE=where", "KIST_PASSWORD_FILE=secret"}
	is.Equal(p.run("", "user", "add", "ann", "--admin"), result{0, "Added ann, an administrator.\n", ""})
	_, err := os.Stat(p.path("elsewhere", "LOCK"))
	is.NoErr(err) // the file named the data directory

	p.env = []string{"KIST_DATA_DIR=elsewhere", "KIST_PASSWORD=correct horse"}
	is.Equal(p.run("", "user", "add", "bob"), result{0, "Added bob, a user.\n", ""})
	is.Equal(p.run("", "user", "list", "--data-dir", "nowhere").code, 3) // the flag comes first

	p.env = []string{"KIST_DATA_DIR=", "KIST_LOG_FORMAT="} // empty is unset
	r := p.run("", "user", "list")
	is.True(strings.Contains(r.err, "no data directory at ./kist-data;"))

	p.env = []string{"KIST_DATADIR=elsewhere", "KIST_JSON=false"}
	r = p.run("", "version")
	is.Equal(r.code, 0)
	is.Equal(
		r.err,
		"The environment variable KIST_DATADIR is not known and has no effect; kist --help shows those that are known.\n",
	)

	for env, want := range map[string]string{
		"KIST_DATA_DIR=a KIST_DATA_DIR_FILE=where": "KIST_DATA_DIR and KIST_DATA_DIR_FILE are both set; keep one of them.\n",
		"KIST_DATA_DIR_FILE=gone": "Cannot read the file that KIST_DATA_DIR_FILE names: open gone: no " +
			"such file or directory.\n",
		"KIST_PASSWORD=a KIST_PASSWORD_FILE=secret": "KIST_PASSWORD and KIST_PASSWORD_FILE are both set; keep one of them.\n",
	} {
		p.env = strings.Fields(env)
		is.Equal(p.run("", "user", "add", "carol"), result{2, "", want})
	}

	p.env = []string{"KIST_MAX_UPLOAD_SIZE=huge"}
	r = p.run("", "serve")
	is.Equal(r.code, 2)
	is.True(strings.Contains(
		r.err, `"huge" must be a number of bytes such as 500MB, 5GiB or 1048576 (from KIST_MAX_UPLOAD_SIZE)`,
	))
}

// What a command is to do is said on its command line and nowhere else.
func TestEnvironmentDoesNotAct(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	for _, env := range []string{
		"KIST_YES", "KIST_ADMIN", "KIST_USER", "KIST_NAME", "KIST_SCOPE", "KIST_EXPIRES", "KIST_NOW", "KIST_PASSWORD_STDIN",
		"KIST_URL",
	} {
		p.env = append(p.env, env+"=true")
	}
	r := p.run("", "user", "remove", "ann")
	is.Equal(r.code, 2)
	is.True(strings.Contains(r.err, "The environment variable KIST_YES is not known and has no effect;"))
	is.Equal(strings.Count(r.err, "has no effect"), len(p.env))
	is.Equal(p.run("", "key", "create").code, 2)
	p.env = []string{"KIST_USER=nobody"}
	is.Equal(p.run("", "key", "list").code, 0)
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	r := p.run("", "healthcheck")
	is.Equal(r.code, 1)
	is.Equal(r.err, "No server answers at http://"+p.addr+": connection refused.\n")
	s := p.serve()
	is.Equal(p.must("healthcheck"), "The server at http://"+p.addr+" is healthy.")
	_, port, err := net.SplitHostPort(p.addr)
	is.NoErr(err)
	is.Equal(p.must("healthcheck", "--listen", "0.0.0.0:"+port), "The server at http://localhost:"+port+" is healthy.")
	is.Equal(p.run("", "healthcheck", "--url", "http://"+p.addr+"/nowhere").code, 1)
	s.stop()
}

// Where no flag says where the server listens, it says so itself, by its socket.
func TestHealthcheckAsks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.addr = "127.0.0.1:0"
	r := p.run("", "healthcheck")
	is.Equal(r.code, 1)
	is.Equal(
		r.err,
		"--listen 127.0.0.1:0 leaves the port to the system, and it is not known in ./kist-data: no server answers; say "+
			"with --url where the server is found.\n",
	)
	p.certify(1)
	for scheme, env := range map[string][]string{
		"http": nil, "https": {"KIST_TLS_CERT=cert.pem", "KIST_TLS_KEY=key.pem"},
	} {
		p.env = env
		s := p.serve()
		_, at, _ := strings.Cut(s.log.String(), "listens on ")
		at, _, _ = strings.Cut(at, " ")
		p.env = nil
		is.Equal(p.must("healthcheck"), "The server at "+scheme+"://"+at+" is healthy.")
		p.env = []string{"KIST_LISTEN="}
		is.Equal(p.must("healthcheck"), "The server at "+scheme+"://"+at+" is healthy.")
		s.stop()
	}
	p.env = []string{"KIST_LISTEN=unix:" + p.path("front.sock")}
	p.serve("--base-url", "https://kist.example.org")
	p.env = []string{"KIST_LISTEN="}
	is.Equal(p.must("healthcheck"), "The server at http://localhost is healthy.")
}

// A command that finds the store locked and no server behind it says who has
// it.
func TestLockedWithoutServer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	store, err := kv.Open(p.data(), kv.Options{Schema: tables.All})
	is.NoErr(err)
	defer store.Close()
	r := p.run("", "user", "list")
	is.Equal(r.code, 1)
	is.True(matches(
		"The data directory is in use by process "+pid(os.Getpid())+", which does not answer on …kist.sock; wait until "+
			"it has ended, or stop it.\n",
		r.err,
	))
}

// Commands on a stopped instance wait for one another.
func TestCommandsAtTheSameTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	p.ann()
	results := make(chan result)
	for range 8 {
		go func() { results <- p.run("", "user", "list", "--json") }()
	}
	for range 8 {
		is.Equal((<-results).code, 0)
	}
}

func TestSocketPathTooLongForAnAddress(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	long := filepath.Join(p.dir, strings.Repeat("d", 100), strings.Repeat("e", 100))
	is.NoErr(os.MkdirAll(long, 0o700))
	p.env = []string{"KIST_DATA_DIR=" + filepath.Join(long, "data")}
	s := p.serve()
	p.ann()
	_, err := os.Stat(filepath.Join(long, "data", "kist.sock"))
	is.NoErr(err)
	s.stop()
	_, err = os.Stat(filepath.Join(long, "data", "kist.sock"))
	is.True(os.IsNotExist(err))
}

// What people try first shows them on.
func TestAsked(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := newPlace(t)
	is.Equal(p.run("", "help"), p.run("", "--help"))
	is.Equal(p.run("", "help", "user", "add"), p.run("", "user", "add", "--help"))
	is.Equal(p.run("", "--version"), p.run("", "version"))
	is.True(strings.HasPrefix(p.must("help"), "Usage: kist "))
}
