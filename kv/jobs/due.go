package jobs

import (
	"encoding/binary"
	"slices"
	"time"

	"kist/kv"
	"kist/kv/table"
)

// findDue finds due entries in an index of groups. An entry is prefix, a group (size
// bytes), a time, and the rest. In each group findDue finds the entries that are due
// longest, as many as room allows; a negative room skips the group. parse turns an
// entry into a result and says whether to skip it. wait is how long until the next
// entry is due, 0 if none is due later. The cost depends on the number of groups and
// found entries, not on the length of the queue.
func findDue[T any](
	tx *kv.Tx, b table.Bucket, prefix []byte, size int,
	room func(group []byte) (int, error), parse func(group, rest []byte) (T, bool),
) (found []T, wait time.Duration, err error) {
	now := tx.Store().MonotonicNow().UnixMilli()
	for after := []byte(nil); ; {
		var group []byte
		for k := range tx.Walk(b, prefix, after, false) {
			group = slices.Clone(k[len(prefix):][:size])
			break
		}
		if group == nil {
			return found, wait, nil
		}
		after = append(slices.Clone(group), 0xff) // past all times
		n, err := room(group)
		if err != nil {
			return nil, 0, err
		}
		if n < 0 {
			continue
		}
		for k := range tx.Walk(b, slices.Concat(prefix, group), nil, false) {
			k = k[len(prefix)+size:]
			one, skip := parse(group, k[8:])
			if skip {
				continue
			}
			if left := int64(binary.BigEndian.Uint64(k)^1<<63) - now; left > 0 {
				if d := time.Duration(left) * time.Millisecond; wait == 0 || d < wait {
					wait = d
				}
				break
			}
			if n == 0 {
				break
			}
			n--
			found = append(found, one)
		}
	}
}
