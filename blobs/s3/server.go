package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// maxAnswer is how many bytes an answer may have that is not an object. A list
// of a thousand objects has less than half a MiB.
const maxAnswer = 16 << 20

// A server is an endpoint of the bucket.
type server struct {
	bucket *url.URL // ends with a slash
	region string
	creds  *credentials.Credentials
	client *http.Client
}

// newServer returns the endpoint. The name of the bucket goes into the host where
// the operator of the service wants it there.
func newServer(
	endpoint, bucket, region string, creds *credentials.Credentials, transport http.RoundTripper,
) (*server, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%q is not the address of an S3 server, such as https://s3.example.org", endpoint)
	}
	defaultPort := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	u = &url.URL{Scheme: u.Scheme, Path: "/" + bucket + "/", Host: strings.TrimSuffix(u.Host, defaultPort)}
	if u.Host == "s3.amazonaws.com" { // it redirects to the region
		u.Host = amazon(region)
	}
	if s3utils.IsVirtualHostSupported(*u, bucket) {
		u.Host, u.Path = bucket+"."+u.Host, "/"
	}
	return &server{bucket: u, region: region, creds: creds, client: &http.Client{
		Transport: transport,
		// The signature is for this host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// amazon is the host of a region of AWS.
func amazon(region string) string {
	host := "s3.dualstack." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return host
}

// A call is a request to a server.
type call struct {
	method, key string // the key of an object; "" for the bucket
	query       url.Values
	header      http.Header
	body        io.ReaderAt // of size bytes, whose SHA-256 is sum
	size        int64
	sum         string
}

var emptySum = hex.EncodeToString(sha256.New().Sum(nil))

// open sends the request and returns the answer. The error is an *Error if the
// server refuses the request.
func (s *server) open(ctx context.Context, c call) (*http.Response, error) {
	who, err := s.creds.GetWithContext(&credentials.CredContext{Client: s.client, Context: ctx})
	if err != nil {
		return nil, err
	}

	u := *s.bucket
	u.Path += c.key
	u.RawPath = s3utils.EncodePath(u.Path) // as the signature has it
	u.RawQuery = c.query.Encode()
	r, err := http.NewRequestWithContext(ctx, c.method, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.size > 0 {
		r.Body, r.ContentLength = io.NopCloser(io.NewSectionReader(c.body, 0, c.size)), c.size
	}
	r.Header.Set("User-Agent", "kist")
	r.Header.Set("X-Amz-Content-Sha256", cmp.Or(c.sum, emptySum))
	r = signer.SignV4(*r, who.AccessKeyID, who.SecretAccessKey, who.SessionToken, s.region)

	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if err != nil {
			return nil, err
		}
		return nil, refusal(answer, c.key != "", body)
	}
	return answer, nil
}

// do sends a request whose answer is not an object. It decodes the answer into a
// value, unless that is nil, and returns the header.
func (s *server) do(ctx context.Context, c call, into any) (http.Header, error) {
	answer, err := s.open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil || into == nil:
		return answer.Header, err
	case xml.Unmarshal(body, &struct {
		XMLName xml.Name `xml:"Error"`
	}{}) == nil: // a long task may fail after it began to answer with 200
		return nil, refusal(answer, c.key != "", body)
	}
	if err := xml.Unmarshal(body, into); err != nil {
		return nil, fmt.Errorf("the answer has no sound XML: %w", err)
	}
	return answer.Header, nil
}

// refusal is the error in an answer. Its code follows from the status if the
// answer has none.
func refusal(answer *http.Response, object bool, body []byte) *Error {
	var told struct{ Code, Message string }
	if err := xml.Unmarshal(body, &told); err != nil {
		told.Message = string(bytes.TrimSpace(body[:min(len(body), 1<<10)]))
	}
	code := map[int]string{
		http.StatusForbidden:          "AccessDenied",
		http.StatusPreconditionFailed: "PreconditionFailed",
		http.StatusNotFound:           "NoSuchBucket",
	}[answer.StatusCode]
	if object && answer.StatusCode == http.StatusNotFound {
		code = "NoSuchKey"
	}
	return &Error{
		Status: answer.StatusCode, Code: cmp.Or(told.Code, answer.Header.Get("X-Minio-Error-Code"), code),
		text: cmp.Or(told.Message, answer.Status),
		wait: retryAfter(answer.Header),
	}
}

// retryAfter reads the header Retry-After: seconds or a time (RFC 9110, section 10.2.3).
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 24); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// An upload is a large object of which parts are put.
type upload struct {
	Key      string
	UploadID string `xml:"UploadId"`
}

// A piece is a part of an upload.
type piece struct {
	PartNumber int
	ETag       string
	Size       int64 `xml:",omitempty"`
}

// A page is a part of a list of objects.
type page struct {
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string
	Contents              []struct {
		Key          string
		Size         int64
		LastModified time.Time
	}
}

// list asks for a page.
func (s *server) list(ctx context.Context, query url.Values) (p page, err error) {
	if _, err := s.do(ctx, call{method: http.MethodGet, query: query}, &p); err != nil {
		return page{}, err
	}
	for i, o := range p.Contents {
		if p.EncodingType != "url" {
			break
		}
		p.Contents[i].Key, err = url.QueryUnescape(o.Key)
		if err != nil {
			return page{}, fmt.Errorf("the answer has a broken name: %w", err)
		}
	}
	if p.IsTruncated && p.NextContinuationToken == "" {
		return page{}, errors.New("the answer has no mark of the next page")
	}
	return p, nil
}
