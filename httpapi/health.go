package httpapi

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"kist/blobs"
	"kist/httpapi/web"
	"kist/kv"
	"kist/kv/field"
	"kist/kv/people"
	"kist/kv/record"
)

// mostUnsound is how many damaged files, and how many missing ones, are listed;
// beyond that they are counted.
const mostUnsound = 200

// unsoundFile is a file, or an upload that waits for approval, whose bytes are
// damaged or missing.
type unsoundFile struct {
	id          record.ID
	name, owner string
	sha256      string
	found       time.Time
}

func (v *unsoundFile) Fields(s *field.Set) {
	s.ID("id", &v.id, field.Always).Says("Id of the file.", `"01890a5d-ac96-774b-bcce-b302099a8057"`)
	s.LongText("name", &v.name, record.MaxContent).Says("Its name.", `"beach.jpg"`)
	s.LongText("owner", &v.owner, record.MaxContent).Says("Name of the account that has it.", `"ann"`)
	s.LongText("sha256", &v.sha256, 64).Says("What its bytes should hash to.", `"`+strings.Repeat("9f", 32)+`"`)
	s.Time("foundAt", &v.found, field.Always).Says("When it was found.", `"2026-01-02T03:04:05.678Z"`)
}

// filesHealth is how the stored files are.
type filesHealth struct {
	checked           time.Time
	damaged, missing  []unsoundFile
	nDamaged, nAbsent int64
}

func (v *filesHealth) Fields(s *field.Set) {
	one := field.ObjectOf(new(unsoundFile))
	list := field.Schema{Type: "array", MaxItems: mostUnsound, Items: &one}
	s.Time("checkedAt", &v.checked).Says("When all stored files were last read and checked; null if they never were.", `"2026-01-02T03:04:05.678Z"`)
	s.Shown("damaged", list, func(dst []byte) []byte { return appendUnsound(dst, v.damaged) }).
		Says("The first files whose stored bytes are damaged: they are answered with 503 to their owner and 410 to others. Uploading the same file again, or kist restore --missing, heals one.", `[]`)
	s.Number("damagedTotal", &v.nDamaged, 0, 1<<53).Says("How many there are.", `0`)
	s.Shown("missing", list, func(dst []byte) []byte { return appendUnsound(dst, v.missing) }).
		Says("The first files whose bytes are not there, as of the latest look: once a day, and at the start.", `[]`)
	s.Number("missingTotal", &v.nAbsent, 0, 1<<53).Says("How many there are.", `0`)
}

func appendUnsound(dst []byte, all []unsoundFile) []byte {
	dst = append(dst, '[')
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = field.AppendJSON(dst, &all[i])
	}
	return append(dst, ']')
}

// journalHealth is how the journal is.
type journalHealth struct{ kv.JournalHealth }

func (v *journalHealth) Fields(s *field.Set) {
	s.Time("checkedAt", &v.Checked).Says("When it was last read to its end since the server was started; null if it was not yet.", `"2026-01-02T03:04:05.678Z"`)
	s.Shown("damaged", field.Schema{Type: "array", Items: &field.Schema{Type: "string"}}, func(dst []byte) []byte {
		dst = append(dst, '[')
		for i, text := range v.Damaged {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = field.AppendString(dst, text)
		}
		return append(dst, ']')
	}).Says("What was wrong when damage was last found.", `[]`)
	s.Time("healedAt", &v.Healed).Says("When the damaged files were replaced; null if there was no damage or they could not be.", `null`)
}

// shownHealth is how the data of the instance is.
type shownHealth struct {
	journal journalHealth
	files   filesHealth
}

func (v *shownHealth) Fields(s *field.Set) {
	s.Shown("journal", field.ObjectOf(&v.journal), func(dst []byte) []byte { return field.AppendJSON(dst, &v.journal) }).
		Says("The records.", `{"checkedAt":"2026-01-02T03:04:05.678Z","damaged":[],"healedAt":null}`)
	s.Shown("files", field.ObjectOf(&v.files), func(dst []byte) []byte { return field.AppendJSON(dst, &v.files) }).
		Says("The stored files.", `{"checkedAt":null,"damaged":[],"damagedTotal":0,"missing":[],"missingTotal":0}`)
}

// assessHealth gathers what is known to be wrong with the data. It reads no contents.
func assessHealth(s *web.Site) (*shownHealth, error) {
	v := &shownHealth{journal: journalHealth{s.Store.JournalHealth()}}
	if s.Scrubbed != nil {
		v.files.checked = s.Scrubbed()
	}
	var refs []blobs.Ref
	var files int
	var looked time.Time
	if s.Absent != nil {
		refs, files, looked = s.Absent()
	}
	return v, s.Store.View(func(tx *kv.Tx) error {
		owners := map[record.ID]string{}
		list := func(to []unsoundFile, total *int64, ref blobs.Ref, found time.Time) ([]unsoundFile, error) {
			for _, h := range tx.Having(ref) {
				if *total++; len(to) == mostUnsound {
					continue
				}
				if _, known := owners[h.Owner]; !known {
					u, err := people.User(tx, h.Owner)
					if err != nil {
						return nil, err
					}
					owners[h.Owner] = u.Name
				}
				to = append(to, unsoundFile{h.ID, h.Name, owners[h.Owner], ref.String(), found})
			}
			return to, nil
		}
		f := &v.files
		var err error
		for _, d := range s.Blobs.Damaged.List() {
			if f.damaged, err = list(f.damaged, &f.nDamaged, d.Ref, d.Found); err != nil {
				return err
			}
		}
		back := 0 // files whose bytes are there again
		for _, ref := range refs {
			if _, err := s.Blobs.Stat(ref); !errors.Is(err, fs.ErrNotExist) {
				back += len(tx.Having(ref))
				continue
			}
			if f.missing, err = list(f.missing, &f.nAbsent, ref, looked); err != nil {
				return err
			}
		}
		f.nAbsent = max(f.nAbsent, int64(files-back))
		return nil
	})
}

var readHealthOp = web.Operation{
	Tag: "admin", Summary: "Says what is known to be wrong with the data of the instance.",
	Reply: web.Reply{Status: 200, Doc: "What is known.", Body: web.DataOf("Health")}, Serve: readHealth,
}

func readHealth(c *web.Request) error {
	v, err := assessHealth(c.Site)
	if err != nil {
		return err
	}
	return c.RespondData(http.StatusOK, v)
}
