package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"kist/blobs"
	"kist/httpapi/thumb"
	"kist/kv/media"
	"kist/kv/record"
)

// prefersText reports whether a client would rather have text/plain than JSON
// (RFC 9110, section 12.5.1). Who has no preference has JSON.
func prefersText(h http.Header) bool {
	accept := strings.Join(h["Accept"], ",")
	return accept != "" && weight(accept, textMedia) > weight(accept, jsonType)
}

const textMedia = "text/plain"

// weight is what the header Accept gives a media type, which the range that is
// narrowest decides; 0 if none has it in it. Ranges that cannot be read, and
// parameters of types, are passed over.
func weight(accept, media string) float64 {
	of, _, _ := strings.Cut(media, "/")
	ranges := []string{media, of + "/*", "*/*"}
	narrowest, out := len(ranges), 0.0
	for entry := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(entry, ";")
		q := 1.0
		for param := range strings.SplitSeq(params, ";") {
			if text, got := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q="); got {
				var err error
				if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) {
					q = -1
				}
			}
		}
		for i, r := range ranges[:min(narrowest+1, len(ranges))] {
			if q < 0 || !strings.EqualFold(strings.TrimSpace(name), r) {
				continue
			}
			if i < narrowest {
				narrowest, out = i, q
			}
			out = max(out, q)
			break
		}
	}
	return out
}

// appendLinks appends the addresses that the answer to a creation has beside
// the record, as further members of an object.
func (s *site) appendLinks(dst []byte, r *record.Record, pictured bool) []byte {
	add := func(name, path string) {
		dst = append(dst, `,"`+name+`":"`+s.Base+path+`"`...)
	}
	if pictured {
		add("thumbnailUrl", "/t/"+url.PathEscape(r.Slug))
	}
	add("deletionUrl", deletionPath+s.grants.deletionToken(r))
	return dst
}

// pictured reports whether a thumbnail can be made of what was uploaded, as far
// as its header tells: decoding it is for who asks.
func (c *request) pictured(p part, ref blobs.Ref) (bool, error) {
	if !shrinks(media.Of(p.claimed, p.name, p.head)) {
		return false, nil
	}
	f, err := c.s.Blobs.Get(ref)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return thumb.Likely(f)
}

// answerCreated answers with a record that was just made, and its addresses;
// beside a bookmark with those of the same page that were there before.
func (c *request) answerCreated(r *record.Record, same []*duplicate) error {
	v := record.Shown{Record: *r, Base: c.s.Base}
	address := v.AppendURL(nil)
	if c.w.plain {
		return c.respondText(string(address[1 : len(address)-1])) // in quotes, which escape nothing
	}
	return c.respond(http.StatusCreated, func(dst []byte) ([]byte, error) {
		dst, err := c.appendData(dst, r)
		dst = append(append(dst, `,"url":`...), address...)
		dst = c.s.appendLinks(dst, r, false)
		if r.Kind == record.Bookmarks {
			dst = appendAll(append(dst, `,"duplicateOf":`...), same)
		}
		return append(dst, '}'), err
	})
}

// answerUploaded answers an upload with JSON that was made for it, or with the
// addresses in that.
func (c *request) answerUploaded(body []byte) error {
	if !c.w.plain {
		return c.respondJSON(http.StatusCreated, body)
	}
	var one struct {
		URL   string `json:"url"`
		Files []struct {
			URL string `json:"url"`
		} `json:"files"`
	}
	if err := json.Unmarshal(body, &one); err != nil {
		return err
	}
	var all []string
	if one.URL != "" {
		all = append(all, one.URL)
	}
	for _, f := range one.Files {
		all = append(all, f.URL)
	}
	return c.respondText(all...)
}

// respondText answers that something was made with text alone: its address, or a
// sentence; of several, one in a line.
func (c *request) respondText(lines ...string) error {
	body := []byte(strings.Join(lines, "\n") + "\n")
	if c.keep != nil {
		c.keep(body)
	}
	h := c.w.Header()
	h.Set("Content-Type", textType)
	h["Cache-Control"] = headNoStore
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(http.StatusCreated)
	_, _ = c.w.Write(body) // the client may be gone; what was done stays done
	return nil
}
