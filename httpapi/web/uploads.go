package web

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"kist/kv/record"
)

const TusVersion = "1.0.0"

// tusHeaders are the tus headers that pages of other origins may read, tusAsked those that
// they may send: Upload-Concat too, so that they can read why it is refused.
const (
	tusHeaders = "Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, " +
		"Upload-Offset, Upload-Length, Upload-Defer-Length, Upload-Metadata, Upload-Expires, " +
		"X-Kist-Id, X-Kist-Slug, X-Kist-Url, X-Kist-Item, X-Kist-Status, X-Kist-Take-Back"
	tusAsked = "tus-resumable, upload-length, upload-offset, upload-metadata, upload-defer-length, upload-checksum, " +
		"upload-concat, x-http-method-override"
)

var (
	ErrTusVersion  = errors.New("unsupported version of tus")
	ErrTusChecksum = errors.New("checksum mismatch")
)

// uploadLocks lets one request at a time work on an upload. A newer request ends the older
// one, which may be waiting for a dead connection.
type uploadLocks struct {
	of handOvers[record.ID, *UploadLock]
}

type UploadLock struct {
	call *Request
	Over atomic.Bool // another request is waiting
}

// lockTime is how long a request waits for the previous one, which has to store what it
// has received.
const lockTime = 30 * time.Second

// Take waits for the lock of an upload. The caller has it until release is called.
func (all *uploadLocks) Take(c *Request, id record.ID) (mine *UploadLock, release func(), err error) {
	ctx, cancel := context.WithTimeout(c.R.Context(), lockTime)
	defer cancel()
	mine = &UploadLock{call: c}
	release, err = all.of.take(ctx, id, mine, func(before *UploadLock) {
		before.Over.Store(true)
		if before.call.W.Body != nil {
			before.call.W.Body.cut() // its connection cannot serve another request yet
		}
	})
	if err != nil {
		return nil, nil, &record.Error{
			Fault: record.Busy, Code: "upload_busy", Text: "Another request is working on this upload.", Retry: lockTime,
		}
	}
	return mine, release, nil
}
