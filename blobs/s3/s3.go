// Package s3 is an object store behind an S3-compatible server. It is the only
// package that knows the protocol.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" // #nosec G501 -- see putPart
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"kist/blobs"
)

// Options say where a bucket is and who asks.
type Options struct {
	URL       string   // s3://bucket/prefix; the prefix may be missing
	Endpoints []string // URLs of servers of the same bucket; AWS if empty
	Region    string   // us-east-1 if empty
	// KeyID and Secret are the credentials. If they are empty, the usual AWS_*
	// variables and files have them.
	KeyID, Secret string
	// Idle is how long a connection may transfer nothing. 20 s if 0.
	Idle time.Duration
}

// A Bucket is a blobs.Remote. Its methods may be called by any number of
// goroutines at once. It asks one endpoint, and the next one after a failure of
// the network or the server. It does not try again: the caller knows whether
// that is safe.
type Bucket struct {
	// Set once.
	bucket, prefix string
	servers        []*server
	transport      *http.Transport

	current atomic.Uint32 // counts failures; the server that is asked follows from it
}

// How large objects are put.
const (
	partSize  = 16 << 20
	partsOnce = 4 // parts that are under way
	partTries = 3
	partPause = 200 * time.Millisecond // after the first try; twice as long after the next
	maxParts  = 10_000                 // of one object, by the protocol
)

// ParseURL returns the bucket and the prefix of a URL such as s3://bucket/prefix.
// A prefix that is not empty ends with a slash.
func ParseURL(text string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	parts := strings.Split(prefix, "/")
	bad := strings.ContainsAny(prefix, "?#\\") || strings.Contains(prefix, "//") ||
		slices.Contains(parts, ".") || slices.Contains(parts, "..")
	if !ok || bucket == "" || bad {
		return "", "", fmt.Errorf("%q is not the address of a bucket, such as s3://bucket/prefix", text)
	}
	if prefix != "" {
		prefix += "/"
	}
	return bucket, prefix, nil
}

// Open returns the bucket. It asks the server nothing.
func Open(o Options) (*Bucket, error) {
	bucket, prefix, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return nil, fmt.Errorf("%q is not the name of a bucket: %w", bucket, err)
	}
	dial := &net.Dialer{Timeout: 10 * time.Second}
	idle := cmp.Or(o.Idle, 20*time.Second)
	b := &Bucket{bucket: bucket, prefix: prefix, transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: 2 * idle,
		DisableCompression:    true, // a length must be the one of the object
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &impatient{c, idle}, nil
		},
	}}

	chain := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if o.KeyID != "" || o.Secret != "" {
		given := credentials.Value{AccessKeyID: o.KeyID, SecretAccessKey: o.Secret, SignerType: credentials.SignatureV4}
		chain = []credentials.Provider{&credentials.Static{Value: given}}
	}
	creds := credentials.NewChainCredentials(chain)

	region := cmp.Or(o.Region, "us-east-1")
	endpoints := o.Endpoints
	if len(endpoints) == 0 {
		endpoints = []string{"https://" + amazon(region)}
	}
	for _, endpoint := range endpoints {
		s, err := newServer(endpoint, bucket, region, creds, separate{b.transport})
		if err != nil {
			return nil, err
		}
		b.servers = append(b.servers, s)
	}
	return b, nil
}

// Close closes idle connections.
func (b *Bucket) Close() { b.transport.CloseIdleConnections() }

// Endpoints returns a bucket for each endpoint, which asks only that one.
func (b *Bucket) Endpoints() (all []*Bucket) {
	for _, s := range b.servers {
		all = append(all, &Bucket{bucket: b.bucket, prefix: b.prefix, servers: []*server{s}, transport: b.transport})
	}
	return all
}

// separate ends the connection after a write without a body. A gateway (versitygw 1.8.0)
// takes the next request on it for a broken one now and then.
type separate struct{ http.RoundTripper }

func (t separate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength == 0 && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
		last := *r
		last.Close = true
		r = &last
	}
	return t.RoundTripper.RoundTrip(r)
}

