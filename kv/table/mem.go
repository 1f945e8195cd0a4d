package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

// Mem holds changes that bbolt does not have yet, by bucket and in the order of their
// keys: a skip list for each bucket. Each change has the version of the commit that made
// it. One goroutine writes; any number of others may read at the same time what they
// know to be committed. Nothing is taken out, so a reader keeps its view.
type Mem struct {
	lists  [MaxBucket + 1]list
	volume int // bytes of keys and values
	count  int // of changes

	// Memory is taken in pieces, because most keys are short.
	nodes []node
	next  []atomic.Pointer[node]
	bytes []byte
}

const maxHeight = 10 // for some hundred thousand nodes: on average each fourth goes up a level

type list struct {
	first [maxHeight]atomic.Pointer[node]
}

// node is one version of a key. Versions of a key are in descending order. Only value
// ever changes, and only until the version is committed.
type node struct {
	key     []byte
	value   []byte // nil for a removal
	version uint64
	next    []atomic.Pointer[node]
}

// Volume returns how many bytes of keys and values there are. Only the writer may call it.
func (m *Mem) Volume() int { return m.volume }

// Count returns how many changes there are. Only the writer may call it.
func (m *Mem) Count() int { return m.count }

// before reports whether the node comes before the version of the key.
func (n *node) before(key []byte, version uint64) bool {
	c := bytes.Compare(n.key, key)
	return c < 0 || c == 0 && n.version > version
}

// seek returns the first node that is not before the version of the key: the newest one
// that a reader of this version may see, or one of a later key. It stores the links that
// lead to it in path, unless path is nil.
func (l *list) seek(key []byte, version uint64, path *[maxHeight]*atomic.Pointer[node]) *node {
	links := l.first[:]
	var found *node
	for level := maxHeight - 1; level >= 0; level-- {
		found = links[level].Load()
		for found != nil && found.before(key, version) {
			links = found.next
			found = links[level].Load()
		}
		if path != nil {
			path[level] = &links[level]
		}
	}
	return found
}

// get returns the value of key, nil if it is removed. found is false if the list has no
// version of the key that a reader of this version may see.
func (l *list) get(key []byte, version uint64) (value []byte, found bool) {
	if n := l.seek(key, version, nil); n != nil && bytes.Equal(n.key, key) {
		return n.value, true
	}
	return nil, false
}

func (l *list) empty() bool { return l.first[0].Load() == nil }

// set sets the value of key in a version that is not committed yet, or removes the key if
// value is nil. It copies both, and returns the copy of the key.
func (m *Mem) set(b byte, key []byte, version uint64, value []byte) []byte {
	var path [maxHeight]*atomic.Pointer[node]
	n := m.lists[b].seek(key, version, &path)
	m.volume += len(value)
	if n != nil && n.version == version && bytes.Equal(n.key, key) {
		n.value = m.copy(value)
		return n.key
	}
	height := 1
	for r := rand.Uint32(); height < maxHeight && r&3 == 0; r >>= 2 { // #nosec G404 -- the height of a node is no secret
		height++
	}
	n = &carve(&m.nodes, 1, 64)[0]
	n.key, n.value, n.version, n.next = m.copy(key), m.copy(value), version, carve(&m.next, height, 128)
	m.volume += len(key)
	m.count++
	for level := range n.next {
		n.next[level].Store(path[level].Load())
		path[level].Store(n)
	}
	return n.key
}

func (m *Mem) copy(b []byte) []byte {
	if len(b) == 0 {
		return b[:0:0] // nil stays nil
	}
	c := carve(&m.bytes, len(b), 4<<10)
	copy(c, b)
	return c
}

// carve takes n elements from a piece. It makes a new piece if the old one is too short.
func carve[T any](piece *[]T, n, size int) []T {
	if n > size/4 && n > len(*piece) {
		return make([]T, n)
	}
	if n > len(*piece) {
		*piece = make([]T, size)
	}
	part := (*piece)[:n:n]
	*piece = (*piece)[n:]
	return part
}

