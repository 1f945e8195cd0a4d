package httpapi

import (
	"encoding/base32"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/tables"
)

// codesOn sets up one-time codes in the browser with the cookie.
func (a *app) codesOn(cookie string) (code func(steps int) string, recovery []string) {
	a.Helper()
	got := a.do(as(cookie, "POST", "/api/v1/me/codes", nil)).want(200)
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(got.text("secret"))
	a.fatal(err)
	code = func(steps int) string {
		return people.OneTimeCode(secret, a.clock.now().Add(time.Duration(steps)*30*time.Second))
	}
	got = a.do(as(cookie, "PUT", "/api/v1/me/codes", map[string]string{"secret": got.text("secret"), "code": code(-1)})).want(200)
	for _, v := range got.at("recoveryCodes").([]any) {
		recovery = append(recovery, v.(string))
	}
	return code, recovery
}

// step answers the second step.
func (a *app) step(from, ticket string, answer map[string]string, header ...string) *answer {
	a.Helper()
	answer["ticket"] = ticket
	return a.do(apiRequest{
		method: "POST", path: "/api/v1/auth/second-factor", anyone: true, json: answer,
		header: withHeader(append([]string{"X-Forwarded-For", from}, header...)...),
	})
}

func TestSecondStep(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	const here = "192.0.2.7"
	mine := a.login(here, "ann", "correct horse").want(200).cookieOf(sessionName)
	is.Equal(a.do(as(mine, "GET", "/api/v1/me/security", nil)).want(200).at("data.codesSince"), nil)
	a.do(as(mine, "POST", "/api/v1/me/recovery-codes", nil)).want(409)
	a.do(as(mine, "DELETE", "/api/v1/me/codes", nil)).want(404)
	offer := a.do(as(mine, "POST", "/api/v1/me/codes", nil)).want(200)
	u, err := url.Parse(offer.text("uri"))
	is.NoErr(err)
	is.Equal(u.Path, "/"+a.server.BaseURL.Hostname()+":ann")
	is.Equal(u.Query().Get("secret"), offer.text("secret"))
	is.True(strings.HasPrefix(offer.text("qr"), "data:image/svg+xml;base64,"))
	for _, bad := range []string{"", "AAAA", "not base32", strings.Repeat("A", 129)} {
		a.do(as(mine, "PUT", "/api/v1/me/codes", map[string]string{"secret": bad, "code": "123456"})).want(422)
	}
	a.login(here, "ann", "correct horse").want(200) // nothing is on yet
	code, recovery := a.codesOn(mine)
	is.Equal(len(recovery), people.RecoveryCodes)
	a.do(as(mine, "GET", "/api/v1/me", nil)).want(200) // the session goes on

	// The password first: whether there is a second step is only said after it.
	is.Equal(a.login(here, "ann", "wrong horse").want(401).code(), "wrong_login")
	ask := func() string {
		t.Helper()
		got := a.login(here, "ann", "correct horse").want(401)
		is.Equal(got.code(), "second_factor_required")
		is.Equal(got.header.Get("Set-Cookie"), "")
		is.Equal(fmt.Sprint(got.at("methods")), "[code recoveryCode]")
		return got.text("ticket")
	}
	ticket := ask()
	a.step(here, ticket, map[string]string{}).want(401)
	is.Equal(a.step(here, ticket, map[string]string{"code": code(-1)}).want(401).code(), "wrong_second_factor") // it turned the codes on
	is.Equal(a.step("198.51.100.1", ticket, map[string]string{"code": code(0)}).want(401).code(), "ticket_ended")
	is.Equal(a.step(here, ticket+"A", map[string]string{"code": code(0)}).want(401).code(), "ticket_ended")
	is.Equal(a.step(here, "", map[string]string{"code": code(0)}).want(422).code(), "invalid_fields")
	a.step(here, ticket, map[string]string{"code": code(0)}, "Sec-Fetch-Site", "cross-site").want(403)
	got := a.step(here, ticket, map[string]string{"code": code(0)}).want(200)
	is.Equal(got.text("data.username"), "ann")
	a.do(as(got.cookieOf(sessionName), "GET", "/api/v1/me", nil)).want(200)
	is.Equal(a.step(here, ticket, map[string]string{"code": code(1)}).want(401).code(), "ticket_ended") // once
	is.Equal(a.step(here, ask(), map[string]string{"code": code(0)}).want(401).code(), "wrong_second_factor")
	a.step(here, ask(), map[string]string{"recoveryCode": recovery[3]}).want(200)
	is.Equal(a.step(here, ask(), map[string]string{"recoveryCode": recovery[3]}).want(401).code(), "wrong_second_factor")
	is.Equal(a.do(as(mine, "GET", "/api/v1/me/security", nil)).want(200).at("data.recoveryCodes"), 9.0)

	// A ticket ends with its time and with the password.
	ticket = ask()
	a.clock.advance(grant.TicketTime)
	is.Equal(a.step(here, ticket, map[string]string{"code": code(0)}).want(401).code(), "ticket_ended")
	ticket = ask()
	a.withPassword(a.user, "another horse")
	is.Equal(a.step(here, ticket, map[string]string{"code": code(0)}).want(401).code(), "ticket_ended")
	is.True(strings.Contains(a.log.String(), `"msg":"sign-in failed","client":"192.0.2.7","user":"ann"`))
	is.True(!strings.Contains(a.log.String(), ticket))

	// What happened is in the activity.
	var events []people.ActivityEvent
	a.fatal(a.server.Store.View(func(tx *kv.Tx) error {
		page, err := people.ActivityOf(tx, a.user.ID, nil, 100)
		for _, v := range page.Rows {
			events = append(events, v.Event)
		}
		return err
	}))
	for _, want := range []people.ActivityEvent{people.CodesOn, people.RecoveryUsed, people.StepFailed} {
		is.True(strings.Contains(fmt.Sprint(events), string(want)))
	}
}

