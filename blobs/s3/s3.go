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
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

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
	bucket, prefix string
	clients        []*minio.Core
	transport      *http.Transport
	current        atomic.Uint32 // counts failures; the client that is asked follows from it
}

// How large objects are put.
const (
	partSize  = 16 << 20
	partsOnce = 4 // parts that are under way
	partTries = 3
	maxParts  = 10_000 // of one object, by the protocol
)

// ParseURL returns the bucket and the prefix of a URL such as s3://bucket/prefix.
// A prefix that is not empty ends with a slash.
func ParseURL(text string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	if !ok || bucket == "" || strings.ContainsAny(prefix, "?#\\") || strings.Contains("/"+prefix+"/", "/./") || strings.Contains("/"+prefix+"/", "/../") || strings.Contains(prefix, "//") {
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
	dial := &net.Dialer{Timeout: 10 * time.Second}
	idle := cmp.Or(o.Idle, 20*time.Second)
	b := &Bucket{bucket: bucket, prefix: prefix, transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 16, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 2 * idle,
		DisableCompression: true, // a length must be the one of the object
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
		chain = []credentials.Provider{&credentials.Static{Value: credentials.Value{AccessKeyID: o.KeyID, SecretAccessKey: o.Secret, SignerType: credentials.SignatureV4}}}
	}
	creds := credentials.NewChainCredentials(chain)
	region := cmp.Or(o.Region, "us-east-1")
	endpoints := o.Endpoints
	if len(endpoints) == 0 {
		endpoints = []string{"https://s3." + region + ".amazonaws.com"}
	}
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("%q is not the address of an S3 server, such as https://s3.example.org", endpoint)
		}
		c, err := minio.NewCore(u.Host, &minio.Options{Creds: creds, Secure: u.Scheme == "https", Region: region, Transport: b.transport, MaxRetries: 1})
		if err != nil {
			return nil, fmt.Errorf("cannot use the S3 server %s: %w", endpoint, err)
		}
		b.clients = append(b.clients, c)
	}
	return b, nil
}

// Close closes idle connections.
func (b *Bucket) Close() { b.transport.CloseIdleConnections() }

// Endpoints returns a bucket for each endpoint, which asks only that one.
func (b *Bucket) Endpoints() (all []*Bucket) {
	for _, c := range b.clients {
		all = append(all, &Bucket{bucket: b.bucket, prefix: b.prefix, clients: []*minio.Core{c}, transport: b.transport})
	}
	return all
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

// ask calls the client whose turn it is. After a failure that may be the
// endpoint's own, the next call asks the next endpoint.
func (b *Bucket) ask(what, name string, fn func(*minio.Core) error) error {
	turn := b.current.Load()
	err := fn(b.clients[int(turn)%len(b.clients)])
	if err == nil {
		return nil
	}
	err = b.explain(what, name, err)
	if status := (*Error)(nil); !errors.As(err, &status) || status.Status >= 500 {
		b.current.CompareAndSwap(turn, turn+1)
	}
	return err
}

// An Error is an answer of the server that is a failure.
type Error struct {
	Status int    // of HTTP
	Code   string // of S3
	text   string
}

func (e *Error) Error() string { return e.text }

// explain turns an error of the client into a sentence that says what to do. It
// keeps what callers look at.
func (b *Bucket) explain(what, name string, err error) error {
	var got minio.ErrorResponse
	if !errors.As(err, &got) {
		return fmt.Errorf("the object store could not be reached while %s %s%s: %w", what, b.prefix, name, err)
	}
	e := &Error{Status: got.StatusCode, Code: got.Code}
	switch {
	case got.StatusCode == http.StatusPreconditionFailed, got.Code == "PreconditionFailed":
		return fs.ErrExist
	case got.Code == "NoSuchBucket":
		e.text = fmt.Sprintf("the object store has no bucket %s; make it first, or correct --store", b.bucket)
	case got.Code == "NoSuchKey", got.StatusCode == http.StatusNotFound && got.Code == "NotFound":
		return fs.ErrNotExist
	case got.Code == "RequestTimeTooSkewed", got.Code == "RequestExpired", got.Code == "RequestInTheFuture":
		e.text = "the object store refuses the request, because the clock of this machine and the store's differ too much; set the clock"
	case got.Code == "InvalidAccessKeyId", got.Code == "SignatureDoesNotMatch", got.Code == "AccessDenied", got.StatusCode == http.StatusForbidden, got.StatusCode == http.StatusUnauthorized:
		e.text = fmt.Sprintf("the object store refuses these credentials (%s); check KIST_STORE_KEY_ID and KIST_STORE_SECRET, and what they may do in bucket %s", cmp.Or(got.Code, strconv.Itoa(got.StatusCode)), b.bucket)
	case got.StatusCode == http.StatusInsufficientStorage, got.Code == "QuotaExceeded", got.Code == "XMinioStorageFull", got.Code == "EntityTooLarge":
		e.text = fmt.Sprintf("the object store has no room (%s)", cmp.Or(got.Code, strconv.Itoa(got.StatusCode)))
	default:
		e.text = fmt.Sprintf("the object store answered %d %s while %s %s%s: %s", got.StatusCode, got.Code, what, b.prefix, name, got.Message)
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
	return b.ask("writing", name, func(c *minio.Core) error {
		_, err := c.PutObject(ctx, b.bucket, b.prefix+name, io.NewSectionReader(body, 0, size), size, "", sum, exclusive())
		return err
	})
}

// exclusive are the options of a put that must not replace an object.
func exclusive() (o minio.PutObjectOptions) {
	o.SetMatchETagExcept("*")
	return o
}

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
	if err == nil && id == "" {
		err = b.ask("writing", name, func(c *minio.Core) (err error) {
			id, err = c.NewMultipartUpload(ctx, b.bucket, b.prefix+name, minio.PutObjectOptions{})
			return err
		})
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]minio.CompletePart, count)
	var work sync.WaitGroup
	var next atomic.Int32
	for range min(partsOnce, count) {
		work.Go(func() {
			for n := int(next.Add(1)); n <= count && ctx.Err() == nil; n = int(next.Add(1)) {
				tag, err := b.putPart(ctx, name, id, n, done[n], io.NewSectionReader(body, int64(n-1)*part, min(part, size-int64(n-1)*part)))
				if all[n-1] = (minio.CompletePart{PartNumber: n, ETag: tag}); err != nil {
					cancel(err)
				}
			}
		})
	}
	work.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return b.ask("writing", name, func(c *minio.Core) error {
		_, err := c.CompleteMultipartUpload(ctx, b.bucket, b.prefix+name, id, all, exclusive())
		return err
	})
}

