package ship_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kist/blobs"
)

// memory is a blobs.Remote. Its faults come before or after the effect.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	made    map[string]time.Time
	now     func() time.Time // its clock; time.Now if nil
	puts    []string
	before  func(verb, name string) error // nil, or fails a call that has no effect then
	after   func(verb, name string) error // fails a call that has its effect
	loose   bool                          // conditions are ignored
	padded  int64                         // by how much a list shows too large a size
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}, made: map[string]time.Time{}} }

// clock is what the remote's clock shows.
func (m *memory) clock() time.Time {
	if m.now == nil {
		return time.Now()
	}
	return m.now()
}

var errCut = errors.New("the network was cut")

func (m *memory) do(verb, name string, fn func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.before != nil {
		if err := m.before(verb, name); err != nil {
			return err
		}
	}
	err := fn()
	if err == nil && m.after != nil {
		err = m.after(verb, name)
	}
	return err
}

// set changes the faults.
func (m *memory) set(before, after func(verb, name string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// copied is what the remote has now.
func (m *memory) copied() *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemory()
	for name, b := range m.objects {
		c.objects[name], c.made[name] = bytes.Clone(b), m.made[name]
	}
	return c
}

func (m *memory) names(prefix string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
	}
	return all
}

func (m *memory) Put(_ context.Context, name string, body io.ReaderAt, size int64) error {
	return m.do("put", name, func() error {
		if _, taken := m.objects[name]; taken && !m.loose {
			return fs.ErrExist
		}
		b, err := io.ReadAll(io.NewSectionReader(body, 0, size))
		m.objects[name], m.made[name] = b, m.clock()
		m.puts = append(m.puts, name)
		return err
	})
}

func (m *memory) Get(_ context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	err = m.do("get", name, func() error {
		b, there := m.objects[name]
		if !there {
			return fs.ErrNotExist
		}
		b = b[min(from, int64(len(b))):]
		if n >= 0 {
			b = b[:min(n, int64(len(b)))]
		}
		r = io.NopCloser(bytes.NewReader(bytes.Clone(b)))
		return nil
	})
	return r, err
}

func (m *memory) Head(_ context.Context, name string) (o blobs.Object, err error) {
	err = m.do("head", name, func() error {
		b, there := m.objects[name]
		if !there {
			return fs.ErrNotExist
		}
		o = blobs.Object{Name: name, Size: int64(len(b)), ModTime: m.made[name]}
		return nil
	})
	return o, err
}

func (m *memory) Delete(_ context.Context, name string) error {
	return m.do("delete", name, func() error {
		delete(m.objects, name)
		return nil
	})
}

func (m *memory) After(_ context.Context, prefix, after string) iter.Seq2[blobs.Object, error] {
	return func(yield func(blobs.Object, error) bool) {
		var all []blobs.Object
		err := m.do("list", prefix, func() error {
			for _, name := range slices.Sorted(maps.Keys(m.objects)) {
				if strings.HasPrefix(name, prefix) && name > after {
					all = append(all, blobs.Object{Name: name, Size: int64(len(m.objects[name])) + m.padded, ModTime: m.made[name]})
				}
			}
			return nil
		})
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(blobs.Object{}, err)
		}
	}
}