// Wrong codes are counted across restarts, apart from wrong passwords: strangers cannot
// keep the owner from the second step.
func TestSecondStepGuesses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	const here, there = "192.0.2.7", "198.51.100.1"
	code, recovery := a.codesOn(a.login(here, "ann", "correct horse").want(200).cookieOf(sessionName))
	ask := func(from string) string { return a.login(from, "ann", "correct horse").want(401).text("ticket") }
	for range limit.GuessesFrom {
		a.step(there, ask(there), map[string]string{"code": "000000"}).want(401)
	}
	got := a.step(there, ask(there), map[string]string{"code": code(0)}).want(429)
	is.Equal(got.code(), "too_many_guesses")
	is.True(got.retryAfter() <= limit.GuessWindow)
	a.step(there, ask(there), map[string]string{"recoveryCode": recovery[0]}).want(429)
	a.fatal(a.server.Store.Close())
	again, err := kv.Open(a.server.Store.Dir(), kv.Options{Schema: tables.All, Now: a.clock.now, Space: kvtest.SmallDisk})
	a.fatal(err)
	t.Cleanup(func() { a.fatal(again.Close()) })
	a.server.Store = again
	a.step(there, ask(there), map[string]string{"code": code(0)}).want(429)
	for i := limit.GuessesFrom; i < limit.GuessesOverall; i++ {
		from := fmt.Sprintf("2001:db8:%x::1", i)
		a.step(from, ask(from), map[string]string{"recoveryCode": "BCDF-GHJK-LMNP-QRST"}).want(401)
	}
	a.step(here, ask(here), map[string]string{"code": code(0)}).want(429) // from anywhere
	a.clock.advance(limit.GuessWindow)
	a.step(here, ask(here), map[string]string{"code": code(0)}).want(200)
}