// Apply writes the newest version of every key to bbolt. All of them must be committed.
// Applying the same changes once more changes nothing.
func (m *Mem) Apply(tx *bolt.Tx, buckets *Buckets) error {
	for b := range buckets.All() {
		n := m.lists[b.No].first[0].Load()
		if n == nil {
			continue
		}
		to := tx.Bucket([]byte(b.Name))
		if to == nil {
			return fmt.Errorf("bucket %s is missing", b.Name)
		}
		if b.Append {
			to.FillPercent = 0.9
		}
		var last []byte
		for ; n != nil; n = n.next[0].Load() {
			if last != nil && bytes.Equal(n.key, last) {
				continue
			}
			last = n.key
			var err error
			if n.value == nil {
				err = to.Delete(n.key)
			} else {
				err = to.Put(n.key, n.value)
			}
			if err != nil {
				return fmt.Errorf("bucket %s: %w", b.Name, err)
			}
		}
	}
	return nil
}

// cursor walks up or down over what a transaction sees of a bucket: the layers and
// bbolt. A newer layer hides the same key of an older one, and a removal hides it
// altogether.
type cursor struct {
	version uint64
	down    bool
	lists   []*list // newest first, without empty ones
	nodes   []*node // the current one of each list
	bolt    *bolt.Cursor
	k, v    []byte // the current entry of bbolt
}

// seek moves every source to its first entry at or after key; or, on the way down, to
// its last entry before key, or to its last one if key is nil.
func (c *cursor) seek(key []byte) {
	for i, l := range c.lists {
		if c.down {
			c.nodes[i] = l.previous(key, c.version)
		} else {
			c.nodes[i] = l.seek(key, c.version, nil).visible(c.version)
		}
	}
	c.k, c.v = c.bolt.Seek(key)
	switch {
	case c.down && (key == nil || c.k == nil):
		c.k, c.v = c.bolt.Last()
	case c.down:
		c.k, c.v = c.bolt.Prev()
	}
}

// visible returns the node itself, or the first one after it that is not of a later
// version.
func (n *node) visible(version uint64) *node {
	for n != nil && n.version > version {
		n = n.next[0].Load()
	}
	return n
}

// previous returns the last entry before key that a reader of this version may see, or
// the last one if key is nil.
func (l *list) previous(key []byte, version uint64) *node {
	for {
		links := l.first[:]
		var last *node
		for level := maxHeight - 1; level >= 0; level-- {
			for n := links[level].Load(); n != nil && (key == nil || bytes.Compare(n.key, key) < 0); n = links[level].Load() {
				links, last = n.next, n
			}
		}
		if last == nil {
			return nil
		}
		if n := l.seek(last.key, version, nil); n != nil && bytes.Equal(n.key, last.key) {
			return n
		}
		key = last.key // all its versions are later
	}
}

// next returns the entry that comes first on the way, and moves on. Removed ones are
// left out. At the end k is nil.
func (c *cursor) next() (k, v []byte) {
	for {
		k = c.k
		for _, n := range c.nodes {
			if n != nil && (k == nil || (bytes.Compare(n.key, k) < 0) != c.down) {
				k = n.key
			}
		}
		if k == nil {
			return nil, nil
		}
		if bytes.Equal(c.k, k) {
			v = c.v
			if c.down {
				c.k, c.v = c.bolt.Prev()
			} else {
				c.k, c.v = c.bolt.Next()
			}
		}
		for i := len(c.nodes) - 1; i >= 0; i-- { // the newest one decides
			if n := c.nodes[i]; n != nil && bytes.Equal(n.key, k) {
				v = n.value
				c.nodes[i] = c.after(i)
			}
		}
		if v != nil {
			return k, v
		}
	}
}

// after returns the node of another key that follows the current one of a list.
func (c *cursor) after(i int) *node {
	at := c.nodes[i]
	if c.down {
		return c.lists[i].previous(at.key, c.version)
	}
	n := at.next[0].Load()
	for n != nil && bytes.Equal(n.key, at.key) { // an older version
		n = n.next[0].Load()
	}
	return n.visible(c.version)
}
