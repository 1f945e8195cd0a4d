package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kist/httpapi/outbound"
	"kist/kv/jobs"
)

// Limits for reading an answer.
const (
	maxAnswer = 64 << 10 // bytes to read
	maxShown  = 256      // bytes to keep for the log
	bodyTime  = time.Second
)

// Headers are the headers of a message without the signatures. at is the time of sending.
func (m *Message) Headers(at time.Time) http.Header {
	return http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {"kist"},
		"Webhook-Id":        {m.ID.String()},
		"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"X-Kist-Event":      {string(m.Event)},
	}
}

// sign adds the signatures: those of Standard Webhooks with each secret, and one of only the body, whose
// key is the text of the current secret.
func sign(h http.Header, secrets []string, body []byte) {
	if len(secrets) == 0 {
		return
	}
	var all []string
	for _, secret := range secrets {
		for _, key := range jobs.SecretKeys(secret) {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "."))
			mac.Write(body)
			all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
	}
	h.Set("Webhook-Signature", strings.Join(all, " "))
	mac := hmac.New(sha256.New, []byte(secrets[0]))
	mac.Write(body)
	h.Set("X-Kist-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
}

func (c *Sender) try(ctx context.Context, h *jobs.Webhook, m Message) jobs.Try {
	begun := time.Now()
	t := jobs.Try{At: begun.UTC().Truncate(time.Millisecond), URL: h.URL, Format: h.Format}
	ctx, cancel := context.WithTimeout(ctx, TryTime)
	defer cancel()
	status, wait, answer, err := c.post(ctx, h, m, begun)
	t.Took, t.Status, t.Wait, t.Answer = time.Since(begun).Truncate(time.Millisecond), status, wait, outbound.Printable(answer, maxShown)
	switch {
	case err != nil:
		t.Error = problem(ctx, err, t.Took)
	case status >= 300 && status < 400:
		t.Error = fmt.Sprintf("The target answered with a redirect (%d), which is not followed.", status)
	case status < 200 || status >= 300:
		t.Error = strings.TrimSpace(fmt.Sprintf("The target answered %d %s", status, http.StatusText(status))) + "."
	}
	return t
}

// post sends a message and reads the beginning of the answer, for at most bodyTime. Only the status of
// the answer counts. Errors while reading the body are ignored.
func (c *Sender) post(
	ctx context.Context, h *jobs.Webhook, m Message, at time.Time,
) (status int, wait time.Duration, answer []byte, err error) {
	body, err := m.Body(h.Format, h.URL, c.base)
	if err != nil {
		return 0, 0, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target(h.Format, h.URL), bytes.NewReader(body))
	if err != nil {
		return 0, 0, nil, err
	}
	r.Header = m.Headers(at)
	sign(r.Header, h.Secrets(at), body)
	res, err := c.client.Do(r, 0)
	if err != nil {
		return 0, 0, nil, err
	}
	defer res.Body.Close()
	defer time.AfterFunc(bodyTime, cancel).Stop()
	var shown bytes.Buffer
	n, _ := io.CopyN(&shown, res.Body, maxShown)
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer-n)
	return res.StatusCode, outbound.RetryAfter(res.Header, time.Now()), shown.Bytes(), nil
}

// problem says in a sentence why there was no answer.
func problem(ctx context.Context, err error, after time.Duration) string {
	var network net.Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return fmt.Sprintf("The target did not answer within %d s.", max(1, int(after.Seconds()+0.5)))
	}
	return outbound.Explain(err, "The target")
}
