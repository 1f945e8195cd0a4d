package s3_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/blobs"
	"kist/blobs/s3"
	"kist/blobs/s3/s3test"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"s3://home":            {"home", ""},
		"s3://home/":           {"home", ""},
		"s3://home/kist":       {"home", "kist/"},
		"s3://home/a/b/":       {"home", "a/b/"},
		"home/kist":            {},
		"s3://":                {},
		"s3:///kist":           {},
		"s3://home/a/../b":     {},
		"s3://home/a//b":       {},
		"https://example.org/": {},
	} {
		is := is.New(t)
		bucket, prefix, err := s3.ParseURL(text)
		is.Equal([2]string{bucket, prefix}, want)    // text
		is.Equal(err == nil, want != [2]string{})    // text
		is.True(err == nil || prefix+bucket == "")   // nothing with an error
		is.True(err == nil || len(err.Error()) < 90) // one sentence
	}
}

func put(t *testing.T, b *s3.Bucket, name string, body []byte) error {
	t.Helper()
	return b.Put(t.Context(), name, bytes.NewReader(body), int64(len(body)))
}

func get(t *testing.T, b *s3.Bucket, name string, from, n int64) (string, error) {
	t.Helper()
	r, err := b.Get(t.Context(), name, from, n)
	if err != nil {
		return "", err
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	return string(all), err
}

func names(t *testing.T, b *s3.Bucket, prefix, after string) (all []string) {
	t.Helper()
	for o, err := range b.After(t.Context(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o.Name)
	}
	return all
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := s3test.New(t)
	b := s3test.Open(t, s3test.Options("kist", server.Start()))
	is.NoErr(put(t, b, "log/1", []byte("hello world")))
	is.True(errors.Is(put(t, b, "log/1", []byte("other")), fs.ErrExist)) // it stays
	got, err := get(t, b, "log/1", 0, -1)
	is.NoErr(err)
	is.Equal(got, "hello world")
	got, err = get(t, b, "log/1", 6, 3)
	is.NoErr(err)
	is.Equal(got, "wor")
	got, err = get(t, b, "log/1", 6, -1)
	is.NoErr(err)
	is.Equal(got, "world")
	_, err = get(t, b, "log/2", 0, -1)
	is.True(errors.Is(err, fs.ErrNotExist))
	o, err := b.Head(t.Context(), "log/1")
	is.NoErr(err)
	is.Equal(o.Size, int64(11))
	is.True(time.Since(o.ModTime).Abs() < time.Hour)
	_, err = b.Head(t.Context(), "log/2")
	is.True(errors.Is(err, fs.ErrNotExist))
	is.NoErr(put(t, b, "log/3", nil))
	got, err = get(t, b, "log/3", 0, 10) // an empty object has nothing there
	is.NoErr(err)
	is.Equal(got, "")
	is.NoErr(put(t, b, "log/4", []byte("x")))
	is.NoErr(put(t, b, "snap/1", []byte("x")))
	is.Equal(names(t, b, "log/", ""), []string{"log/1", "log/3", "log/4"})
	is.Equal(names(t, b, "log/", "log/1"), []string{"log/3", "log/4"})
	is.Equal(names(t, b, "log/", "log/2"), []string{"log/3", "log/4"}) // the name need not exist
	is.Equal(len(names(t, b, "log/", "log/4")), 0)
	is.NoErr(b.Delete(t.Context(), "log/3"))
	is.NoErr(b.Delete(t.Context(), "log/3")) // again
	is.Equal(names(t, b, "log/", ""), []string{"log/1", "log/4"})

	other := s3test.Open(t, s3test.Options("other", server.Start()))
	is.Equal(len(names(t, other, "", "")), 0)                      // prefixes are apart
	_, err = os.Stat(filepath.Join(server.Dir, "home/kist/log/1")) // and a gateway has the objects as files
	is.NoErr(err)
}

// Of many writers of one name exactly one must win, through several gateways.
func TestOneWins(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := s3test.New(t)
	var all []*s3.Bucket
	for range 3 {
		all = append(all, s3test.Open(t, s3test.Options("race", server.Start())))
	}
	for round := range 20 {
		name := fmt.Sprint("key/", round)
		var won atomic.Int32
		var winner atomic.Value
		var work sync.WaitGroup
		for i := range 16 {
			work.Go(func() {
				body := fmt.Sprint("writer ", i)
				if all[i%3].Put(t.Context(), name, strings.NewReader(body), int64(len(body))) == nil {
					won.Add(1)
					winner.Store(body)
				}
			})
		}
		work.Wait()
		is.Equal(won.Load(), int32(1))
		got, err := get(t, all[0], name, 0, -1)
		is.NoErr(err)
		is.Equal(got, winner.Load())
	}
}

// A large object goes in parts. An interrupted upload is continued.
func TestParts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := s3test.New(t)
	gateway := server.Start()
	proxy := s3test.NewProxy(t, gateway)
	b := s3test.Open(t, s3test.Options("parts", proxy.URL))
	body := make([]byte, 70<<20)
	_, _ = rand.Read(body)
	var puts atomic.Int32
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut && r.URL.Query().Has("partNumber") && puts.Add(1) > 3 {
			return s3test.Cut
		}
		return s3test.None
	})
	is.True(put(t, b, "blobs/x", body) != nil)
	is.Equal(len(names(t, b, "blobs/", "")), 0)
	puts.Store(0)
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut {
			puts.Add(1)
		}
		return s3test.None
	})
	is.NoErr(put(t, b, "blobs/x", body))
	is.True(puts.Load() >= 2 && puts.Load() < 5) // not all five parts again
	r, err := b.Get(t.Context(), "blobs/x", 0, -1)
	is.NoErr(err)
	got, err := io.ReadAll(r)
	is.NoErr(err)
	is.True(bytes.Equal(got, body))
	is.NoErr(r.Close())
	is.True(errors.Is(put(t, b, "blobs/x", body), fs.ErrExist))
}

