package thumb

import (
	"encoding/binary"
	"io"
)

// firstFrame is the first frame of a WebP animation as a picture of its own. It is r if that is no animation, or has no
// frame. A frame that is smaller than the animation is not filled up.
func firstFrame(r *io.SectionReader) *io.SectionReader {
	const headSize, frameSize = 12, 16 // of the file; of a frame before its chunks
	var flags [9]byte
	_, err := r.ReadAt(flags[:], headSize)
	if err != nil || string(flags[:4]) != "VP8X" || flags[8]&2 == 0 {
		return r
	}
	at := int64(headSize)
	for range maxChunks {
		var head [8 + frameSize + 4]byte // with the name of the first chunk in the frame
		n, _ := r.ReadAt(head[:], at)
		if n < len(head) {
			break
		}
		size := int64(binary.LittleEndian.Uint32(head[4:]))
		if string(head[:4]) != "ANMF" {
			at += 8 + size + size&1
			continue
		}
		if size <= frameSize {
			break
		}
		start := []byte("RIFF\x00\x00\x00\x00WEBP")
		if string(head[8+frameSize:]) == "ALPH" { // only an extended file has it
			start = append(start, "VP8X\x0a\x00\x00\x00\x10\x00\x00\x00"...)
			start = append(start, head[8+6:8+12]...) // the size in pixels
		}
		rest := io.NewSectionReader(r, at+8+frameSize, min(size-frameSize, r.Size()-at-8-frameSize))
		all := int64(len(start)) + rest.Size()
		binary.LittleEndian.PutUint32(start[4:], uint32(all-8)) // a file has at most maxFile bytes
		return io.NewSectionReader(joined{start, rest}, 0, all)
	}
	return r
}

// joined is some bytes before those of a reader.
type joined struct {
	start []byte
	rest  *io.SectionReader
}

func (j joined) ReadAt(b []byte, at int64) (n int, err error) {
	if at < int64(len(j.start)) {
		n = copy(b, j.start[at:])
		if n == len(b) {
			return n, nil
		}
	}
	more, err := j.rest.ReadAt(b[n:], at+int64(n)-int64(len(j.start)))
	return n + more, err
}
