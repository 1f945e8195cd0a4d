// Package cut models power cuts for tests: it knows what a cut may leave of a
// file.
package cut

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// A File is what stable storage has of a file. A block has the bytes of the
// last sync, or one of its later versions if it has changed since. The zero
// value, with a block size, is an empty file that was synced.
type File struct {
	Block int // bytes that a disk writes as one

	disk  []byte
	dirty map[int][][]byte
	sizes []int // since the last sync
}

// Synced returns a file that is completely on stable storage.
func Synced(block int, data []byte) File {
	return File{Block: block, disk: bytes.Clone(data)}
}

// Of returns the bytes of b that belong to a block.
func (f *File) Of(b []byte, n int) []byte {
	return b[min(n*f.Block, len(b)):min((n+1)*f.Block, len(b))]
}

// Changed records that the bytes [from, to) of the file changed, and perhaps
// its size. Programs now see data.
func (f *File) Changed(data []byte, from, to int) {
	if f.dirty == nil {
		f.dirty = map[int][][]byte{}
	}
	for n := from / f.Block; n*f.Block < to; n++ {
		f.dirty[n] = append(f.dirty[n], bytes.Clone(f.Of(data, n)))
	}
	f.sizes = append(f.sizes, len(data))
}

// Sync puts data, which programs see, on stable storage where it has changed.
func (f *File) Sync(data []byte) {
	f.disk = sized(f.disk, len(data))
	for n := range f.dirty {
		f.put(f.disk, n, f.Of(data, n))
	}
	f.dirty, f.sizes = nil, nil
}

// Forget is a sync that fails as on Linux: bytes that could not be written
// count as written from then on.
func (f *File) Forget(data []byte, rnd *rand.Rand) {
	f.disk = f.Cut(rnd)
	f.dirty, f.sizes = nil, []int{len(data)}
}

// Cut returns what a power cut may leave of the file.
func (f *File) Cut(rnd *rand.Rand) []byte {
	size := len(f.disk)
	if n := rnd.IntN(len(f.sizes) + 1); n > 0 {
		size = f.sizes[n-1]
	}
	b := sized(f.disk, size)
	for _, n := range slices.Sorted(maps.Keys(f.dirty)) {
		versions := f.dirty[n]
		if v := rnd.IntN(2 * len(versions)); v < len(versions) {
			f.put(b, n, versions[v])
		}
	}
	return b
}

// put writes a version of a block to the disk.
func (f *File) put(disk []byte, n int, version []byte) {
	b := f.Of(disk, n)
	clear(b[copy(b, version):])
}

// sized returns a copy of b with that size, extended with zeros.
func sized(b []byte, size int) []byte {
	c := make([]byte, size)
	copy(c, b)
	return c
}
