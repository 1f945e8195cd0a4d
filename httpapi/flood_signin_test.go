package httpapi_test

import (
	"fmt"
	"testing"
	"time"

	"kist/httpapi/apitest"
	"kist/kv/kvtest/needs"
)

// While one address floods sign-in, or many that the server does not know do,
// the owner is signed in within two seconds.
func TestSignInUnderFlood(t *testing.T) {
	needs.Time(t)
	needs.Alone(t)
	for name, from := range map[string]func(int) string{
		"one address":   func(int) string { return "192.0.2.66" },
		"new addresses": func(n int) string { return fmt.Sprintf("2001:db8:%x:%x::1", n>>16, n&0xffff) },
	} {
		t.Run(name, func(t *testing.T) {
			a := apitest.Start(t, apitest.BehindProxy, apitest.RealPasswords)
			a.WithPassword(a.User, "correct horse")
			device := apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(200).CookieOf("__Host-kist_device")
			var quiet time.Duration // the longest of some, since others may use the machine
			for range 5 {
				begun := time.Now()
				apitest.Login(a, "192.0.2.7", "ann", "correct horse").Want(200)
				quiet = max(quiet, time.Since(begun))
			}
			// A machine that is slow without a flood has no two seconds with it, and the
			// race detector makes hashing many times slower, so that a turn may not come in
			// time: the gate runs this without it, and with it for data races alone.
			limit, rounds := max(2*2*time.Second, 16*quiet), 18
			if apitest.RaceEnabled {
				limit, rounds = time.Minute, 2
			}
			end := a.Flood(24, from)
			defer end()
			for range rounds {
				begun := time.Now()
				signIn := func(from string, header ...string) {
					got := apitest.Login(a, from, "ann", "correct horse", header...)
					for apitest.RaceEnabled && got.Status == 503 && time.Since(begun) < limit {
						got = apitest.Login(a, from, "ann", "correct horse", header...)
					}
					got.Want(200)
				}
				signIn("192.0.2.7")                      // a network that has signed in before
				signIn("198.51.100.9", "Cookie", device) // a browser that has, elsewhere
				if took := time.Since(begun); took >= limit {
					t.Errorf("signed in twice within %v, and within %v without a flood", took, quiet)
				}
			}
		})
	}
}