// Each fault is an error in a bounded time, never a wrong answer.
func TestFaults(t *testing.T) {
	t.Parallel()
	server := s3test.New(t)
	gateway := server.Start()
	sound := s3test.Open(t, s3test.Options("faults", gateway))
	for _, fault := range s3test.Faults {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			proxy := s3test.NewProxy(t, gateway)
			b := s3test.Open(t, s3test.Options("faults", proxy.URL))
			name, body := "log/"+strings.ReplaceAll(fault.String(), " ", "-"), bytes.Repeat([]byte("x"), 100_000)
			proxy.Set(s3test.Always(fault))
			err := put(t, b, name, body)
			got, stored := get(t, sound, name, 0, -1)
			harmless := fault == s3test.Truncate || fault == s3test.Slow // the answer of a put has no body
			is.Equal(err == nil, harmless)
			var later *blobs.Later
			is.Equal(errors.As(err, &later), fault == s3test.BusyFor)
			is.True(later == nil || later.Wait > 0 && later.Wait <= time.Second) // as the server asks
			is.True(!errors.Is(err, fs.ErrExist))
			is.Equal(stored == nil, harmless || fault == s3test.LoseAnswer)
			is.True(stored != nil || got == string(body)) // all or nothing
			if stored != nil {
				is.NoErr(put(t, sound, name, body))
			}
			got, err = get(t, b, name, 0, -1)
			is.Equal(err == nil, fault == s3test.Slow)
			is.True(err != nil || got == string(body))
			proxy.Set(nil)
			got, err = get(t, b, name, 0, -1) // the control
			is.NoErr(err)
			is.Equal(got, string(body))
		})
	}
}

// After a failure the next endpoint is asked.
func TestNextEndpoint(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server := s3test.New(t)
	b := s3test.Open(t, s3test.Options("next", server.Start(), server.Start()))
	is.NoErr(put(t, b, "a", []byte("a")))
	server.Kill()
	is.True(put(t, b, "b", []byte("b")) != nil)
	is.NoErr(put(t, b, "b", []byte("b")))
	is.Equal(names(t, b, "", ""), []string{"a", "b"})
	is.Equal(len(b.Endpoints()), 2)
}

// What an operator can change is said in one sentence.
func TestSentences(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	gateway := s3test.New(t).Start()
	wrong := s3test.Options("x", gateway)
	wrong.Secret = "wrong"
	missing := s3test.Options("x", gateway)
	missing.URL = "s3://missing/x"
	nowhere := s3test.Options("x", "http://127.0.0.1:1")
	for want, o := range map[string]s3.Options{
		"refuses these credentials": wrong, "has no bucket missing": missing, "could not be reached": nowhere,
	} {
		err := put(t, s3test.Open(t, o), "a", []byte("a"))
		is.True(err != nil && strings.Contains(err.Error(), want)) // want
		is.True(!errors.Is(err, fs.ErrNotExist))                   // a missing bucket is not a missing object
	}
	var e *s3.Error
	is.True(errors.As(put(t, s3test.Open(t, wrong), "a", []byte("a")), &e))
	is.True(slices.Contains([]int{401, 403}, e.Status))
}

// The rules by which a server removes objects are found, if they reach the prefix.
func TestRemoves(t *testing.T) {
	t.Parallel()
	rule := func(status, rest string) string {
		return "<LifecycleConfiguration><Rule><ID>old</ID><Status>" + status + "</Status>" + rest + "</Rule></LifecycleConfiguration>"
	}
	const days = "<Expiration><Days>30</Days></Expiration>"
	for answer, want := range map[string]int{
		rule("Enabled", "<Filter></Filter>"+days):   1,
		rule("Enabled", "<Prefix>ho</Prefix>"+days): 1,
		rule(
			"Enabled", "<Filter><Prefix>home/blobs/</Prefix></Filter>"+days,
		): 1,
		rule(
			"Enabled", "<Filter><And><Prefix>home/</Prefix></And></Filter>"+days,
		): 1,
		rule("Enabled", "<Filter/><Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>"): 1,
		rule("Disabled", "<Filter/>"+days): 0,
		rule(
			"Enabled", "<Filter><Prefix>photos/</Prefix></Filter>"+days,
		): 0,
		rule(
			"Enabled", "<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>"+days,
		): 0,
		rule(
			"Enabled", "<Filter/><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>",
		): 0,
		"<Error><Code>NoSuchLifecycleConfiguration</Code></Error>": 0,
		"<Error><Code>NotImplemented</Code></Error>":               -1,
	} {
		is := is.New(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			is.True(r.URL.Query().Has("lifecycle"))
			if strings.HasPrefix(answer, "<Error>") {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = io.WriteString(w, answer)
		}))
		b := s3test.Open(t, s3test.Options("home", server.URL))
		got, err := b.Removes(t.Context())
		is.Equal(err != nil, want < 0) // answer
		is.Equal(len(got), max(want, 0))
		server.Close()
	}
}
