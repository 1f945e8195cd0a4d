package metadata

import (
	"bytes"
	"encoding/binary"
)

// maxProfile bounds the bytes of the colour profiles of one file.
const maxProfile = 4 << 20

// profileTags are the tags of a colour profile (ICC.1:2022) that decide how colours look.
var profileTags = map[string]bool{
	"A2B0": true, "A2B1": true, "A2B2": true, "A2B3": true, "B2A0": true, "B2A1": true, "B2A2": true, "B2A3": true,
	"D2B0": true, "D2B1": true, "D2B2": true, "D2B3": true, "B2D0": true, "B2D1": true, "B2D2": true, "B2D3": true,
	"rXYZ": true, "gXYZ": true, "bXYZ": true, "rTRC": true, "gTRC": true, "bTRC": true, "kTRC": true,
	"aarg": true, "aagg": true, "aabg": true, "wtpt": true, "bkpt": true, "chad": true, "chrm": true, "cicp": true,
	"gamt": true, "lumi": true, "meas": true, "view": true, "tech": true, "pre0": true, "pre1": true, "pre2": true,
}

// Every profile needs a description and a copyright. emptyTexts are the beginnings of empty ones, by their type; zeros follow.
var (
	textTags   = map[string]bool{"desc": true, "cprt": true}
	emptyTexts = map[string]string{
		"desc": "desc\x00\x00\x00\x00\x00\x00\x00\x01",
		"mluc": "mluc\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c",
		"text": "text\x00\x00\x00\x00",
	}
)

// The parts of a profile's head that say who made it for which device and when; its check sum; and what is reserved.
var profileSays = [][2]int{{24, 36}, {48, 56}, {80, 128}}

const (
	profileHead  = 128
	profileEntry = 12 // of the table of tags: a name, a place and a length
)

// plainProfile is a colour profile of the same length that has only what decides how colours look. It is zeros if b is
// not a profile, which nobody uses then.
func plainProfile(b []byte) []byte {
	plain := make([]byte, len(b))
	if len(b) < profileHead+4 || string(b[36:40]) != "acsp" {
		return plain
	}
	table := profileHead + 4
	n := int64(binary.BigEndian.Uint32(b[profileHead:]))
	if n > int64(len(b)-table)/profileEntry {
		return plain
	}

	var kept []byte // of the table
	var parts [][2]int
	for i := range int(n) {
		e := b[table+i*profileEntry:][:profileEntry]
		at, length := int64(binary.BigEndian.Uint32(e[4:])), int64(binary.BigEndian.Uint32(e[8:]))
		if at < int64(table)+n*profileEntry || length < 8 || at+length > int64(len(b)) {
			continue
		}
		from, to := int(at), int(at+length)
		text := emptyTexts[string(b[from:][:4])]
		switch {
		case profileTags[string(e[:4])]:
			parts = append(parts, [2]int{from, to})
		case textTags[string(e[:4])] && text != "" && len(text) < to-from:
			copy(plain[from:], text)
		default:
			continue
		}
		kept = append(kept, e...)
	}

	for _, p := range parts {
		copy(plain[p[0]:p[1]], b[p[0]:p[1]])
	}
	copy(plain, b[:profileHead])
	for _, p := range profileSays {
		clear(plain[p[0]:p[1]])
	}
	binary.BigEndian.PutUint32(plain[profileHead:], uint32(len(kept)/profileEntry))
	copy(plain[table:], kept)
	return plain
}

// profile is plainProfile, and notes whether anything goes.
func (p *Plan) profile(b []byte) (plain []byte, err error) {
	p.profiles += len(b)
	if p.profiles > maxProfile {
		return nil, unreadable("its colour profiles are too long")
	}
	plain = plainProfile(b)
	if !bytes.Equal(plain, b) {
		p.found(Text)
	}
	return plain, nil
}
