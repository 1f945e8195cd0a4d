package inbox

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/kv/field"
	"kist/kv/record"
)

func faultOf(err error) record.Fault {
	var e *record.Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return 0
}

func TestAdmit(t *testing.T) {
	q := func(set func(*Request)) *Request { r := NewRequest(); set(&r); return &r }
	files := q(func(r *Request) { r.MaxUploads = 3 })
	sender := q(func(r *Request) { r.PerSender = 2 })
	queue := q(func(*Request) {})
	direct := q(func(r *Request) { r.Approval = false })
	for _, c := range []struct {
		name        string
		q           *Request
		taken, more Intake
		want        record.Fault
	}{
		{"no limit", queue, Intake{Files: 1e9, Sender: 1e9}, Intake{Files: 1, Pending: 1, Sender: 1}, 0},
		{"the last file", files, Intake{Files: 2}, Intake{Files: 1}, 0},
		{"one too many", files, Intake{Files: 3}, Intake{Files: 1}, record.Denied},
		{"two where one goes", files, Intake{Files: 2}, Intake{Files: 2}, record.Denied},
		{"a limit set lower than what is there", files, Intake{Files: 9}, Intake{Files: 1}, record.Denied},
		{"nothing more where there is too much", files, Intake{Files: 9}, Intake{}, 0},
		{"the sender's last", sender, Intake{Sender: 1}, Intake{Sender: 1}, 0},
		{"the sender's next", sender, Intake{Sender: 2}, Intake{Sender: 1}, record.TooMany},
		{"a full queue", queue, Intake{Pending: MaxPending}, Intake{Pending: 1}, record.Denied},
		{"no queue", direct, Intake{Pending: MaxPending}, Intake{Pending: 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(faultOf(c.q.Admit(c.taken, c.more, time.Minute)), c.want)
		})
	}
}

func TestPromise(t *testing.T) {
	is := is.New(t)
	const lot = 1<<63 - 1
	for _, c := range []struct {
		limit, kept, promised, minimum, maximum int64
		want                                    int64
		err                                     error
	}{
		{0, lot, lot, 5, 9, 9, nil},
		{100, 90, 0, 10, 10, 10, nil},
		{100, 90, 0, 5, 20, 10, nil}, // gets all that is left, because nobody else has a promise
		{100, 90, 0, 11, 20, 0, ErrNoRoom},
		{100, 50, 40, 5, 10, 10, nil},
		{100, 50, 40, 5, 20, 0, ErrWait}, // the others may need less
		{100, 50, 40, 51, 60, 0, ErrNoRoom},
		{100, 100, 0, 0, 9, 0, ErrNoRoom},
		{100, 100, 0, 0, 0, 0, nil}, // an empty file needs no room
		{100, 120, 0, 0, 9, 0, ErrNoRoom},
		{100, 50, 0, lot, lot, 0, ErrNoRoom},
		{100, 0, 0, 0, lot, 100, nil}, // of unknown length
	} {
		got, err := Promise(c.limit, c.kept, c.promised, c.minimum, c.maximum)
		is.Equal(got, c.want) // in each row
		is.Equal(err, c.err)
	}
}

func TestRequestOpen(t *testing.T) {
	is := is.New(t)
	now := time.UnixMilli(1_000_000)
	for _, c := range []struct {
		active bool
		ends   time.Time
		want   record.Fault
	}{
		{true, time.Time{}, 0},
		{true, now.Add(time.Millisecond), 0},
		{true, now, record.Gone},
		{false, time.Time{}, record.Missing},
		{false, now, record.Missing},
	} {
		is.Equal(faultOf((&Request{Active: c.active, Expires: c.ends}).Open(now)), c.want)
	}
}

func TestTakes(t *testing.T) {
	is := is.New(t)
	for _, c := range []struct {
		types      []string
		name, mime string
		want       bool
	}{
		{nil, "x", "application/octet-stream", true},
		{[]string{"image/*"}, "x.jpg", "image/jpeg", true},
		{[]string{"image/*"}, "x.jpg", "text/html", false},
		{[]string{"image/*"}, "x", "imagine/jpeg", false},
		{[]string{"image/png"}, "x.png", "image/PNG", true},
		{[]string{"image/png"}, "x.png", "image/png2", false},
		{[]string{".pdf"}, "X.PDF", "application/pdf", true},
		{[]string{".pdf"}, "invoice.pdf", "application/octet-stream", false},
		{[]string{".pdf"}, "invoice.pdf", "text/html", false},
		{[]string{".png"}, "x.png", "image/jpeg", true},
		{[]string{".png"}, "x.png", "image/svg+xml", false},
		{[]string{".png"}, "x.png", "application/zip", false},
		{[]string{".svg"}, "x.svg", "image/svg+xml", true},
		{[]string{".mov"}, "x.mov", "video/mp4", true},
		{[]string{".ogg"}, "x.ogg", "video/ogg", true},
		{[]string{".mp4"}, "x.mp4", "text/html", false},
		{[]string{".xyzzy"}, "x.xyzzy", "application/octet-stream", true},
		{[]string{".pdf"}, "x.pdf.exe", "application/pdf", false},
		{[]string{".pdf"}, ".pdf", "application/pdf", true},
		{[]string{".tar.gz"}, "a.tar.gz", "application/gzip", true},
		{[]string{".tar.gz"}, "a.gz", "application/gzip", false},
		{[]string{".pdf", "text/plain"}, "a.txt", "text/plain", true},
		{[]string{"audio/wav"}, "a.wav", "audio/wave", true},
		{[]string{"audio/opus"}, "a.opus", "audio/ogg", true},
		{[]string{"video/x-msvideo"}, "a.avi", "video/avi", true},
		{[]string{"application/gzip"}, "a.gz", "application/x-gzip", true},
		{[]string{"image/jpg"}, "a.jpg", "image/jpeg", true},
		{[]string{"audio/wav"}, "a.mp3", "audio/mpeg", false},
	} {
		is.Equal((&Request{Types: c.types}).Takes(c.name, c.mime), c.want) // in each row
	}
}