// impatient is a connection that fails when it transfers nothing for a while.
type impatient struct {
	net.Conn
	idle time.Duration
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *impatient) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ask calls the server whose turn it is. After a failure that may be the
// endpoint's own, the next call asks the next endpoint.
func (b *Bucket) ask(what, name string, fn func(*server) error) error {
	turn := b.current.Load()
	err := fn(b.servers[int(turn)%len(b.servers)])
	if err == nil {
		return nil
	}
	err = b.explain(what, name, err)
	var answer *Error
	answered := errors.As(err, &answer)
	if answered && answer.Status < 500 && answer.Status != http.StatusTooManyRequests {
		return err
	}

	b.current.CompareAndSwap(turn, turn+1)
	if answered && answer.wait > 0 {
		return &blobs.Later{Err: err, Wait: answer.wait}
	}
	return err
}

// An Error is an answer of the server that is a failure.
type Error struct {
	Status int    // of HTTP
	Code   string // of S3
	text   string
	wait   time.Duration // how long the server asks to be left alone
}

func (e *Error) Error() string { return e.text }

// explain turns an error of the client into a sentence that says what to do. It
// keeps what callers look at.
func (b *Bucket) explain(what, name string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("the object store could not be reached while %s %s%s: %w", what, b.prefix, name, err)
	}
	switch {
	case e.Status == http.StatusPreconditionFailed, e.Code == "PreconditionFailed":
		return fs.ErrExist
	case e.Code == "NoSuchBucket":
		e.text = fmt.Sprintf("the object store has no bucket %s; make it first, or correct --store", b.bucket)
	case e.Code == "NoSuchKey", e.Status == http.StatusNotFound && e.Code == "NotFound":
		return fs.ErrNotExist
	case e.Code == "RequestTimeTooSkewed", e.Code == "RequestExpired", e.Code == "RequestInTheFuture":
		e.text = "the object store refuses the request, because the clock of this machine and the store's " +
			"differ too much; set the clock"
	case e.Code == "InvalidAccessKeyId", e.Code == "SignatureDoesNotMatch", e.Code == "AccessDenied",
		e.Status == http.StatusForbidden, e.Status == http.StatusUnauthorized:
		e.text = fmt.Sprintf("the object store refuses these credentials (%s); check KIST_STORE_KEY_ID and "+
			"KIST_STORE_SECRET, and what they may do in bucket %s", cmp.Or(e.Code, strconv.Itoa(e.Status)), b.bucket)
	case e.Code == "QuotaExceeded", e.Code == "XMinioStorageFull", e.Code == "EntityTooLarge",
		e.Status == http.StatusInsufficientStorage:
		e.text = fmt.Sprintf("the object store has no room (%s)", cmp.Or(e.Code, strconv.Itoa(e.Status)))
	default:
		e.text = fmt.Sprintf("the object store answered %d %s while %s %s%s: %s",
			e.Status, e.Code, what, b.prefix, name, e.text)
	}
	return e
}

// Put is described at blobs.Remote.
func (b *Bucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if size > blobs.MaxExact {
		return b.putParts(ctx, name, body, size)
	}
	sum, err := hashOf(body, size)
	if err != nil {
		return err
	}
	c := call{method: http.MethodPut, key: b.prefix + name, header: exclusive(), body: body, size: size, sum: sum}
	return b.ask("writing", name, func(s *server) error {
		_, err := s.do(ctx, c, nil)
		return err
	})
}

// exclusive is the header of a put that must not replace an object.
func exclusive() http.Header { return http.Header{"If-None-Match": {"*"}} }

