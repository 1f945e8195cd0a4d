package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/matryer/is"

	"kist/httpapi/captcha"
)

// TestProofOfWork2: challenges of ALTCHA's version 2 are given and taken beside
// those of version 1.
func TestProofOfWork2(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	a := start(t)
	solve := func() string {
		var c captcha.Challenge2
		is.NoErr(json.Unmarshal(a.visit("/api/v1/captcha/challenge?version=2").want(200).body, &c))
		counter := uint32(0)
		for !strings.HasPrefix(c.Parameters.Key(counter), c.Parameters.KeyPrefix) {
			counter++
		}
		payload, err := json.Marshal(map[string]any{
			"challenge": c, "solution": map[string]any{"counter": counter, "derivedKey": c.Parameters.Key(counter), "time": 12.5},
		})
		is.NoErr(err)
		return string(payload)
	}
	verify := func(payload string) *answer {
		token := base64.StdEncoding.EncodeToString([]byte(payload))
		return a.do(apiRequest{method: "POST", path: "/api/v1/captcha/verify", anyone: true, json: map[string]any{"token": token}})
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
		verify(bad).want(400)
	}
	verify(good).want(200)
	is.Equal(a.codeOf(verify(good), 400), "captcha_required") // once
	late := solve()
	a.clock.advance(captcha.PowTime)
	verify(late).want(400)
	a.do(apiRequest{method: "GET", path: "/api/v1/captcha/challenge?version=3", anyone: true, raw: true}).want(400)

	// The key of ALTCHA's own library for this counter.
	v := captcha.Parameters2{Nonce: "000102030405060708090a0b0c0d0e0f", Salt: "101112131415161718191a1b1c1d1e1f"}
	is.Equal(v.Key(7), "94bb27f09b74c3babba5051d0516b413a0bcca4b75928b0f0bcfb26dfafca28c")
}