// Of 20 clients that know the password and send the same code at the same time, one is let in.
func TestSecondStepRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	code, recovery := a.codesOn(a.login("192.0.2.7", "ann", "correct horse").want(200).cookieOf(sessionName))
	for _, with := range []map[string]string{{"code": code(0)}, {"recoveryCode": recovery[0]}} {
		from := func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }
		var tickets [20]string
		for i := range tickets {
			tickets[i] = a.login(from(i), "ann", "correct horse").want(401).text("ticket")
		}
		var wg sync.WaitGroup
		var got [20]*answer
		for i, ticket := range tickets {
			wg.Go(func() { got[i] = a.step(from(i), ticket, maps.Clone(with)) })
		}
		wg.Wait()
		entered := 0
		for _, one := range got {
			if one.status == 200 {
				entered++
			} else {
				is.Equal(one.want(401).code(), "wrong_second_factor")
			}
		}
		is.Equal(entered, 1)
		a.clock.advance(limit.GuessWindow) // wrong answers are counted
	}
}

// Wrong one-time codes are also counted for a day, across restarts: five minutes at a time,
// somebody who knows the password could try for months. The owner has other ways in.
func TestCodesOfOneDay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	const here = "192.0.2.7"
	mine := a.login(here, "ann", "correct horse").want(200)
	code, recovery := a.codesOn(mine.cookieOf(sessionName))
	known := mine.cookieOf("__Host-kist_device")
	try := func(from string, with map[string]string, header ...string) *answer {
		t.Helper()
		return a.step(from, a.login(from, "ann", "correct horse").want(401).text("ticket"), with, header...)
	}
	for i := range limit.CodesPerDay {
		try(fmt.Sprintf("2001:db8:%x::1", i), map[string]string{"code": "000000"}).want(401)
		a.clock.advance(limit.GuessWindow)
	}
	refused := func() {
		t.Helper()
		got := try(here, map[string]string{"code": code(0)}).want(429)
		is.Equal(got.code(), "too_many_codes")
		is.True(strings.Contains(got.text("error"), "Use a recovery code or a passkey, or try again in 23 hours"))
	}
	refused()
	a.fatal(a.server.Store.Close())
	again, err := kv.Open(a.server.Store.Dir(), kv.Options{Schema: tables.All, Now: a.clock.now, Space: kvtest.SmallDisk})
	a.fatal(err)
	t.Cleanup(func() { a.fatal(again.Close()) })
	a.server.Store = again
	refused()
	try(here, map[string]string{"recoveryCode": recovery[0]}).want(200)
	try("198.51.100.1", map[string]string{"code": code(0)}, "Cookie", known).want(200)
	refused()
	a.clock.advance(24 * time.Hour)
	try(here, map[string]string{"code": code(0)}).want(200)
}

var ticketField = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

// The pages do the same without a script.
func TestSecondStepForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t, behindProxy)
	a.withPassword(a.user, "correct horse")
	code, recovery := a.codesOn(a.login("192.0.2.7", "ann", "correct horse").want(200).cookieOf(sessionName))
	post := func(path string, values url.Values) *answer {
		h := withHeader("Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html")
		return a.do(apiRequest{method: "POST", path: path, anyone: true, header: h, body: strings.NewReader(values.Encode())})
	}
	ask := func() string {
		t.Helper()
		got := post("/login", url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {"/files"}}).want(200)
		is.Equal(got.header.Get("Cache-Control"), "no-store")
		return ticketField.FindStringSubmatch(string(got.body))[1]
	}
	ticket := ask()
	got := post("/login/second-factor", url.Values{"ticket": {ticket}, "code": {"000000"}, "next": {"/files"}}).want(401)
	is.True(strings.Contains(string(got.body), "The code is wrong or was used before."))
	is.Equal(ticketField.FindStringSubmatch(string(got.body))[1], ticket)
	got = post("/login/second-factor", url.Values{"ticket": {ticket}, "code": {code(0)}, "next": {"/files"}}).want(303)
	is.Equal(got.header.Get("Location"), "/files")
	got = post("/login/second-factor", url.Values{"ticket": {ticket}, "code": {code(1)}, "next": {"//evil"}}).want(401)
	is.True(strings.Contains(string(got.body), `name="password"`)) // begin again
	post("/login/second-factor", url.Values{"ticket": {ask()}, "code": {strings.ToLower(recovery[0])}}).want(303)
}