// hashOf returns the SHA-256 of a part, which the server compares.
func hashOf(body io.ReaderAt, n int64) (string, error) {
	h := sha256.New()
	if m, err := io.Copy(h, io.NewSectionReader(body, 0, n)); err != nil || m < n {
		return "", fmt.Errorf("cannot read what is put in the object store: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// putParts puts a large object in parts. It continues an upload that an earlier
// attempt left, with those of its parts that have the same bytes.
func (b *Bucket) putParts(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if _, err := b.Head(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fs.ErrExist)
	}
	part := max(int64(partSize), (size+maxParts-1)/maxParts)
	count := int((size + part - 1) / part)
	id, done, err := b.unfinished(ctx, name, part, size)
	if err != nil {
		return err
	}
	if id == "" {
		id, err = b.begin(ctx, name)
		if err != nil {
			return err
		}
	}

	// After a failure no more parts begin. Those under way go on: the next attempt uses them.
	more, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all := make([]piece, count)
	var work sync.WaitGroup
	var next atomic.Int32
	for range min(partsOnce, count) {
		work.Go(func() {
			for n := int(next.Add(1)); n <= count && more.Err() == nil; n = int(next.Add(1)) {
				from := int64(n-1) * part
				bytes := io.NewSectionReader(body, from, min(part, size-from))
				tag, err := b.putPart(ctx, name, id, n, done[n], bytes)
				all[n-1] = piece{PartNumber: n, ETag: tag}
				if err != nil {
					stop(err)
				}
			}
		})
	}
	work.Wait()
	if err := context.Cause(more); err != nil {
		return err
	}

	return b.complete(ctx, name, id, all)
}

// begin begins an upload in parts and returns its id.
func (b *Bucket) begin(ctx context.Context, name string) (id string, err error) {
	err = b.ask("writing", name, func(s *server) error {
		var begun upload
		c := call{method: http.MethodPost, key: b.prefix + name, query: url.Values{"uploads": {""}}}
		_, err := s.do(ctx, c, &begun)
		id = begun.UploadID
		return err
	})
	return id, err
}

// complete makes an object of the parts of an upload.
func (b *Bucket) complete(ctx context.Context, name, id string, all []piece) error {
	whole, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Part    []piece
	}{Part: all})
	if err != nil {
		return fmt.Errorf("cannot write the list of parts: %w", err)
	}
	c := call{
		method: http.MethodPost, key: b.prefix + name, query: url.Values{"uploadId": {id}}, header: exclusive(),
		body: bytes.NewReader(whole), size: int64(len(whole)),
	}
	c.sum, err = hashOf(c.body, c.size)
	if err != nil {
		return err
	}
	return b.ask("writing", name, func(s *server) error {
		_, err := s.do(ctx, c, &upload{})
		return err
	})
}

// putPart puts a part and returns its tag. The server may have a part with the
// tag already; it stays if the tag is the MD5 of the same bytes.
func (b *Bucket) putPart(
	ctx context.Context, name, id string, n int, tag string, body *io.SectionReader,
) (string, error) {
	tag = strings.Trim(tag, `"`)
	if tag != "" {
		h := md5.New() // #nosec G401 -- the protocol's name of a part, not a protection
		if _, err := io.Copy(h, body); err == nil && hex.EncodeToString(h.Sum(nil)) == tag {
			return tag, nil
		}
	}

	sum, err := hashOf(body, body.Size())
	if err != nil {
		return "", err
	}
	c := call{
		method: http.MethodPut, key: b.prefix + name, body: body, size: body.Size(), sum: sum,
		query: url.Values{"partNumber": {strconv.Itoa(n)}, "uploadId": {id}},
	}
	for try := range partTries {
		err = b.ask("writing", name, func(s *server) error {
			got, err := s.do(ctx, c, nil)
			tag = strings.Trim(got.Get("ETag"), `"`)
			return err
		})
		if err == nil || ctx.Err() != nil || errors.As(err, new(*blobs.Later)) {
			break
		}
		select {
		case <-time.After(partPause << try):
		case <-ctx.Done():
		}
	}
	return tag, err
}

// unfinished returns an upload of the object that has begun, and the tags of its
// whole parts by number.
func (b *Bucket) unfinished(
	ctx context.Context, name string, part, size int64,
) (id string, done map[int]string, err error) {
	err = b.ask("looking for", name, func(s *server) error {
		var list struct{ Upload []upload }
		query := url.Values{"uploads": {""}, "prefix": {b.prefix + name}, "max-uploads": {"100"}}
		_, err := s.do(ctx, call{method: http.MethodGet, query: query}, &list)
		for _, u := range list.Upload {
			if u.Key == b.prefix+name {
				id = u.UploadID
			}
		}
		return err
	})
	if err != nil || id == "" {
		return "", nil, err
	}

	done = map[int]string{}
	err = b.ask("looking for", name, func(s *server) error {
		for marker := 0; ; {
			var list struct {
				IsTruncated          bool
				NextPartNumberMarker int
				Part                 []piece
			}
			query := url.Values{"uploadId": {id}, "part-number-marker": {strconv.Itoa(marker)}, "max-parts": {"1000"}}
			c := call{method: http.MethodGet, key: b.prefix + name, query: query}
			if _, err := s.do(ctx, c, &list); err != nil {
				return err
			}
			for _, p := range list.Part {
				if p.Size == min(part, size-int64(p.PartNumber-1)*part) {
					done[p.PartNumber] = p.ETag
				}
			}
			if !list.IsTruncated {
				return nil
			}
			marker = list.NextPartNumberMarker
		}
	})
	return id, done, err
}

