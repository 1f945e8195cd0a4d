package session_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/grant"
	"kist/httpapi/limit"
	"kist/kv"
	"kist/kv/kvtest"
	"kist/kv/people"
	"kist/kv/tables"
)

// step answers the second step.
func step(a *apitest.App, from, ticket string, answer map[string]string, header ...string) *apitest.Answer {
	a.Helper()
	answer["ticket"] = ticket
	return a.Do(apitest.Request{
		Method: "POST", Path: "/api/v1/auth/second-factor", Anyone: true, JSON: answer,
		Header: apitest.WithHeader(append([]string{"X-Forwarded-For", from}, header...)...),
	})
}

func TestSecondStep(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	const here = "192.0.2.7"
	mine := apitest.Login(a, here, "ann", "correct horse").Want(200).CookieOf(apitest.SessionName)
	is.Equal(a.Do(apitest.As(mine, "GET", "/api/v1/me/security", nil)).Want(200).At("data.codesSince"), nil)
	a.Do(apitest.As(mine, "POST", "/api/v1/me/recovery-codes", nil)).Want(409)
	a.Do(apitest.As(mine, "DELETE", "/api/v1/me/codes", nil)).Want(404)
	offer := a.Do(apitest.As(mine, "POST", "/api/v1/me/codes", nil)).Want(200)
	u, err := url.Parse(offer.Text("uri"))
	is.NoErr(err)
	is.Equal(u.Path, "/"+a.Server.BaseURL.Hostname()+":ann")
	is.Equal(u.Query().Get("secret"), offer.Text("secret"))
	is.True(strings.HasPrefix(offer.Text("qr"), "data:image/svg+xml;base64,"))
	for _, bad := range []string{"", "AAAA", "not base32", strings.Repeat("A", 129)} {
		a.Do(apitest.As(mine, "PUT", "/api/v1/me/codes", map[string]string{"secret": bad, "code": "123456"})).Want(422)
	}
	apitest.Login(a, here, "ann", "correct horse").Want(200) // nothing is on yet
	code, recovery := a.CodesOn(mine)
	is.Equal(len(recovery), people.RecoveryCodes)
	a.Do(apitest.As(mine, "GET", "/api/v1/me", nil)).Want(200) // the session goes on

	// The password first: whether there is a second step is only said after it.
	is.Equal(apitest.Login(a, here, "ann", "wrong horse").Want(401).Code(), "wrong_login")
	ask := func() string {
		t.Helper()
		got := apitest.Login(a, here, "ann", "correct horse").Want(401)
		is.Equal(got.Code(), "second_factor_required")
		is.Equal(got.Header.Get("Set-Cookie"), "")
		is.Equal(fmt.Sprint(got.At("methods")), "[code recoveryCode]")
		return got.Text("ticket")
	}
	ticket := ask()
	step(a, here, ticket, map[string]string{}).Want(401)
	// it turned the codes on
	is.Equal(step(a, here, ticket, map[string]string{"code": code(-1)}).Want(401).Code(), "wrong_second_factor")
	is.Equal(step(a, "198.51.100.1", ticket, map[string]string{"code": code(0)}).Want(401).Code(), "ticket_ended")
	is.Equal(step(a, here, ticket+"A", map[string]string{"code": code(0)}).Want(401).Code(), "ticket_ended")
	is.Equal(step(a, here, "", map[string]string{"code": code(0)}).Want(422).Code(), "invalid_fields")
	step(a, here, ticket, map[string]string{"code": code(0)}, "Sec-Fetch-Site", "cross-site").Want(403)
	got := step(a, here, ticket, map[string]string{"code": code(0)}).Want(200)
	is.Equal(got.Text("data.username"), "ann")
	a.Do(apitest.As(got.CookieOf(apitest.SessionName), "GET", "/api/v1/me", nil)).Want(200)
	is.Equal(step(a, here, ticket, map[string]string{"code": code(1)}).Want(401).Code(), "ticket_ended") // once
	is.Equal(step(a, here, ask(), map[string]string{"code": code(0)}).Want(401).Code(), "wrong_second_factor")
	step(a, here, ask(), map[string]string{"recoveryCode": recovery[3]}).Want(200)
	is.Equal(step(a, here, ask(), map[string]string{"recoveryCode": recovery[3]}).Want(401).Code(), "wrong_second_factor")
	is.Equal(a.Do(apitest.As(mine, "GET", "/api/v1/me/security", nil)).Want(200).At("data.recoveryCodes"), 9.0)

	// A ticket ends with its time and with the password.
	ticket = ask()
	a.Clock.Advance(grant.TicketTime)
	is.Equal(step(a, here, ticket, map[string]string{"code": code(0)}).Want(401).Code(), "ticket_ended")
	ticket = ask()
	a.WithPassword(a.User, "another horse")
	is.Equal(step(a, here, ticket, map[string]string{"code": code(0)}).Want(401).Code(), "ticket_ended")
	is.True(strings.Contains(a.Logged.String(), `"msg":"sign-in failed","client":"192.0.2.7","user":"ann"`))
	is.True(!strings.Contains(a.Logged.String(), ticket))

	// What happened is in the activity.
	var events []people.ActivityEvent
	a.NoErr(a.Server.Store.View(func(tx *kv.Tx) error {
		page, err := people.ActivityOf(tx, a.User.ID, nil, 100)
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
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	const here, there = "192.0.2.7", "198.51.100.1"
	code, recovery := a.CodesOn(apitest.Login(a, here, "ann", "correct horse").Want(200).CookieOf(apitest.SessionName))
	ask := func(from string) string {
		return apitest.Login(a, from, "ann", "correct horse").Want(401).Text("ticket")
	}
	for range limit.GuessesFrom {
		step(a, there, ask(there), map[string]string{"code": "000000"}).Want(401)
	}
	got := step(a, there, ask(there), map[string]string{"code": code(0)}).Want(429)
	is.Equal(got.Code(), "too_many_guesses")
	is.True(retryAfter(got) <= limit.GuessWindow)
	step(a, there, ask(there), map[string]string{"recoveryCode": recovery[0]}).Want(429)
	a.NoErr(a.Server.Store.Close())
	again, err := kv.Open(a.Server.Store.Dir(), kv.Options{Schema: tables.All, Now: a.Clock.Now, Space: kvtest.SmallDisk})
	a.NoErr(err)
	t.Cleanup(func() { a.NoErr(again.Close()) })
	a.Server.Store = again
	step(a, there, ask(there), map[string]string{"code": code(0)}).Want(429)
	for i := limit.GuessesFrom; i < limit.GuessesOverall; i++ {
		from := fmt.Sprintf("2001:db8:%x::1", i)
		step(a, from, ask(from), map[string]string{"recoveryCode": "BCDF-GHJK-LMNP-QRST"}).Want(401)
	}
	step(a, here, ask(here), map[string]string{"code": code(0)}).Want(429) // from anywhere
	a.Clock.Advance(limit.GuessWindow)
	step(a, here, ask(here), map[string]string{"code": code(0)}).Want(200)
}

// Of 20 clients that know the password and send the same code at the same time, one is let in.
func TestSecondStepRace(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	code, recovery := a.CodesOn(apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(200).CookieOf(apitest.SessionName))
	for _, with := range []map[string]string{{"code": code(0)}, {"recoveryCode": recovery[0]}} {
		from := func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }
		var tickets [20]string
		for i := range tickets {
			tickets[i] = apitest.Login(a, from(i), "ann", "correct horse").Want(401).Text("ticket")
		}
		var wg sync.WaitGroup
		var got [20]*apitest.Answer
		for i, ticket := range tickets {
			wg.Go(func() { got[i] = step(a, from(i), ticket, maps.Clone(with)) })
		}
		wg.Wait()
		entered := 0
		for _, one := range got {
			if one.Status == 200 {
				entered++
			} else {
				is.Equal(one.Want(401).Code(), "wrong_second_factor")
			}
		}
		is.Equal(entered, 1)
		a.Clock.Advance(limit.GuessWindow) // wrong answers are counted
	}
}

// Wrong one-time codes are also counted for a day, across restarts: five minutes at a time,
// somebody who knows the password could try for months. The owner has other ways in.
func TestCodesOfOneDay(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	const here = "192.0.2.7"
	mine := apitest.Login(a, here, "ann", "correct horse").Want(200)
	code, recovery := a.CodesOn(mine.CookieOf(apitest.SessionName))
	known := mine.CookieOf("__Host-kist_device")
	try := func(from string, with map[string]string, header ...string) *apitest.Answer {
		t.Helper()
		return step(a, from, apitest.Login(a, from, "ann", "correct horse").Want(401).Text("ticket"), with, header...)
	}
	for i := range limit.CodesPerDay {
		try(fmt.Sprintf("2001:db8:%x::1", i), map[string]string{"code": "000000"}).Want(401)
		a.Clock.Advance(limit.GuessWindow)
	}
	refused := func() {
		t.Helper()
		got := try(here, map[string]string{"code": code(0)}).Want(429)
		is.Equal(got.Code(), "too_many_codes")
		is.True(strings.Contains(got.Text("error"), "Use a recovery code or a passkey, or try again in 23 hours"))
	}
	refused()
	a.NoErr(a.Server.Store.Close())
	again, err := kv.Open(a.Server.Store.Dir(), kv.Options{Schema: tables.All, Now: a.Clock.Now, Space: kvtest.SmallDisk})
	a.NoErr(err)
	t.Cleanup(func() { a.NoErr(again.Close()) })
	a.Server.Store = again
	refused()
	try(here, map[string]string{"recoveryCode": recovery[0]}).Want(200)
	try("198.51.100.1", map[string]string{"code": code(0)}, "Cookie", known).Want(200)
	refused()
	a.Clock.Advance(24 * time.Hour)
	try(here, map[string]string{"code": code(0)}).Want(200)
}

var ticketField = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

// The pages do the same without a script.
func TestSecondStepForm(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t, apitest.BehindProxy)
	a.WithPassword(a.User, "correct horse")
	code, recovery := a.CodesOn(apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(200).CookieOf(apitest.SessionName))
	post := func(path string, values url.Values) *apitest.Answer {
		h := apitest.WithHeader(
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Accept", "text/html",
		)
		return a.Do(apitest.Request{
			Method: "POST", Path: path, Anyone: true, Header: h, Body: strings.NewReader(values.Encode()),
		})
	}
	ask := func() string {
		t.Helper()
		got := post("/login", url.Values{"username": {"ann"}, "password": {"correct horse"}, "next": {"/files"}}).Want(200)
		is.Equal(got.Header.Get("Cache-Control"), "no-store")
		return ticketField.FindStringSubmatch(string(got.Body))[1]
	}
	ticket := ask()
	got := post("/login/second-factor", url.Values{"ticket": {ticket}, "code": {"000000"}, "next": {"/files"}}).Want(401)
	is.True(strings.Contains(string(got.Body), "The code is wrong or was used before."))
	is.Equal(ticketField.FindStringSubmatch(string(got.Body))[1], ticket)
	got = post("/login/second-factor", url.Values{"ticket": {ticket}, "code": {code(0)}, "next": {"/files"}}).Want(303)
	is.Equal(got.Header.Get("Location"), "/files")
	got = post("/login/second-factor", url.Values{"ticket": {ticket}, "code": {code(1)}, "next": {"//evil"}}).Want(401)
	is.True(strings.Contains(string(got.Body), `name="password"`)) // begin again
	post("/login/second-factor", url.Values{"ticket": {ask()}, "code": {strings.ToLower(recovery[0])}}).Want(303)
}
