package public_test

import (
	"net/http"
	"testing"

	"kist/httpapi/apitest"
)

// A password in a header that may mean two passwords is two guesses.
func TestGuessesOfTwoMeanings(t *testing.T) {
	t.Parallel()
	for header, guesses := range map[string]int{"wrong horse": 5, "wrong%20horse": 3} {
		a := apitest.Start(t)
		slug := a.Post(
			"/api/v1/notes", `{"content":"x","isPublic":true,"password":"open sesame 7"}`,
		).Want(http.StatusCreated).Text("data.slug")
		n := 0
		for a.Visit("/x/"+slug, "X-Share-Password", header).Status == http.StatusUnauthorized && n < 10 {
			n++
		}
		if n != guesses {
			t.Errorf("%q: %d guesses, want %d", header, n, guesses)
		}
	}
	a := apitest.Start(t)
	a.Post("/api/v1/notes", `{"content":"x","isPublic":true,"slug":"mine","password":"öffne dich 7"}`).Want(http.StatusCreated)
	for range 6 { // a right one does not count
		a.Visit("/x/mine", "X-Share-Password", "%C3%B6ffne%20dich%207").Want(http.StatusOK)
	}
}