// Get is described at blobs.Remote.
func (b *Bucket) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	if n == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	c := call{method: http.MethodGet, key: b.prefix + name, header: http.Header{}}
	switch {
	case n > 0:
		c.header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+n-1))
	case from > 0:
		c.header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	err = b.ask("reading", name, func(s *server) error {
		answer, err := s.open(ctx, c)
		if e := (*Error)(nil); errors.As(err, &e) && e.Code == "InvalidRange" { // there is nothing from there on
			r = io.NopCloser(bytes.NewReader(nil))
			return nil
		}
		if err != nil {
			return err
		}
		r = answer.Body
		return nil
	})
	return r, err
}

// Head is described at blobs.Remote.
func (b *Bucket) Head(ctx context.Context, name string) (o blobs.Object, err error) {
	err = b.ask("looking for", name, func(s *server) error {
		got, err := s.do(ctx, call{method: http.MethodHead, key: b.prefix + name}, nil)
		if err != nil {
			return err
		}
		o.Name = name
		o.Size, err = strconv.ParseInt(got.Get("Content-Length"), 10, 64)
		if err != nil {
			return err
		}
		o.ModTime, err = http.ParseTime(got.Get("Last-Modified"))
		return err
	})
	return o, err
}

// Delete is described at blobs.Remote.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	err := b.ask("removing", name, func(s *server) error {
		_, err := s.do(ctx, call{method: http.MethodDelete, key: b.prefix + name}, nil)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// After is described at blobs.Remote.
func (b *Bucket) After(ctx context.Context, prefix, name string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		query := url.Values{"list-type": {"2"}, "encoding-type": {"url"}, "prefix": {b.prefix + prefix}}
		if name != "" {
			query.Set("start-after", b.prefix+name)
		}
		stopped := false
		err := b.ask("listing", prefix, func(s *server) error {
			for {
				page, err := s.list(ctx, query)
				if err != nil {
					return err
				}
				for _, got := range page.Contents {
					if strings.HasSuffix(got.Key, "/") { // a folder of a gateway
						continue
					}
					name := strings.TrimPrefix(got.Key, b.prefix)
					stopped = !yield(blobs.Object{Name: name, Size: got.Size, ModTime: got.LastModified}, nil)
					if stopped {
						return nil
					}
				}
				if !page.IsTruncated {
					return nil
				}
				query.Set("continuation-token", page.NextContinuationToken)
			}
		})
		if err != nil && !stopped {
			yield(blobs.Object{}, err)
		}
	}
}

// A rule is one of a bucket's lifecycle, after which the server removes objects.
type rule struct {
	ID, Status, Prefix string
	Filter             struct {
		Prefix string
		Tag    []struct{ Key string }
		And    struct {
			Prefix string
			Tag    []struct{ Key string }
		}
	}
	Expiration, AllVersionsExpiration struct {
		Days int
		Date string
	}
}

// removes reports whether the rule removes objects without a tag, as all of kist's are,
// whose name begins with a prefix.
func (r *rule) removes(below string) bool {
	prefix := cmp.Or(r.Prefix, r.Filter.Prefix, r.Filter.And.Prefix)
	untagged := len(r.Filter.Tag) == 0 && len(r.Filter.And.Tag) == 0
	reaches := strings.HasPrefix(prefix, below) || strings.HasPrefix(below, prefix)
	expires := r.Expiration.Days > 0 || r.Expiration.Date != "" || r.AllVersionsExpiration.Days > 0
	return r.Status == "Enabled" && untagged && reaches && expires
}

// Removes describes the rules of the bucket by which the server removes objects with the
// prefix on its own.
func (b *Bucket) Removes(ctx context.Context) (rules []string, err error) {
	err = b.ask("asking for the rules of", "", func(s *server) error {
		var all struct{ Rule []rule }
		if _, err := s.do(ctx, call{method: http.MethodGet, query: url.Values{"lifecycle": {""}}}, &all); err != nil {
			return err
		}
		for _, r := range all.Rule {
			if r.removes(b.prefix) {
				rules = append(rules, fmt.Sprintf("%q", cmp.Or(r.ID, "without a name")))
			}
		}
		return nil
	})
	if e := (*Error)(nil); errors.As(err, &e) && e.Code == "NoSuchLifecycleConfiguration" {
		err = nil
	}
	return rules, err
}
