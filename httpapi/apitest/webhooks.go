package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

const HooksAt = "/api/v1/integrations/webhooks"

// RunDeliveries runs the courier until the end of the test.
func (a *App) RunDeliveries(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { a.Server.Webhooks.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
}

// delivered is a request that a receiver got.
type delivered struct {
	Event, ID string
	Header    http.Header
	Body      []byte
}

func (d delivered) Data(t testing.TB) map[string]any {
	t.Helper()
	var v struct{ Data map[string]any }
	if err := json.Unmarshal(d.Body, &v); err != nil {
		t.Fatal(err)
	}
	return v.Data
}

// Receiver is a target that answers with a status and hands over what it gets.
func (a *App) Receiver(t testing.TB, status int) (address string, got chan delivered) {
	got = make(chan delivered, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- delivered{r.Header.Get("x-kist-event"), r.Header.Get("webhook-id"), r.Header, body}
		w.WriteHeader(status)
		fmt.Fprint(w, "heard")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hook", got
}

// Next waits for something that is delivered.
func Next(t testing.TB, got chan delivered) delivered {
	t.Helper()
	select {
	case d := <-got:
		return d
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is delivered")
		panic("")
	}
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal(what)
		}
		<-time.After(10 * time.Millisecond)
	}
}