// putPart puts a part and returns its tag. The server may have a part with the
// tag already; it stays if the tag is the MD5 of the same bytes.
func (b *Bucket) putPart(ctx context.Context, name, id string, n int, tag string, body *io.SectionReader) (string, error) {
	if tag = strings.Trim(tag, `"`); tag != "" {
		h := md5.New() // #nosec G401 -- the protocol's name of a part, not a protection
		if _, err := io.Copy(h, body); err == nil && hex.EncodeToString(h.Sum(nil)) == tag {
			return tag, nil
		}
	}
	sum, err := hashOf(body, body.Size())
	if err != nil {
		return "", err
	}
	for range partTries {
		if err = b.ask("writing", name, func(c *minio.Core) error {
			p, err := c.PutObjectPart(ctx, b.bucket, b.prefix+name, id, n, io.NewSectionReader(body, 0, body.Size()), body.Size(), minio.PutObjectPartOptions{Sha256Hex: sum})
			tag = p.ETag
			return err
		}); err == nil || ctx.Err() != nil {
			break
		}
	}
	return tag, err
}

// unfinished returns an upload of the object that has begun, and the tags of its
// whole parts by number.
func (b *Bucket) unfinished(ctx context.Context, name string, part, size int64) (id string, done map[int]string, err error) {
	err = b.ask("looking for", name, func(c *minio.Core) error {
		list, err := c.ListMultipartUploads(ctx, b.bucket, b.prefix+name, "", "", "", 100)
		for _, u := range list.Uploads {
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
	err = b.ask("looking for", name, func(c *minio.Core) error {
		for marker := 0; ; {
			list, err := c.ListObjectParts(ctx, b.bucket, b.prefix+name, id, marker, 1000)
			if err != nil {
				return err
			}
			for _, p := range list.ObjectParts {
				if p.Size == min(part, size-int64(p.PartNumber-1)*part) {
					done[p.PartNumber] = p.ETag
				}
			}
			if marker = list.NextPartNumberMarker; !list.IsTruncated {
				return nil
			}
		}
	})
	return id, done, err
}

// Get is described at blobs.Remote.
func (b *Bucket) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	if n == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	var o minio.GetObjectOptions
	switch {
	case n > 0:
		err = o.SetRange(from, from+n-1)
	case from > 0:
		err = o.SetRange(from, 0)
	}
	if err != nil {
		return nil, err
	}
	err = b.ask("reading", name, func(c *minio.Core) (err error) {
		r, _, _, err = c.GetObject(ctx, b.bucket, b.prefix+name, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Head is described at blobs.Remote.
func (b *Bucket) Head(ctx context.Context, name string) (o blobs.Object, err error) {
	err = b.ask("looking for", name, func(c *minio.Core) error {
		got, err := c.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
		o = blobs.Object{Name: name, Size: got.Size, ModTime: got.LastModified}
		return err
	})
	return o, err
}

// Delete is described at blobs.Remote.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	err := b.ask("removing", name, func(c *minio.Core) error {
		return c.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// After is described at blobs.Remote.
func (b *Bucket) After(ctx context.Context, prefix, name string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o := minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}
		if name != "" {
			o.StartAfter = b.prefix + name
		}
		stopped := false
		err := b.ask("listing", prefix, func(c *minio.Core) error {
			for got := range c.ListObjectsIter(ctx, b.bucket, o) {
				if got.Err != nil {
					return got.Err
				}
				if strings.HasSuffix(got.Key, "/") { // a folder of a gateway
					continue
				}
				if stopped = !yield(blobs.Object{Name: strings.TrimPrefix(got.Key, b.prefix), Size: got.Size, ModTime: got.LastModified}, nil); stopped {
					return nil
				}
			}
			return ctx.Err()
		})
		if err != nil && !stopped {
			yield(blobs.Object{}, err)
		}
	}
}