func TestMayTake(t *testing.T) {
	is := is.New(t)
	for _, c := range []struct {
		types []string
		name  string
		want  bool
	}{
		{nil, "x", true},
		{[]string{".pdf"}, "x.pdf", true},
		{[]string{".pdf", ".txt"}, "x.png", false},
		{[]string{".pdf", "image/*"}, "x.txt", true}, // it may be a picture
	} {
		is.Equal((&Request{Types: c.types}).MayTake(c.name), c.want) // in each row
	}
}

func TestCleanFileType(t *testing.T) {
	is := is.New(t)
	for in, want := range map[string]string{
		"image/*": "image/*", " IMAGE/PNG ": "image/png", ".PDF": ".pdf", ".tar.gz": ".tar.gz", ".Ä": ".ä",
		"application/vnd.ms-excel": "application/vnd.ms-excel",
	} {
		got, err := CleanFileType(in)
		is.NoErr(err)
		is.Equal(got, want)
	}
	for _, in := range []string{
		"", "*", "*/*", "pdf", ".", "..", "./a", "image/", "/png", "image/p g", "image/png;q=1", "a/b/c", ".a\x00", ".a,b",
	} {
		_, err := CleanFileType(in)
		is.True(err != nil) // in
	}
}

func TestRequestForm(t *testing.T) {
	is := is.New(t)
	in, err := field.Parse([]byte(`{"title":" A  b ","maxUploads":0,"maxFileSize":null,"maxTotalSize":"12","perUserWindowHours":null,"allowedTypes":".PDF,image/*","brandColor":"abc","password":"x"}`))
	is.NoErr(err)
	f := &RequestForm{Request: NewRequest()}
	is.NoErr(field.Create(f, in))
	f.Finish()
	is.Equal([]any{
		f.Title, f.MaxUploads, f.MaxFile, f.MaxTotal, f.Window, f.Types, f.Color, f.Active, f.Approval, f.Secret.Text,
	},
		[]any{"A b", int64(0), int64(0), int64(12), int64(24), []string{".pdf", "image/*"}, "#AABBCC", true, true, "x"})
	in, err = field.Parse([]byte(`{"maxTotalSize":null,"perUserWindowHours":null,"description":"d","password":null}`))
	is.NoErr(err)
	is.NoErr(field.Patch(f, in))
	f.Finish()
	is.Equal(
		[]any{f.Title, f.MaxTotal, f.Window, f.Description, f.Secret},
		[]any{"A b", int64(0), int64(24), "d", field.Secret{Said: true}},
	)
	for _, bad := range []string{
		`{}`, `{"title":""}`, `{"title":"x","maxUploads":-1}`, `{"title":"x","maxFileSize":1.5}`,
		`{"title":"x","allowedTypes":["*"]}`, `{"title":"x","slug":"up"}`, `{"title":"x","brandColor":"#AABBCCD"}`,
	} {
		in, err := field.Parse([]byte(bad))
		is.NoErr(err)
		is.True(field.Create(&RequestForm{Request: NewRequest()}, in) != nil) // bad
	}
}

// A line break counts as one character, however it is sent.
func TestMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent, kept string
		ok         bool
	}{
		"one line":     {"hello", "hello", true},
		"lines":        {"a\r\nb\nc\rd", "a\nb\nc\rd", true},
		"longest":      {strings.Repeat("é", MaxMessage-1) + "\r\n", strings.Repeat("é", MaxMessage-1) + "\n", true},
		"one too long": {strings.Repeat("é", MaxMessage) + "\r\n", "", false},
	} {
		var f SenderForm
		err := field.Create(&f, field.Object{"message": c.sent})
		if (err == nil) != c.ok || f.Message != c.kept {
			t.Errorf("%s: %q, %v", name, f.Message, err)
		}
	}
}

// A sender is told how many of the files still fit, or that none does.
func TestAdmitSays(t *testing.T) {
	t.Parallel()
	q := &Request{}
	q.MaxUploads = 3
	for _, c := range []struct {
		taken, more int64
		want        string
	}{
		{0, 3, ""},
		{2, 1, ""},
		{2, 2, "This link takes 1 more of the files, not all."},
		{3, 1, "This link has reached its file limit."},
	} {
		said := ""
		if err := q.Admit(Intake{Files: c.taken}, Intake{Files: c.more}, 0); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%d and %d more: %q, want %q", c.taken, c.more, said, c.want)
		}
	}
}
