package upload_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/apitest"
	"kist/httpapi/captcha"
)

// TestProofOfWork2: challenges of ALTCHA's version 2 are given and taken beside
// those of version 1.
func TestProofOfWork2(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := apitest.Start(t)
	solve := func() string {
		var c captcha.Challenge2
		is.NoErr(json.Unmarshal(a.Visit("/api/v1/captcha/challenge?version=2").Want(200).Body, &c))
		counter := uint32(0)
		for !strings.HasPrefix(c.Parameters.Key(counter), c.Parameters.KeyPrefix) {
			counter++
		}
		payload, err := json.Marshal(map[string]any{
			"challenge": c, "solution": map[string]any{
				"counter": counter, "derivedKey": c.Parameters.Key(counter), "time": 12.5,
			},
		})
		is.NoErr(err)
		return string(payload)
	}
	verify := func(payload string) *apitest.Answer {
		token := base64.StdEncoding.EncodeToString([]byte(payload))
		return a.Do(apitest.Request{
			Method: "POST", Path: "/api/v1/captcha/verify", Anyone: true, JSON: map[string]any{"token": token},
		})
	}
	good := solve()
	for _, change := range [][2]string{
		{`"cost":1`, `"cost":2`},
		{`"keyPrefix":"0000"`, `"keyPrefix":"0"`},
		{`"counter":`, `"counter":1`},
		{`"derivedKey":"0`, `"derivedKey":"1`},
		{`"signature":"`, `"signature":"0`},
		{`"expiresAt":`, `"expiresAt":9`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		is.True(bad != good)
		verify(bad).Want(400)
	}
	verify(good).Want(200)
	is.Equal(a.CodeOf(verify(good), 400), "captcha_required") // once
	late := solve()
	a.Clock.Advance(captcha.PowTime)
	verify(late).Want(400)
	a.Do(apitest.Request{Method: "GET", Path: "/api/v1/captcha/challenge?version=3", Anyone: true, Raw: true}).Want(400)

	// The key of ALTCHA's own library for this counter.
	v := captcha.Parameters2{Nonce: "000102030405060708090a0b0c0d0e0f", Salt: "101112131415161718191a1b1c1d1e1f"}
	is.Equal(v.Key(7), "94bb27f09b74c3babba5051d0516b413a0bcca4b75928b0f0bcfb26dfafca28c")
}
